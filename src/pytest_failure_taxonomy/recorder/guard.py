"""Keep our own faults from the user's run, and the user's Ctrl+C from the middle of our work."""

from __future__ import annotations

import functools
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import pytest

from pytest_failure_taxonomy.system.streams import write_words

Hook = TypeVar("Hook", bound=Callable[..., Any])
Function = TypeVar("Function", bound=Callable[..., Any])

MAX_FAULTS: Final = 100
"""How many different faults are kept; a hook that fails once a test must not fill the memory."""

_MAX_TEXT: Final = 500

_WARNING: Final = (
    "{where} failed inside pytest-failure-taxonomy: {error}. The run is not affected, "
    "but its failure report may be incomplete"
)

_FOREIGN: Final = "{where} failed: {error}. What it would have said is missing from the report"


class FailureTaxonomyWarning(pytest.PytestWarning):
    """Say that the recorder itself has failed."""


class Faults:
    """Collect the recorder's own failures: the first becomes a warning, all go to the report."""

    def __init__(self, config: pytest.Config, *, is_worker: bool = False) -> None:
        self._config = config
        self._is_worker = is_worker
        self._is_over = False
        self.messages: list[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Take note of an exception that left the function `where` of ours."""
        text = f"{type(error).__name__}: {_text(error)}"
        self.note(_WARNING.format(where=where, error=_one_line(text)))

    def add_foreign(self, where: str, error: BaseException) -> None:
        """Take note of an exception in what is the user's, such as a hook's implementation."""
        text = _one_line(f"{type(error).__name__}: {_text(error)}")
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = (frame.tb_frame.f_code.co_filename, frame.tb_lineno) if frame else None
        self.note(_FOREIGN.format(where=where, error=text), place)

    def note(self, message: str, place: tuple[str, int] | None = None) -> None:
        """Take note of a fault in words, and tell the user.

        Args:
            message: the words.
            place: file and line that a warning is to point to; this file's where it is not known.
        """
        if message in self.messages or len(self.messages) >= MAX_FAULTS:
            return
        self.messages.append(message)
        if self._is_worker:
            return  # the controller gets to know, and tells it once for all workers
        if self._is_over:
            with suppress(Exception):  # stderr can be anything that a test has put there
                write_words(sys.stderr, f"{message}\n")
        elif len(self.messages) == 1 and not self._limits_warnings():
            self._warn(message, place or (__file__, 1))

    def session_is_over(self) -> None:
        """Use stderr from now on, because pytest shows no more warnings."""
        self._is_over = True

    def _warn(self, message: str, place: tuple[str, int]) -> None:
        # Not warnings.warn(): with `-W error` that would raise in the middle of the user's run.
        shown = warnings.WarningMessage(
            FailureTaxonomyWarning(message), FailureTaxonomyWarning, *place
        )
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": shown, "nodeid": "", "when": "runtest", "location": None}
        )

    def _limits_warnings(self) -> bool:
        """Tell whether a warning more could change the exit status (pytest 9.1, --max-warnings)."""
        option = getattr(self._config.option, "max_warnings", None)
        try:
            ini = self._config.getini("max_warnings")
        except (KeyError, ValueError):
            ini = None
        return option is not None or ini is not None


def guarded(hook: Hook) -> Hook:
    """Wrap a hook method of an object that has `faults`: what it raises is noted, not raised on."""

    @functools.wraps(hook)
    def call(self: Any, *args: Any) -> Any:
        try:
            return hook(self, *args)
        except Exception as error:  # noqa: BLE001 - the user's run goes on, whatever is wrong here
            self.faults.add(hook.__name__, error)
            return None

    return cast("Hook", call)


def defer_sigint(function: Function) -> Function:
    """Wrap a function of some milliseconds so that Ctrl+C is raised when it has returned.

    Half a beginning would be no run that could be reported, and half an end no report.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return function(*args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return function(*args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return cast("Function", call)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a message that can't be had is no reason to fail
        return "(no message)"


def _one_line(text: str) -> str:
    """Return the text with all that could break a line or a terminal written as an escape."""
    shown = text[:_MAX_TEXT]
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
