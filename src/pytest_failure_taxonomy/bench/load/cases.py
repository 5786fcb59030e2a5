"""Read the cases of a task class, and the examples of its oracle."""

from __future__ import annotations

import keyword
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from pytest_failure_taxonomy.bench.load.case_files import read_entries
from pytest_failure_taxonomy.bench.load.folder import (
    CASE_SUFFIXES,
    CASES_MODULE,
    ORACLE_SUFFIXES,
    ClassFolder,
)
from pytest_failure_taxonomy.bench.models import BenchCase, Listed, OracleExample, Seconds
from pytest_failure_taxonomy.documents.models import FileModel, validate
from pytest_failure_taxonomy.documents.problems import (
    Problems,
    Tree,
    WrongError,
    quoted,
    right_words,
)
from pytest_failure_taxonomy.taxonomy import packaged_table

MAX_NAME: Final = 200
"""Characters of a code, a key or an id."""
MAX_NUMBER: Final = 1_000_000_000
"""More than any limit or count needs, and less than what clocks and the system can't handle."""
_LIKE_CASES: Final = (*CASE_SUFFIXES, ".json", ".jsonlines", ".ndjson", ".tsv", ".parquet", ".xlsx")
"""Suffixes of files that look like cases; those that are not read are reported."""
_NOT_IN_IDS: Final = ("/", "\\", "::", "[", "]", "#")
"""What pytest or a shell would not take for a part of the id."""
_LIMITS: Final = ("timeout_per_case", "rubric_wall_clock")
"""A key that begins so is meant to be this limit in seconds; all others are the author's own."""


def _check_id(given: str) -> str:
    if not given.strip():
        raise WrongError("is empty; give it a name that no other has")
    if given != given.strip():
        raise WrongError(f"{quoted(given)} begins or ends with a blank; leave it out")
    if not given.isprintable():
        raise WrongError(f"{quoted(given)} can't be printed; write printable characters")
    if len(given) > MAX_NAME:
        raise WrongError(f"{quoted(given)} is longer than {MAX_NAME} characters; shorten it")
    wrong = next((part for part in _NOT_IN_IDS if part in given), None)
    if wrong is not None:
        raise WrongError(f"{quoted(given)} has a {wrong} in it; write - or _ instead")
    if given in (".", ".."):
        raise WrongError(f"{quoted(given)} is the name of a folder; give it another name")
    return given


def _check_tag(tag: str) -> str:
    if not tag.isidentifier() or keyword.iskeyword(tag) or tag.startswith("_"):
        raise WrongError(
            f"{quoted(tag)} can't be a pytest mark; write letters, digits and _, a letter first"
        )
    if tag in packaged_table("bench")["marks_of_pytest"]:
        raise WrongError(f"{quoted(tag)} is a mark that pytest itself uses; choose another")
    return tag


_Id = Annotated[str, AfterValidator(_check_id)]
_Tag = Annotated[str, AfterValidator(_check_tag)]


class _CaseInFile(FileModel):
    """The keys of a case that have a meaning for the runner."""

    model_config = ConfigDict(extra="ignore")
    most = MAX_NUMBER

    id: _Id
    tags: Listed[_Tag] = ()
    timeout_per_case_seconds: Seconds | None = None
    rubric_wall_clock_seconds: Seconds | None = None
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None


# YAML reads a plain `null` as no value.
_null = BeforeValidator(lambda given: "null" if given is None else given)


class _LabelledInFile(FileModel):
    may_be_null: ClassVar[frozenset[str]] = frozenset({"output", "expect"})

    id: _Id
    case: str
    output: Any
    expect: Annotated[Literal["gold", "null"] | None, _null] = None
    label: Literal["pass", "fail"] | None = None


class _ExampleInFile(_LabelledInFile):
    expect: Annotated[Literal["gold", "null"], _null]


_MISSING: Final = packaged_table("wrong_values")["missing"]


def read_cases(folder: ClassFolder) -> tuple[list[BenchCase], frozenset[str]]:
    """Return the cases of a task class, by file and in the order of each file, and all their ids.

    Cases that can't be used are missing, and their ids are not.
    """
    names = _file_names(folder, "cases", CASE_SUFFIXES)
    if folder.has(CASES_MODULE):
        names = [*(names or ()), CASES_MODULE]
    if not names:
        refused = ["cases", CASES_MODULE]
        with suppress(OSError):  # links that were refused may be cases
            refused += [f"cases/{name}" for name in os.listdir(folder.path / "cases")]
        if not any(map(folder.is_outside, refused)):
            what = "there is no such folder" if names is None else "there is no case in it"
            right = "put cases in cases/ or write a cases.py"
            folder.problems_of("cases").add(None, f"{what}; {right}")
        return [], frozenset()
    cases: list[BenchCase] = []
    places: dict[str, tuple[str, str]] = {}
    for name in names:
        path = folder.path / name
        for entry in read_entries(folder, name):
            case = _read_case(entry.tree, path, entry.problems)
            case_id = entry.tree.value.get("id")
            if not isinstance(case_id, str):
                continue
            line = entry.tree.at("id").line
            place = (name, entry.place(line))
            first = places.setdefault(case_id, place)
            if first is not place:
                what = f"id: {quoted(case_id)} is the id of the case in {_where(first, name)}"
                entry.problems.add(line, f"{what}; each case needs its own")
            if case is not None:
                cases.append(case)
    return cases, frozenset(places)


