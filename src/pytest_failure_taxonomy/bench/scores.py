"""From what a system and its rubrics did to a score, and how a failed case is shown.

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

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from pydantic import BeforeValidator, Field, ValidationError

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, add_exactly
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchScore,
    FailureMode,
    TaskClass,
)
from pytest_failure_taxonomy.bench.user_code import (
    Grade,
    ToldError,
    Traceback,
    describe,
    safe,
    wait_for,
)
from pytest_failure_taxonomy.documents.models import ClosedModel
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.redaction.names import declare_secret_variables
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import cost_words, seconds_words

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric

SystemUnderTest = Callable[[BenchCase], Any]
"""Plain or async; returns anything that JSON can represent."""


class CaseAttempt(ClosedModel):
    """One call of the system under test for a case, and what came of it."""

    attempt: Annotated[int, Field(ge=1)]
    """Which of the case's calls it was, from 1."""
    started_at: float
    """When it began, in seconds since the epoch."""
    seconds: float
    """How long the system took; if its process died, with the time until it began."""
    cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    """What the system spent."""
    usage: dict[str, float] = Field(default_factory=dict)
    """Other amounts, by name."""
    ended: str = ""
    """Why the system gave no output, in words; empty if it gave one."""
    kind: str | None = None
    """The kind of the exception that it raised, such as `llm.rate_limited`, if that is
    known."""
    is_lost: bool = False
    """Whether the case has no score because of what this call raised, such as
    `SystemExit`."""
    fingerprint: str = ""
    """The same for exceptions of one cause; empty if the system and the rubric raised
    none."""
    charge_to: str | None = None
    """Whom the failure of a lost call is charged to, if that is why it is lost."""
    workspace: str | None = None
    """Where the workspace of the case is kept, if it is."""


@value
class CaseOutcome:
    """The score of a case, and what helps a person to understand it."""

    case_id: str
    score: BenchScore
    output: Any = None
    """What the system returned; `None`, too, if it returned nothing that JSON can
    represent."""
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


class RubricError(ToldError):
    """The rubric gave no verdict; the message says why in one line."""

    def __init__(self, message: str, *, cost_usd: float = 0.0, **known: Any) -> None:
        super().__init__(message, **known)
        self.cost_usd = cost_usd
        """What other rubrics of the case have cost."""

    @property
    def words(self) -> str:
        """Return why."""
        return str(self)


class RubricTimeoutError(RubricError):
    """The rubric exceeded its limit and was killed."""


class RubricRunner(Protocol):
    """Grades the output of a case.

    A coroutine function or a plain one. It returns a `BenchScore`, a mapping like the
    answer of a `rubric.py`, or a `RubricAnswer`. An exception becomes a score with the
    code `rubric.timeout` for a `RubricTimeoutError`, or else `rubric.malformed_output`.
    """

    def __call__(self, case: BenchCase, output: Any, /) -> Awaitable[object] | object:
        """Grade one output."""


_MAX_SHOWN_DETAIL: Final = 500
_MAX_PRINTED_LINES: Final = 40


def one_line(score: BenchScore) -> str:
    """Return a score and its failure modes in a line, the blocking ones first."""
    modes = sorted(score.failure_modes, key=lambda mode: mode.severity != "block")
    text = ", ".join(_mode(mode) for mode in modes)
    shown = f"score {score.score:.2f}{_counts_0(score)}"
    return f"{shown}: {text}" if text else shown


def _counts_0(score: BenchScore) -> str:
    """Return that a score counts 0, where that does not go without saying."""
    return " (counts 0)" if score.score > score.counted_score else ""


def failure_lines(
    task_class: str,
    case: BenchCase,
    outcome: CaseOutcome,
    descriptions: Mapping[str, str],
) -> list[str]:
    """Return the lines that show a failed case."""
    score = outcome.score
    head = f"score {score.score:.2f}{_counts_0(score)}, not passed"
    lines = [f"case {case.case_id} of {task_class}: {head}"]
    for mode in score.failure_modes:
        lines.append(f"  {mode.severity:<5} {_mode(mode)}")
        meaning = descriptions.get(mode.code) or models.RUNNER_CODES.get(mode.code)
        if meaning:
            lines.append(f"        {meaning}")
    if score.breakdown:
        parts = (f"{key} {amount:g}" for key, amount in sorted(score.breakdown.items()))
        lines.append(f"  breakdown: {', '.join(parts)}")
    took = ""
    if score.system_ms is not None:
        took = f"the system took {seconds_words(score.system_ms / 1_000)}"
    calls = f"{len(outcome.attempts)} calls" if len(outcome.attempts) > 1 else ""
    if facts := ", ".join(filter(None, (took, cost_words(score.cost_usd), calls))):
        lines.append(f"  {facts}")
    workspace = outcome.attempts[-1].workspace if outcome.attempts else None
    if workspace is not None:
        lines.append(f"  workspace: {workspace}")
    told = "" if outcome.traceback is None else outcome.traceback.text()
    if told:
        lines += ["", *told.rstrip().splitlines()]
    if outcome.printed.strip():
        printed = outcome.printed.rstrip().splitlines()
        shown = printed[-_MAX_PRINTED_LINES:]
        left_out = len(printed) - len(shown)
        head = f"the rubric printed ({left_out} lines before are omitted):"
        lines += ["", head if left_out else "the rubric printed:", *shown]
    return lines


