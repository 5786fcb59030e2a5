"""Run the cases of a plan concurrently, and give each of them a score."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.calls import (
    Attempt,
    StepLedger,
    as_coroutine_function,
    end_for_good,
)
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.outcomes import (
    CaseOutcome,
    RubricAnswer,
    RubricError,
    RubricRunner,
    RubricTimeoutError,
)
from pytest_failure_taxonomy.bench.output_json import json_problem
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

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest

LOG: Final = logging.getLogger("pytest_failure_taxonomy.bench")
# Without a handler, Python would print warnings to stderr if logging is not configured.
LOG.addHandler(logging.NullHandler())

OnOutcome = Callable[[CaseOutcome], None]
OnStart = Callable[[str], None]


class Runner:
    """Runs plans. Whatever a case does, the others get their scores."""

    def __init__(
        self,
        *,
        on_outcome: OnOutcome | None = None,
        on_start: OnStart | None = None,
        is_logging: bool = True,
    ) -> None:
        """Create a runner.

        Args:
            on_outcome: Called on the event loop when a case has its score. An exception that it
                raises ends the run.
            on_start: Likewise called with the id of a case before its system is called.
            is_logging: Whether to log each failure mode of severity `block`.
        """
        self._is_logging = is_logging
        self._on_outcome = on_outcome
        self._on_start = on_start
        self._ledgers: list[StepLedger] = []

    async def execute(
        self, plan: RunPlan, *, system_under_test: SystemUnderTest, rubric_runner: RubricRunner
    ) -> BenchRunReport:
        """Run all cases of a plan and return the report.

        Exceptions of a system or a rubric become the score of their case, except for those that end
        the run: `KeyboardInterrupt`, `SystemExit`, `CancelledError` and `pytest.exit`.

        Args:
            plan: The cases and their limits.
            system_under_test: Takes a `BenchCase` and returns anything that JSON can represent. A
                plain callable runs in a thread of its own, which nothing can end: it continues
                after its limit.
            rubric_runner: Takes the case and what the system returned.

        Raises:
            BenchError: One of the two is not callable.
        """
        run = await self._run_cases(plan, system_under_test, rubric_runner)
        run_id = secrets.token_hex(16)
        return aggregate(
            plan,
            run.per_case,
            run_id=f"partial:{run_id}" if run.is_capped else run_id,
            started=run.started,
        )

    async def run_cases(
        self, plan: RunPlan, *, system_under_test: SystemUnderTest, rubric_runner: RubricRunner
    ) -> None:
        """Run all cases of a plan as `execute` does, without a report."""
        await self._run_cases(plan, system_under_test, rubric_runner)

    async def _run_cases(
        self, plan: RunPlan, system_under_test: SystemUnderTest, rubric_runner: RubricRunner
    ) -> _Run:
        _refuse_uncallable(system_under_test=system_under_test, rubric_runner=rubric_runner)
        ledger = StepLedger()
        case_run = CaseRun(plan, system_under_test, rubric_runner, ledger)
        run = _Run(plan, case_run, self._tell, self._on_start)
        self._ledgers.append(ledger)
        try:
            await run.run_all()
        finally:
            self._ledgers.remove(ledger)
        return run

    def current_step(self) -> tuple[str, float] | None:
        """Return the id of the case whose step is running on the event loop, and its start.

        Another thread can call this to find out which case blocks the loop. The start is a time of
        `time.perf_counter`, in seconds.
        """
        steps = (ledger.current for ledger in tuple(self._ledgers))
        return next((step for step in steps if step is not None), None)

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
        on_outcome: OnOutcome,
        on_start: OnStart | None,
    ) -> None:
        self.per_case: list[tuple[str, BenchScore]] = []
        self.started: set[str] = set()
        self.is_capped = False
        """Whether a case was not started because of the cost cap."""
        self._left = iter(plan.cases)
        self._case_run = case_run
        self._on_outcome = on_outcome
        self._on_start = on_start
        self._max_cost = _exact(plan.max_cost_usd)
        self._cost = Decimal(0)
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
                if self._error is not None:
                    break
                if self._max_cost is not None and self._cost > self._max_cost:
                    self.is_capped = True
                    break
                await self._run_one(case)
        except BaseException as error:  # noqa: BLE001 - `run_all` raises it
            self._error = self._error or error
        self._working -= 1
        if not self._ended.done() and (self._error is not None or not self._working):
            self._ended.set_result(None)

    async def _run_one(self, case: BenchCase) -> None:
        self.started.add(case.case_id)
        if self._on_start is not None:
            self._on_start(case.case_id)
        outcome = await self._case_run.run(case)
        self.per_case.append((case.case_id, outcome.score))
        if self._max_cost is not None:
            self._cost += Decimal(repr(outcome.score.cost_usd))
        self._on_outcome(outcome)


def _exact(cost_usd: float | None) -> Decimal | None:
    """Return an amount as a decimal number, so that three times 0.1 does not exceed 0.3."""
    return None if cost_usd is None else Decimal(repr(cost_usd))


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


class CaseRun:
    """Runs single cases of a plan, several at a time on one event loop."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        rubric_runner: RubricRunner,
        ledger: StepLedger,
    ) -> None:
        self.abandoned: list[Attempt] = []
        """Calls that continued after they were cancelled."""
        self._plan = plan
        self._ledger = ledger
        self._call_system = as_coroutine_function(system_under_test)
        self._call_rubric = as_coroutine_function(rubric_runner)
        self._rubric_keeps_limit = getattr(rubric_runner, "enforces_limit", False) is True

    async def run(self, case: BenchCase) -> CaseOutcome:
        """Run a case: the system under test, then the rubric, each within its limit.

        Raises:
            BaseException: What the system or rubric raised, if `ends_run` says that it ends a run.
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
        """Make a call; repeat it once if it timed out only because others blocked the loop."""
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
    """Return a copy for the system to work on, so that the rubric doesn't see its changes."""
    fields = deepcopy(case.fields)
    is_field = case.input is case.fields.get("input")
    given = fields.get("input") if is_field else deepcopy(case.input)
    return case.model_copy(update={"fields": fields, "input": given})


def judge_system(attempt: Attempt) -> BenchScore | None:
    """Return the score of a case whose system failed; `None` if the rubric is to judge."""
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


def _outcome(case: BenchCase, score: BenchScore, last: Attempt) -> CaseOutcome:
    """Return the outcome of a case from its score and its last call."""
    error = last.error
    said = last.value if error is None else error
    outcome = CaseOutcome(
        case_id=case.case_id,
        score=score,
        traceback=None if error is None or last.is_expired else Traceback(error),
        printed=said.printed if isinstance(said, RubricAnswer | RubricError) else "",
    )
    last.forget()
    return outcome
