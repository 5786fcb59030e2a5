"""Read the entries of a file of cases: YAML as a whole, JSON lines and CSV row by row.

The entries of a `cases.py` are what its function `cases` gives.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pytest_failure_taxonomy.bench.answers import json_problem
from pytest_failure_taxonomy.bench.load.folder import CASES_MODULE, ClassFolder
from pytest_failure_taxonomy.bench.user_code import describe, ends_run
from pytest_failure_taxonomy.documents.content import (
    parse_value,
    read_text,
    why_no_file,
    why_unread,
)
from pytest_failure_taxonomy.documents.problems import (
    WRONG,
    Problems,
    Tree,
    WrongError,
    kind_of,
    quoted,
    shown,
)
from pytest_failure_taxonomy.documents.yaml_files import Form, read_tree
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import counted

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
_CSV_RIGHT: Final = "it is CSV in UTF-8, separated by commas, with the names of its columns first"
_JSON: Final = ":json"
"""The end of the name of a column whose cells are JSON."""
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


def read_entries(folder: ClassFolder, name: str) -> Iterator[Entry]:
    """Yield the mappings of a file; what is no mapping is added to the file's problems.

    Only a YAML file is held in memory as a whole.
    """
    problems = folder.problems_of(name)
    if name == CASES_MODULE:
        yield from _generated_entries(folder.path / name, problems)
        return
    read = _READERS.get(Path(name).suffix, _read_yaml)
    with suppress(BenchError):  # it is among the problems
        for tree in read(folder.path / name, problems):
            yield Entry(tree=tree, problems=problems)


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
            problems.add(entry.line, f"{kind_of(entry)} where an entry begins; {_EXAMPLE}")


# Row by row.


def _lines(
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
        with path.open("rb") as file:
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
    except OSError as error:
        problems.add(number or None, f"{why_unread(error)}; {right}")


def _read_json_lines(path: Path, problems: Problems) -> Iterator[Tree]:
    before, is_empty = len(problems), True
    for number, line in _lines(path, problems, _LINES_RIGHT):
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
            told = "a list" if isinstance(fields, list) else f"the value {quoted(text)}"
            problems.add(number, f"{told} where an entry begins; {_LINES_RIGHT}")
    if is_empty and len(problems) == before:
        problems.add(1, f"the file is empty; {_LINES_RIGHT}")


# CSV.


def _read_csv(path: Path, problems: Problems) -> Iterator[Tree]:
    before = len(problems)
    rows = _rows(path, problems)
    first = next(rows, None)
    if first is None:
        if len(problems) == before:
            problems.add(1, f"the file is empty; {_CSV_RIGHT}")
        return
    line, names = first
    if len(problems) > before or not _check_header(names, line, problems):
        return
    has_rows = False
    for line, cells in rows:
        has_rows = True
        if len(cells) != len(names):
            what = f"the row has {counted(len(cells), 'cell')}, and the first row names"
            what += f" {len(names)} columns"
            problems.add(line, f"{what}; give each column one cell, quoted if it holds a comma")
            continue
        fields = _fields_of(dict(zip(names, cells, strict=True)), line, problems)
        if fields is not None:
            yield Tree(value=fields, line=line)
    if not has_rows and len(problems) == before:
        problems.add(line, "there is no row below the names of the columns; write one a case")


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line in which it begins, without blank lines.

    A row that isn't CSV ends the reading: where the next one begins is anybody's guess.
    """
    lines = _lines(path, problems, _CSV_RIGHT, is_csv=True)
    rows = csv.reader((text.replace("\0", "") for _, text in lines), strict=True)
    begin = 1
    while True:
        # The limit is one of the whole process, and other code may rely on it.
        before = csv.field_size_limit(MAX_CELL_CHARACTERS)
        try:
            cells = next(rows, None)
        except csv.Error as error:
            problems.add(begin, f"not CSV ({_words(error)}); {_CSV_RIGHT}")
            return
        finally:
            csv.field_size_limit(before)
        if cells is None:
            return
        if cells:
            yield begin, cells
        begin = rows.line_num + 1


def _words(error: csv.Error) -> str:
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
            what = f"the column {quoted(name)} begins or ends with a blank; leave it out"
            problems.add(line, what)
        elif key in columns:
            what = f"columns {columns[key]} and {number} are both named {quoted(key)}"
            problems.add(line, f"{what}; name each column once")
        elif name == f"id{_JSON}":
            problems.add(line, "an id is text; name the column id")
        columns.setdefault(key, number)
    if "id" not in columns and len(problems) == before:
        what = f"no column is named id; {_CSV_RIGHT}"
        problems.add(line, what)
    return len(problems) == before


