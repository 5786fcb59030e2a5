"""From what a system or a rubric did to the score of its case. Nothing here waits, reads or writes.

A case fails without a verdict of its rubric in six ways:

| code                         | cause                                                  | kept     |
|------------------------------|--------------------------------------------------------|----------|
| sut.exception                | the system raised, or JSON can't represent its output  | nothing  |
| sut.timeout                  | the system exceeded its limit, or blocked the loop     | nothing  |
| rubric.malformed_output      | the rubric raised, or its answer is not a score        | nothing  |
| rubric.timeout               | the rubric exceeded its limit                          | nothing  |
| rubric.unknown_breakdown_key | a breakdown key that is banned, or not listed          | the cost |
| rubric.unknown_failure_mode  | a code that the class doesn't list                     | the rest |
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.models import BenchScore, FailureMode, Severity, TaskClass
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError
from pytest_failure_taxonomy.bench.user_code import describe, safe
from pytest_failure_taxonomy.taxonomy.tables import packaged_table

_MAX_NAME: Final = 1_000
"""Characters of a key or code in a detail: a rubric may invent one of any length."""
_MAX_DETAIL: Final = 300
_MAX_VALUE: Final = 60
_OTHER: Final = "{value}: {message}"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class AnsweredMode(_Strict):
    """A failure mode as a rubric gives it; the task class decides its severity."""

    code: Annotated[str, Field(min_length=1)]
    severity: Any = None
    detail: str | None = None


def _to_fields(given: Any) -> Any:
    return vars(given) if isinstance(given, FailureMode) else given


_GivenMode = Annotated[AnsweredMode, BeforeValidator(_to_fields)]


class Verdict(_Strict):
    """A rubric's answer of the right shape, not yet checked against its task class."""

    passed: bool
    score: Annotated[float, Field(ge=0, le=1)]
    breakdown: dict[str, float]
    failure_modes: Annotated[tuple[_GivenMode, ...], Field(strict=False)] = ()
    cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    wall_clock_ms: Annotated[float, Field(allow_inf_nan=True)] = 0.0
    """Ignored: the runner measures it."""


def read_answer(given: object) -> Verdict:
    """Return a rubric's answer if it has the right shape.

    Args:
        given: A `BenchScore`, a mapping, or the JSON text of an isolated rubric. A `BenchScore` is
            checked, too, because `model_copy` and `model_construct` don't validate.

    Raises:
        RubricError: The answer has another shape; the message lists all problems in one line.
    """
    try:
        if isinstance(given, RubricAnswer):
            return Verdict.model_validate_json(given.json)
        if isinstance(given, BenchScore):
            return Verdict.model_validate({**vars(given)})
        if isinstance(given, Mapping):
            return Verdict.model_validate({**given})
    except ValidationError as error:
        raise RubricError(_say(error)) from None
    except Exception as error:  # the methods of the mapping may raise anything
        raise RubricError(describe(error)) from error
    raise RubricError(f"the answer is of type {type(given).__name__}; a mapping would be right")


def _say(error: ValidationError) -> str:
    problems = [_say_one(each) for each in error.errors(include_url=False)]
    text = "; ".join(problems)
    return text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL - 3]}..."


def _say_one(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(part)[:_MAX_VALUE] for part in problem["loc"])
    says = packaged_table("wrong_values")["in_answers"].get(problem["type"], _OTHER)
    words = says.format(
        value=_show(problem["input"]), message=problem["msg"], **problem.get("ctx", {})
    )
    return safe(f"{where}: {words}" if where else words)


def _show(given: object) -> str:
    """Return the `repr` of a value, shortened."""
    try:
        text = repr(given)
    except Exception:  # noqa: BLE001 - the value's `__repr__` may raise anything
        return f"a value of type {type(given).__name__}"
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def sut_exception_score(
    error: BaseException, *, wall_clock_ms: float, kind: str | None = None
) -> BenchScore:
    """Return the score of a case whose system raised.

    Args:
        error: The exception.
        wall_clock_ms: The measured time.
        kind: The exception's kind, such as `llm.rate_limited`, with which the detail then begins.
    """
    detail = describe(error) if kind is None else f"{kind}: {describe(error)}"
    return _failed(models.SUT_EXCEPTION, detail, wall_clock_ms)


def sut_output_score(problem: str, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case if JSON can't represent the system's output."""
    return _failed(models.SUT_EXCEPTION, safe(problem), wall_clock_ms)


def sut_timeout_score(*, wall_clock_ms: float, detail: str | None = None) -> BenchScore:
    """Return the score of a case whose system exceeded its limit."""
    return _failed(models.SUT_TIMEOUT, detail, wall_clock_ms)


def malformed_output_score(
    detail: str, *, wall_clock_ms: float, cost_usd: float = 0.0
) -> BenchScore:
    """Return the score of a case whose rubric gave no verdict; others may have cost something."""
    return _failed(models.RUBRIC_MALFORMED_OUTPUT, safe(detail), wall_clock_ms, cost_usd)


def rubric_timeout_score(
    *, wall_clock_ms: float, detail: str | None = None, cost_usd: float = 0.0
) -> BenchScore:
    """Return the score of a case whose rubric exceeded its limit."""
    shown = None if detail is None else safe(detail)
    return _failed(models.RUBRIC_TIMEOUT, shown, wall_clock_ms, cost_usd)


def unknown_breakdown_key_score(
    keys: Iterable[str], *, cost_usd: float, wall_clock_ms: float
) -> BenchScore:
    """Return the score of a case whose rubric gave breakdown keys that are not allowed.

    Args:
        keys: These keys. The detail names the smallest, so that it doesn't depend on their order.
        cost_usd: The cost that the rubric gave; it was spent anyway.
        wall_clock_ms: The measured time.
    """
    detail = safe(min(keys))[:_MAX_NAME]
    return _failed(models.RUBRIC_UNKNOWN_BREAKDOWN_KEY, detail, wall_clock_ms, cost_usd)


def resolve_failure_modes(
    modes: Iterable[AnsweredMode], taxonomy: Mapping[str, Severity]
) -> tuple[FailureMode, ...]:
    """Return a rubric's failure modes with the severities of its task class, in its order.

    A code that the class doesn't list becomes `rubric.unknown_failure_mode`, even if it is one of
    the runner's.
    """
    return tuple([_resolve(mode, taxonomy) for mode in modes])


def _resolve(mode: AnsweredMode, taxonomy: Mapping[str, Severity]) -> FailureMode:
    if mode.code not in taxonomy:
        return FailureMode(
            code=models.RUBRIC_UNKNOWN_FAILURE_MODE,
            severity="block",
            detail=safe(mode.code)[:_MAX_NAME],
        )
    severity = "block" if mode.code in models.RUNNER_CODES else taxonomy[mode.code]
    return FailureMode(code=mode.code, severity=severity, detail=mode.detail)


def graded_score(answer: Verdict, task_class: TaskClass, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case whose rubric answered in the right shape.

    A listed failure mode of severity `block` does not change `passed`: the rubric decides that.
    """
    offending = models.offending_keys(answer.breakdown, task_class.breakdown_keys)
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
