"""Read the cases of a task class, and the examples of its oracle.

YAML and JSON are read as a whole, all else row by row. The entries of a `cases.py` are what its
function `cases` gives.
"""

from __future__ import annotations

import csv
import gzip
import json
import keyword
import math
import os
import re
import sys
import traceback
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from pytest_failure_taxonomy.bench.answers import json_problem
from pytest_failure_taxonomy.bench.load.folder import (
    CASE_SUFFIXES,
    CASES_MODULE,
    DATA_SUFFIXES,
    METADATA,
    ORACLE_SUFFIXES,
    ClassFolder,
    suffix_of,
)
from pytest_failure_taxonomy.bench.models import (
    ROW_NUMBER,
    BenchCase,
    CaseFields,
    Listed,
    OracleExample,
    Seconds,
)
from pytest_failure_taxonomy.bench.user_code import describe, ends_run
from pytest_failure_taxonomy.documents.content import (
    MAX_DOCUMENT_BYTES,
    parse_value,
    read_text,
    why_no_file,
    why_unread,
)
from pytest_failure_taxonomy.documents.models import FileModel, validate
from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    kind_of,
    quoted,
    right_words,
    shown,
)
from pytest_failure_taxonomy.documents.yaml_files import Form, read_tree
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import counted, listed

MAX_YAML_BYTES: Final = 4 * 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Limit of one line of JSON; the files themselves have none."""
MAX_CELL_CHARACTERS: Final = 4 * 1024 * 1024
"""Limit of a cell of CSV: a missing quote makes a cell of the rest of the file."""

_EXAMPLE: Final = "write one mapping with an id, or a list of such"
_FORM: Final = Form(
    right="it is YAML in UTF-8 with one mapping, or a list of such",
    max_bytes=MAX_YAML_BYTES,
    takes_aliases=True,
    is_fast=True,
)
_TOO_BIG: Final = (
    f"bigger than {MAX_YAML_BYTES // 1024:,} KiB; write it as .jsonl or .csv, which are read row by"
    " row and may be of any size"
)
_LINES_RIGHT: Final = "it is text in UTF-8 with one JSON object a line"
_JSON_RIGHT: Final = "write a list of objects, or .jsonl, which may be of any size"
_CSV_RIGHT: Final = (
    "it is CSV in UTF-8, separated by {}, with the names of its columns first"
)
_DELIMITERS: Final = MappingProxyType({".csv": ",", ".tsv": "\t"})
_JSON: Final = ":json"
"""The end of the name of a column whose cells are JSON."""
_OURS: Final = CaseFields.model_fields.keys()
_NUMBERS: Final = frozenset(
    {"timeout_per_case_seconds", "rubric_wall_clock_seconds", "max_cost_usd"}
)
_SEPARATORS: Final = re.compile(r"[\s,;]+")


@value
class Entry:
    """One mapping of a file, and what is told of it."""

    tree: Tree
    problems: Problems
    """Receives the problems of the entry."""
    number: int | None = None
    """Which entry it is, from 1, where lines don't tell entries apart."""

    def place(self, line: int) -> str:
        """Return where the entry stands in its file: a line, or its number."""
        return str(line) if self.number is None else f"entry {self.number}"


def read_entries(
    folder: ClassFolder, name: str, columns: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Entry]:
    """Yield the mappings of a file; what is no mapping is added to the file's problems.

    Only a file of YAML or JSON is held in memory as a whole.

    Args:
        folder: The folder of the task class.
        name: The file's name in it.
        columns: The names that the file has for ours, where they differ.
    """
    path = folder.path / name
    problems = folder.problems_of(name)
    suffix = suffix_of(name)
    if name == CASES_MODULE:
        yield from _generated_entries(path, problems)
        return
    if suffix in _NUMBERED:
        yield from _numbered_entries(_NUMBERED[suffix](path, problems), problems)
        return
    if suffix in _DELIMITERS:
        trees = _read_csv(path, problems, columns)
    else:
        trees = _READERS[suffix](path, problems)
    with suppress(BenchError):  # it is among the problems
        for tree in trees:
            yield Entry(tree=tree, problems=problems)


