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

from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, Answer, Spending, json_problem
from pytest_failure_taxonomy.bench.models import (
    RUBRIC_MALFORMED_OUTPUT,
    RUBRIC_TIMEOUT,
    SUT_EXCEPTION,
    BenchCase,
    BenchScore,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.outcomes import (
    CaseAttempt,
    CaseOutcome,
    RubricAnswer,
    RubricError,
    RubricRunner,
    RubricTimeoutError,
)
from pytest_failure_taxonomy.bench.run.calls import Attempt, StepLedger, as_coroutine_function
from pytest_failure_taxonomy.bench.scores import (
    graded_score,
    malformed_output_score,
    read_answer,
    rubric_timeout_score,
    sut_exception_score,
    sut_output_score,
    sut_timeout_score,
)
from pytest_failure_taxonomy.bench.user_code import (
    Traceback,
    describe,
    fingerprint_of_error,
    fingerprint_of_words,
    kind_of,
    pause_seconds,
)
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest


OnAttempt = Callable[[str, CaseAttempt], None]
OnSpend = Callable[[str, int, float], None]
Earlier = Mapping[str, Sequence[CaseAttempt]]

NONE_EARLIER: Final[Earlier] = MappingProxyType({})

_OWN_LIMITS: Final = (TimeoutError, RubricTimeoutError)
"""Exceptions of limits that we don't enforce: a system's own, or an isolated rubric's."""

_Call = Callable[..., Coroutine[Any, Any, Any]]


class _Calls:
    """The calls of the system for one case that runs."""

    __slots__ = ("began", "done", "is_calling", "spending", "started_at")

    def __init__(self, done: Sequence[CaseAttempt]) -> None:
        self.done = list(done)
        self.is_calling = False
        self.spending: Spending
        self.started_at = 0.0
        self.began = 0.0

    def begin(self, spending: Spending) -> None:
        """Begin the next call."""
        self.is_calling = True
        self.spending = spending
        self.started_at = time.time()
        self.began = time.perf_counter()

    def end(self, ended: str = "", kind: str | None = None, fingerprint: str = "") -> CaseAttempt:
        """Add the call that has just ended."""
        attempt = self._call(ended, kind, fingerprint)
        self.is_calling = False
        self.done.append(attempt)
        return attempt

    def all(self) -> tuple[CaseAttempt, ...]:
        """Return all calls, one that is running as if it ended now."""
        return (*self.done, self._call()) if self.is_calling else tuple(self.done)

    def _call(self, ended: str = "", kind: str | None = None, fingerprint: str = "") -> CaseAttempt:
        spending = self.spending
        return CaseAttempt(
            number=len(self.done) + 1,
            started_at=self.started_at,
            seconds=time.perf_counter() - self.began,
            cost_usd=spending.cost_usd,
            usage=spending.usage,
            ended=ended,
            kind=kind,
            fingerprint=fingerprint,
        )


class CaseRun:
    """Runs single cases of a plan, several at a time on one event loop."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        rubric_runner: RubricRunner,
        *,
        earlier: Earlier = NONE_EARLIER,
        on_attempt: OnAttempt | None = None,
        on_spend: OnSpend | None = None,
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

    async def run(self, case: BenchCase) -> CaseOutcome:
        """Run a case: the system under test, then the rubric, each within its limit.

        Raises:
            BaseException: What the system or rubric raised, if `ends_run` says that it ends a run.
        """
        calls = self._running[case.case_id] = _Calls(self._earlier.get(case.case_id, ()))
        try:
            return await self._run(case, calls)
        finally:
            del self._running[case.case_id]

    async def _run(self, case: BenchCase, calls: _Calls) -> CaseOutcome:
        system = await self._try_system(case, calls)
        answer = _taken(system, calls.spending)
        score = judge_system(system, answer)
        if score is not None:
            calls.end(*_why_ended(score, system.error))
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
        score = judge_rubric(rubric, self._plan.task_class, wall_clock_ms=wall_clock_ms)
        fingerprint = _why_not_graded(score, rubric)
        if fingerprint:
            calls.done[-1] = replace(calls.done[-1], fingerprint=fingerprint)
        return _outcome(case, score, rubric, calls, answer)

    def next_attempt(self, case_id: str) -> int:
        """Return the number of the first call of a case's system in this run."""
        return len(self._earlier.get(case_id, ())) + 1

    def cost_of(self, outcome: CaseOutcome) -> float:
        """Return what a case cost in this run, without what it had cost before."""
        before = self._earlier.get(outcome.case_id, ())
        return outcome.score.cost_usd - math.fsum(each.cost_usd for each in before)

    def calls_in_flight(self) -> dict[str, tuple[CaseAttempt, ...]]:
        """Return all calls of the system so far for each case that runs."""
        found = {case_id: calls.all() for case_id, calls in tuple(self._running.items())}
        return {case_id: calls for case_id, calls in found.items() if calls}

    async def _try_system(self, case: BenchCase, calls: _Calls) -> Attempt:
        """Call the system, and again if the case is owed another call or it is to be retried."""
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        is_owed, tries = True, 1
        while True:
            spending = Spending(self._spend_of(case.case_id, len(calls.done) + 1))
            calls.begin(spending)
            given = _copy(case, spending)
            attempt = await self._attempt(case, self._call_system, (given,), limit)
            error = attempt.error
            if error is None or attempt.fatal_error is not None:
                break
            if is_owed and _lost_its_time(attempt):
                is_owed = False
                self._note_call(case, calls.end("another case blocked the event loop"))
                attempt.forget()
                continue
            kind = None if attempt.is_too_late else kind_of(error)
            pause = pause_seconds(self._plan.retry, tries, kind, error)
            if pause is None:
                break
            tries += 1
            fingerprint = fingerprint_of_error(SUT_EXCEPTION, error)
            self._note_call(case, calls.end(describe(error), kind, fingerprint))
            attempt.forget()
            await asyncio.sleep(pause)
        if attempt.fatal_error is not None:
            raise attempt.fatal_error
        return attempt

    def _spend_of(self, case_id: str, attempt: int) -> Callable[[float], None] | None:
        on_spend = self._on_spend
        return None if on_spend is None else partial(on_spend, case_id, attempt)

    def _note_call(self, case: BenchCase, call: CaseAttempt) -> None:
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


def _copy(case: BenchCase, spending: Spending) -> BenchCase:
    """Return a copy for the system to work on, so that the rubric doesn't see its changes."""
    fields = deepcopy(case.fields)
    is_field = case.input is case.fields.get("input")
    given = fields.get("input") if is_field else deepcopy(case.input)
    copied = case.model_copy(update={"fields": fields, "input": given})
    return copied.spending_to(spending)


def _taken(system: Attempt, spending: Spending) -> Answer:
    """Return what a system returned as an `Answer`, and count what that cost."""
    value = system.value
    if not isinstance(value, Answer):
        return Answer(output=value)
    spending.on_spend = None  # the whole cost of a call is told when it has ended
    spending.add(value.cost_usd, value.usage or {})
    return value


def judge_system(attempt: Attempt, answer: Answer) -> BenchScore | None:
    """Return the score of a case whose system failed; `None` if the rubric is to judge."""
    wall_clock_ms = attempt.elapsed_seconds * 1000
    if attempt.is_too_late:
        return sut_timeout_score(wall_clock_ms=wall_clock_ms, detail=attempt.why_late)
    if attempt.error is not None:
        return sut_exception_score(
            attempt.error, kind=kind_of(attempt.error), wall_clock_ms=wall_clock_ms
        )
    problem = json_problem(answer.output)
    if problem is None and answer.transcript is not None:
        problem = json_problem(answer.transcript)
        problem = problem and f"in the transcript: {problem}"
    if problem is not None:
        return sut_output_score(problem, wall_clock_ms=wall_clock_ms)
    return None


def _why_ended(score: BenchScore, error: BaseException | None) -> tuple[str, str | None, str]:
    """Return why a call gave no output, the kind of its exception, and its fingerprint."""
    mode = score.failure_modes[0]
    ended = mode.detail or mode.code
    if error is None or mode.code != SUT_EXCEPTION:
        return ended, None, fingerprint_of_words(mode.code, mode.detail or "")
    return ended, kind_of(error), fingerprint_of_error(mode.code, error)


def _why_not_graded(score: BenchScore, rubric: Attempt) -> str:
    """Return the fingerprint of what kept a rubric from giving a score; empty if it gave one."""
    if rubric.error is not None and not rubric.is_too_late:
        return fingerprint_of_error(score.failure_modes[0].code, rubric.error)
    for mode in score.failure_modes[:1]:
        if mode.code in (RUBRIC_MALFORMED_OUTPUT, RUBRIC_TIMEOUT):
            return fingerprint_of_words(mode.code, mode.detail or "")
    return ""


def judge_rubric(attempt: Attempt, task_class: TaskClass, *, wall_clock_ms: float) -> BenchScore:
    """Return the score of a case from the call of its rubric."""
    if attempt.is_too_late:
        return rubric_timeout_score(wall_clock_ms=wall_clock_ms, detail=attempt.why_late)
    error = attempt.error
    if isinstance(error, RubricTimeoutError):
        return rubric_timeout_score(
            wall_clock_ms=wall_clock_ms, detail=_message(error), cost_usd=error.cost_usd
        )
    if error is None:
        try:
            answer = read_answer(attempt.value)
        except RubricError as problem:
            error = problem
        else:
            return graded_score(answer, task_class, wall_clock_ms=wall_clock_ms)
    cost_usd = error.cost_usd if isinstance(error, RubricError) else 0.0
    return malformed_output_score(_message(error), wall_clock_ms=wall_clock_ms, cost_usd=cost_usd)


def _message(error: BaseException) -> str:
    return str(error) if isinstance(error, RubricError) else describe(error)


def _outcome(
    case: BenchCase, score: BenchScore, last: Attempt, calls: _Calls, answer: Answer | None = None
) -> CaseOutcome:
    """Return the outcome of a case from its score, its last call, and all calls of its system."""
    error = last.error
    said = last.value if error is None else error
    spent = math.fsum(each.cost_usd for each in calls.done)
    if spent:
        cost_usd = min(score.cost_usd + spent, MOST_COST_USD)
        score = score.model_copy(update={"cost_usd": cost_usd})
    outcome = CaseOutcome(
        case_id=case.case_id,
        score=score,
        output=None if answer is None else answer.output,
        transcript=None if answer is None else answer.transcript,
        attempts=tuple(calls.done),
        traceback=None if error is None or last.is_expired else Traceback(error),
        printed=said.printed if isinstance(said, RubricAnswer | RubricError) else "",
    )
    last.forget()
    return outcome
