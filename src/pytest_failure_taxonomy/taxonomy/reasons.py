"""The stages, the fifteen failure reasons, and the tables from exit codes and markers to them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Stage(StrEnum):
    """Name the step of an attempt that a command belongs to.

    The value is what users write on the command line and find in the report. A plain test run
    is the `final_test` of its attempt.
    """

    GIT_CLONE = "git_clone"
    GIT_CHECKOUT = "git_checkout"
    SETUP = "setup"
    BASELINE_RUN = "baseline_run"
    AGENT_RUN = "agent_run"
    FINAL_TEST = "final_test"


def parse_stage(stage: str) -> Stage:
    """Return the `Stage` that a string names.

    Raises:
        ValueError: the string names no stage; the message names it and lists the six.
    """
    try:
        return Stage(stage)
    except ValueError:
        known = ", ".join(Stage)
        raise ValueError(f"unknown stage {stage!r}; one of {known}") from None


class FailureReason(StrEnum):
    """Say why an attempt failed; success is `None`, never a member.

    Members stand in order of precedence: where several reasons hold, the earliest is the primary
    one, because a failure of an earlier stage explains those of the later ones.
    """

    GIT_CLONE_FAILED = "GIT_CLONE_FAILED"
    GIT_CHECKOUT_FAILED = "GIT_CHECKOUT_FAILED"
    SETUP_TIMEOUT = "SETUP_TIMEOUT"
    SETUP_FAILED = "SETUP_FAILED"
    BASELINE_NOT_FAILING = "BASELINE_NOT_FAILING"
    SANDBOX_ERROR = "SANDBOX_ERROR"
    LLM_ERROR = "LLM_ERROR"
    TOOL_ERROR = "TOOL_ERROR"
    TIMEOUT = "TIMEOUT"
    AGENT_GAVE_UP = "AGENT_GAVE_UP"
    TESTS_FAILED = "TESTS_FAILED"
    NO_TESTS_COLLECTED = "NO_TESTS_COLLECTED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    INTERRUPTED = "INTERRUPTED"
    UNKNOWN = "UNKNOWN"

    @property
    def precedence(self) -> int:
        """Rank among the reasons, 1 (most telling) to 15 (catch-all)."""
        return _PRECEDENCE[self]

    @classmethod
    def from_pytest_exit_code(cls, exit_code: int) -> FailureReason | None:
        """Return the reason that pytest's exit code alone stands for.

        The code is taken as the table has it: a negative return code of `subprocess` goes through
        `exit_code_from_returncode` first.

        Args:
            exit_code: the status a shell would show, 0 to 255.

        Returns:
            `None` for 0, `UNKNOWN` for a code that the table does not list.
        """
        return PYTEST_EXIT_CODE_REASONS.get(exit_code, cls.UNKNOWN)

    @classmethod
    def from_stage(
        cls,
        stage: str,
        exit_code: int,
        exception: BaseException | type[BaseException] | None = None,
    ) -> FailureReason | None:
        """Return the reason for the end of one stage of an attempt.

        An exception decides first, then the exit codes of a time limit (124 and 137), then the
        stage's own table.

        Args:
            stage: a `Stage` or its name.
            exit_code: the exit code of the stage's command.
            exception: what ended the stage in the harness itself, as an instance or a type.

        Returns:
            `None` for success; also for a baseline whose tests fail, as they should.

        Raises:
            ValueError: the stage is unknown.
        """
        at = parse_stage(stage)
        if exception is not None:
            kind = exception if isinstance(exception, type) else type(exception)
            return cls.INTERRUPTED if issubclass(kind, KeyboardInterrupt) else cls.UNKNOWN
        if exit_code in TIME_LIMIT_EXIT_CODES:
            return cls.SETUP_TIMEOUT if at is Stage.SETUP else cls.TIMEOUT
        if at is Stage.BASELINE_RUN:
            return cls.BASELINE_NOT_FAILING if exit_code == 0 else None
        if at in STAGE_FAILURE_REASONS:
            return None if exit_code == 0 else STAGE_FAILURE_REASONS[at]
        return cls.from_pytest_exit_code(exit_code)


_PRECEDENCE: Final[Mapping[FailureReason, int]] = MappingProxyType(
    {reason: rank for rank, reason in enumerate(FailureReason, start=1)}
)

PYTEST_EXIT_CODE_REASONS: Final[Mapping[int, FailureReason | None]] = MappingProxyType(
    {
        0: None,
        1: FailureReason.TESTS_FAILED,
        2: FailureReason.INTERRUPTED,
        3: FailureReason.INTERNAL_ERROR,
        4: FailureReason.INTERNAL_ERROR,
        5: FailureReason.NO_TESTS_COLLECTED,
        124: FailureReason.TIMEOUT,
        137: FailureReason.TIMEOUT,
    }
)
"""What pytest's exit code alone says. 124 is GNU `timeout`'s own, 137 is 128 + SIGKILL."""

TIME_LIMIT_EXIT_CODES: Final = frozenset({124, 137})

STAGE_FAILURE_REASONS: Final[Mapping[Stage, FailureReason]] = MappingProxyType(
    {
        Stage.GIT_CLONE: FailureReason.GIT_CLONE_FAILED,
        Stage.GIT_CHECKOUT: FailureReason.GIT_CHECKOUT_FAILED,
        Stage.SETUP: FailureReason.SETUP_FAILED,
    }
)
"""Stages where any exit code but 0 has one meaning."""

PYTEST_EXIT_CODE_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "OK",
        1: "TESTS_FAILED",
        2: "INTERRUPTED",
        3: "INTERNAL_ERROR",
        4: "USAGE_ERROR",
        5: "NO_TESTS_COLLECTED",
        6: "MAX_WARNINGS_ERROR",
    }
)
"""The names of `pytest.ExitCode`; 6 exists from pytest 9.1 on."""


def exit_code_from_returncode(returncode: int) -> int:
    """Turn a return code of `subprocess` into the exit code that a shell shows.

    `subprocess` says -9 where a shell says 137 for a process that SIGKILL ended.
    """
    return 128 - returncode if returncode < 0 else returncode


def primary_reason(reasons: Iterable[FailureReason | None]) -> FailureReason | None:
    """Return the reason of the lowest precedence number, or `None` if there is none.

    `None` among the reasons stands for a stage that succeeded and counts for nothing.
    """
    held = [reason for reason in reasons if reason is not None]
    return min(held, key=lambda reason: reason.precedence, default=None)


CRASH_SIGNALS: Final = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"})
"""Signals that a process earns by its own fault; others come from outside."""


def signal_name(number: int) -> str:
    """Return the name of a signal, `SIG<number>` for one that this system does not know."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def signal_of_exit_code(code: int) -> str | None:
    """Return the name of the signal that an exit code above 128 stands for in a shell."""
    name = signal_name(code - 128) if code > 128 else ""
    return name if name in signal.Signals.__members__ else None


