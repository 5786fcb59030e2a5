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

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError
from pytest_failure_taxonomy.bench.user_code import describe, safe
from pytest_failure_taxonomy.taxonomy import packaged_table

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


_GivenMode = Annotated[
    AnsweredMode,
    BeforeValidator(lambda given: vars(given) if isinstance(given, models.FailureMode) else given),
]


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
        if isinstance(given, models.BenchScore):
            return Verdict.model_validate({**vars(given)})
        if isinstance(given, Mapping):
            return Verdict.model_validate({**given})
    except ValidationError as error:
        raise RubricError(_say(error)) from None
    except Exception as error:  # the methods of the mapping may raise anything
        raise RubricError(describe(error)) from error
    raise RubricError(f"the answer is of type {type(given).__name__}; a mapping would be right")


def _say(error: ValidationError) -> str:
    problems = []
    for problem in error.errors(include_url=False):
        where = ".".join(str(part)[:_MAX_VALUE] for part in problem["loc"])
        says = packaged_table("wrong_values")["in_answers"].get(problem["type"], _OTHER)
        words = says.format(
            value=_show(problem["input"]), message=problem["msg"], **problem.get("ctx", {})
        )
        problems.append(safe(f"{where}: {words}" if where else words))
    text = "; ".join(problems)
    return text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL - 3]}..."


def _show(given: object) -> str:
    """Return the `repr` of a value, shortened."""
    try:
        text = repr(given)
    except Exception:  # noqa: BLE001 - the value's `__repr__` may raise anything
        return f"a value of type {type(given).__name__}"
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def failed_score(
    code: str, detail: str | None, *, wall_clock_ms: float, cost_usd: float = 0.0
) -> models.BenchScore:
    """Return the score of a case without a verdict of its rubric.

    Args:
        code: One of the runner's.
        detail: Why, in words.
        wall_clock_ms: The measured time.
        cost_usd: What rubrics have cost; it was spent anyway.
    """
    shown = None if detail is None else safe(detail)
    return models.BenchScore(
        passed=False,
        score=0.0,
        failure_modes=(models.FailureMode(code=code, severity="block", detail=shown),),
        cost_usd=cost_usd,
        wall_clock_ms=wall_clock_ms,
    )


def graded_score(
    answer: Verdict, task_class: models.TaskClass, *, wall_clock_ms: float
) -> models.BenchScore:
    """Return the score of a case whose rubric answered in the right shape.

    A listed failure mode of severity `block` does not change `passed`: the rubric decides that. A
    code that the class doesn't list becomes `rubric.unknown_failure_mode`, even if it is one of the
    runner's.
    """
    offending = models.offending_keys(answer.breakdown, task_class.breakdown_keys)
    if offending:
        # The smallest, so that the detail doesn't depend on their order.
        return failed_score(
            models.RUBRIC_UNKNOWN_BREAKDOWN_KEY,
            safe(min(offending))[:_MAX_NAME],
            wall_clock_ms=wall_clock_ms,
            cost_usd=answer.cost_usd,
        )
    taxonomy = task_class.failure_mode_taxonomy
    modes = []
    for mode in answer.failure_modes:
        code, detail, severity = mode.code, mode.detail, taxonomy.get(mode.code, "block")
        if code not in taxonomy:
            code, detail = models.RUBRIC_UNKNOWN_FAILURE_MODE, safe(code)[:_MAX_NAME]
        elif code in models.RUNNER_CODES:
            severity = "block"
        modes.append(models.FailureMode(code=code, severity=severity, detail=detail))
    return models.BenchScore(
        passed=answer.passed and all(mode.code in taxonomy for mode in answer.failure_modes),
        score=answer.score,
        breakdown=answer.breakdown,
        failure_modes=tuple(modes),
        cost_usd=answer.cost_usd,
        wall_clock_ms=wall_clock_ms,
    )
