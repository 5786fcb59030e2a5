"""Check what a rubric answers: nothing is taken for what it is not."""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytest_failure_taxonomy.bench.exceptions import describe, safe
from pytest_failure_taxonomy.bench.models import MOST_COST_USD, BenchScore, FailureMode
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError

_MAX_DETAIL: Final = 300
_MAX_VALUE: Final = 60


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class AnsweredMode(_Strict):
    """A failure mode as a rubric gives it; its severity is the task class's to say."""

    code: Annotated[str, Field(min_length=1)]
    severity: Any = None
    detail: str | None = None


def _to_fields(given: Any) -> Any:
    return vars(given) if isinstance(given, FailureMode) else given


_GivenMode = Annotated[AnsweredMode, BeforeValidator(_to_fields)]


class Answer(_Strict):
    """A rubric's answer of the right shape, not yet held against its task class."""

    passed: bool
    score: Annotated[float, Field(ge=0, le=1)]
    breakdown: dict[str, float]
    failure_modes: Annotated[tuple[_GivenMode, ...], Field(strict=False)] = ()
    cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    wall_clock_ms: Annotated[float, Field(allow_inf_nan=True)] = 0.0
    """What the rubric claims; the runner measures."""


def read_answer(given: object) -> Answer:
    """Return a rubric's answer once it is known to be one.

    Args:
        given: a `BenchScore`, a mapping, or the JSON text of an isolated rubric. A `BenchScore` is
            checked like the rest: `model_copy` and `model_construct` make one of anything.

    Raises:
        RubricError: it is none; the message lists what is wrong, in one line.
    """
    try:
        if isinstance(given, RubricAnswer):
            return Answer.model_validate_json(given.json)
        if isinstance(given, BenchScore):
            return Answer.model_validate({**vars(given)})
        if isinstance(given, Mapping):
            return Answer.model_validate({**given})
    except ValidationError as error:
        raise RubricError(_say(error)) from None
    except Exception as error:  # a mapping of the author's own may raise anything
        raise RubricError(describe(error)) from error
    raise RubricError(f"the answer is of type {type(given).__name__}; a mapping would be right")


def _say(error: ValidationError) -> str:
    problems = [_say_one(each) for each in error.errors(include_url=False)]
    text = "; ".join(problems)
    return text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL - 3]}..."


def _say_one(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(part)[:_MAX_VALUE] for part in problem["loc"])
    says = _SAYINGS.get(problem["type"])
    if says is None:
        says = _OTHER
    words = says.format(
        value=_show(problem["input"]), message=problem["msg"], **problem.get("ctx", {})
    )
    return safe(f"{where}: {words}" if where else words)


_OTHER: Final = "{value}: {message}"
_SAYINGS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is no field of an answer",
    "less_than_equal": "{value} is more than {le:g}",
    "greater_than_equal": "{value} is less than {ge:g}",
    "finite_number": "{value} is no finite number",
    "bool_type": "{value} is not true or false",
    "float_type": "{value} is no number",
    "string_type": "{value} is no text",
    "string_too_short": "is empty",
    "dict_type": "{value} is no mapping",
    "model_type": "{value} is no mapping",
    "tuple_type": "{value} is no list",
    "json_invalid": "the answer is no JSON: {error}",
}


def _show(given: object) -> str:
    """Return how a value reads in code, shortened."""
    try:
        text = repr(given)
    except Exception:  # noqa: BLE001 - a value's own method may raise anything
        return f"a value of type {type(given).__name__}"
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
