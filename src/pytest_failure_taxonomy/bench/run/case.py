"""Run one case: call the system, grade what it returned, and score whatever went wrong."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench import outcomes, user_code
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, Answer, Spending, json_problem
from pytest_failure_taxonomy.bench.models import (
    RUBRIC_MALFORMED_OUTPUT,
    RUBRIC_TIMEOUT,
    SUT_EXCEPTION,
    SUT_TIMEOUT,
    BenchCase,
    BenchScore,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.run.calls import Attempt, StepLedger, as_coroutine_function
from pytest_failure_taxonomy.bench.scores import failed_score, graded_score, read_answer
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest


OnAttempt = Callable[[str, outcomes.CaseAttempt], None]
OnSpend = Callable[[str, int, float], None]
Earlier = Mapping[str, Sequence[outcomes.CaseAttempt]]
NONE_EARLIER: Final[Earlier] = MappingProxyType({})

_OWN_LIMITS: Final = (TimeoutError, outcomes.RubricTimeoutError)
"""Exceptions of limits that we don't enforce: a system's own, or an isolated rubric's."""

_Call = Callable[..., Coroutine[Any, Any, Any]]


class _Calls:
    """The calls of the system for one case that runs."""

    def __init__(self, done: Sequence[outcomes.CaseAttempt]) -> None:
        self.done = list(done)
        self.is_calling = False
        self.spending: Spending

    def begin(self, spending: Spending) -> None:
        """Begin the next call."""
        self.is_calling = True
        self.spending = spending
        self.started_at = time.time()
        self.began = time.perf_counter()

    def end(self, **what: Any) -> outcomes.CaseAttempt:
        """Add the call that has just ended, with what came of it."""
        attempt = self._until_now(**what)
        self.is_calling = False
        self.done.append(attempt)
        return attempt

    def all(self) -> tuple[outcomes.CaseAttempt, ...]:
        """Return all calls, one that is running as if it ended now."""
        return (*self.done, self._until_now()) if self.is_calling else tuple(self.done)

    def _until_now(self, **what: Any) -> outcomes.CaseAttempt:
        return outcomes.CaseAttempt(
            number=len(self.done) + 1,
            started_at=self.started_at,
            seconds=time.perf_counter() - self.began,
            cost_usd=self.spending.cost_usd,
            usage=self.spending.usage,
            **what,
        )


