"""Read the cases of a task class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.loading.entries import Entry, file_names, read_entries
from pytest_failure_taxonomy.bench.loading.folder import CASE_SUFFIXES, ClassFolder
from pytest_failure_taxonomy.bench.loading.words import checked_id, checked_seconds, checked_tags
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.documents.fields import WrongError
from pytest_failure_taxonomy.documents.problems import Problems, quoted
from pytest_failure_taxonomy.taxonomy.values import value

_EXAMPLE: Final = "put cases in cases/*.yaml or cases/*.jsonl"
_TIMEOUT: Final = "timeout_per_case_seconds"
_RUBRIC: Final = "rubric_wall_clock_seconds"
_BEGINNINGS: Final = {"timeout_per_case": _TIMEOUT, "rubric_wall_clock": _RUBRIC}
"""How a key begins that was meant to be a limit; any other key is the author's own."""


@value
class Cases:
    """The cases of a task class, as far as they can be used."""

    cases: tuple[BenchCase, ...]
    ids: frozenset[str]
    """Also of cases that can't be used."""


def read_cases(folder: ClassFolder) -> Cases:
    """Return all cases of a task class, by file and in the order of each file."""
    names = file_names(folder, "cases", CASE_SUFFIXES)
    if not names:
        if not folder.is_outside("cases") and not _has_links(folder):
            what = "there is no such folder" if names is None else "there is no case in it"
            folder.problems_of("cases").add(None, f"{what}; {_EXAMPLE}")
        return Cases(cases=(), ids=frozenset())
    cases: list[BenchCase] = []
    places: dict[str, tuple[str, int]] = {}
    for name in names:
        problems = folder.problems_of(name)
        for entry in read_entries(folder, name):
            case = _read_case(entry, folder.path / name, problems)
            case_id = entry.fields.get("id")
            if not isinstance(case_id, str):
                continue
            if case_id in places:
                _tell_twice(case_id, name, entry, places[case_id], problems)
            places.setdefault(case_id, (name, entry.line_of("id")))
            if case is not None:
                cases.append(case)
    return Cases(cases=tuple(cases), ids=frozenset(places))


def repeated(cases: tuple[BenchCase, ...], times: int) -> Iterator[BenchCase]:
    """Yield each case as often as its class repeats it, with an id for each of its runs."""
    for case in cases:
        if times == 1:
            yield case
            continue
        for number in range(1, times + 1):
            changes = {"case_id": f"{case.case_id}#{number}", "repetition": number}
            yield case.model_copy(update=changes)


def _has_links(folder: ClassFolder) -> bool:
    """Return whether a case may stand where a link leads that was refused."""
    try:
        found = os.listdir(folder.path / "cases")
    except OSError:
        return False
    return any(folder.is_outside(f"cases/{name}") for name in found)


def _tell_twice(
    case_id: str, name: str, entry: Entry, first: tuple[str, int], problems: Problems
) -> None:
    file, line = first
    where = f"line {line}" if file == name else f"{file}:{line}"
    what = f"id: {quoted(case_id)} is the id of the case in {where}"
    problems.add(entry.line_of("id"), f"{what}; each case needs its own")


def _read_case(entry: Entry, path: Path, problems: Problems) -> BenchCase | None:
    if not entry.is_whole:
        return None
    fields = entry.fields
    told = len(problems)
    values: dict[str, Any] = {}
    for key, (name, check) in _KEYS.items():
        if key in fields:
            try:
                values[name] = check(fields[key])
            except WrongError as error:
                problems.add(entry.line_of(key), str(error))
    if "id" not in fields:
        problems.add(entry.line, "the case has no id; add one, such as `id: empty-input`")
    for key in fields:
        meant = next((_BEGINNINGS[each] for each in _BEGINNINGS if key.startswith(each)), key)
        if key != meant:
            problems.add(entry.line_of(key), f"unknown limit {quoted(key)}; did you mean {meant}?")
    if len(problems) > told:
        return None
    return BenchCase(input=fields.get("input"), fields=fields, path=path, line=entry.line, **values)


_KEYS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "id": ("case_id", checked_id),
    "tags": ("tags", checked_tags),
    _TIMEOUT: (_TIMEOUT, partial(checked_seconds, _TIMEOUT)),
    _RUBRIC: (_RUBRIC, partial(checked_seconds, _RUBRIC)),
}
"""The keys that mean something to us, the field that each fills, and what checks its value."""
