"""Keep our errors out of the user's run, and Ctrl+C out of critical sections."""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, cast

import pytest

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.system.interpreter import is_patched, write_words

Hook = TypeVar("Hook", bound=Callable[..., Any])
Function = TypeVar("Function", bound=Callable[..., Any])

MAX_FAULTS: Final = 100
"""Different faults that are kept: a hook that fails in each test must not fill the
memory."""

_MAX_TEXT: Final = 500
_OURS: Final = (
    os.path.dirname(os.path.dirname(__file__)),
    os.path.dirname(os.__file__),
)
"""The folders of this package and of Python's own modules."""

_WARNING: Final = (
    "{where} failed inside pytest-failure-taxonomy: {error}. The run is not affected, "
    "but its failure report may be incomplete"
)

_FOREIGN: Final = "{where} failed: {error}. What it adds is missing from the report"


class FailureTaxonomyWarning(pytest.PytestWarning):
    """Warn that the recorder itself has failed."""


class Faults:
    """Collect the recorder's own errors: all for the report, the first as a warning."""

    def __init__(self, config: pytest.Config, *, is_worker: bool = False) -> None:
        self._config = config
        self._is_worker = is_worker
        self.is_over = False
        """pytest shows no more warnings: faults are written to stderr."""
        self.messages: list[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Record an exception that left a function of this plugin.

        Raises:
            BaseException: the same one, if a signal has raised it, such as that of
                Ctrl+C.
        """
        if inspection.came_from_signal(error):
            raise error
        with suppress(Exception):  # a test may have patched what is needed to say it
            message = _WARNING.format(where=where, error=_words_of(error))
            if self.is_over or not _is_of_surroundings(error):
                self.note(message)
            elif message not in self.messages and len(self.messages) < MAX_FAULTS:
                self.messages.append(message)

    @contextmanager
    def catch(self, where: str) -> Iterator[None]:
        """Record an error of a step at the end of the run, and go on after it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the rest of the report stands
            self.add(where, error)

    def add_foreign(self, where: str, error: BaseException) -> None:
        """Record an exception in the user's code, such as the implementation of a hook.

        Raises:
            BaseException: as for `add`.
        """
        if inspection.came_from_signal(error):
            raise error
        self.note(
            _FOREIGN.format(where=where, error=_words_of(error)), _place_of(error)
        )

    def note(self, message: str, place: tuple[str, int] | None = None) -> None:
        """Record a fault and warn the user.

        Args:
            message: describes the fault.
            place: file and line that the warning points to; by default this file.
        """
        if message in self.messages or len(self.messages) >= MAX_FAULTS:
            return
        self.messages.append(message)
        if self._is_worker:
            return  # the controller is told, and warns once for all workers
        if self.is_over:
            with suppress(Exception):  # a test may have replaced stderr by anything
                write_words(sys.stderr, f"{message}\n")
        elif len(self.messages) == 1 and not self._limits_warnings():
            # Not warnings.warn(), which raises under `-W error`.
            shown = warnings.WarningMessage(
                FailureTaxonomyWarning(message),
                FailureTaxonomyWarning,
                *(place or (__file__, 1)),
            )
            warning_arguments = {
                "warning_message": shown,
                "nodeid": "",
                "when": "runtest",
                "location": None,
            }
            self._config.hook.pytest_warning_recorded.call_historic(
                kwargs=warning_arguments
            )

    def _limits_warnings(self) -> bool:
        """Tell whether a warning could change the exit code (9.1's --max-warnings)."""
        if getattr(self._config.option, "max_warnings", None) is not None:
            return True
        with suppress(KeyError, ValueError):
            return self._config.getini("max_warnings") is not None
        return False


def guarded(hook: Hook) -> Hook:
    """Wrap a hook method of an object that has `faults`, to record what it raises."""

    @functools.wraps(hook)
    def call(self: Any, *args: Any) -> Any:
        try:
            return hook(self, *args)
        except BaseException as error:  # noqa: BLE001 - the user's run goes on
            self.faults.add(hook.__name__, error)
            return None

    return cast("Hook", call)


def guarded_hook(**options: Any) -> Callable[[Hook], Hook]:
    """Guard a hook method, with the options of `pytest.hookimpl`."""
    return lambda hook: pytest.hookimpl(**options)(guarded(hook))


def defer_sigint(function: Function) -> Function:
    """Wrap a short function so that Ctrl+C takes effect only after it has returned.

    Without that, a Ctrl+C in the middle of the start of a run would leave no report.
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


def _place_of(error: BaseException) -> tuple[str, int] | None:
    """Return file and line that an exception was raised in."""
    entries = inspection.entries_of(error)
    if entries:
        return (entries[-1].tb_frame.f_code.co_filename, entries[-1].tb_lineno)
    return None


def _is_of_surroundings(error: BaseException) -> bool:
    """Tell whether an error is not our fault: a test patched or used up something.

    A warning would change pytest's last line, and nobody could fix what it is about.
    """
    if type(error) is OSError and error.errno in (
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    ):
        return True
    if is_patched():
        return True
    file, _ = _place_of(error) or (__file__, 0)
    return not file.startswith((*_OURS, "<")) and "site-packages" not in file


def _words_of(error: BaseException) -> str:
    """Return an exception's type and text, with control characters as escapes."""
    shown = f"{inspection.name_of(type(error))}: {inspection.text_of(error)}"[
        :_MAX_TEXT
    ]
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in shown
    )
