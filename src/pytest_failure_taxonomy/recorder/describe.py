"""Turn pytest's and Python's exception objects into plain values."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest

from pytest_failure_taxonomy.recorder.origin import OriginFinder, frames_of
from pytest_failure_taxonomy.report.text import cap_between_words
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


def is_import_failure(error: BaseException) -> bool:
    """Tell whether this is pytest's wrapper for an error in a conftest or (from 9.2) a plugin."""
    return type(error).__name__ in ("ConftestImportFailure", "PluginImportFailure")  # not public


def message_of(error: BaseException) -> str:
    """Return `str(error)`, capped; a placeholder where even that raises."""
    try:
        return cap_between_words(str(error), MAX_MESSAGE)
    except Exception as failure:  # noqa: BLE001 - foreign __str__, anything can come out of it
        return f"<message not available: __str__ raised {type(failure).__name__}>"


def place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return where an exception points to in the user's files.

    That is the place a `SyntaxError` names, else the innermost frame that is not pytest's or the
    import system's, preferably one below the root directory.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return location(error.filename, error.lineno, rootdir)
    frames = [
        (frame.tb_frame.f_code.co_filename, frame.tb_lineno)
        for frame in frames_of(error.__traceback__)
    ]
    own = [each for each in frames if is_of_the_user(each[0])]
    below = [each for each in own if Path(each[0]).is_relative_to(rootdir)]
    for path, line in reversed(below or own):
        return location(path, line, rootdir)
    return None


def is_of_the_user(path: str) -> bool:
    """Tell whether a file is neither pytest's nor one of the import system."""
    return not any(part in path for part in _NOT_THE_USERS)


def location(path: str, line: int | None, rootdir: Path) -> Location:
    """Return a place, relative to the root directory where it lies below it.

    Args:
        path: as pytest or Python gave it; pytest gives it relative to where it was started.
        line: counted from 1.
        rootdir: absolute.
    """
    absolute = path if os.path.isabs(path) else os.path.abspath(path)
    below = os.path.join(rootdir, "")
    shown = absolute[len(below) :] if absolute.startswith(below) else path
    return Location(path=shown.replace(os.sep, "/"), line=line)


def _raising_module(traceback: TracebackType | None) -> str:
    """Return the module that raised, or that called `pytest.fail` and the like."""
    for each in reversed([*frames_of(traceback)]):
        module = str(each.tb_frame.f_globals.get("__name__", ""))
        if module != "_pytest.outcomes":
            return module
    return ""