def _fields_of(row: Mapping[str, str], line: int, problems: Problems) -> dict[str, Any] | None:
    """Return the fields of a row; `None` if there are problems.

    A cell is text as it stands, since nothing tells a number from a name made of digits. Columns
    whose names end in `:json`, tags and limits are read, and left out where they are empty.
    """
    before = len(problems)
    fields: dict[str, Any] = {}
    for column, cell in row.items():
        is_json = column.endswith(_JSON)
        if not (is_json or column == "tags" or column in _NUMBERS):
            fields[column] = cell
        elif cell.strip():
            try:
                if is_json:
                    fields[column.removesuffix(_JSON)] = parse_value(cell, right=_CELL_RIGHT)
                elif column == "tags":
                    fields["tags"] = [tag for tag in _SEPARATORS.split(cell) if tag]
                else:
                    fields[column] = float(cell)
            except WrongError as error:
                problems.add(line, f"{shown(column)}: {error}")
            except ValueError:
                what = f"{quoted(cell)} is not a number; write one, or nothing"
                problems.add(line, f"{shown(column)}: {what}")
    return fields if len(problems) == before else None


_CELL_RIGHT: Final = 'write a JSON value, such as 5, true, null, "text" or [1, 2]'


_READERS: Final = MappingProxyType({".jsonl": _read_json_lines, ".csv": _read_csv})
"""How files are read that are no YAML, by their suffix."""


MAX_ENTRIES: Final = 1_000_000
"""More cases than a run can have: `cases()` doesn't end."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_RIGHT: Final = f"{CASES_MODULE} is Python in UTF-8 that says `def cases():` and yields dicts"
_WRITE: Final = "write `def cases():` and yield a dict a case"
_MEND: Final = "mend it; it has to give the same cases in each process"


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
        function = _function(text, path, problems)
        if function is not None:
            yield from _entries(function, path, problems)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


class _OfEntry(Problems):
    """The problems of one entry, which become those of the file."""

    def __init__(self, problems: Problems, number: int) -> None:
        super().__init__(CASES_MODULE, BenchError)
        self._problems = problems
        self._number = number

    def add(self, line: int | None, what: str) -> None:
        self._problems.add(line, f"entry {self._number}: {what}")


def _function(text: str, path: Path, problems: Problems) -> Any:
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
            problems.add(error.lineno, f"not Python ({shown(error.msg)}); mend the syntax")
        else:
            _tell(error, "can't be imported: ", path, problems)
        return None
    found = getattr(module, "cases", None)
    if callable(found):
        return found
    problems.add(None, f"has no function cases; {_WRITE}")
    return None


def _entries(function: Any, path: Path, of_file: Problems) -> Iterator[Entry]:
    """Yield the entries that can be used, each with its number and its problems."""
    code = getattr(function, "__code__", None)
    begin = code.co_firstlineno if code is not None and code.co_filename == str(path) else None
    entries: Iterator[Any] | None = None
    for number in count(1):
        try:
            if entries is None:
                given = function()
                if isinstance(given, dict | str) or not hasattr(type(given), "__iter__"):
                    if hasattr(given, "close"):
                        given.close()  # Python warns of a coroutine that is never awaited
                    kind = type(given).__name__
                    of_file.add(begin, f"cases() returned an object of type {kind}; {_WRITE}")
                    return
                entries = iter(given)
            given = next(entries)
        except StopIteration:
            break
        except BaseException as error:  # noqa: BLE001 - as above
            _tell(error, f"entry {number}: cases() raised ", path, of_file)
            return
        if number > MAX_ENTRIES:
            of_file.add(begin, f"cases() gives more than {MAX_ENTRIES:,} cases; let it end")
            return
        frame = getattr(entries, "gi_frame", None)
        line = begin if frame is None else frame.f_lineno
        problems = _OfEntry(of_file, number)
        fields = _as_json(given, line, problems)
        if fields is not None:
            tree = Tree(value=fields, line=line or 1)
            yield Entry(tree=tree, problems=problems, number=number)
    if number == 1:
        of_file.add(begin, f"cases() gives no case; {_WRITE}")


def _tell(error: BaseException, before: str, path: Path, problems: Problems) -> None:
    if ends_run(error) and not isinstance(error, SystemExit):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    what = f"{before}{shown(describe(error))}; {_MEND}"
    problems.add(lines[-1] if lines else None, what)


def _as_json(given: Any, line: int | None, problems: Problems) -> dict[str, Any] | None:
    """Return a copy of an entry that nobody else holds; `None` if there are problems."""
    if not isinstance(given, dict):
        problems.add(line, f"an object of type {type(given).__name__} is no dict; {_WRITE}")
        return None
    problem = json_problem(given)
    if problem is not None:
        problems.add(line, f"{shown(problem)}; give what JSON can hold")
        return None
    try:
        found: dict[str, Any] = parse_value(json.dumps(given))
    except WrongError as error:
        problems.add(line, str(error))
        return None
    return found
