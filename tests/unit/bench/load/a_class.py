"""A good task class on disk, parts of which a test makes bad."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.errors import BenchError

GOOD: Final = {
    "failure_modes.yaml": "a.b: {severity: warn, description: Something is wrong}\n",
    "breakdown_keys.yaml": "- found\n",
    "rubric.py": "def grade(case, output):\n    return {}\n",
    "cases/a.yaml": "id: one\ninput: 1\n",
}


def write_class(
    folder: Path, files: dict[str, str | bytes | None] | None = None
) -> Path:
    """Write the good task class with some of its files changed, added or (`None`) left out."""
    for name, content in ({**GOOD, **files} if files else GOOD).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def problems_of(folder: Path) -> list[str]:
    """Return what is said of a bad task class, without its folder's path."""
    with pytest.raises(BenchError) as caught:
        load_task_class(folder)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(str(folder)) for line in lines)
    return [line.removeprefix(f"{folder}/") for line in lines]
