"""Run the `cases.py` of a task class, and take the cases that it gives."""

from __future__ import annotations

import json
import sys
import traceback
import types
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.loading.folder import CASES_MODULE, ClassFolder
from pytest_failure_taxonomy.bench.output_json import json_problem
from pytest_failure_taxonomy.bench.user_errors import describe, ends_run
from pytest_failure_taxonomy.documents.problems import Problems, WrongError, shown
from pytest_failure_taxonomy.documents.strict_json import parse_json
from pytest_failure_taxonomy.documents.trees import Tree
from pytest_failure_taxonomy.documents.yaml_files import read_text
from pytest_failure_taxonomy.errors import BenchError

MAX_ENTRIES: Final = 1_000_000
"""More cases than a run can have: `cases()` doesn't end."""
_MAX_BYTES: Final = 4 * 1024 * 1024
_RIGHT: Final = f"{CASES_MODULE} is Python in UTF-8 that says `def cases():` and yields dicts"
_WRITE: Final = "write `def cases():` and yield a dict a case"
_MEND: Final = "mend it; it has to give the same cases in each process"


def generated_entries(folder: ClassFolder) -> Iterator[tuple[int, Tree, Problems]]:
    """Yield what `cases()` gives, each with its number and the place for its own problems.

    The module runs in this process, once each time that its class is loaded, with its folder on
    `sys.path`. Whatever it raises becomes a problem, `SystemExit` among it; what ends a run on
    purpose (`KeyboardInterrupt`, `pytest.exit`) is raised.
    """
    path = folder.path / CASES_MODULE
    problems = folder.problems_of(CASES_MODULE)
    try:
        text = read_text(path, problems, right=_RIGHT, max_bytes=_MAX_BYTES)
    except BenchError:
        return  # it is among the problems
    run = _Run(path, problems)
    sys.path.insert(0, str(folder.path))  # it may import modules from its folder
    try:
        function = run.function(text)
        if function is not None:
            yield from run.entries(function)
    finally:
        if str(folder.path) in sys.path:
            sys.path.remove(str(folder.path))


class _OfEntry(Problems):
    """The problems of one entry, which become those of the file."""

    def __init__(self, problems: Problems, number: int) -> None:
        super().__init__(CASES_MODULE, BenchError)
        self._problems = problems
        self._number = number

    def add(self, line: int | None, what: str) -> None:
        self._problems.add(line, f"entry {self._number}: {what}")


class _Run:
    """One run of the author's module."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._entries: Iterator[Any] | None = None
        self.line: int | None = None
        """The line in which the function begins."""

    def function(self, text: str) -> Any:
        """Return the function `cases`; `None` if the module has no such, or can't be run."""
        # It has to be in `sys.modules` for dataclasses and pickle, by a name that is nobody's.
        name = f"cases_of_{self._path.parent.name}_{id(self):x}"
        module = types.ModuleType(name)
        module.__file__ = str(self._path)
        sys.modules[name] = module
        try:
            exec(compile(text, str(self._path), "exec"), vars(module))  # noqa: S102 - it is code
        except SyntaxError as error:
            if error.filename != str(self._path):
                self._tell(error, "can't be imported: ")
                return None
            what = f"not Python ({shown(error.msg)}); mend the syntax"
            self._problems.add(error.lineno, what)
            return None
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the author's
            self._tell(error, "can't be imported: ")
            return None
        found = getattr(module, "cases", None)
        if not callable(found):
            self._problems.add(None, f"has no function cases; {_WRITE}")
            return None
        code = getattr(found, "__code__", None)
        if code is not None and code.co_filename == str(self._path):
            self.line = code.co_firstlineno
        return found

    def entries(self, function: Any) -> Iterator[tuple[int, Tree, Problems]]:
        """Yield the entries that can be used, each with its number and its problems."""
        given: Any = None
        for number in count(1):
            try:
                if self._entries is None:
                    self._entries = self._begin(function)
                given = next(self._entries)
            except StopIteration:
                break
            except WrongError as error:
                self._problems.add(self.line, str(error))
                return
            except BaseException as error:  # noqa: BLE001 - as above
                self._tell(error, f"entry {number}: cases() raised ")
                return
            if number > MAX_ENTRIES:
                what = f"cases() gives more than {MAX_ENTRIES:,} cases; let it end"
                self._problems.add(self.line, what)
                return
            frame = getattr(self._entries, "gi_frame", None)
            line = self.line if frame is None else frame.f_lineno
            problems = _OfEntry(self._problems, number)
            fields = _as_json(given, line, problems)
            if fields is not None:
                yield number, Tree(value=fields, line=line or 1), problems
        if number == 1:
            self._problems.add(self.line, f"cases() gives no case; {_WRITE}")

    def _begin(self, function: Any) -> Iterator[Any]:
        given = function()
        if isinstance(given, dict | str) or not hasattr(type(given), "__iter__"):
            if hasattr(given, "close"):
                given.close()  # Python warns of a coroutine that is never awaited
            kind = type(given).__name__
            raise WrongError(f"cases() returned an object of type {kind}; {_WRITE}")
        return iter(given)

    def _tell(self, error: BaseException, before: str) -> None:
        if ends_run(error) and not isinstance(error, SystemExit):
            raise error
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(self._path)
        ]
        what = f"{before}{shown(describe(error))}; {_MEND}"
        self._problems.add(lines[-1] if lines else None, what)


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
        found: dict[str, Any] = parse_json(json.dumps(given))
    except WrongError as error:
        problems.add(line, str(error))
        return None
    return found
