"""Judge a command of which nothing but its exit code is known: no plugin saw what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.deaths import KILLED_BY, KILLED_EXIT_CODE
from pytest_failure_taxonomy.taxonomy.evidence import RunError
from pytest_failure_taxonomy.taxonomy.findings import Finding, find
from pytest_failure_taxonomy.taxonomy.headlines import words_of_run_error
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

_PYTEST_KINDS: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        2: ("command.failed", ("collection.error", "interrupt.keyboard")),
        3: ("internal.error", ()),
        4: ("usage.error", ("conftest.error", "plugin.error")),
        5: ("tests.none_collected", ("tests.all_deselected",)),
        6: ("warnings.exceeded", ()),
    }
)
"""What pytest's exit codes are most likely to come from, and what else they could."""

_KILLED: Final = "the command was killed (SIGKILL): memory or a time limit, nothing says which"


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
        headline=_KILLED if code == KILLED_EXIT_CODE else None,
    )
