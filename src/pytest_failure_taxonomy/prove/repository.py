"""Ask git about the repository in which the tests ran."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.prove.experiment import ExperimentError
from pytest_failure_taxonomy.system.process import ask_git

_SECONDS_OF_GIT: Final = 120.0
_IS_HASH: Final = re.compile("[0-9a-f]{7,64}").fullmatch
_OF_A_HOOK: Final = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
)
"""What git sets for its hooks; it would be asked about another checkout than ours."""


def hash_or_none(commit: str | None) -> str | None:
    """Return a commit of a report if it is a hash: git would take `--output=x` for an option."""
    return commit if commit and _IS_HASH(commit) else None


def git(folder: Path, *arguments: str, hint: str = "") -> str:
    """Return what git prints; no hooks run.

    Raises:
        ExperimentError: it fails, or is not there; the hint says what would be right.
    """
    off = ("-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0")
    until = time.monotonic() + _SECONDS_OF_GIT
    status, output = ask_git(folder, until, *off, *arguments, without=_OF_A_HOOK)
    if "not a git repository" in output:
        raise ExperimentError(
            f"{folder} is in no git repository; a commit is looked for where the tests ran, and "
            "that has to be a checkout"
        )
    if status:
        if shutil.which("git") is None:
            raise ExperimentError(
                "git is not on PATH; it is needed to check out another commit"
            )
        why = output.rpartition("\n")[2] or "no answer"
        raise ExperimentError(f"git {arguments[0]}: {why}{hint}")
    return output


def toplevel_of(folder: Path) -> Path:
    """Return the folder of the checkout that another is in."""
    return Path(git(folder, "rev-parse", "--show-toplevel")).resolve()
