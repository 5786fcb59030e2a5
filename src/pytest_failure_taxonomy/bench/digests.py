"""Digests of what cases are judged by: runs with other ones are not comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.load.folder import RUBRICS
from pytest_failure_taxonomy.bench.models import BenchDigests

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, TaskClass

_NO_PART_OF_A_RUBRIC: Final = ("conftest.py", "breakdown_keys.py", "cases.py")
_HEX_DIGITS: Final = 32


def digests_of(task_class: TaskClass, cases: Iterable[BenchCase] | None = None) -> BenchDigests:
    """Return the digests of a task class as it is now.

    Args:
        task_class: The class.
        cases: Those that are to run, if these are to have a digest, too.
    """
    return BenchDigests(
        taxonomy=taxonomy_digest(task_class),
        rubric=rubric_digest(task_class),
        cases=None if cases is None else cases_digest(map(case_digest, cases)),
    )


def case_digest(case: BenchCase) -> str:
    """Return the digest of everything that a case's file says of it."""
    try:
        text = json.dumps(case.fields, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys of several types, for example
        text = repr(case.fields)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def cases_digest(digests: Iterable[str]) -> str | None:
    """Return one digest of all cases of a run: the sum of theirs, shortened to 128 bits.

    A sum, because the digest of a whole class can then be computed from those of its shards, whose
    reports don't hold the cases. Order doesn't matter, and repetitions, which have one digest,
    count once. The id of a case is among its fields, so it is in its digest.

    Returns:
        `None` where a file has something else for a digest.
    """
    return joined_cases_digest(digest[:_HEX_DIGITS] for digest in set(digests))


def joined_cases_digest(digests: Iterable[str | None]) -> str | None:
    """Return the digest of all cases from those of parts without a common case.

    Returns:
        `None` where that of a part is not known.
    """
    try:
        total = sum(int(digest or "", 16) for digest in digests)
    except ValueError:
        return None
    return f"{total % 16**_HEX_DIGITS:0{_HEX_DIGITS}x}"


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
    """Return the digest of the rubrics, their weights and the Python files beside them.

    A rubric may import the files of its folder. What it imports from elsewhere is not looked at,
    nor are conftest.py, tests, the breakdown keys and the cases.

    Returns:
        `None` for a class without a rubric of its own.
    """
    rubrics = {*task_class.rubrics.values(), *([task_class.rubric] if task_class.rubric else [])}
    if not rubrics:
        return None
    digest = hashlib.sha256()
    weights = sorted((task_class.settings.rubrics or {}).items())
    digest.update(json.dumps(weights).encode("ascii"))
    try:
        for path in _files_of(rubrics):
            content = path.read_bytes()
            name = f"{path.parent.name}/{path.name}" if path.parent.name == RUBRICS else path.name
            digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()


def _files_of(rubrics: Iterable[Path]) -> list[Path]:
    found = set(rubrics)
    for folder in {rubric.parent for rubric in found}:
        with suppress(OSError):
            found |= {each for each in folder.glob("*.py") if _may_be_imported(each)}
    return sorted(found)


def _may_be_imported(path: Path) -> bool:
    is_test = path.name.startswith("test_") or path.stem.endswith("_test")
    return path.name not in _NO_PART_OF_A_RUBRIC and not is_test and path.is_file()
