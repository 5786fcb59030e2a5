"""Run the cases of a plan, some at a time, and give each of them a score."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.aggregation import aggregate
from pytest_failure_taxonomy.bench.attempts import end_for_good
from pytest_failure_taxonomy.bench.blocking import StepLedger
from pytest_failure_taxonomy.bench.case_run import CaseRun
from pytest_failure_taxonomy.bench.models import BenchCase, BenchRunReport, BenchScore, RunPlan
from pytest_failure_taxonomy.bench.outcomes import CaseOutcome, RubricRunner
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.outcomes import SystemUnderTest

LOG: Final = logging.getLogger("pytest_failure_taxonomy.bench")
# Or Python would print each warning on stderr where nobody has set up logging.
LOG.addHandler(logging.NullHandler())

OnOutcome = Callable[[CaseOutcome], None]
OnStart = Callable[[str], None]


class Runner:
    """Runs plans. What one case does never costs another its score."""

    def __init__(
        self,
        *,
        on_outcome: OnOutcome | None = None,
        on_start: OnStart | None = None,
        is_logging: bool = True,
    ) -> None:
        """Run nothing yet.

        Args:
            on_outcome: called on the event loop as soon as a case has its score. What it raises
                ends the run.
            on_start: likewise, with the id of a case whose system is about to be called.
            is_logging: log each failure mode of severity `block`; off where somebody shows them.
        """
        self._is_logging = is_logging
        self._on_outcome = on_outcome
        self._on_start = on_start
        self._ledgers: list[StepLedger] = []

    async def execute(
        self, plan: RunPlan, *, system_under_test: SystemUnderTest, rubric_runner: RubricRunner
    ) -> BenchRunReport:
        """Run all cases of a plan and report.

        Whatever a system or a rubric does becomes the score of its case, except for what is meant
        for the run: `KeyboardInterrupt`, `SystemExit`, `CancelledError` and `pytest.exit`.

        Args:
            plan: the cases and their limits.
            system_under_test: takes a `BenchCase` and returns anything that JSON can hold. A plain
                callable is called in a thread of its own, which goes on after its limit, as
                nothing can end it.
            rubric_runner: takes the case and what the system returned.

        Raises:
            BenchError: one of the two can't be called.
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
        """Run all cases of a plan as `execute` does, for whom `on_outcome` is told enough."""
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
        """Return the id of the case that keeps the event loop now, and since when.

        Made to be asked by another thread, which sees by it who blocks a loop that doesn't come
        back. The time is that of `time.perf_counter`, in seconds.
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
    """One run of a plan: workers that take one case after the other."""

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
        """A case was not started because of the cost cap."""
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
        """Run the cases; end them all before leaving, by whatever way."""
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
        """Take cases as long as there are any.

        Nothing leaves by an exception: the parent raises it. A `KeyboardInterrupt` that leaves a
        task ends the event loop, which is not ours.
        """
        try:
            for case in self._left:
                if self._error is not None:
                    break
                if self._max_cost is not None and self._cost > self._max_cost:
                    self.is_capped = True
                    break
                await self._run_one(case)
        except BaseException as error:  # noqa: BLE001 - the parent raises it
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
    """Return an amount as it is written: three times 0.1 is not above 0.3."""
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
