"""Run the cases of a plan concurrently, and give each of them a score."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.models import BenchCase, BenchRunReport, BenchScore, RunPlan
from pytest_failure_taxonomy.bench.outcomes import CaseAttempt, CaseOutcome, RubricRunner
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.calls import end_for_good
from pytest_failure_taxonomy.bench.run.case import (
    NONE_EARLIER,
    CaseRun,
    Earlier,
    OnAttempt,
    OnSpend,
)
from pytest_failure_taxonomy.bench.run_report import aggregate
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest

LOG: Final = logging.getLogger("pytest_failure_taxonomy.bench")
# Without a handler, Python would print warnings to stderr if logging is not configured.
LOG.addHandler(logging.NullHandler())

OnOutcome = Callable[[CaseOutcome], None]
OnStart = Callable[[str], None]
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
        earlier: Earlier = NONE_EARLIER,
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
        earlier: Earlier = NONE_EARLIER,
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
        for mode in outcome.score.failure_modes if self._is_logging else ():
            if mode.severity == "block":
                LOG.warning(
                    "case_failed case=%s code=%s severity=%s detail=%r",
                    outcome.case_id,
                    mode.code,
                    mode.severity,
                    mode.detail,
                )
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