MARKER_START: Final = "[GZA_FAILURE:"
"""How the line begins by which an agent says in its output that it has given up, and why.

A marker is a line of its own: `[GZA_FAILURE:REASON]`. It is one more reason beside what was
observed, and never takes the place of an exit code, a time limit or a crash.
"""
MARKER_BLANKS: Final = " \t\r"
"""What may stand on a marker's line beside it."""
MARKER_COLOUR: Final = r"\x1b\[[0-9;:]*+m"
"""How a terminal is told a colour, as a pattern: no more than a blank beside a marker."""

UNKNOWN_MARKER: Final = "UNKNOWN"

MARKER_REASONS: Final[Mapping[str, FailureReason]] = MappingProxyType(
    {
        "MAX_TURNS": FailureReason.AGENT_GAVE_UP,
        "TEST_FAILURE": FailureReason.TESTS_FAILED,
        UNKNOWN_MARKER: FailureReason.UNKNOWN,
    }
)
"""The markers that every configuration knows. One that a user adds stands for `UNKNOWN`."""


def marker_on_line(line: str) -> str | None:
    """Return what the marker on a line says, known or not; `None` where the line is none."""
    if MARKER_START not in line:
        return None
    text = (re.sub(MARKER_COLOUR, " ", line) if "\x1b" in line else line).strip(
        MARKER_BLANKS + "\n"
    )
    if not text.startswith(MARKER_START) or not text.endswith("]"):
        return None
    name = text[len(MARKER_START) : -1]
    is_word = name.isascii() and name.replace("_", "a").isalnum()
    return name if is_word else None


def validate_marker(name: str, known: Iterable[str] = ()) -> str:
    """Return the marker's word where it is a known one, else `UNKNOWN`.

    Args:
        name: as it was written; case matters.
        known: words that are valid beside the three of `MARKER_REASONS`.
    """
    return name if name in MARKER_REASONS or name in set(known) else UNKNOWN_MARKER
