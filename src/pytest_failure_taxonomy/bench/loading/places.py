"""Tell a task class by where its files are; light, for a plugin that asks it of every folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MARK: Final = "failure_modes.yaml"
"""The file that makes a folder a task class."""
PARTS: Final = frozenset(
    {MARK, "breakdown_keys.yaml", "breakdown_keys.py", "bench.yaml", "rubric.py", "cases", "oracle"}
)
"""The names that mean something in a task class."""
CASE_SUFFIXES: Final = (".yaml", ".yml", ".jsonl")
ORACLE_SUFFIXES: Final = (".yaml", ".yml")
_SUFFIXES: Final = {"cases": CASE_SUFFIXES, "oracle": ORACLE_SUFFIXES}


RUBRIC: Final = "rubric.py"
_GIVE_AWAY: Final = (
    "bench.yaml",
    "breakdown_keys.yaml",
    "breakdown_keys.py",
    "failure_modes.yml",
)
"""Beside a rubric and cases, files that nothing but a task class has."""


def is_task_class(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a task class, good or bad.

    Also one that has the other files of a class and lacks the one that marks it: by a slip of its
    name all cases would be gone without a word.
    """
    return os.path.isfile(os.path.join(path, MARK)) or (
        os.path.isfile(os.path.join(path, RUBRIC))
        and os.path.isdir(os.path.join(path, "cases"))
        and any(os.path.isfile(os.path.join(path, name)) for name in _GIVE_AWAY)
    )


def task_class_folder(case_file: Path) -> Path | None:
    """Return the task class that a file of cases or of oracle examples belongs to.

    Args:
        case_file: any path; one stat at most is made, and none for most.

    Returns:
        The folder as the path has it, or `None` where there is none.
    """
    if case_file.name.startswith("."):
        return None
    if case_file.suffix not in _SUFFIXES.get(case_file.parent.name, ()):
        return None
    folder = case_file.parent.parent
    return folder if is_task_class(folder) else None