class CaseRun:
    """Runs single cases of a plan, several at a time on one event loop."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        rubric_runner: outcomes.RubricRunner,
        *,
        earlier: Earlier,
        on_attempt: OnAttempt | None,
        on_spend: OnSpend,
    ) -> None:
        self.abandoned: list[Attempt] = []
        """Calls that continued after they were cancelled."""
        self.ledger = StepLedger()
        self._plan = plan
        self._earlier = earlier
        self._on_attempt = on_attempt
        self._on_spend = on_spend
        self._running: dict[str, _Calls] = {}
        self._call_system = as_coroutine_function(system_under_test)
        self._call_rubric = as_coroutine_function(rubric_runner)
        self._rubric_keeps_limit = getattr(rubric_runner, "enforces_limit", False) is True

    async def run(self, case: BenchCase) -> outcomes.CaseOutcome:
        """Run a case: the system under test, then the rubric, each within its limit.

        Raises:
            BaseException: What the system or rubric raised, if `ends_run` says that it ends a run.
        """
        calls = self._running[case.case_id] = _Calls(self._earlier.get(case.case_id, ()))
        try:
            return await self._run(case, calls)
        finally:
            del self._running[case.case_id]

    async def _run(self, case: BenchCase, calls: _Calls) -> outcomes.CaseOutcome:
        system = await self._try_system(case, calls)
        answer = system.value
        if isinstance(answer, Answer):
            calls.spending.on_spend = None  # the whole cost of a call is told when it has ended
            calls.spending.add(answer.cost_usd, answer.usage or {})
        else:
            answer = Answer(output=answer)
        failed = _judge_system(system, answer)
        if failed is not None:
            score, kind, fingerprint = failed
            mode = score.failure_modes[0]
            calls.end(ended=mode.detail or mode.code, kind=kind, fingerprint=fingerprint)
            return _outcome(case, score, system, calls)
        calls.end()
        rubric = await self._try(
            case,
            self._call_rubric,
            (case, answer.output),
            None
            if self._rubric_keeps_limit
            else case.rubric_wall_clock_seconds or self._plan.rubric_wall_clock_seconds,
        )
        wall_clock_ms = (system.elapsed_seconds + rubric.elapsed_seconds) * 1000
        score, fingerprint = _judge_rubric(rubric, self._plan.task_class, wall_clock_ms)
        if fingerprint:
            calls.done[-1] = replace(calls.done[-1], fingerprint=fingerprint)
        return _outcome(case, score, rubric, calls, answer)

    def next_attempt(self, case_id: str) -> int:
        """Return the number of the first call of a case's system in this run."""
        return len(self._earlier.get(case_id, ())) + 1

    def cost_of(self, outcome: outcomes.CaseOutcome) -> float:
        """Return what a case cost in this run, without what it had cost before."""
        before = self._earlier.get(outcome.case_id, ())
        return outcome.score.cost_usd - math.fsum(each.cost_usd for each in before)

    def calls_in_flight(self) -> dict[str, tuple[outcomes.CaseAttempt, ...]]:
        """Return all calls of the system so far for each case that runs."""
        found = {case_id: calls.all() for case_id, calls in tuple(self._running.items())}
        return {case_id: calls for case_id, calls in found.items() if calls}

    async def _try_system(self, case: BenchCase, calls: _Calls) -> Attempt:
        """Call the system, and again if the case is owed another call or it is to be retried."""
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        is_owed, tries = True, 1
        while True:
            number = len(calls.done) + 1
            calls.begin(Spending(partial(self._on_spend, case.case_id, number)))
            # A copy to work on, so that the rubric doesn't see its changes.
            fields = deepcopy(case.fields)
            is_field = case.input is case.fields.get("input")
            given = case.model_copy(
                update={
                    "fields": fields,
                    "input": fields.get("input") if is_field else deepcopy(case.input),
                }
            ).spending_to(calls.spending)
            attempt = await self._attempt(case, self._call_system, (given,), limit)
            error = attempt.error
            if error is None or attempt.fatal_error is not None:
                break
            if is_owed and _lost_its_time(attempt):
                is_owed = False
                self._note_call(case, calls.end(ended="another case blocked the event loop"))
                attempt.forget()
                continue
            kind = None if attempt.is_too_late else user_code.kind_of(error)
            pause = user_code.pause_seconds(self._plan.retry, tries, kind, error)
            if pause is None:
                break
            tries += 1
            fingerprint = user_code.fingerprint_of_error(SUT_EXCEPTION, error)
            call = calls.end(ended=user_code.describe(error), kind=kind, fingerprint=fingerprint)
            self._note_call(case, call)
            attempt.forget()
            await asyncio.sleep(pause)
        if attempt.fatal_error is not None:
            raise attempt.fatal_error
        return attempt

    def _note_call(self, case: BenchCase, call: outcomes.CaseAttempt) -> None:
        if self._on_attempt is not None:
            self._on_attempt(case.case_id, call)

    async def _try(
        self, case: BenchCase, call: _Call, arguments: tuple[Any, ...], limit: float | None
    ) -> Attempt:
        """Make a call; repeat it once if it timed out only because others blocked the loop."""
        attempt = await self._attempt(case, call, arguments, limit)
        if _lost_its_time(attempt):
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
            self.ledger,
            limit_seconds=limit,
            grace_seconds=self._plan.cancellation_grace_seconds,
        )
        await attempt.run()
        if attempt.is_abandoned:
            self.abandoned.append(attempt)
        return attempt