def _numbered_entries(values: Iterable[Any], of_file: Problems) -> Iterator[Entry]:
    """Yield the entries of a file whose lines don't tell them apart."""
    number = 0
    for number, row in enumerate(values, start=1):
        problems = _EntryProblems(of_file, number)
        tree = Tree(value=row, line=0)
        if isinstance(row, dict):
            yield Entry(tree=tree, problems=problems, number=number)
        elif isinstance(row, WrongError):
            problems.add(None, str(row))
        else:
            what = f"{kind_of(tree)} where an entry begins; {_JSON_RIGHT}"
            problems.add(None, what)
    if number == 0 and not len(of_file):
        of_file.add(None, "there is no entry in it; write one a case")


def _read_json(path: Path, problems: Problems) -> list[Any]:
    """Return the elements of a list, which may be the only one in an object."""
    try:
        text = read_text(
            path, problems, right=_JSON_RIGHT, max_bytes=MAX_DOCUMENT_BYTES
        )
        value = parse_value(text, _JSON_RIGHT)
    except BenchError:  # it is among the problems
        return []
    except WrongError as error:
        problems.add(None, str(error))
        return []
    if isinstance(value, list):
        return value
    what = kind_of(Tree(value=value, line=0))
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        if len(lists) == 1:
            return lists[0]
        what = f"an object with {counted(len(lists), 'list')}"
    problems.add(None, f"{what} where a list of cases is expected; {_JSON_RIGHT}")
    return []


def _read_yaml(path: Path, problems: Problems) -> Iterator[Tree]:
    if why_no_file(path) is None and path.stat().st_size > MAX_YAML_BYTES:
        problems.add(None, _TOO_BIG)
        return
    tree = read_tree(
        path,
        problems,
        _FORM,
        root=(object,),
        example=_EXAMPLE,
        if_empty=f"the file is empty; {_EXAMPLE}",
    )
    if tree is None:
        return
    if tree.value == []:
        problems.add(tree.line, f"the list is empty; {_EXAMPLE}")
    for entry in tree if isinstance(tree.value, list) else (tree,):
        if isinstance(entry.value, dict):
            yield entry
        elif entry.value is not WRONG:
            problems.add(
                entry.line, f"{kind_of(entry)} where an entry begins; {_EXAMPLE}"
            )


# Row by row.


