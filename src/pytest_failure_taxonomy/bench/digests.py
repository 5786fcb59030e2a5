"""Digests of what cases are judged by: runs with other ones are not comparable."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.run_figures import BenchDigests

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, TaskClass

_NO_PART_OF_A_RUBRIC: Final = ("conftest.py", "breakdown_keys.py", "cases.py")


def digests_of(task_class: TaskClass) -> BenchDigests:
    """Return the digests of a task class as it is now."""
    return BenchDigests(taxonomy=taxonomy_digest(task_class), rubric=rubric_digest(task_class))


def case_digest(case: BenchCase) -> str:
    """Return the digest of everything that a case's file says of it."""
    try:
        text = json.dumps(case.fields, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys of several types, for example
        text = repr(case.fields)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def taxonomy_digest(task_class: TaskClass) -> str:
    """Return the digest of the failure modes with their severities, and of the breakdown keys.

    Their order and their descriptions don't matter.
    """
    content = [
        sorted(task_class.failure_mode_taxonomy.items()),
        sorted(task_class.breakdown_keys),
    ]
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def rubric_digest(task_class: TaskClass) -> str | None:
    """Return the digest of `rubric.py` and the Python files beside it, or `None` without one.

    A rubric may import the files of its folder. What it imports from elsewhere is not looked at,
    nor are conftest.py, tests and the breakdown keys.
    """
    if task_class.rubric is None:
        return None
    digest = hashlib.sha256()
    try:
        for path in _files_of(task_class.rubric):
            content = path.read_bytes()
            digest.update(f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()


def _files_of(rubric: Path) -> list[Path]:
    beside: list[Path] = []
    with suppress(OSError):
        beside = [each for each in rubric.parent.glob("*.py") if _may_be_imported(each)]
    return sorted({rubric, *beside})


def _may_be_imported(path: Path) -> bool:
    is_test = path.name.startswith("test_") or path.stem.endswith("_test")
    return path.name not in _NO_PART_OF_A_RUBRIC and not is_test and path.is_file()
