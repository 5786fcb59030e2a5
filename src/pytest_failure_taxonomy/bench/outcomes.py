"""The outcome of a case, the answers and errors of rubrics, and how a failed case is shown."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_failure_taxonomy.bench.models import RUNNER_CODES
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore, FailureMode
    from pytest_failure_taxonomy.bench.user_code import Traceback

    SystemUnderTest = Callable[[BenchCase], Any]
    """Plain or async; returns anything that JSON can represent."""


@value
class CaseAttempt:
    """One call of the system under test for a case, and what came of it."""

    number: int
    """Which of the case's calls it is, from 1."""
    started_at: float
    """When it began, in seconds since the epoch."""
    seconds: float
    """How long it took."""
    cost_usd: float = 0.0
    """What the system spent on it."""
    usage: Mapping[str, float] = MappingProxyType({})
    """Other amounts that it used, by name."""
    ended: str = ""
    """Why it gave no output, in words; empty if it gave one."""
    kind: str | None = None
    """The kind of the exception that it raised, such as `llm.rate_limited`, if that is known."""
    fingerprint: str = ""
    """The same for exceptions of one cause; empty if the system and the rubric raised none."""


@value
class CaseOutcome:
    """The score of a case, and what helps a person to understand it."""

    case_id: str
    score: BenchScore
    output: Any = None
    """What the system returned; `None`, too, if it returned nothing that JSON can represent."""
    transcript: Any = None
    """How the system came to it, if it said so."""
    attempts: tuple[CaseAttempt, ...] = ()
    """All calls of the system, in order; the last one led to the score."""
    traceback: Traceback | None = None
    """The traceback of the system under test or the rubric, if one raised."""
    printed: str = ""
    """What the rubric printed, shortened."""


@value
class RubricAnswer:
    """The answer of an isolated rubric: its verdict as JSON text, not yet checked."""

    json: bytes
    printed: str = ""


class RubricError(Exception):
    """The rubric gave no verdict; the message says why in one line."""

    def __init__(
        self, message: str, *, traceback: str = "", printed: str = "", cost_usd: float = 0.0
    ) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.printed = printed
        self.cost_usd = cost_usd
        """What other rubrics of the case have cost."""


class RubricTimeoutError(RubricError):
    """The rubric exceeded its limit and was killed."""


class RubricRunner(Protocol):
    """Grades the output of a case.

    A coroutine function or a plain one. It returns a `BenchScore`, a mapping like the answer of a
    `rubric.py`, or a `RubricAnswer`. An exception becomes a score with the code `rubric.timeout`
    for a `RubricTimeoutError`, or else `rubric.malformed_output`.
    """

    def __call__(self, case: BenchCase, output: Any, /) -> Awaitable[object] | object:
        """Grade one output."""


_MAX_DETAIL: Final = 500
_MAX_PRINTED_LINES: Final = 40


def one_line(score: BenchScore) -> str:
    """Return the score of a case and its failure modes in one line, the blocking ones first."""
    modes = sorted(score.failure_modes, key=lambda mode: mode.severity != "block")
    text = ", ".join(_mode(mode) for mode in modes)
    shown = f"score {score.score:.2f}{_counts_0(score)}"
    return f"{shown}: {text}" if text else shown


def _counts_0(score: BenchScore) -> str:
    """Return that a score counts 0, where that does not go without saying."""
    return " (counts 0)" if score.score > score.counted_score else ""


def failure_lines(
    task_class: str, case: BenchCase, outcome: CaseOutcome, descriptions: Mapping[str, str]
) -> list[str]:
    """Return the lines that show a failed case: score, failure modes, traceback and output."""
    score = outcome.score
    head = f"score {score.score:.2f}{_counts_0(score)}, not passed"
    lines = [f"case {case.case_id} of {task_class}: {head}"]
    for mode in score.failure_modes:
        lines.append(f"  {mode.severity:<5} {_mode(mode)}")
        meaning = descriptions.get(mode.code) or RUNNER_CODES.get(mode.code)
        if meaning:
            lines.append(f"        {meaning}")
    if score.breakdown:
        parts = (f"{key} {amount:g}" for key, amount in sorted(score.breakdown.items()))
        lines.append(f"  breakdown: {', '.join(parts)}")
    cost = f", ${score.cost_usd:.4g}" if score.cost_usd else ""
    calls = f", {len(outcome.attempts)} calls" if len(outcome.attempts) > 1 else ""
    lines.append(f"  took {score.wall_clock_ms:,.0f} ms{cost}{calls}")
    told = "" if outcome.traceback is None else outcome.traceback.text()
    if told:
        lines += ["", *told.rstrip().splitlines()]
    if outcome.printed.strip():
        printed = outcome.printed.rstrip().splitlines()
        shown = printed[-_MAX_PRINTED_LINES:]
        left_out = len(printed) - len(shown)
        head = f"the rubric printed ({left_out} lines before are left out):"
        lines += ["", head if left_out else "the rubric printed:", *shown]
    return lines


def _mode(mode: FailureMode) -> str:
    if not mode.detail:
        return mode.code
    detail = mode.detail if len(mode.detail) <= _MAX_DETAIL else f"{mode.detail[:_MAX_DETAIL]}…"
    return f"{mode.code}: {detail}"
