"""Run the cases of a plan concurrently, and give each of them a score."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.admission import Admission
from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, Answer, Spending
from pytest_failure_taxonomy.bench.calls import (
    Attempt,
    StepLedger,
    as_coroutine_function,
    end_for_good,
)
from pytest_failure_taxonomy.bench.models import (
    SUT_EXCEPTION,
    BenchCase,
    BenchRunReport,
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
from pytest_failure_taxonomy.bench.output_json import json_problem
from pytest_failure_taxonomy.bench.retries import (
    fingerprint_of_error,
    is_infrastructure,
    kind_of,
    pause_seconds,
)
from pytest_failure_taxonomy.bench.run_report import aggregate
from pytest_failure_taxonomy.bench.scores import (
    graded_score,
    malformed_output_score,
    read_answer,
    rubric_timeout_score,
    sut_exception_score,
    sut_output_score,
    sut_timeout_score,
)
from pytest_failure_taxonomy.bench.user_errors import Traceback, describe
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest

LOG: Final = logging.getLogger("pytest_failure_taxonomy.bench")
# Without a handler, Python would print warnings to stderr if logging is not configured.
LOG.addHandler(logging.NullHandler())

OnOutcome = Callable[[CaseOutcome], None]
OnStart = Callable[[str], None]
OnAttempt = Callable[[str, CaseAttempt], None]
OnSpend = Callable[[str, int, float], None]
Earlier = Mapping[str, Sequence[CaseAttempt]]

_NONE_EARLIER: Final[Earlier] = MappingProxyType({})
_SHORTEST_WAIT_SECONDS: Final = 0.005
_LONGEST_WAIT_SECONDS: Final = 0.25
"""How long a case waits for those in flight before it asks again whether it may start."""


class Runner:
    """Runs plans. Whatever a case does, the others get their scores."""

    def __init__(
        self,
        *,
        on_outcome: OnOutcome | None = None,
        on_start: OnStart | None = None,
        on_attempt: OnAttempt | None = None,
        on_spend: OnSpend | None = None,
        admission: Admission | None = None,
        is_logging: bool = True,
    ) -> None:
        """Create a runner.

        Args:
            on_outcome: Called on the event loop when a case has its score. An exception that it
                raises ends the run.
            on_start: Likewise called with the id of a case before its system is called.
            on_attempt: Likewise called with the id of a case whose system is to be called again,
                and the call that failed.
            on_spend: Called with the id of a case, the number of the call of its system, and an
                amount in US dollars, by whatever thread the system tells it in.
            admission: Decides which cases may start; by default, the plan's own limits do.
            is_logging: Whether to log each failure mode of severity `block`.
        """
        self._is_logging = is_logging
        self._on_outcome = on_outcome
        self._on_start = on_start
        self._on_attempt = on_attempt
        self._on_spend = on_spend
        self._admission = admission
        self._runs: list[_Run] = []

    async def execute(
        self, plan: RunPlan, *, system_under_test: SystemUnderTest, rubric_runner: RubricRunner
    ) -> BenchRunReport:
        """Run all cases of a plan and return the report.

        Exceptions of a system or a rubric become the score of their case, except for those that end
        the run: `KeyboardInterrupt`, `SystemExit`, `CancelledError` and `pytest.exit`.

        Args:
            plan: The cases and their limits.
            system_under_test: Takes a `BenchCase` and returns anything that JSON can represent. A
                plain callable runs in a thread, which nothing can end: it continues after its
                limit.
            rubric_runner: Takes the case and what the system returned.

        Raises:
            BenchError: One of the two is not callable.
        """
        run = await self._run_cases(plan, system_under_test, rubric_runner)
        run_id = secrets.token_hex(16)
        return aggregate(
            plan,
            run.per_case,
            run_id=f"partial:{run_id}" if run.stop_reason else run_id,
            started=run.started,
            stopped=run.stop_reason or None,
            lost_to=run.lost_to,
        )

    async def run_cases(
        self,
        plan: RunPlan,
        *,
        system_under_test: SystemUnderTest,
        rubric_runner: RubricRunner,
        earlier: Earlier = _NONE_EARLIER,
    ) -> str:
        """Run all cases of a plan as `execute` does, without a report.

        Args:
            plan: As for `execute`.
            system_under_test: As for `execute`.
            rubric_runner: As for `execute`.
            earlier: Calls of the system that were given up before, by case id; they count.

        Returns:
            Why cases were not started; empty if all were.
        """
        run = await self._run_cases(plan, system_under_test, rubric_runner, earlier)
        return run.stop_reason

    async def _run_cases(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        rubric_runner: RubricRunner,
        earlier: Earlier = _NONE_EARLIER,
    ) -> _Run:
        _refuse_uncallable(system_under_test=system_under_test, rubric_runner=rubric_runner)
        admission = Admission.of(plan) if self._admission is None else self._admission
        case_run = CaseRun(
            plan,
            system_under_test,
            rubric_runner,
            earlier=earlier,
            on_attempt=self._on_attempt,
            on_spend=self._spend_to(admission),
        )
        run = _Run(plan, case_run, admission, self._tell, self._on_start)
        self._runs.append(run)
        try:
            await run.run_all()
        finally:
            self._runs.remove(run)
        return run

    def _spend_to(self, admission: Admission) -> OnSpend:
        told = self._on_spend
        if told is None:
            return admission.spend

        def spend(case_id: str, attempt: int, cost_usd: float) -> None:
            admission.spend(case_id, attempt, cost_usd)
            told(case_id, attempt, cost_usd)

        return spend

    def current_step(self) -> tuple[str, float] | None:
        """Return the id of the case whose step is running on the event loop, and its start.

        Another thread can call this to find out which case blocks the loop. The start is a time of
        `time.perf_counter`, in seconds.
        """
        steps = (run.ledger.current for run in tuple(self._runs))
        return next((step for step in steps if step is not None), None)

    def give_up(self) -> dict[str, tuple[CaseAttempt, ...]]:
        """Start no more cases, whenever the event loop comes back.

        Another thread calls this for a loop that a case blocks.

        Returns:
            All calls of the system so far for each case that runs now.
        """
        runs = tuple(self._runs)
        for run in runs:
            run.is_given_up = True
        return {
            case_id: attempts for run in runs for case_id, attempts in run.calls_in_flight().items()
        }

    def _tell(self, outcome: CaseOutcome) -> None:
        is_notable = self._is_logging and outcome.score.failure_modes
        if is_notable and LOG.isEnabledFor(logging.WARNING):
            _log(outcome)
        if self._on_outcome is not None:
            self._on_outcome(outcome)


def _refuse_uncallable(**given: Any) -> None:
    problems = [
        f"{name}: an object of type {type(each).__name__} can't be called; "
        "an async or a plain function would be right"
        for name, each in given.items()
        if not callable(each)
    ]
    if problems:
        raise BenchError("\n".join(problems))


class _Run:
    """One run of a plan: tasks that each take one case after another."""

    def __init__(
        self,
        plan: RunPlan,
        case_run: CaseRun,
        admission: Admission,
        on_outcome: OnOutcome,
        on_start: OnStart | None,
    ) -> None:
        self.per_case: list[tuple[str, BenchScore]] = []
        self.started: set[str] = set()
        self.stop_reason = ""
        """Why a case was not started."""
        self.lost_to: dict[str, str] = {}
        """The kind of the provider's failure for each case that never got through."""
        self.is_given_up = False
        """Whether its cases run on another event loop by now."""
        self.ledger = case_run.ledger
        self.calls_in_flight = case_run.calls_in_flight
        self._left = iter(plan.cases)
        self._case_run = case_run
        self._admission = admission
        self._on_outcome = on_outcome
        self._on_start = on_start
        self._ended = asyncio.get_running_loop().create_future()
        self._error: BaseException | None = None
        self._working = min(plan.concurrency, len(plan.cases))

    async def run_all(self) -> None:
        """Run the cases; end all of them before returning or raising."""
        if not self._working:
            return
        workers = [asyncio.create_task(self._work()) for _ in range(self._working)]
        try:
            await self._ended
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            await end_for_good(self._case_run.abandoned)
        if self._error is not None:
            raise self._error

    async def _work(self) -> None:
        """Run one case after another until none is left.

        This never raises: `run_all` does. A `KeyboardInterrupt` that leaves a task would end the
        event loop, which is not ours.
        """
        try:
            for case in self._left:
                if self._error is not None or not await self._may_start(case):
                    break
                await self._run_one(case)
        except BaseException as error:  # noqa: BLE001 - `run_all` raises it
            self._error = self._error or error
        self._working -= 1
        if not self._ended.done() and (self._error is not None or not self._working):
            self._ended.set_result(None)

    async def _may_start(self, case: BenchCase) -> bool:
        if self.is_given_up:
            return False
        if not self._admission.is_needed:
            return True
        wait_seconds = _SHORTEST_WAIT_SECONDS
        while True:
            admitted = self._admission.admit(case, self._case_run.next_attempt(case.case_id))
            if admitted != "wait":
                break
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
        if admitted == "stop":
            self.stop_reason = self._admission.stop_reason
        return admitted == "go"

    async def _run_one(self, case: BenchCase) -> None:
        self.started.add(case.case_id)
        if self._on_start is not None:
            self._on_start(case.case_id)
        outcome = await self._case_run.run(case)
        self.per_case.append((case.case_id, outcome.score))
        last = outcome.attempts[-1]
        if is_infrastructure(last.kind):
            self.lost_to[case.case_id] = last.kind or ""
        if self._admission.is_needed and not self.is_given_up:
            self._admission.settle(case.case_id, self._case_run.cost_of(outcome), last.fingerprint)
        self._on_outcome(outcome)