def _lost_its_time(attempt: Attempt) -> bool:
    """Return whether a call timed out only because others blocked the event loop."""
    return (
        isinstance(attempt.error, _OWN_LIMITS)
        and not attempt.is_too_late
        and attempt.is_owed_another
    )


def _judge_system(attempt: Attempt, answer: Answer) -> tuple[BenchScore, str | None, str] | None:
    """Return the score of a case whose system failed, the failure's kind and its fingerprint.

    `None` if the rubric is to judge.
    """
    wall_clock_ms = attempt.elapsed_seconds * 1000
    code, kind, error = SUT_EXCEPTION, None, attempt.error
    if attempt.is_too_late:
        code, detail = SUT_TIMEOUT, attempt.why_late
    elif error is not None:
        kind = user_code.kind_of(error)
        detail = (
            user_code.describe(error) if kind is None else f"{kind}: {user_code.describe(error)}"
        )
    else:
        detail = json_problem(answer.output)
        if detail is None and answer.transcript is not None:
            problem = json_problem(answer.transcript)
            detail = problem and f"in the transcript: {problem}"
        if detail is None:
            return None
    score = failed_score(code, detail, wall_clock_ms=wall_clock_ms)
    if error is not None and code == SUT_EXCEPTION:
        return score, kind, user_code.fingerprint_of_error(code, error)
    return score, None, user_code.fingerprint_of_words(code, score.failure_modes[0].detail or "")


def _judge_rubric(
    attempt: Attempt, task_class: TaskClass, wall_clock_ms: float
) -> tuple[BenchScore, str]:
    """Return the score of a case from the call of its rubric.

    And the fingerprint of what kept the rubric from giving a score; empty if it gave one.
    """
    score, error = None, attempt.error
    if attempt.is_too_late:
        error = None
        score = failed_score(RUBRIC_TIMEOUT, attempt.why_late, wall_clock_ms=wall_clock_ms)
    raised = error
    if score is None and raised is None:
        try:
            answer = read_answer(attempt.value)
            score = graded_score(answer, task_class, wall_clock_ms=wall_clock_ms)
        except outcomes.RubricError as problem:
            raised = problem
    if raised is not None:
        is_limit = isinstance(raised, outcomes.RubricTimeoutError)
        score = failed_score(
            RUBRIC_TIMEOUT if is_limit else RUBRIC_MALFORMED_OUTPUT,
            str(raised) if isinstance(raised, outcomes.RubricError) else user_code.describe(raised),
            wall_clock_ms=wall_clock_ms,
            cost_usd=raised.cost_usd if isinstance(raised, outcomes.RubricError) else 0.0,
        )
    assert score is not None  # noqa: S101 - for mypy: one of the three gave it
    if error is not None:
        return score, user_code.fingerprint_of_error(score.failure_modes[0].code, error)
    for mode in score.failure_modes[:1]:
        if mode.code in (RUBRIC_MALFORMED_OUTPUT, RUBRIC_TIMEOUT):
            return score, user_code.fingerprint_of_words(mode.code, mode.detail or "")
    return score, ""


def _outcome(
    case: BenchCase, score: BenchScore, last: Attempt, calls: _Calls, answer: Answer | None = None
) -> outcomes.CaseOutcome:
    """Return the outcome of a case from its score, its last call, and all calls of its system."""
    error = last.error
    said = last.value if error is None else error
    spent = math.fsum(each.cost_usd for each in calls.done)
    if spent:
        cost_usd = min(score.cost_usd + spent, MOST_COST_USD)
        score = score.model_copy(update={"cost_usd": cost_usd})
    outcome = outcomes.CaseOutcome(
        case_id=case.case_id,
        score=score,
        output=None if answer is None else answer.output,
        transcript=None if answer is None else answer.transcript,
        attempts=tuple(calls.done),
        traceback=None if error is None or last.is_expired else user_code.Traceback(error),
        printed=said.printed
        if isinstance(said, outcomes.RubricAnswer | outcomes.RubricError)
        else "",
    )
    last.forget()
    return outcome
