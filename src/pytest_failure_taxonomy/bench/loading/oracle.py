"""Read the oracle of a task class: outputs that its rubric must judge as the file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.loading.entries import Entry, file_names, read_entries
from pytest_failure_taxonomy.bench.loading.folder import ORACLE_SUFFIXES, ClassFolder
from pytest_failure_taxonomy.bench.loading.words import checked_id, in_words
from pytest_failure_taxonomy.bench.models import OracleExample
from pytest_failure_taxonomy.documents.fields import WrongError
from pytest_failure_taxonomy.documents.problems import Problems, closest, quoted, right_words

_KEYS: Final = ("id", "case", "output", "expect")
_MISSING: Final = {
    "id": "add one that no other example has",
    "case": "write the id of the case that the output answers",
    "output": "write what a system would have returned",
    "expect": "write gold or null",
}


def read_oracle(folder: ClassFolder, case_ids: frozenset[str]) -> tuple[OracleExample, ...]:
    """Return the examples of a task class, by file and in the order of each file.

    Args:
        folder: of the task class.
        case_ids: of its cases; none where they could not be read.
    """
    examples: list[OracleExample] = []
    places: dict[str, str] = {}
    for name in file_names(folder, "oracle", ORACLE_SUFFIXES) or ():
        problems = folder.problems_of(name)
        for entry in read_entries(folder, name):
            example = _read_example(entry, folder.path / name, case_ids, problems)
            if example is None:
                continue
            line = entry.line_of("id")
            if example.example_id in places:
                shown = quoted(example.example_id)
                what = f"id: {shown} is the id of the example in {places[example.example_id]}"
                problems.add(line, f"{what}; each example needs its own")
            places.setdefault(example.example_id, f"{name}:{line}")
            examples.append(example)
    return tuple(examples)


def _read_example(
    entry: Entry, path: Path, case_ids: frozenset[str], problems: Problems
) -> OracleExample | None:
    if not entry.is_whole:
        return None
    fields = entry.fields
    told = len(problems)
    # What a misspelled key was meant to be is not missing.
    named = {closest(key, _KEYS) or key for key in fields}
    for key in fields:
        if key not in _KEYS:
            right = right_words(key, _KEYS, otherwise=f"the keys are {', '.join(_KEYS)}")
            problems.add(entry.line_of(key), f"unknown key {quoted(key)}; {right}")
    for key in _KEYS:
        if key not in named:
            problems.add(entry.line, f"the example has no {key}; {_MISSING[key]}")
    if "id" in fields:
        try:
            checked_id(fields["id"])
        except WrongError as error:
            problems.add(entry.line_of("id"), str(error))
    _check_case(entry, case_ids, problems)
    # A bare null is YAML's own; here it means the word.
    expect: Any = "null" if fields.get("expect") is None else fields["expect"]
    if expect not in ("gold", "null"):
        what = f"expect: {in_words(expect)} is unknown; write gold for an output that must pass"
        problems.add(entry.line_of("expect"), f"{what}, null for one that must not")
    if len(problems) > told:
        return None
    return OracleExample(
        example_id=fields["id"],
        case_id=fields["case"],
        output=fields["output"],
        expect=expect,
        path=path,
        line=entry.line,
    )


def _check_case(entry: Entry, case_ids: frozenset[str], problems: Problems) -> None:
    if "case" not in entry.fields:
        return
    case_id = entry.fields["case"]
    line = entry.line_of("case")
    if not isinstance(case_id, str):
        problems.add(line, f"case: {in_words(case_id)} is no text; write the id of a case")
    elif case_ids and case_id not in case_ids:
        right = right_words(case_id, case_ids, otherwise="write the id of a case in cases/")
        problems.add(line, f"case: there is no case {quoted(case_id)}; {right}")
