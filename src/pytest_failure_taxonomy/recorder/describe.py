"""Turn pytest's and Python's exception objects into plain values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.recorder.origin import (
    LIBRARIES,
    NOT_SOURCES,
    STANDARD_LIBRARY,
    OriginFinder,
    frames_of,
)
from pytest_failure_taxonomy.report.text import cap_between_words, telling_line, with_place
from pytest_failure_taxonomy.taxonomy.evidence import Location, RaisedException

MAX_MESSAGE: Final = 8_000
"""Characters kept of an exception's message; the report cuts further."""

_NOT_THE_USERS: Final = (
    f"{os.sep}_pytest{os.sep}",
    f"{os.sep}pluggy{os.sep}",
    f"{os.sep}importlib{os.sep}",
    f"{os.sep}pytest_failure_taxonomy{os.sep}",
    "<frozen ",
)
_PLUGGY: Final = f"{os.sep}pluggy{os.sep}"
_PASSED_ON: Final = frozenset({"_multicall", "get_result"})
"""Functions of pluggy from which a hook wrapper gets what another's hook has raised."""

_OF_DOCTESTS: Final = frozenset(
    {"DocTestFailure", "UnexpectedException", "MultipleDoctestFailures"}
)
_UNCAUGHT: Final = {
    "PytestUnraisableExceptionWarning": "unraisable",
    "PytestUnhandledThreadExceptionWarning": "unhandled in a thread:",
}
"""pytest's warnings of exceptions that nobody could catch, and what to call those."""

_MAX_DIGITS: Final = 9
_MAX_PART: Final = 200
"""Characters of what a doctest expects, and of what it got."""


def describe_exception(error: BaseException, origins: OriginFinder) -> RaisedException:
    """Describe an exception by its type, message and the places that it comes from."""
    kind = type(error)
    module: object = kind.__module__  # anything may be assigned to it
    return RaisedException(
        type=kind.__qualname__,
        module=module if isinstance(module, str) else "<unknown>",
        message=message_of(error),
        bases=tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[:-1]),
        raised_in=_raising_module(error.__traceback__),
        origin=origins.origin_of(error),
    )


def cause_of(error: BaseException) -> BaseException:
    """Return what is behind the exceptions in which pytest wraps what an import raised."""
    is_wrapper = isinstance(error, pytest.Collector.CollectError) or is_import_failure(error)
    return error.__cause__ or error if is_wrapper else error


def words_of_refusal(error: BaseException) -> str:
    """Return what a collector says to people by pytest's own exception, if it is in words.

    Of an import that failed pytest shows the traceback there; then the cause says it shorter.
    """
    said = error.args[0] if isinstance(error, pytest.Collector.CollectError) and error.args else ""
    is_traceback = not isinstance(said, str) or "\nTraceback:\n" in said
    return "" if is_traceback else cap_between_words(said.strip(), MAX_MESSAGE)


def missing_fixtures_beside(error: BaseException) -> list[str]:
    """Name the other fixtures that a test asks for and nobody has; pytest stops at the first."""
    if type(error).__name__ != "FixtureLookupError":
        return []
    with suppress(Exception):  # not public: without it there is still the first
        missing: Any = error
        found = missing.request.node._fixtureinfo.name2fixturedefs  # noqa: SLF001 - asks for no other way
        asked = dict.fromkeys(missing.request.fixturenames)
        known = {missing.argname, "request", *found, *_parameters_of(missing.request.node)}
        return [f"fixture {name!r} not found" for name in asked if name not in known]
    return []