def _mode(mode: FailureMode) -> str:
    if not mode.detail:
        return mode.code
    if len(mode.detail) > _MAX_SHOWN_DETAIL:
        return f"{mode.code}: {mode.detail[:_MAX_SHOWN_DETAIL]}…"
    return f"{mode.code}: {mode.detail}"


# Without `from __future__ import annotations`: pydantic needs the annotations as they
# are.


_MAX_NAME: Final = 1_000
"""Characters of a key or code in a detail: a rubric may invent one of any length."""
_MAX_DETAIL: Final = 300
_MAX_VALUE: Final = 60
_OTHER: Final = "{value}: {message}"


class AnsweredMode(ClosedModel):
    """A failure mode as a rubric gives it; the task class decides its severity."""

    code: Annotated[str, Field(min_length=1)]
    severity: Any = None
    detail: str | None = None


_GivenMode = Annotated[
    AnsweredMode,
    BeforeValidator(
        lambda given: vars(given) if isinstance(given, FailureMode) else given
    ),
]


class Verdict(ClosedModel):
    """A rubric's answer of the right shape, not yet checked against its task class."""

    passed: bool
    score: Annotated[float, Field(ge=0, le=1)]
    breakdown: dict[str, float]
    failure_modes: models.Listed[_GivenMode] = ()
    cost_usd: Annotated[float, Field(ge=0, le=MOST_COST_USD)] = 0.0
    wall_clock_ms: Annotated[float, Field(allow_inf_nan=True)] = 0.0
    """Ignored: the runner measures it."""


def read_answer(given: object) -> Verdict:
    """Return a rubric's answer if it has the right shape.

    Args:
        given: A `BenchScore`, a mapping, or the JSON text of an isolated rubric. A
            `BenchScore` is checked, too, because `model_copy` and `model_construct`
            don't validate.

    Raises:
        RubricError: The answer has another shape; the message lists all problems in one
            line.
    """
    try:
        if isinstance(given, RubricAnswer):
            # Of two equal keys pydantic takes the last; so {1: ..., "1": ...} looks
            # like good JSON.
            answer = Verdict.model_validate_json(given.json)
            json.loads(given.json, object_pairs_hook=_refuse_equal_keys)
            return answer
        if isinstance(given, BenchScore):
            fields = {**vars(given)}
            fields.pop("system_ms", None)  # measured, as `wall_clock_ms` is
            return Verdict.model_validate(fields)
        if isinstance(given, Mapping):
            return Verdict.model_validate({**given})
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False):
            where = ".".join(str(part)[:_MAX_VALUE] for part in problem["loc"])
            says = packaged_table("wrong_values")["in_answers"].get(
                problem["type"], _OTHER
            )
            words = says.format(
                value=_show(problem["input"]),
                message=problem["msg"],
                **problem.get("ctx", {}),
            )
            problems.append(safe(f"{where}: {words}" if where else words))
        text = "; ".join(problems)
        cut = text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL - 3]}..."
        raise RubricError(cut) from None
    except RubricError:
        raise
    except Exception as error:  # the methods of the mapping may raise anything
        raise RubricError(describe(error)) from error
    raise RubricError(
        f"the answer is of type {type(given).__name__}; a mapping would be right"
    )


def read_verdict(given: object) -> tuple[Verdict, str]:
    """Return a rubric's answer as `read_answer` does, and what the rubric printed."""
    printed = given.printed if isinstance(given, RubricAnswer) else ""
    try:
        return read_answer(given), printed
    except RubricError as error:
        error.printed = printed
        raise