def _where(place: tuple[str, str], name: str) -> str:
    """Return a place in words, as seen from a file."""
    file, at = place
    if file == name:
        return f"line {at}" if at.isdecimal() else at
    return f"{file}:{at}" if at.isdecimal() else f"{at} of {file}"


def _read_case(entry: Tree, path: Path, problems: Problems) -> BenchCase | None:
    case = validate(_CaseInFile, entry, problems, subject="the case", missing=_MISSING["case"])
    for key, part in entry.items():
        meant = next((f"{each}_seconds" for each in _LIMITS if key.startswith(each)), key)
        if key != meant:
            problems.add(part.line, f"unknown limit {quoted(key)}; did you mean {meant}?")
    if case is None:
        return None
    return BenchCase(
        case_id=case.id,
        input=entry.value.get("input"),
        tags=tuple(dict.fromkeys(case.tags)),
        **case.model_dump(exclude={"id", "tags"}),
        fields=entry.value,
        path=path,
        line=entry.line,
    )


def with_clusters(
    folder: ClassFolder, cases: Iterable[BenchCase], field: str
) -> Iterator[BenchCase]:
    """Yield cases with the clusters that a field of theirs names.

    Each case must have the field: if it is misspelled, each case would be a cluster of its own,
    and the bound too high.
    """
    for case in cases:
        name = case.fields.get(field, ...)
        if not isinstance(name, str | int | float | None):
            what = (
                f"has no {quoted(field)}" if name is ... else f"{quoted(field)} is no single value"
            )
            right = "give it a text or a number, or null if no other case is like it"
            file = os.path.relpath(str(case.path), folder.path)
            folder.problems_of(file).add(case.line, f"cluster: {case.case_id}: {what}; {right}")
        yield case.model_copy(update={"cluster": None if name is None else str(name)})


def likely_cluster(cases: Iterable[BenchCase]) -> str:
    """Return a field by which cases seem to be alike, such as `repo`; '' if there is none.

    At least five cases have it, all of them, and no more than half as many values.
    """
    values: dict[str, list[object]] = {}
    distinct = [case for case in cases if case.repetition == 1]
    for case in distinct:
        for key, given in case.fields.items():
            if key.lower() in packaged_table("bench")["like_clusters"]:
                values.setdefault(key, []).append(given)
    for key, given in sorted(values.items()):
        are_names = all(isinstance(each, str | int) for each in given)  # which have a hash, too
        is_of_all = len(given) == len(distinct) >= 5
        if are_names and is_of_all and 2 <= len(set(given)) <= len(given) / 2:
            return key
    return ""


def read_oracle(folder: ClassFolder, case_ids: frozenset[str]) -> tuple[OracleExample, ...]:
    """Return the examples of a task class, by file and in the order of each file.

    Args:
        folder: The folder of the task class.
        case_ids: The ids of its cases; empty if the cases could not be read.
    """
    examples: list[OracleExample] = []
    places: dict[str, str] = {}
    for name in _file_names(folder, "oracle", ORACLE_SUFFIXES) or ():
        problems = folder.problems_of(name)
        for entry in (each.tree for each in read_entries(folder, name)):
            case_id = entry.value.get("case")
            if isinstance(case_id, str) and case_ids and case_id not in case_ids:
                right = right_words(case_id, case_ids, otherwise="write the id of a case in cases/")
                what = f"case: there is no case {quoted(case_id)}; {right}"
                problems.add(entry.at("case").line, what)
            form = _LabelledInFile if "label" in entry.value else _ExampleInFile
            example = validate(
                form, entry, problems, subject="the example", missing=_MISSING["example"]
            )
            if example is None:
                continue
            line = entry.at("id").line
            if example.id in places:
                what = f"id: {quoted(example.id)} is the id of the example in {places[example.id]}"
                problems.add(line, f"{what}; each example needs its own")
            places.setdefault(example.id, f"{name}:{line}")
            examples.append(
                OracleExample(
                    example_id=example.id,
                    case_id=example.case,
                    **example.model_dump(exclude={"id", "case"}),
                    path=folder.path / name,
                    line=entry.line,
                )
            )
    return tuple(examples)


def _file_names(folder: ClassFolder, name: str, suffixes: tuple[str, ...]) -> list[str] | None:
    """Return the sorted names of the files to read in a subfolder, or `None` if it is missing.

    What looks like a file of cases and is not read becomes a problem.
    """
    found = folder.names_in(name)
    if found is None:
        return None
    names = []
    *others, last = (suffix for suffix in suffixes if suffix != ".yml")
    allowed = f"{', '.join(others)} or {last}" if others else last
    for each in found:
        suffix = Path(each).suffix
        if suffix in suffixes:
            names.append(each)
        elif (folder.path / each).is_dir():
            if each != f"{name}/__pycache__":
                what = f"folders in {name}/ are not searched; put the files in {name}/ itself"
                folder.problems_of(each).add(None, what)
        elif suffix.lower() in _LIKE_CASES:
            folder.problems_of(each).add(None, f"is never read; write a {allowed} file")
    return names