def _parameters_of(item: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters


def is_import_failure(error: BaseException) -> bool:
    """Tell whether this is pytest's wrapper for an error in a conftest or (from 9.2) a plugin."""
    return type(error).__name__ in ("ConftestImportFailure", "PluginImportFailure")  # not public


def message_of(error: BaseException) -> str:
    """Return `str(error)`, capped; a placeholder where even that raises.

    That of a doctest's failure names the test and not what was wrong; so that is said instead.
    """
    try:
        is_doctest = type(error).__name__ in _OF_DOCTESTS
        text = _words_of_doctest(error) if is_doctest else str(error)
        if isinstance(error, SyntaxError) and error.filename:
            text = _with_whole_path(text, error.filename)
        return cap_between_words(text, MAX_MESSAGE)
    except Exception as failure:  # noqa: BLE001 - foreign __str__, anything can come out of it
        return f"<message not available: __str__ raised {type(failure).__name__}>"


def quotes_a_traceback(error: BaseException) -> bool:
    """Tell whether an exception's message is the traceback of another process's exception."""
    text = message_of(error).strip()
    return not text.startswith(telling_line(text))


def words_of(error: BaseException, rootdir: Path, loaded: str = "") -> str:
    """Return type and message of an exception, and where in the user's code it comes from.

    xdist passes a worker's error on by an exception of its own, whose message is the traceback.

    Args:
        error: any exception.
        rootdir: absolute.
        loaded: the file or plugin that was being loaded.
    """
    uncaught = _uncaught_behind(error)
    if uncaught is not None:
        where, raised, more = uncaught
        return f"{where} {words_of(raised, rootdir)}" + (f" (and {more} more)" if more else "")
    text = message_of(error).strip()
    told = telling_line(text)
    is_quoted = not text.startswith(told)
    name = type(error).__qualname__
    words = told if is_quoted else f"{name}: {text}" if text else name
    frames = [*(_quoted_frames(text) if is_quoted else _frames(error))]
    place = _own_place_in(frames, rootdir) if is_quoted else own_place_of(error, rootdir)
    hook = None if loaded else _hook_in(frames)
    if hook is not None and is_own(hook.path, rootdir):
        file = location(hook.path, hook.line, rootdir)
        at = place or file
        return with_place(words, at.path, at.line, file.path, within=hook.function)
    if hook is not None and place is None:
        return with_place(words, _below_libraries(hook.path), hook.line, within=hook.function)
    if place is None:
        return f"{words} (from {loaded})" if loaded else words
    return with_place(words, place.path, place.line, loaded)


def _uncaught_behind(error: BaseException) -> tuple[str, BaseException, int] | None:
    """Return what nobody could catch, and how many more there were.

    pytest warns of it, and `-W error` makes an error of that which is raised where no test runs.
    """
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
    where = _UNCAUGHT.get(type(group[0]).__name__)
    cause = group[0].__cause__
    return None if where is None or cause is None else (where, cause, len(group) - 1)


def place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return where an exception points to in the user's files.

    That is the place a `SyntaxError` names, else the innermost line of the user's own code, else
    the innermost one that is not pytest's or the import system's.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return location(error.filename, error.lineno, rootdir)
    own = own_place_of(error, rootdir)
    if own is not None:
        return own
    for each in reversed([*frames_of(error.__traceback__)]):
        path = each.tb_frame.f_code.co_filename
        if is_of_the_user(path):
            return location(path, each.tb_lineno, rootdir)
    return None


def own_place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return the innermost line of the user's own code, or `None` if no such code ran.

    A hook wrapper through which another's exception passes is not where that comes from.
    """
    if isinstance(error, SyntaxError) and is_own(str(error.filename or "<none>"), rootdir):
        return location(str(error.filename), error.lineno, rootdir)
    return _own_place_in([*_frames(error)], rootdir)


def is_own(path: str, rootdir: Path) -> bool:
    """Tell whether a file lies below the root directory and was not installed there."""
    if path.startswith("<"):
        return False
    absolute = path if os.path.isabs(path) else os.path.abspath(path)
    below = f"{str(rootdir).rstrip(os.sep)}{os.sep}"
    if not absolute.startswith(below) or absolute.startswith(STANDARD_LIBRARY):
        return False
    parts = absolute[len(below) :].split(os.sep)
    return LIBRARIES.isdisjoint(parts) and (parts[0] not in NOT_SOURCES or len(parts) == 1)


def is_of_the_user(path: str) -> bool:
    """Tell whether a file is neither pytest's nor one of the import system."""
    return not any(part in path for part in _NOT_THE_USERS)


def location(path: str, line: int | None, rootdir: Path) -> Location:
    """Return a place, relative to the root directory where it lies below it; else absolute.

    Args:
        path: as pytest or Python gave it; pytest gives it relative to where it was started.
        line: counted from 1.
        rootdir: absolute.
    """
    if path.startswith("<"):  # code of no file
        return Location(path=path, line=line)
    absolute = path if os.path.isabs(path) else os.path.abspath(path)
    below = f"{str(rootdir).rstrip(os.sep)}{os.sep}"
    shown = absolute.removeprefix(below)
    return Location(path=shown.replace(os.sep, "/"), line=line)


class _Frame(NamedTuple):
    """One entry of a traceback, of this process or of another's in print."""

    path: str
    line: int
    function: str


def _frames(error: BaseException) -> Iterator[_Frame]:
    """Yield the entries of an exception's traceback, the outermost first."""
    for each in frames_of(error.__traceback__):
        code = each.tb_frame.f_code
        yield _Frame(code.co_filename, each.tb_lineno, code.co_name)


def _quoted_frames(text: str) -> Iterator[_Frame]:
    """Yield the entries of a traceback as Python prints it."""
    for each in text.splitlines():
        head, _, rest = each.strip().partition('File "')
        path, _, rest = rest.partition('", line ')
        line, _, function = rest.partition(", in ")
        if not head and line.isdecimal() and len(line) <= _MAX_DIGITS:
            yield _Frame(path, int(line), function)


def _own_place_in(frames: list[_Frame], rootdir: Path) -> Location | None:
    """Return the innermost line of the user's own code."""
    passed_on = False
    for each in reversed(frames):
        if not passed_on and is_of_the_user(each.path) and is_own(each.path, rootdir):
            return location(each.path, each.line, rootdir)
        passed_on = each.function in _PASSED_ON and _PLUGGY in each.path
    return None


def _with_whole_path(text: str, path: str) -> str:
    """Name an installed file by its path: Python gives its name alone, which may be `__init__.py`.

    A file of the user's is named by the place that is told with it.
    """
    if LIBRARIES.isdisjoint(path.split(os.sep)) and not path.startswith(STANDARD_LIBRARY):
        return text
    return text.replace(f"({os.path.basename(path)}, line ", f"({path}, line ")


def _hook_in(frames: list[_Frame]) -> _Frame | None:
    """Return the innermost implementation of a hook, unless that is pytest's or ours."""
    found = None
    for caller, each in pairwise(frames):
        if _PLUGGY in caller.path and each.function.startswith("pytest_"):
            found = each
    return found if found is not None and is_of_the_user(found.path) else None


def _below_libraries(path: str) -> str:
    """Return the path of an installed file below the folder that it was installed to."""
    parts = path.replace(os.sep, "/").split("/")
    at = max((i for i, part in enumerate(parts) if part in LIBRARIES), default=-1)
    return "/".join(parts[at + 1 :]) if at >= 0 else "/".join(parts)


def _words_of_doctest(error: Any) -> str:
    """Return what a doctest expected and what it got; of several failures, of the first."""
    kind = type(error)
    if kind.__module__ not in ("doctest", "_pytest.doctest"):
        return str(error)
    if kind.__name__ == "MultipleDoctestFailures":
        first, *others = error.failures
        more = f" (and {len(others)} more)" if others else ""
        return _words_of_doctest(first) + more
    if kind.__name__ == "UnexpectedException":
        raised = error.exc_info[1]
        text = message_of(raised)
        return f"{type(raised).__qualname__}: {text}" if text else type(raised).__qualname__
    return f"expected {_part(error.example.want)}, got {_part(error.got)}"


def _part(text: str) -> str:
    first, newline, _ = text.strip().partition("\n")
    if not first:
        return "nothing"
    if len(first) > _MAX_PART:
        return f"{first[:_MAX_PART]}…"
    return f"{first} …" if newline else first


def _raising_module(traceback: TracebackType | None) -> str:
    """Return the module that raised, or that called `pytest.fail` and the like."""
    for each in reversed([*frames_of(traceback)]):
        module = str(each.tb_frame.f_globals.get("__name__", ""))
        if module != "_pytest.outcomes":
            return module
    return ""
