"""Judge a command of which nothing but its exit code is known: no plugin saw what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.deaths import KILLED_BY, KILLED_EXIT_CODE
from pytest_failure_taxonomy.taxonomy.evidence import RunError, RunEvidence
from pytest_failure_taxonomy.taxonomy.findings import Finding, find
from pytest_failure_taxonomy.taxonomy.headlines import words_of_run_error
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.values import replace

_COMMAND_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.timeout": "the command used up its time limit",
        "process.killed": (
            "the command was killed (SIGKILL): memory or a time limit, nothing says which"
        ),
        "process.oom": "the command was killed because the memory ran out",
        "process.terminated": "the command was told to end by a signal",
        "process.crashed": "the command crashed",
        "interrupt.keyboard": "the command was interrupted from the keyboard",
    }
)
"""What the kinds of a death are called where the command is no pytest."""

_PYTEST_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "tests failed, to go by pytest's exit code",
        2: "pytest ended early: a collection error, or Ctrl+C",
    }
)

_PYTEST_KINDS: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        1: (
            "test.failed",
            ("test.setup_error", "test.teardown_error", "collection.error", "plugin.error"),
        ),
        2: ("command.failed", ("collection.error", "interrupt.keyboard")),
        3: ("internal.error", ()),
        4: ("usage.error", ("conftest.error", "plugin.error")),
        5: ("tests.none_collected", ("tests.all_deselected",)),
        6: ("warnings.exceeded", ()),
    }
)
"""What pytest's exit codes are most likely to come from, and what else they could."""

_CODES_OF_REFUSALS: Final = frozenset({1, 3, 4})
"""How a pytest ends that can't load a plugin it is told to, by its version, or read its files."""


def judge_command(
    code: int, source: str, *, is_pytest: bool, refusal: RunError | None = None
) -> Iterator[Finding]:
    """Yield what an exit code lets one think of a command.

    Args:
        code: the exit code.
        source: who saw it.
        is_pytest: what was run is a pytest.
        refusal: what that pytest can't have got past.
    """
    if code == 0:
        return
    if refusal is not None and code in _CODES_OF_REFUSALS:
        yield find(
            f"{refusal.origin}.error",
            "command and configuration",
            refusal.message,
            confidence="likely",
            words=words_of_run_error(refusal),
        )
        return
    kind = "command.failed"
    ambiguous: tuple[str, ...] = ()
    if code == KILLED_EXIT_CODE:
        ambiguous = KILLED_BY
    elif is_pytest:
        kind, ambiguous = _PYTEST_KINDS.get(code, (kind, ambiguous))
    yield find(
        kind,
        source,
        f"exit code {code}",
        reason=None if kind != "command.failed" else FailureReason.from_pytest_exit_code(code),
        confidence="likely",
        ambiguous=ambiguous,
        headline=_headline_of(code, is_pytest=is_pytest),
    )


def _headline_of(code: int, *, is_pytest: bool) -> str | None:
    if code == KILLED_EXIT_CODE:
        return _COMMAND_WORDS["process.killed"]
    return _PYTEST_WORDS.get(code) if is_pytest else None


def in_words_of_command(death: Finding, run: RunEvidence) -> Finding:
    """Return how a process died, in words that fit a command that is no pytest."""
    if run.recorded or run.is_pytest:
        return death
    return replace(death, headline=_COMMAND_WORDS.get(death.kind, death.headline))
