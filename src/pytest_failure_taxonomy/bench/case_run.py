"""From one case to its score: the system under test, then the rubric, each within its limit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.answers import read_answer
from pytest_failure_taxonomy.bench.attempts import Attempt
from pytest_failure_taxonomy.bench.blocking import StepLedger
from pytest_failure_taxonomy.bench.exceptions import describe, traceback_of
from pytest_failure_taxonomy.bench.failure_paths import (
    graded_score,
    malformed_output_score,
    rubric_timeout_score,
    sut_exception_score,
    sut_output_score,
    sut_timeout_score,
)
from pytest_failure_taxonomy.bench.json_values import json_problem
from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore, RunPlan, TaskClass
from pytest_failure_taxonomy.bench.outcomes import (
    CaseOutcome,
    RubricAnswer,
    RubricError,
    RubricRunner,
    RubricTimeoutError,
)
from pytest_failure_taxonomy.bench.threads import as_coroutine_function

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest

_OWN_LIMITS: Final = (TimeoutError, RubricTimeoutError)
"""What says that a limit was overrun that is not ours: the system's, or an isolated rubric's."""

_Call = Callable[..., Coroutine[Any, Any, Any]]


class CaseRun:
    """Runs any case of a plan; several at a time, on one event loop."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        rubric_runner: RubricRunner,
        ledger: StepLedger,
    ) -> None:
        self.abandoned: list[Attempt] = []
        """Calls that went on after they were cancelled."""
        self._plan = plan
        self._ledger = ledger
        self._call_system = as_coroutine_function(system_under_test)
        self._call_rubric = as_coroutine_function(rubric_runner)
        self._rubric_keeps_limit = getattr(rubric_runner, "enforces_limit", False) is True

    async def run(self, case: BenchCase) -> CaseOutcome:
        """Run a case.

        Raises:
            BaseException: what system or rubric raised that ends a run, as `ends_run` has it.
        """
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        system = await self._try(case, self._call_system, (_copy(case),), limit)
        score = judge_system(system)
        if score is not None:
            return _outcome(case, score, system)
        rubric = await self._try(
            case, self._call_rubric, (case, system.value), self._rubric_limit(case)
        )
        wall_clock_ms = (system.elapsed_seconds + rubric.elapsed_seconds) * 1000
        score = judge_rubric(rubric, self._plan.task_class, wall_clock_ms=wall_clock_ms)
        return _outcome(case, score, rubric)

    def _rubric_limit(self, case: BenchCase) -> float | None:
        if self._rubric_keeps_limit:
            return None
        return case.rubric_wall_clock_seconds or self._plan.rubric_wall_clock_seconds

    async def _try(
        self, case: BenchCase, call: _Call, arguments: tuple[Any, ...], limit: float | None
    ) -> Attempt:
        """Make a call, and once more if it gave up only because another case blocked the loop."""
        attempt = await self._attempt(case, call, arguments, limit)
        if (
            isinstance(attempt.error, _OWN_LIMITS)
            and not attempt.is_too_late
            and attempt.is_owed_another
        ):
            attempt.forget()
            attempt = await self._attempt(case, call, arguments, limit)
        if attempt.fatal_error is not None:
            raise attempt.fatal_error
        return attempt

    async def _attempt(
        self, case: BenchCase, call: _Call, arguments: tuple[Any, ...], limit: float | None
    ) -> Attempt:
        attempt = Attempt(
            case.case_id,
            call(*arguments),
            self._ledger,
            limit_seconds=limit,
            grace_seconds=self._plan.cancellation_grace_seconds,
        )
        await attempt.run()
        if attempt.is_abandoned:
            self.abandoned.append(attempt)
        return attempt


def _copy(case: BenchCase) -> BenchCase:
    """Return a case for a system to work on: what it changes there, no rubric shall see."""
    fields = deepcopy(case.fields)
    is_field = case.input is case.fields.get("input")
    given = fields.get("input") if is_field else deepcopy(case.input)
    return case.model_copy(update={"fields": fields, "input": given})


def judge_system(attempt: Attempt) -> BenchScore | None:
    """Return the score of a case that failed by its system; `None` where a rubric is to judge."""
    wall_clock_ms = attempt.elapsed_seconds * 1000
    if attempt.is_too_late:
        return sut_timeout_score(wall_clock_ms=wall_clock_ms, detail=attempt.why_late)
    if attempt.error is not None:
        return sut_exception_score(attempt.error, wall_clock_ms=wall_clock_ms)
    problem = json_problem(attempt.value)
    if problem is not None:
        return sut_output_score(problem, wall_clock_ms=wall_clock_ms)
    return None


def judge_rubric(attempt: Attempt, task_class: TaskClass, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case by what became of its rubric."""
    if attempt.is_too_late:
        return rubric_timeout_score(wall_clock_ms=wall_clock_ms, detail=attempt.why_late)
    error = attempt.error
    if isinstance(error, RubricTimeoutError):
        return rubric_timeout_score(wall_clock_ms=wall_clock_ms, detail=_message(error))
    if error is None:
        try:
            answer = read_answer(attempt.value)
        except RubricError as problem:
            error = problem
        else:
            return graded_score(answer, task_class, wall_clock_ms=wall_clock_ms)
    return malformed_output_score(_message(error), wall_clock_ms=wall_clock_ms)


def _message(error: BaseException) -> str:
    return str(error) if isinstance(error, RubricError) else describe(error)


def _outcome(case: BenchCase, score: BenchScore, last: Attempt) -> CaseOutcome:
    """Put together what is shown of a case whose last call this was."""
    error = last.error
    said = last.value if error is None else error
    outcome = CaseOutcome(
        case_id=case.case_id,
        score=score,
        traceback="" if error is None or last.is_expired else traceback_of(error),
        printed=said.printed if isinstance(said, RubricAnswer | RubricError) else "",
    )
    last.forget()
    return outcome