def _text_lines(
    path: Path, problems: Problems, right: str, *, is_csv: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, from 1; what keeps it from being read becomes a problem.

    A line that isn't UTF-8 is left out; of CSV it is yielded, to find the problems of other lines.
    """
    why = why_no_file(path)
    if why is not None:
        problems.add(None, f"{why}; {right}")
        return
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    what = f"a line is bigger than {MAX_LINE_BYTES // 1024:,} KiB"
                    problems.add(number, f"{what}; {right}")
                    return
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    if is_csv and "\0" in text:
                        problems.add(number, f"holds a NUL byte; {right}")
                except UnicodeDecodeError:
                    problems.add(number, f"not UTF-8; {right}")
                    if not is_csv:
                        continue
                    text = line.decode("utf-8", "replace")
                yield number, text
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problems.add(None, f"not gzip ({error}); compress {path.stem} again")
    except OSError as error:
        problems.add(number or None, f"{why_unread(error)}; {right}")


def _read_json_lines(path: Path, problems: Problems) -> Iterator[Tree]:
    before = len(problems)
    is_empty = True
    for number, line in _text_lines(path, problems, _LINES_RIGHT):
        text = line.strip(" \t\r\n\v\f")
        if not text:
            continue
        is_empty = False
        try:
            fields = parse_value(text)
        except WrongError as error:
            problems.add(number, str(error))
            continue
        if isinstance(fields, dict):
            yield Tree(value=fields, line=number)
        else:
            what = "a list" if isinstance(fields, list) else f"the value {quoted(text)}"
            problems.add(number, f"{what} where an entry begins; {_LINES_RIGHT}")
    if is_empty and len(problems) == before:
        problems.add(1, f"the file is empty; {_LINES_RIGHT}")


# CSV.


def _read_csv(
    path: Path, problems: Problems, columns: Mapping[str, str]
) -> Iterator[Tree]:
    before = len(problems)
    ours = {name: own for own, name in columns.items()}
    right = _CSV_RIGHT.format("commas" if path.suffix == ".csv" else "tabs")
    rows = _csv_rows(path, problems, right)
    first = next(rows, None)
    if first is None:
        if len(problems) == before:
            problems.add(1, f"the file is empty; {right}")
        return
    line, names = first
    if len(problems) > before or not _check_header(names, line, problems):
        return
    id_column = columns.get("id", "id")
    if id_column not in (*names, ROW_NUMBER):
        problems.add(line, f"no column is named {shown(id_column)}; {right}")
        return
    has_rows = False
    for line, cells in rows:
        has_rows = True
        if len(cells) != len(names):
            what = f"the row has {counted(len(cells), 'cell')}, and the first row names"
            what += f" {len(names)} columns"
            problems.add(
                line, f"{what}; give each column one cell, quoted if it holds a comma"
            )
            continue
        row = dict(zip(names, cells, strict=True))
        fields = _fields_of(row, ours, line, problems)
        if fields is not None:
            yield Tree(value=fields, line=line)
    if not has_rows and len(problems) == before:
        problems.add(
            line, "there is no row below the names of the columns; write one a case"
        )


def _csv_rows(
    path: Path, problems: Problems, right: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line in which it begins, without blank lines.

    A row that isn't CSV ends the reading: where the next one begins is anybody's guess.
    """
    lines = _text_lines(path, problems, right, is_csv=True)
    texts = (text.replace("\0", "") for _, text in lines)
    rows = csv.reader(texts, strict=True, delimiter=_DELIMITERS[path.suffix])
    begin = 1
    while True:
        # The limit is one of the whole process, and other code may rely on it.
        before = csv.field_size_limit(MAX_CELL_CHARACTERS)
        try:
            cells = next(rows, None)
        except csv.Error as error:
            problems.add(begin, f"not CSV ({_describe_csv_error(error)}); {right}")
            return
        finally:
            csv.field_size_limit(before)
        if cells is None:
            return
        if cells:
            yield begin, cells
        begin = rows.line_num + 1


def _describe_csv_error(error: csv.Error) -> str:
    if "field limit" in str(error):
        return f"a cell of more than {MAX_CELL_CHARACTERS:,} characters; is a quote missing?"
    if "unexpected end" in str(error):
        return "a quote is never closed"
    return shown(str(error))


def _check_header(names: list[str], line: int, problems: Problems) -> bool:
    """Return whether the names of the columns can be used; add what is wrong to the problems."""
    before = len(problems)
    columns: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        key = name.removesuffix(_JSON)
        if not key.strip():
            what = f"column {number} has no name; name each column, or leave it out"
            problems.add(line, what)
        elif name != name.strip() or key != key.strip():
            what = (
                f"the column {quoted(name)} begins or ends with a blank; leave it out"
            )
            problems.add(line, what)
        elif key in columns:
            what = f"columns {columns[key]} and {number} are both named {quoted(key)}"
            problems.add(line, f"{what}; name each column once")
        elif name == f"id{_JSON}":
            problems.add(line, "an id is text; name the column id")
        columns.setdefault(key, number)
    return len(problems) == before


def _fields_of(
    row: Mapping[str, str], ours: Mapping[str, str], line: int, problems: Problems
) -> dict[str, object] | None:
    """Return the fields of a row; `None` if there are problems.

    A cell is text as it stands, since nothing tells a number from a name made of digits. Columns
    whose names end in `:json`, tags and limits are read, and left out where they are empty.
    """
    before = len(problems)
    fields: dict[str, object] = {}
    for column, cell in row.items():
        own = ours.get(column, column)
        is_json = column.endswith(_JSON)
        if not (is_json or own == "tags" or own in _NUMBERS):
            fields[column] = cell
        elif cell.strip():
            try:
                if is_json:
                    value = parse_value(cell, right=_CELL_RIGHT)
                    fields[column.removesuffix(_JSON)] = value
                elif own == "tags":
                    fields[column] = _split_tags(cell)
                else:
                    fields[column] = float(cell)
            except WrongError as error:
                problems.add(line, f"{shown(column)}: {error}")
            except ValueError:
                what = f"{quoted(cell)} is not a number; write one, or nothing"
                problems.add(line, f"{shown(column)}: {what}")
    return fields if len(problems) == before else None


def _split_tags(text: str) -> list[str]:
    return [tag for tag in _SEPARATORS.split(text) if tag]


_CELL_RIGHT: Final = 'write a JSON value, such as 5, true, null, "text" or [1, 2]'


def _read_arrow(path: Path, problems: Problems) -> Iterable[Any]:
    from pytest_failure_taxonomy.bench.load.arrow import read_rows

    return read_rows(path, problems)


_READERS: Final[Mapping[str, Callable[[Path, Problems], Iterator[Tree]]]] = {
    **dict.fromkeys((".yaml", ".yml"), _read_yaml),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonlines", ".jsonl.gz"), _read_json_lines),
}
_NUMBERED: Final[Mapping[str, Callable[[Path, Problems], Iterable[Any]]]] = {
    ".json": _read_json,
    **dict.fromkeys(DATA_SUFFIXES, _read_arrow),
}
"""How files are read whose entries have numbers, by their suffix."""


MAX_ENTRIES: Final = 1_000_000
"""More cases than a run can have: `cases()` doesn't end."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_RIGHT: Final = (
    f"{CASES_MODULE} is Python in UTF-8 that says `def cases():` and yields dicts"
)
_WRITE: Final = "write `def cases():` and yield a dict a case"
_FIX: Final = "fix it; it has to give the same cases in each process"


def _generated_entries(path: Path, problems: Problems) -> Iterator[Entry]:
    """Yield what `cases()` gives, each with its number and the place for its own problems.

    The module runs in this process, once each time that its class is loaded, with its folder on
    `sys.path`. Whatever it raises becomes a problem, `SystemExit` among it; what ends a run on
    purpose (`KeyboardInterrupt`, `pytest.exit`) is raised.
    """
    try:
        text = read_text(path, problems, right=_RIGHT, max_bytes=_MAX_BYTES)
    except BenchError:
        return  # it is among the problems
    folder = str(path.parent)
    sys.path.insert(0, folder)  # it may import modules from its folder
    try:
        function = _load_function(text, path, problems)
        if function is not None:
            yield from _number_generated(function, path, problems)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


class _EntryProblems(Problems):
    """The problems of one entry, which become those of the file."""

    def __init__(self, problems: Problems, number: int) -> None:
        super().__init__(CASES_MODULE, BenchError)
        self._problems = problems
        self._number = number

    def add(self, line: int | None, what: str) -> None:
        self._problems.add(line, f"entry {self._number}: {what}")


def _load_function(text: str, path: Path, problems: Problems) -> Any:
    """Return the function `cases`; `None` if the module has no such, or can't be run."""
    # It has to be in `sys.modules` for dataclasses and pickle, by a name that is nobody's.
    name = f"cases_of_{path.parent.name}_{id(problems):x}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102 - it is code
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the author's
        if isinstance(error, SyntaxError) and error.filename == str(path):
            problems.add(
                error.lineno, f"not Python ({shown(error.msg)}); fix the syntax"
            )
        else:
            _report_raised(error, "can't be imported: ", path, problems)
        return None
    function = getattr(module, "cases", None)
    if callable(function):
        return function
    problems.add(None, f"has no function cases; {_WRITE}")
    return None


def _number_generated(function: Any, path: Path, of_file: Problems) -> Iterator[Entry]:
    """Yield the entries that can be used, each with its number and its problems."""
    code = getattr(function, "__code__", None)
    begin = None
    if code is not None and code.co_filename == str(path):
        begin = code.co_firstlineno
    entries = _call_cases(function)
    for number in count(1):
        try:
            given = next(entries)
        except StopIteration:
            break
        except WrongError as error:
            of_file.add(begin, str(error))
            return
        except BaseException as error:  # noqa: BLE001 - as above
            _report_raised(error, f"entry {number}: cases() raised ", path, of_file)
            return
        if number > MAX_ENTRIES:
            of_file.add(
                begin, f"cases() gives more than {MAX_ENTRIES:,} cases; let it end"
            )
            return
        author = getattr(entries, "gi_yieldfrom", None)
        frame = getattr(author, "gi_frame", None)
        line = begin if frame is None else frame.f_lineno
        problems = _EntryProblems(of_file, number)
        fields = _copy_json(given, line, problems)
        if fields is not None:
            tree = Tree(value=fields, line=line or 1)
            yield Entry(tree=tree, problems=problems, number=number)
    if number == 1:
        of_file.add(begin, f"cases() gives no case; {_WRITE}")


def _call_cases(function: Any) -> Iterator[Any]:
    """Yield what `cases()` gives.

    Raises:
        WrongError: It gives nothing that can be iterated over.
    """
    given = function()
    if not hasattr(type(given), "__iter__") or isinstance(given, dict | str):
        if hasattr(given, "close"):
            given.close()  # Python warns of a coroutine that is never awaited
        kind = type(given).__name__
        raise WrongError(f"cases() returned an object of type {kind}; {_WRITE}")
    yield from iter(given)


def _report_raised(
    error: BaseException, before: str, path: Path, problems: Problems
) -> None:
    if ends_run(error) and not isinstance(error, SystemExit):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    what = f"{before}{shown(describe(error))}; {_FIX}"
    problems.add(lines[-1] if lines else None, what)


def _copy_json(
    given: Any, line: int | None, problems: Problems
) -> dict[str, object] | None:
    """Return a copy of an entry that nobody else holds; `None` if there are problems."""
    if not isinstance(given, dict):
        problems.add(
            line, f"an object of type {type(given).__name__} is no dict; {_WRITE}"
        )
        return None
    problem = json_problem(given)
    if problem is not None:
        problems.add(line, f"{shown(problem)}; give what JSON can hold")
        return None
    try:
        copy: dict[str, object] = parse_value(json.dumps(given))
    except WrongError as error:
        problems.add(line, str(error))
        return None
    return copy


# Cases and examples.

MAX_NAME: Final = 200
"""Characters of a code, a key or an id."""
MAX_NUMBER: Final = 1_000_000_000
"""More than any limit or count needs, and less than what clocks and the system can't handle."""
_LIKE_CASES: Final = (
    *CASE_SUFFIXES,
    *(".gz", ".xls", ".xlsx", ".zip"),
)
"""Suffixes of files that look like cases; those that are not read are reported."""
_LIMITS: Final = ("timeout_per_case", "rubric_wall_clock")
"""A key that begins so is meant to be this limit in seconds; all others are the author's own."""


def _id_text(case_id: Any) -> Any:
    """Return an id that is a number as text."""
    is_number = isinstance(case_id, int | float) and not isinstance(case_id, bool)
    return str(case_id) if is_number else case_id


def _check_id(given: str) -> str:
    if not given.strip():
        raise WrongError("is empty; give it a name that no other has")
    if given != given.strip():
        raise WrongError(f"{quoted(given)} begins or ends with a blank; leave it out")
    if not given.isprintable():
        raise WrongError(
            f"{quoted(given)} can't be printed; write printable characters"
        )
    if len(given) > MAX_NAME:
        raise WrongError(
            f"{quoted(given)} is longer than {MAX_NAME} characters; shorten it, or number"
            ' the cases in bench.yaml: `fields: {id: "#"}`'
        )
    return given


def _check_tag(tag: str) -> str:
    if not tag.isidentifier() or keyword.iskeyword(tag) or tag.startswith("_"):
        raise WrongError(
            f"{quoted(tag)} can't be a pytest mark; write letters, digits and _, a letter first"
        )
    if tag in packaged_table("bench")["marks_of_pytest"]:
        raise WrongError(
            f"{quoted(tag)} is a mark that pytest itself uses; choose another"
        )
    return tag


_Id = Annotated[str, AfterValidator(_check_id), BeforeValidator(_id_text)]
_Tag = Annotated[str, AfterValidator(_check_tag)]


class _CaseInFile(FileModel):
    """The keys of a case that have a meaning for the runner."""

    model_config = ConfigDict(extra="ignore")
    most = MAX_NUMBER
    most_of = MappingProxyType({"id": math.inf})

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
    case: Annotated[str, BeforeValidator(_id_text)]
    output: Any
    expect: Annotated[Literal["gold", "null"] | None, _null] = None
    label: Literal["pass", "fail"] | None = None


class _ExampleInFile(_LabelledInFile):
    expect: Annotated[Literal["gold", "null"], _null]


_MISSING: Final = packaged_table("wrong_values")["missing"]


def read_cases(
    folder: ClassFolder, fields: CaseFields
) -> tuple[list[BenchCase], frozenset[str]]:
    """Return the cases of a task class, by file and in the order of each file, and all their ids.

    Cases that can't be used are missing, and their ids are not.

    Args:
        folder: The folder of the task class.
        fields: Which fields of the files hold ids and so on.
    """
    names = _case_files(folder)
    cases: list[BenchCase] = []
    places: dict[str, tuple[str, str]] = {}
    columns = fields.renamed
    lacking: dict[str, list[Entry]] = {ours: [] for ours in ("id", *columns)}
    if columns.get("id") == ROW_NUMBER:
        del lacking["id"]
    count = 0
    for name in names:
        path = folder.path / name
        for index, entry in enumerate(read_entries(folder, name, columns)):
            count += 1
            for ours, lacking_it in lacking.items():
                if columns.get(ours, ours) not in entry.tree.value:
                    lacking_it.append(entry)
            values = _own_values(entry, columns, f"{_stem(name)}-{index}")
            case = _read_case(entry, values, columns, path)
            case_id = _id_text(values.get("id"))
            if not isinstance(case_id, str):
                continue
            line = entry.tree.line
            if entry.tree.node is not None:
                line = entry.tree.at(columns.get("id", "id")).line
            place = (name, entry.place(line))
            first = places.setdefault(case_id, place)
            if first is not place:
                what = f"id: {quoted(case_id)} is the id of the case in {_where(first, name)}"
                entry.problems.add(line, f"{what}; each case needs its own")
            if case is not None:
                cases.append(case)
    _report_missing(lacking, columns, count)
    return cases, frozenset(places)


def _case_files(folder: ClassFolder) -> list[str]:
    """Return the files that give cases; that there is none becomes a problem."""
    names = _file_names(folder, "cases", CASE_SUFFIXES)
    if folder.has(CASES_MODULE):
        names = [*(names or ()), CASES_MODULE]
    if not names:
        refused = ["cases", CASES_MODULE]
        with suppress(OSError):  # links that were refused may be cases
            refused += [f"cases/{name}" for name in os.listdir(folder.path / "cases")]
        if not (any(map(folder.is_outside, refused)) or folder.has_problems("cases")):
            what = "there is no case in it"
            if names is None:
                what = "there is no such folder"
            right = "put cases in cases/ or write a cases.py"
            folder.problems_of("cases").add(None, f"{what}; {right}")
    return names or []


def _stem(name: str) -> str:
    return name.removeprefix("cases/").removesuffix(suffix_of(name))


def _where(place: tuple[str, str], name: str) -> str:
    """Return a place in words, as seen from a file."""
    file, at = place
    if file == name:
        return f"line {at}" if at.isdecimal() else at
    return f"{file}:{at}" if at.isdecimal() else f"{at} of {file}"


def _report_missing(
    lacking: Mapping[str, list[Entry]], columns: Mapping[str, str], count: int
) -> None:
    """Add one problem for a field that no entry has, else one for each that lacks it.

    Args:
        lacking: The entries without a field that the runner needs of each, by our name for it.
        columns: The names that the files have for ours.
        count: How many entries there are.
    """
    for ours, entries in lacking.items():
        name = columns.get(ours, ours)
        # A single case without an id is a slip, many are a set with other names.
        if len(entries) == count > (name == ours):
            what = _why_none_has(ours, name, entries[0].tree.value)
            del entries[1:]
        elif name == ours:
            what = f"the case has no id; {_MISSING['case']['id']}"
        elif ours in ("id", "input"):
            what = f"the case has no {shown(name)}, which bench.yaml reads as {ours}; add it"
        else:
            continue
        for entry in entries:
            entry.problems.add(entry.tree.line, what)


def _why_none_has(ours: str, name: str, first: dict[str, Any]) -> str:
    if name == ours:
        like_ids = (shown(field) for field in first if field.lower().endswith("id"))
        field = next(like_ids, f'"{ROW_NUMBER}"')
        right = f"`fields: {{id: {field}}}`"
        return f"no case has an id; say in bench.yaml which field is one: {right}"
    otherwise = f"the first has {', '.join(first)}"
    right = right_words(name, first, otherwise=shown(otherwise))
    what = f"no case has a field {quoted(name)}, which bench.yaml reads as {ours}"
    return f"{what}; {right}"


def _own_values(
    entry: Entry, columns: Mapping[str, str], row_id: str
) -> dict[str, Any]:
    """Return what an entry says by our names; a null in a table is no value."""
    fields: dict[str, Any] = entry.tree.value
    if not columns and entry.number is None:
        return fields
    values = {}
    for ours in CaseFields.model_fields:
        name = columns.get(ours, ours)
        if name in fields and (fields[name] is not None or ours in ("id", "input")):
            values[ours] = fields[name]
    if columns.get("id") == ROW_NUMBER:
        values["id"] = row_id
    if "tags" in columns and isinstance(values.get("tags"), str):
        values["tags"] = _split_tags(values["tags"])
    return values


def _read_case(
    entry: Entry, values: dict[str, Any], columns: Mapping[str, str], path: Path
) -> BenchCase | None:
    tree, fields = entry.tree, entry.tree.value
    has_id = "id" in values
    # A missing id is reported for all cases together.
    if values is not fields or not has_id:
        own = values if has_id else {"id": "any", **values}
        node = None if columns else tree.node  # whose keys have lines
        tree = Tree(value=own, line=tree.line, node=node, places=tree.places)
    case = validate(_CaseInFile, tree, entry.problems)
    for key in fields:
        if key.startswith(_LIMITS) and key not in _NUMBERS:
            meant = next(
                f"{limit}_seconds" for limit in _LIMITS if key.startswith(limit)
            )
            what = f"unknown limit {quoted(key)}; did you mean {meant}?"
            entry.problems.add(entry.tree.at(key).line, what)
    if case is None:
        return None
    for ours in columns:
        if ours in values:
            fields.setdefault(ours, case.id if ours == "id" else values[ours])
    return BenchCase.of_checked(
        case_id=case.id,
        input=values.get("input"),
        tags=tuple(dict.fromkeys(case.tags)),
        timeout_per_case_seconds=case.timeout_per_case_seconds,
        rubric_wall_clock_seconds=case.rubric_wall_clock_seconds,
        max_cost_usd=case.max_cost_usd,
        fields=fields,
        path=path,
        line=entry.tree.line or None,
        repetition=1,
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
                f"has no {quoted(field)}"
                if name is ...
                else f"{quoted(field)} is no single value"
            )
            right = "give it a text or a number, or null if no other case is like it"
            file = os.path.relpath(str(case.path), folder.path)
            folder.problems_of(file).add(
                case.line, f"cluster: {case.case_id}: {what}; {right}"
            )
        yield case.model_copy(update={"cluster": None if name is None else str(name)})


def likely_cluster(cases: Iterable[BenchCase]) -> str:
    """Return a field by which cases seem to be alike, such as `repo`; '' if there is none.

    At least five cases have it, all of them, and no more than half as many values.
    """
    values: dict[str, list[object]] = {}
    distinct = [case for case in cases if case.repetition == 1]
    names = packaged_table("bench")["like_clusters"]
    for case in distinct:
        for key, name in case.fields.items():
            # Texts and numbers alone can be names; the others may have no hash.
            if key.lower() in names and isinstance(name, str | int):
                values.setdefault(key, []).append(name)
    for key, clusters in sorted(values.items()):
        is_of_all = len(clusters) == len(distinct) >= 5
        if is_of_all and 2 <= len(set(clusters)) <= len(clusters) / 2:
            return key
    return ""


def read_oracle(
    folder: ClassFolder, case_ids: frozenset[str]
) -> tuple[OracleExample, ...]:
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
            case_id = _id_text(entry.value.get("case"))
            if isinstance(case_id, str) and case_ids and case_id not in case_ids:
                right = right_words(
                    case_id, case_ids, otherwise="write the id of a case in cases/"
                )
                what = f"case: there is no case {quoted(case_id)}; {right}"
                problems.add(entry.at("case").line, what)
            form = _LabelledInFile if "label" in entry.value else _ExampleInFile
            example = validate(
                form,
                entry,
                problems,
                subject="the example",
                missing=_MISSING["example"],
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


def _file_names(
    folder: ClassFolder, name: str, suffixes: tuple[str, ...]
) -> list[str] | None:
    """Return the sorted names of the files to read in a subfolder, or `None` if it is missing.

    What looks like a file of cases and is not read becomes a problem.
    """
    found = folder.names_in(name)
    if found is None:
        return None
    names: list[str] = []
    allowed = ".yaml, .jsonl, .csv or another file of cases"
    if suffixes is ORACLE_SUFFIXES:
        allowed = ".yaml file"
    for each in found:
        if os.path.basename(each) in METADATA:
            continue
        if (folder.path / each).is_dir():
            names += _data_files(folder, each) if name == "cases" else ()
        elif suffix_of(each) in suffixes:
            names.append(each)
        elif Path(each).suffix.lower() in _LIKE_CASES:
            folder.problems_of(each).add(None, f"is never read; write a {allowed}")
    return names


_PART: Final = re.compile(r"-\d+-of-\d+\Z")
"""Ends the name of one of several files of a data set."""


def _data_files(folder: ClassFolder, name: str) -> list[str]:
    """Return the files of a data set in a folder, which has to be one split of one."""
    files = []
    for parent, folders, names in os.walk(folder.path / name):
        folders[:] = sorted(below for below in folders if not below.startswith("."))
        files += [
            os.path.relpath(os.path.join(parent, file), folder.path)
            for file in sorted(names)
            if file.endswith(DATA_SUFFIXES) and not file.startswith(".")
        ]
    stems = (os.path.splitext(os.path.relpath(file, name))[0] for file in files)
    splits = {_PART.sub("", stem) for stem in stems}
    what = ""
    if len(splits) > 1:
        what = f"holds several sets ({listed(sorted(splits), 10)})"
        what += "; keep the files of one"
    elif not files and os.path.basename(name) != "__pycache__":
        what = (
            "folders in cases/ are not searched, except for files of Parquet and Arrow"
        )
        what += "; put the files in cases/ itself"
    if what:
        folder.problems_of(name).add(None, what)
        return []
    return files
