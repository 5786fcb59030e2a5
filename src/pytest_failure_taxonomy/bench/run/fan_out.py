"""Run cases on background event loops while the main thread waits for them one by one.

pytest's items run one after another in the main thread. The first item of a unit starts all of the
unit's cases here, and each item then waits for its own. The runner has a loop that no system sees.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan
from pytest_failure_taxonomy.bench.run.calls import Loop
from pytest_failure_taxonomy.bench.run.runner import CaseLostError, RunResults
from pytest_failure_taxonomy.bench.scores import CaseOutcome

_LOOK_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 5.0
"""How long cancelled work may take to end when everything is closed."""


class NotStartedError(Exception):
    """The case was never started; the message says why."""


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


class BackgroundLoop(Loop):
    """An event loop in a daemon thread, which goes on whatever its callbacks do."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._is_closing = False
        self._thread = threading.Thread(
            target=self._turn, name="bench-cases", daemon=True
        )
        self._thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not (self._is_closing or self.loop.is_closed()):
            with suppress(
                BaseException
            ):  # a system may stop the loop, or a callback raise
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


class Unit:
    """Cases that run concurrently, each with a future for which its item waits."""

    def __init__(self, plan: RunPlan, done: Mapping[str, CaseOutcome]) -> None:
        """Prepare; nothing is started yet.

        Args:
            plan: The cases and their limits.
            done: The outcomes of cases that an earlier run has finished.
        """
        self._outcomes: dict[str, Future[CaseOutcome]] = {
            case.case_id: Future() for case in plan.cases
        }
        for case_id, outcome in done.items():
            self._outcomes[case_id].set_result(outcome)
        left = tuple(case for case in plan.cases if case.case_id not in done)
        self.left = plan.model_copy(update={"cases": left})
        """The plan for the cases that have no outcome yet."""
        self._run: Future[RunResults]

    def wait_on(self, run: Future[RunResults]) -> None:
        """Let a run that was started give the cases their outcomes."""
        self._run = run
        run.add_done_callback(self._settle)

    def deliver(self, outcome: CaseOutcome) -> None:
        """Hand the outcome of a case to its item."""
        waited_for = self._outcomes.get(outcome.case_id)
        if waited_for is not None:  # else its item was interrupted
            waited_for.set_result(outcome)

    def lose(self, case_id: str, lost: CaseLostError) -> None:
        """Have the item of a case fail with what its system has raised, and no other item."""
        waited_for = self._outcomes.get(case_id)
        if waited_for is not None:
            waited_for.set_exception(lost)

    def _settle(self, run: Future[RunResults]) -> None:
        """Set the reason why the run ended as the exception of all cases without an outcome."""
        error: BaseException | None
        try:
            error = run.exception()
        except (CancelledError, asyncio.CancelledError) as cancelled:
            error = cancelled
        if isinstance(error, _StopError):
            error = error.error
        if error is None:
            error = NotStartedError(run.result().stopped)
        for outcome in list(self._outcomes.values()):
            if not outcome.done():
                outcome.set_exception(error)

    def wait_for(self, case: BenchCase) -> CaseOutcome:
        """Wait for the outcome of a case.

        Raises:
            NotStartedError: The run was stopped before, by its cost cap for example.
            CaseLostError: The case has no score.
        """
        outcome = self._outcomes[case.case_id]
        try:
            while (
                not outcome.done()
            ):  # on Windows, Ctrl+C ends no wait that has no limit
                wait([outcome], _LOOK_SECONDS)
            return outcome.result()
        finally:
            del self._outcomes[
                case.case_id
            ]  # each holds a lock, and there may be thousands

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
    """The units of one process, the loop of their runners, and the one of their systems."""

    def __init__(self) -> None:
        self._background: BackgroundLoop | None = None
        self._of_systems: BackgroundLoop | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._units: list[Unit] = []

    @property
    def background(self) -> BackgroundLoop:
        """The loop of the runners; started when it is first used."""
        if self._background is None:
            self._background = BackgroundLoop()
        return self._background

    def loop_of_systems(self) -> BackgroundLoop:
        """Return the loop of the systems; a new one if a case blocks the last one for good."""
        if self._of_systems is None or self._of_systems.is_lost:
            self._of_systems = BackgroundLoop()
            self._of_systems.call(self._of_systems.start)
        return self._of_systems

    def start(self, unit: Unit, work: Awaitable[RunResults]) -> None:
        """Start what runs the cases of a unit."""
        self._units = [each for each in self._units if not each.is_over]
        self._units.append(unit)
        unit.wait_on(self.background.submit(work))

    def call(
        self, work: Coroutine[Any, Any, Any], *, on: BackgroundLoop | None = None
    ) -> Any:
        """Run a coroutine on a loop, by default that of the runners, and wait for its result."""
        running = (on or self.background).submit(work)
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
        """Cancel the units, run the registered closers, and close the loops."""
        for unit in self._units:
            if not unit.is_over:
                unit.cancel()
        if self._background is not None:
            for closer in self._closers:
                with suppress(Exception):
                    self._background.submit(closer()).result(_CLOSE_SECONDS)
        for loop in (self._background, self._of_systems):
            if loop is not None and not loop.is_lost:
                loop.close()
        self._background = self._of_systems = None
