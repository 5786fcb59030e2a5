"""Describe exceptions of foreign code, which may misbehave themselves."""

from __future__ import annotations

import asyncio
import sys
import traceback
from contextlib import suppress
from typing import Final

MAX_MESSAGE: Final = 200
"""Characters of a message in the detail of a score."""
MAX_TRACEBACK: Final = 8_000
"""Characters of a traceback that are kept."""

_ENDS_A_RUN: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
_MARK: Final = "\n... [{count} characters left out] ...\n"


def ends_run(error: BaseException, *, is_cancelled_by_us: bool = False) -> bool:
    """Return whether an exception must end the whole run instead of becoming a score.

    These are `KeyboardInterrupt`, `SystemExit`, `CancelledError`, the `Exit` of `pytest.exit`, and
    groups that contain one of them.

    Args:
        error: The exception.
        is_cancelled_by_us: Whether we cancelled the call, so that `CancelledError` is expected.
    """
    # Code that raises it has loaded pytest; otherwise pytest must not be loaded here.
    outcomes = sys.modules.get("_pytest.outcomes")
    ends = _ENDS_A_RUN if outcomes is None else (*_ENDS_A_RUN, outcomes.Exit)
    pending = [error]
    while pending:
        each = pending.pop()
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        elif isinstance(each, asyncio.CancelledError) and is_cancelled_by_us:
            continue
        elif isinstance(each, ends):
            return True
    return False


def attribute_of(error: BaseException, name: str) -> object:
    """Return an attribute of an exception; `None` if it has none, or if reading it raises."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a property may raise anything
        return None


def describe(error: BaseException) -> str:
    """Return the type of an exception and the beginning of its message."""
    name = type(error).__name__
    try:
        message = str(error)[:MAX_MESSAGE]
    except Exception as problem:  # noqa: BLE001 - `__str__` may raise anything
        message = f"<no message: {type(problem).__name__} in __str__>"
    return safe(f"{name}: {message}")


def safe(text: str) -> str:
    """Return a text in which surrogates and NUL characters are escaped."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Traceback:
    """The traceback of an exception, taken where it was raised and written where it is read.

    Python 3.11 parses source code while it writes a traceback, and fails if two threads do so at
    once (`SystemError: AST constructor recursion depth mismatch`). So the thread that runs the
    cases writes none.
    """

    def __init__(self, error: BaseException) -> None:
        """Take the traceback without our own frames; nothing of the frames is kept alive.

        An exception from another process has its traceback in an attribute, as `RubricError` has.
        """
        self._taken: str | traceback.TracebackException = ""
        brought = attribute_of(error, "traceback")
        if isinstance(brought, str):
            self._taken = brought
            return
        begin = error.__traceback__
        while begin is not None and begin.tb_frame.f_globals.get("__name__", "") in _OURS:
            begin = begin.tb_next
        with suppress(Exception):  # methods of the exception are called
            self._taken = traceback.TracebackException(type(error), error, begin)

    def text(self) -> str:
        """Return the text, shortened in the middle; empty where there is none."""
        if isinstance(self._taken, traceback.TracebackException):
            try:
                self._taken = "".join(self._taken.format())
            except Exception:  # noqa: BLE001 - as above
                self._taken = ""
        return cap(safe(self._taken), MAX_TRACEBACK)


_BENCH: Final = __name__.rpartition(".")[0]
_OURS: Final = frozenset(
    f"{_BENCH}.{name}" for name in ("calls", "call_threads", "dask", "fan_out")
)


def cap(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: the middle is cut out if it is longer."""
    if len(text) <= limit:
        return text
    half = (limit - 50) // 2
    return text[:half] + _MARK.format(count=len(text) - 2 * half) + text[-half:]
