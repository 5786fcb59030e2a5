"""Run cases on one background event loop while the main thread waits for them one by one.

pytest's items run one after another in the main thread. The first item of a unit starts all of the
unit's cases here, and each item then waits for its own.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_failure_taxonomy.bench.models import SUT_TIMEOUT, BenchCase, RunPlan
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.calls import as_coroutine_function
from pytest_failure_taxonomy.bench.run.runner import PlanRun, Runner
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome, failed_score

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from pytest_failure_taxonomy.bench.scores import RubricRunner, SystemUnderTest

_NOTHING_DONE: Final[Mapping[str, CaseOutcome]] = MappingProxyType({})
_NO_CALLS: Final[Mapping[str, tuple[CaseAttempt, ...]]] = MappingProxyType({})
_LOOK_SECONDS: Final = 0.25
"""How often a waiting item checks whether a case blocks the loop."""
_STUCK_SECONDS: Final = 1.0
"""How much longer than its limit a case may block the loop before the loop is abandoned."""
_CLOSE_SECONDS: Final = 5.0
"""How long cancelled work may take to end when everything is closed."""


class NotStartedError(Exception):
    """The case was never started; the message says why."""


class RunEndedError(Exception):
    """Another case ended the run before this case had a score."""


class _LeftError(Exception):
    """Replaces a SystemExit or CancelledError of a case, which the case's own item raises."""


class _StopError(Exception):
    """Wraps a KeyboardInterrupt or SystemExit, which would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def _within_loop(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        raise _StopError(error) from None


class BackgroundLoop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._is_closing = False
        self._thread = threading.Thread(target=self._turn, name="bench-cases", daemon=True)
        self._thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_closing:  # a system may have stopped the loop
            self.loop.run_forever()

    def submit(self, work: Awaitable[Any]) -> Future[Any]:
        """Run a coroutine on the loop; what would end the loop becomes a `_StopError`."""
        return asyncio.run_coroutine_threadsafe(_within_loop(work), self.loop)

    def close(self) -> None:
        """Stop and close the loop, unless something on it blocks forever."""
        self._is_closing = True
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()


class Watch(Protocol):
    """Learns on the event loop what happens to the cases of a unit."""

    def begin(self, case_id: str, attempt: int) -> None:
        """See a case before its system is called for the given time."""

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """See what a call of a case's system has spent; any thread may call this."""

    def fail(self, case_id: str, call: CaseAttempt) -> None:
        """See a call that failed, after which the system is called again."""

    def finish(self, outcome: CaseOutcome) -> None:
        """See the outcome of a case."""