def _refuse_equal_keys(pairs: list[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    twice = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
    if twice is not None:
        raise RubricError(f"the key {safe(_show(twice))} stands twice in the answer")


def _show(given: object) -> str:
    """Return the `repr` of a value, shortened."""
    try:
        text = repr(given)
    except Exception:  # noqa: BLE001 - the value's `__repr__` may raise anything
        return f"a value of type {type(given).__name__}"
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def failed_score(
    code: str, detail: str | None, *, wall_clock_ms: float, cost_usd: float = 0.0
) -> BenchScore:
    """Return the score of a case without a verdict of its rubric.

    Args:
        code: One of the runner's.
        detail: Why, in words.
        wall_clock_ms: The measured time.
        cost_usd: What rubrics have cost; it was spent anyway.
    """
    shown = None if detail is None else safe(detail)
    return BenchScore(
        passed=False,
        score=0.0,
        failure_modes=(FailureMode(code=code, severity="block", detail=shown),),
        cost_usd=cost_usd,
        wall_clock_ms=wall_clock_ms,
    )


def graded_score(
    answer: Verdict, task_class: TaskClass, *, wall_clock_ms: float
) -> BenchScore:
    """Return the score of a case whose rubric answered in the right shape.

    A listed failure mode of severity `block` does not change `passed`: the rubric
    decides that. A code that the class doesn't list becomes
    `rubric.unknown_failure_mode`, even if it is one of the runner's.
    """
    offending = models.offending_keys(answer.breakdown, task_class.breakdown_keys)
    wrong, why = "", ""
    for key, number in sorted(answer.breakdown.items(), reverse=True):
        low, high = task_class.breakdown_ranges.get(key, (0.0, 1.0))
        if not low <= number <= high:
            wrong = models.RUBRIC_MALFORMED_OUTPUT
            why = f"breakdown.{key}: {number:g} is not from {low:g} to {high:g}"
    if offending:  # the smallest, so that the detail doesn't depend on their order
        wrong, why = (
            models.RUBRIC_UNKNOWN_BREAKDOWN_KEY,
            safe(min(offending))[:_MAX_NAME],
        )
    if wrong:
        return failed_score(
            wrong, why, wall_clock_ms=wall_clock_ms, cost_usd=answer.cost_usd
        )
    taxonomy = task_class.failure_mode_taxonomy
    modes = []
    for mode in answer.failure_modes:
        code, detail, severity = (
            mode.code,
            mode.detail,
            taxonomy.get(mode.code, "block"),
        )
        if code not in taxonomy:
            code, detail = models.RUBRIC_UNKNOWN_FAILURE_MODE, safe(code)[:_MAX_NAME]
        elif code in models.RUNNER_CODES:
            severity = "block"
        modes.append(FailureMode(code=code, severity=severity, detail=detail))
    return BenchScore(
        passed=answer.passed
        and all(mode.code in taxonomy for mode in answer.failure_modes),
        score=answer.score,
        breakdown=answer.breakdown,
        failure_modes=tuple(modes),
        cost_usd=answer.cost_usd,
        wall_clock_ms=wall_clock_ms,
    )


def weights_of(task_class: TaskClass) -> dict[str, float]:
    """Return the weight of each rubric, by name in the order of the names."""
    given = task_class.settings.rubrics or {}
    return {name: given.get(name, 1.0) for name in sorted(task_class.rubrics)}


def check_variables(task_class: TaskClass, where: str) -> None:
    """Refuse a task class whose rubrics need variables that are not set.

    The values of those that are set are secrets from now on.

    Args:
        task_class: The class.
        where: The place that names them, for messages.

    Raises:
        BenchError: One is not set, or empty, as a secret that a CI job doesn't have.
    """
    declare_secret_variables(task_class.settings.rubric_env)
    missing = [
        name for name in task_class.settings.rubric_env if not os.environ.get(name)
    ]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise BenchError(
            f"{where}: rubric_env: {', '.join(missing)} {are} not set, or empty; set"
            " what the rubric needs, or take it off the list"
        )


class CombinedRubrics:
    """Grades each output with several isolated rubrics at a time."""

    is_isolated = True

    def __init__(
        self, rubrics: Mapping[str, IsolatedRubric], task_class: TaskClass
    ) -> None:
        """Take the rubrics by name, and their class, which says what each weighs."""
        self._rubrics = {name: rubrics[name] for name in sorted(rubrics)}
        self._task_class = task_class

    async def __call__(self, case: BenchCase, output: object) -> object:
        """Grade an output; all rubrics have answered or failed before this returns.

        Raises:
            RubricTimeoutError: A rubric that counts exceeded its limit.
            RubricError: A rubric that counts gave no verdict.
        """
        given = await asyncio.gather(
            *(rubric(case, output) for rubric in self._rubrics.values()),
            return_exceptions=True,
        )
        answers: dict[str, Verdict] = {}
        errors: dict[str, RubricError] = {}
        printed = ""
        for name, each in zip(self._rubrics, given, strict=True):
            shown = getattr(each, "printed", "").strip()
            try:
                if isinstance(each, BaseException):
                    shown = f"{each}\n{shown}".strip()  # how it failed as well
                    raise each
                answers[name] = read_answer(each)
            except RubricError as error:
                errors[name] = error
            printed += f"{name}: {shown}\n" if shown else ""
        task_class = self._task_class
        answer = combine(
            answers, weights_of(task_class), task_class.breakdown_keys, errors
        )
        text = answer.model_dump_json(exclude={"wall_clock_ms"})
        return RubricAnswer(json=text.encode(), printed=printed)

    async def aclose(self) -> None:
        """Close all rubrics; may be called again."""
        await asyncio.gather(*(rubric.aclose() for rubric in self._rubrics.values()))


def combine(
    answers: Mapping[str, Verdict],
    weights: Mapping[str, float],
    breakdown_keys: frozenset[str],
    errors: Mapping[str, RubricError] = MappingProxyType({}),
) -> Verdict:
    """Return the one answer that comes of those of several rubrics.

    The score is the weighted mean, and `passed` holds if all rubrics say so. The
    breakdown has the keys of all, and the score of each rubric by its name; failure
    modes stand in the order of the names; costs are added. A rubric of weight 0 decides
    nothing: its score, its keys and its cost are there, its failure modes are not, and
    it may fail. Of its keys, those that are wrong are left out.

    Args:
        answers: Those that were given, by the name of the rubric.
        weights: Of all rubrics; one at least is more than 0.
        breakdown_keys: Those that the task class allows.
        errors: Of the rubrics that gave no answer.

    Raises:
        RubricError: A rubric that counts failed, or two gave one key; the message names
            them, and the error has the cost of the others.
    """
    costs = [answer.cost_usd for answer in answers.values()]
    cost_usd = min(MOST_COST_USD, add_exactly(*costs))
    counting = {name: error for name, error in sorted(errors.items()) if weights[name]}
    if counting:
        first = next(iter(counting.values()))
        kind = (
            RubricTimeoutError if isinstance(first, RubricTimeoutError) else RubricError
        )
        raise kind(
            "; ".join(f"{name}: {error}" for name, error in counting.items()),
            traceback=next(
                filter(None, (each.traceback for each in counting.values())), ""
            ),
            printed="".join(each.printed for each in counting.values()),
            cost_usd=cost_usd,
        )
    deciding = [name for name in sorted(answers) if weights[name]]
    givers: dict[str, str] = {}
    for name in deciding:
        for key in sorted(answers[name].breakdown):
            problem = ""
            if key in weights:
                problem = "is the name of a rubric; give another"
            elif key in givers:
                problem = f"is given by {givers[key]}, too"
            if problem:
                raise RubricError(
                    f"{name}: the breakdown key {key!r} {problem}", cost_usd=cost_usd
                )
            givers[key] = name
    total = math.fsum(weights[name] for name in deciding)
    score = math.fsum(weights[name] / total * answers[name].score for name in deciding)
    breakdown = {
        key: part
        for name in sorted(answers, key=lambda name: (weights[name] > 0, name))
        for key, part in answers[name].breakdown.items()
        if weights[name] or not models.offending_keys([key], breakdown_keys)
    }
    return Verdict(
        passed=all(answers[name].passed for name in deciding),
        score=min(1.0, score),
        breakdown={
            **breakdown,
            **{name: answers[name].score for name in sorted(answers)},
        },
        failure_modes=tuple(
            mode for name in deciding for mode in answers[name].failure_modes
        ),
        cost_usd=cost_usd,
    )


def grade_in_process(
    grades: Mapping[str, Grade],
    task_class: TaskClass,
    case: Mapping[str, object],
    output: object,
) -> Verdict:
    """Return the answer of rubrics in this process; what they raise is raised.

    Raises:
        RubricError: An answer doesn't have the right shape; the message names the
            rubric.
    """
    answers = {}
    for name, grade in sorted(grades.items()):
        try:
            answers[name] = read_answer(wait_for(grade({**case}, output)))
        except RubricError as error:
            if len(grades) == 1:
                raise
            raise RubricError(f"{name}: {error}") from None
    if len(answers) == 1:
        return next(iter(answers.values()))
    return combine(answers, weights_of(task_class), task_class.breakdown_keys)
