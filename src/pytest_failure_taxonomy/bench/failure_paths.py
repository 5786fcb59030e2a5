"""The six ways in which a case can fail without its own doing, each mapped to a score.

Nothing here waits, reads or writes: each helper takes what was seen and returns a `BenchScore`.

| code                         | what was seen                                       | kept       |
|------------------------------|-----------------------------------------------------|------------|
| sut.exception                | the system raised, or returned what JSON can't hold | nothing    |
| sut.timeout                  | the system's limit ended it, or it held the loop    | nothing    |
| rubric.malformed_output      | the rubric raised, or its answer is no score        | nothing    |
| rubric.timeout               | the rubric's limit ended it                         | nothing    |
| rubric.unknown_breakdown_key | a key that the class doesn't list, or nobody may    | the cost   |
| rubric.unknown_failure_mode  | a code that the class doesn't list                  | the rest   |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench import codes
from pytest_failure_taxonomy.bench.exceptions import describe, safe
from pytest_failure_taxonomy.bench.models import BenchScore, FailureMode

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.answers import Answer, AnsweredMode
    from pytest_failure_taxonomy.bench.codes import Severity
    from pytest_failure_taxonomy.bench.models import TaskClass

_MAX_NAME: Final = 1_000
"""Characters of a key or a code that a detail has, should a rubric make up one without end."""


def sut_exception_score(error: BaseException, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case whose system raised."""
    return _failed(codes.SUT_EXCEPTION, describe(error), wall_clock_ms)


def sut_output_score(problem: str, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case whose system returned what JSON can't hold."""
    return _failed(codes.SUT_EXCEPTION, safe(problem), wall_clock_ms)


def sut_timeout_score(*, wall_clock_ms: float, detail: str | None = None) -> BenchScore:
    """Return the score of a case whose system was not done in time."""
    return _failed(codes.SUT_TIMEOUT, detail, wall_clock_ms)


def malformed_output_score(detail: str, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case whose rubric gave no verdict."""
    return _failed(codes.RUBRIC_MALFORMED_OUTPUT, safe(detail), wall_clock_ms)


def rubric_timeout_score(*, wall_clock_ms: float, detail: str | None = None) -> BenchScore:
    """Return the score of a case whose rubric was not done in time."""
    shown = None if detail is None else safe(detail)
    return _failed(codes.RUBRIC_TIMEOUT, shown, wall_clock_ms)


def unknown_breakdown_key_score(
    keys: Iterable[str], *, cost_usd: float, wall_clock_ms: float
) -> BenchScore:
    """Return the score of a case whose rubric gave keys that it may not give.

    Args:
        keys: the offending ones; the smallest is named, so that the same answer reads the same.
        cost_usd: what the rubric says the case cost, which was spent all the same.
        wall_clock_ms: as measured.
    """
    detail = safe(min(keys))[:_MAX_NAME]
    return _failed(codes.RUBRIC_UNKNOWN_BREAKDOWN_KEY, detail, wall_clock_ms, cost_usd)


def resolve_failure_modes(
    modes: Iterable[AnsweredMode], taxonomy: Mapping[str, Severity]
) -> tuple[FailureMode, ...]:
    """Return a rubric's failure modes with the severities of its task class, in its order.

    A code that the class doesn't list becomes `rubric.unknown_failure_mode`; one of the runner's
    own is no exception.
    """
    return tuple([_resolve(mode, taxonomy) for mode in modes])


def _resolve(mode: AnsweredMode, taxonomy: Mapping[str, Severity]) -> FailureMode:
    if mode.code not in taxonomy:
        return FailureMode(
            code=codes.RUBRIC_UNKNOWN_FAILURE_MODE,
            severity="block",
            detail=safe(mode.code)[:_MAX_NAME],
        )
    severity = "block" if mode.code in codes.RUNNER_CODES else taxonomy[mode.code]
    return FailureMode(code=mode.code, severity=severity, detail=mode.detail)


def graded_score(answer: Answer, task_class: TaskClass, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case whose rubric answered in the right shape.

    A failure mode of severity `block` that the class lists does not change `passed`: that is the
    rubric's to say.
    """
    offending = codes.offending_keys(answer.breakdown, task_class.breakdown_keys)
    if offending:
        return unknown_breakdown_key_score(
            offending, cost_usd=answer.cost_usd, wall_clock_ms=wall_clock_ms
        )
    taxonomy = task_class.failure_mode_taxonomy
    return BenchScore(
        passed=answer.passed and all(mode.code in taxonomy for mode in answer.failure_modes),
        score=answer.score,
        breakdown=answer.breakdown,
        failure_modes=resolve_failure_modes(answer.failure_modes, taxonomy),
        cost_usd=answer.cost_usd,
        wall_clock_ms=wall_clock_ms,
    )


def _failed(
    code: str, detail: str | None, wall_clock_ms: float, cost_usd: float = 0.0
) -> BenchScore:
    return BenchScore(
        passed=False,
        score=0.0,
        failure_modes=(FailureMode(code=code, severity="block", detail=detail),),
        cost_usd=cost_usd,
        wall_clock_ms=wall_clock_ms,
    )