class Unit:
    """Cases that run concurrently, each with a future for which its item waits."""

    def __init__(
        self,
        plan: RunPlan,
        system_under_test: SystemUnderTest,
        make_rubric: Callable[[], RubricRunner],
        watch: Watch,
        *,
        admission: Admission | None = None,
        done: Mapping[str, CaseOutcome] = _NOTHING_DONE,
        earlier: Mapping[str, Sequence[CaseAttempt]] = _NO_CALLS,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            plan: The cases and their limits.
            system_under_test: What is called for each case.
            make_rubric: Returns what grades the outputs.
            watch: Learns what happens.
            admission: Decides which cases may start; by default, the plan's own limits do.
            done: The outcomes of cases that an earlier run has finished.
            earlier: Calls of the system that count for cases that are still to run.
        """
        self._plan = plan
        self._call = as_coroutine_function(system_under_test)
        self._left: dict[str, BaseException] = {}
        self._make_rubric = make_rubric
        self._watch = watch
        self._admission = Admission(plan) if admission is None else admission
        self._earlier = dict(earlier)
        self._outcomes: dict[str, Future[CaseOutcome]] = {
            case.case_id: Future() for case in plan.cases
        }
        for case_id, outcome in done.items():
            self._outcomes[case_id].set_result(outcome)
        self._counted: dict[tuple[str, int], float] = {}
        """What is counted already of calls that were given up, by case and number."""
        self._runner: Runner
        self._run: Future[PlanRun]
        self._background: BackgroundLoop

    def start(self, background: BackgroundLoop) -> None:
        """Start all cases that have no outcome yet."""
        left = tuple(
            case
            for case in self._plan.cases
            if case.case_id in self._outcomes and not self._outcomes[case.case_id].done()
        )
        self._background = background
        runner = self._runner = Runner(
            on_outcome=lambda outcome: self._deliver(runner, outcome),
            on_start=lambda case_id: self._begin(runner, case_id),
            on_attempt=self._watch.fail,
            on_spend=lambda *spent: self._spend(runner, *spent),
            admission=self._admission,
            is_logging=False,
        )
        plan = self._plan.model_copy(update={"cases": left})
        self._run = background.submit(
            runner.run_cases(
                plan,
                system_under_test=self._call_system,
                rubric_runner=self._make_rubric(),
                earlier=dict(self._earlier),
            )
        )
        self._run.add_done_callback(lambda run: self._settle(runner, run))

    def _begin(self, runner: Runner, case_id: str) -> None:
        """See a case before its system is called, which costs money; end a run that was given up.

        Its loop may come back at any time, and its cases run on another one by then.
        """
        if runner is not self._runner:
            raise RunEndedError("the loop was given up")
        self._watch.begin(case_id, len(self._earlier.get(case_id, ())) + 1)

    def _spend(self, runner: Runner, case_id: str, attempt: int, cost_usd: float) -> None:
        if runner is not self._runner:
            self._counted[case_id, attempt] = self._counted.get((case_id, attempt), 0.0) + cost_usd
        self._watch.spend(case_id, attempt, cost_usd)

    async def _call_system(self, case: BenchCase) -> Any:
        """Call the system; keep a SystemExit or CancelledError for the case's item.

        In the runner they would end all cases, but for pytest they are failures of one test.
        """
        try:
            return await self._call(case)
        except SystemExit as error:
            self._left[case.case_id] = error
            raise _LeftError from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._left[case.case_id] = error
            raise _LeftError from error

    def _deliver(self, runner: Runner, outcome: CaseOutcome) -> None:
        if runner is not self._runner:  # the outcome comes too late, from an abandoned loop
            self._count_late(outcome)
            return
        left = self._left.get(outcome.case_id)
        if left is None:
            self._watch.finish(outcome)
        waited_for = self._outcomes.get(outcome.case_id)
        if waited_for is None:  # its item was interrupted
            return
        if left is None:
            waited_for.set_result(outcome)
        else:
            waited_for.set_exception(left)

    def _count_late(self, outcome: CaseOutcome) -> None:
        """Count what a call cost that was given up and returned all the same."""
        call = outcome.attempts[-1]
        counted = self._counted.get((outcome.case_id, call.attempt), 0.0)
        late = call.cost_usd - counted
        if late > 0:
            self._admission.spend(outcome.case_id, call.attempt, late)
            self._watch.spend(outcome.case_id, call.attempt, late)

    def _settle(self, runner: Runner, run: Future[PlanRun]) -> None:
        """Set the reason why the run ended as the exception of all cases without an outcome."""
        if runner is not self._runner:
            return
        error: BaseException | None
        try:
            error = run.exception()
        except (CancelledError, asyncio.CancelledError) as cancelled:
            error = cancelled
        if isinstance(error, _StopError):
            error = error.error
        if isinstance(error, asyncio.CancelledError | CancelledError):
            error = RunEndedError("a case of the same unit raised CancelledError in its own task")
        if error is None:
            error = NotStartedError(run.result().stop_reason)
        for outcome in list(self._outcomes.values()):
            if not outcome.done():
                outcome.set_exception(error)

    def wait_for(self, case: BenchCase, renew: Callable[[], BackgroundLoop]) -> CaseOutcome:
        """Wait for the outcome of a case.

        Args:
            case: One of the plan's cases.
            renew: Returns a new loop to replace one that a case blocks forever.

        Raises:
            NotStartedError: The run was stopped before, by its cost cap for example.
            BaseException: What a system raised that ends a run, such as KeyboardInterrupt.
        """
        outcome = self._outcomes[case.case_id]
        try:
            while not outcome.done():
                try:
                    return outcome.result(_LOOK_SECONDS)
                except FutureTimeoutError:
                    self._give_up_on_stuck(renew)
            return outcome.result()
        finally:
            del self._outcomes[case.case_id]  # each holds a lock, and there may be thousands

    def _give_up_on_stuck(self, renew: Callable[[], BackgroundLoop]) -> None:
        step = self._runner.current_step()
        if step is None:
            return
        case_id, since = step
        case = next(case for case in self._plan.cases if case.case_id == case_id)
        limit = case.timeout_per_case_seconds or self._plan.timeout_per_case_seconds
        held = time.perf_counter() - since
        if held <= limit + _STUCK_SECONDS:
            return
        detail = f"blocked the event loop for {held:.1f} s and did not come back"
        calls = self._runner.give_up()
        self._counted |= {
            (each, last[-1].attempt): last[-1].cost_usd for each, last in calls.items()
        }
        self._deliver(self._runner, self._timed_out(case_id, held, detail, calls.pop(case_id, ())))
        for each, attempts in calls.items():
            self._earlier[each] = attempts
            if not attempts[-1].ended:
                why = "another case blocked the event loop for good"
                lost = attempts[-1].model_copy(update={"ended": why})
                self._earlier[each] = (*attempts[:-1], lost)
                self._watch.fail(each, lost)
        given_up = self._run
        self.start(renew())
        given_up.cancel()  # what still runs there when the loop comes back

    def _timed_out(
        self, case_id: str, held: float, detail: str, calls: tuple[CaseAttempt, ...]
    ) -> CaseOutcome:
        """Return the outcome of the case that blocks the loop; it costs what it has spent."""
        score = failed_score(SUT_TIMEOUT, detail, wall_clock_ms=held * 1000)
        spent = math.fsum(each.cost_usd for each in calls)
        before = math.fsum(each.cost_usd for each in self._earlier.get(case_id, ()))
        self._admission.settle(case_id, spent - before, "")
        if calls:
            calls = (*calls[:-1], calls[-1].model_copy(update={"ended": detail}))
        return CaseOutcome(
            case_id=case_id, score=score.model_copy(update={"cost_usd": spent}), attempts=calls
        )

    def cancel(self) -> None:
        """Cancel the cases that still run, and wait until they end or a time limit passes."""
        if self._run.cancel():
            return
        with suppress(BaseException):
            self._run.result(_CLOSE_SECONDS)

    @property
    def is_over(self) -> bool:
        """Whether every case has an outcome or an exception."""
        return all(outcome.done() for outcome in list(self._outcomes.values()))


class FanOut:
    """The units of one process, and the loop on which they run."""

    def __init__(self) -> None:
        self._background: BackgroundLoop | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._units: list[Unit] = []

    @property
    def background(self) -> BackgroundLoop:
        """The loop; started when it is first used."""
        if self._background is None:
            self._background = BackgroundLoop()
        return self._background

    def start(self, unit: Unit) -> None:
        """Start the cases of a unit."""
        self._units = [each for each in self._units if not each.is_over]
        self._units.append(unit)
        unit.start(self.background)

    def wait_for(self, unit: Unit, case: BenchCase) -> CaseOutcome:
        """Wait for the outcome of one of a unit's cases."""
        return unit.wait_for(case, self._renew)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and wait for what it returns."""
        running = self.background.submit(work)
        try:
            return running.result()
        except _StopError as stop:
            raise stop.error from None
        except BaseException:
            running.cancel()
            raise

    def at_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Register a coroutine function to run on the loop before it closes."""
        self._closers.append(closer)

    def close(self) -> None:
        """Cancel the units, run the registered closers, and close the loop."""
        for unit in self._units:
            if not unit.is_over:
                unit.cancel()
        if self._background is None:
            return
        for closer in self._closers:
            with suppress(Exception):
                self._background.submit(closer()).result(_CLOSE_SECONDS)
        self._background.close()
        self._background = None

    def _renew(self) -> BackgroundLoop:
        self._background = BackgroundLoop()
        return self._background
