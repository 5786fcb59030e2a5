"""Keep errors of this plugin out of the user's run, and ask the user's code about a failure.

Ctrl+C is kept out of the critical sections of this plugin.

A test says the reason of its failure by the fixture `failure_taxonomy`, a plugin or conftest file
by the hook `pytest_failure_taxonomy_classify`, and an agent by a failure marker that it prints.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import pytest

from pytest_failure_taxonomy.recorder import inspection
from pytest_failure_taxonomy.system.interpreter import write_words
from pytest_failure_taxonomy.taxonomy.evidence import Attribution, SeenMarker
from pytest_failure_taxonomy.taxonomy.judgement import KIND_PATTERN, FailureReason

Hook = TypeVar("Hook", bound=Callable[..., Any])
Function = TypeVar("Function", bound=Callable[..., Any])

MAX_FAULTS: Final = 100
"""Different faults that are kept: a hook that fails in each test must not fill the memory."""

_MAX_TEXT: Final = 500
_OURS: Final = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
"""The folders of this package and of Python's own modules."""

_WARNING: Final = (
    "{where} failed inside pytest-failure-taxonomy: {error}. The run is not affected, "
    "but its failure report may be incomplete"
)

_FOREIGN: Final = "{where} failed: {error}. What it would have said is missing from the report"

_SAID: Final = pytest.StashKey[Attribution]()

_HOOK: Final = "the hook pytest_failure_taxonomy_classify"

_MARKER_START: Final = "[GZA_FAILURE:"
"""As in `taxonomy.markers`, which is not imported until there is a marker to read."""


class FailureTaxonomyWarning(pytest.PytestWarning):
    """Warn that the recorder itself has failed."""


class Faults:
    """Collect the recorder's own errors: the first becomes a warning, all go to the report."""

    def __init__(self, config: pytest.Config, *, is_worker: bool = False) -> None:
        self._config = config
        self._is_worker = is_worker
        self.is_over = False
        """pytest shows no more warnings: faults are written to stderr."""
        self.messages: list[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Record an exception that left a function of this plugin.

        Raises:
            BaseException: the same one, if a signal has raised it, such as that of Ctrl+C.
        """
        if inspection.came_from_signal(error):
            raise error
        message = _WARNING.format(where=where, error=_words_of(error))
        if self.is_over or not _is_of_surroundings(error):
            self.note(message)
        elif message not in self.messages and len(self.messages) < MAX_FAULTS:
            self.messages.append(message)

    def add_foreign(self, where: str, error: BaseException) -> None:
        """Record an exception in the user's code, such as the implementation of a hook.

        Raises:
            BaseException: as for `add`.
        """
        if inspection.came_from_signal(error):
            raise error
        self.note(_FOREIGN.format(where=where, error=_words_of(error)), _place_of(error))

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
                FailureTaxonomyWarning(message), FailureTaxonomyWarning, *(place or (__file__, 1))
            )
            said = {"warning_message": shown, "nodeid": "", "when": "runtest", "location": None}
            self._config.hook.pytest_warning_recorded.call_historic(kwargs=said)

    def _limits_warnings(self) -> bool:
        """Tell whether one more warning could change the exit code (pytest 9.1, --max-warnings)."""
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


def defer_sigint(function: Function) -> Function:
    """Wrap a short function so that Ctrl+C has its effect only when the function has returned.

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
    frame = inspection.traceback_of(error)
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return (frame.tb_frame.f_code.co_filename, frame.tb_lineno) if frame else None


def _is_of_surroundings(error: BaseException) -> bool:
    """Tell whether an error is no fault of ours: what a test has patched, or has used up.

    A warning would change pytest's last line, and nobody could mend what it is about.
    """
    if type(error) is OSError and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return True
    file, _ = _place_of(error) or (__file__, 0)
    return not file.startswith((*_OURS, "<")) and "site-packages" not in file


def _words_of(error: BaseException) -> str:
    """Return type and text of an exception with control characters, line breaks too, as escapes."""
    shown = f"{inspection.name_of(type(error))}: {inspection.text_of(error)}"[:_MAX_TEXT]
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)


class FailureTaxonomy:
    """The value of the fixture `failure_taxonomy`."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def __repr__(self) -> str:
        """Return a short text: pytest shows it with each failure of the test."""
        return "<failure_taxonomy>"

    def record(self, reason: FailureReason | str, kind: str, detail: str = "") -> None:
        """Record why this test fails, if it does fail.

        The last call counts. A test that passes is not changed by it.

        Args:
            reason: one of the 15.
            kind: refines the reason: lower-case words joined by dots, such as `sandbox.browser`.
            detail: anything else there is to say.

        Raises:
            ValueError: if there is no such reason, if `kind` has another form, or if it refines
                another reason.
        """
        self._node.stash[_SAID] = attribution(reason, kind, source="test", detail=detail or None)


def attribution(
    reason: object, kind: object, *, source: str, detail: str | None = None
) -> Attribution:
    """Return a checked attribution.

    Raises:
        ValueError: if there is no such reason, if `kind` has another form, or if it refines another
            reason.
    """
    from pytest_failure_taxonomy.taxonomy.user_rules import reasons_of_kind

    try:
        known = FailureReason(str(reason))
    except ValueError:
        names = ", ".join(each.value for each in FailureReason)
        raise ValueError(f"{reason!r} is no failure reason; give one of {names}") from None
    if not isinstance(kind, str) or not re.fullmatch(KIND_PATTERN, kind):
        raise ValueError(
            f"{kind!r} is no kind; give lower-case words with dots between them, as in "
            "sandbox.browser"
        )
    right = reasons_of_kind(kind)
    if right and known not in right:
        names = " or ".join(right)
        raise ValueError(f"the kind {kind} refines {names}, not {known}; give that reason")
    return Attribution(reason=known, kind=kind, source=source, detail=detail)


def ask_user(
    hook: Any, faults: Faults, node: pytest.Item, error: BaseException, phase: str
) -> Attribution | None:
    """Return what the test itself recorded, or else what the hook returns.

    Args:
        hook: of the run; that of a test's folder is called only where there are implementations.
        faults: takes what they raise.
        node: the test, in the process that ran it.
        error: why it failed.
        phase: of the test.
    """
    said = node.stash[_SAID] if _SAID in node.stash else None  # noqa: SIM401 - get() is slow
    if said is not None or not hook.get_hookimpls():
        return said
    try:
        answer = node.ihook.pytest_failure_taxonomy_classify(
            exception=error, nodeid=node.nodeid, phase=phase
        )
        if answer is None:
            return None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(  # told as any other fault of the hook
                f"{answer!r} returned; a pair of reason and kind, or None, is right"
            )
        return attribution(*answer, source="hook")
    except BaseException as failure:  # noqa: BLE001 - foreign
        faults.add_foreign(_HOOK, failure)
        return None


def marker_in_output_of(
    report: pytest.TestReport, more: Mapping[str, FailureReason]
) -> SeenMarker | None:
    """Return the last marker in the captured output of a test.

    Args:
        report: has the output.
        more: the reasons of other markers than the built-in ones, by their names.
    """
    for _, text in reversed(report.sections):
        if _MARKER_START in text:
            from pytest_failure_taxonomy.report.read.log_lines import marker_in
            from pytest_failure_taxonomy.taxonomy.judgement import MARKER_REASONS, validate_marker

            written = marker_in(text)
            if written is not None:
                name = validate_marker(written, more)
                return SeenMarker(name=name, reason={**MARKER_REASONS, **more}[name])
    return None