def _log(outcome: CaseOutcome) -> None:
    for mode in outcome.score.failure_modes:
        if mode.severity == "block":
            LOG.warning(
                "case_failed case=%s code=%s severity=%s detail=%r",
                outcome.case_id,
                mode.code,
                mode.severity,
                mode.detail,
            )


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
        earlier: Earlier = _NONE_EARLIER,
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
            case, self._call_rubric, (case, answer.output), self._rubric_limit(case)
        )
        wall_clock_ms = (system.elapsed_seconds + rubric.elapsed_seconds) * 1000
        score = judge_rubric(rubric, self._plan.task_class, wall_clock_ms=wall_clock_ms)
        if rubric.error is not None and not rubric.is_too_late:
            code = score.failure_modes[0].code
            fingerprint = fingerprint_of_error(code, rubric.error)
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

    def _rubric_limit(self, case: BenchCase) -> float | None:
        if self._rubric_keeps_limit:
            return None
        return case.rubric_wall_clock_seconds or self._plan.rubric_wall_clock_seconds

    async def _try_system(self, case: BenchCase, calls: _Calls) -> Attempt:
        """Call the system, and again if the case is owed another call or it is to be retried."""
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        is_owed = True
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
            pause = pause_seconds(self._plan.retry, len(calls.done) + 1, kind, error)
            if pause is None:
                break
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
        return ended, None, ""
    return ended, kind_of(error), fingerprint_of_error(mode.code, error)


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
