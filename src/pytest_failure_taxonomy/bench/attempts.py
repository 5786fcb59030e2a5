"""One call of a system or a rubric within its limit, whatever it does with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from time import perf_counter
from typing import Any, Final

from pytest_failure_taxonomy.bench.blocking import StepLedger, TimedCall
from pytest_failure_taxonomy.bench.exceptions import ends_run

_LEAST_SECONDS: Final = 0.001
_LAST_STEP_SECONDS: Final = 0.1
_NOTABLE_HOLD_SECONDS: Final = 0.05
_NOTABLE_LOSS: Final = 0.1
"""The share of its time that a call must have lost to others to be owed another one."""


class Attempt:
    """A call in a task of its own, and what came of it.

    The deadline is kept here and not by `asyncio.timeout`: it must know whether it was the one
    that ended the call, give back what others' blocking took, and end the wait even for a call
    that goes on.
    """

    def __init__(
        self,
        case_id: str,
        work: Coroutine[Any, Any, Any],
        ledger: StepLedger,
        *,
        limit_seconds: float | None,
        grace_seconds: float,
    ) -> None:
        """Begin nothing yet.

        Args:
            case_id: named as long as the call makes a step.
            work: the call.
            ledger: of the loop.
            limit_seconds: after which it is cancelled; `None` where it keeps a limit of its own.
            grace_seconds: how long it may take to end once cancelled.
        """
        self.elapsed_seconds = 0.0
        self.is_expired = False
        """Our deadline, and nothing else, ended it."""
        self.is_abandoned = False
        """It goes on though it was cancelled."""
        self._limit = limit_seconds
        self._grace = grace_seconds
        self._began = perf_counter()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._call = TimedCall(case_id, work, ledger, self._release)
        self._task: asyncio.Task[None]

    async def run(self) -> None:
        """Make the call and wait until it has ended, or is abandoned.

        Raises:
            asyncio.CancelledError: whoever waits was cancelled; the call then is, too, and has
                had its grace.
        """
        self._task = self._loop.create_task(self._call)
        if self._limit is not None and not self._ended.done():
            self._timer = self._loop.call_later(self._limit, self._expire)
        try:
            await self._ended
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
        self.elapsed_seconds = perf_counter() - self._began

    @property
    def value(self) -> Any:
        """What the call returned."""
        return self._call.value

    @property
    def error(self) -> BaseException | None:
        """What the call raised."""
        return self._call.error

    @property
    def fatal_error(self) -> BaseException | None:
        """What the call raised, if it is meant for the whole run."""
        error = self._call.error
        if error is not None and ends_run(error, is_cancelled_by_us=self.is_expired):
            return error
        return None

    @property
    def is_too_late(self) -> bool:
        """Whether it overran its limit, be it that it never let the deadline come."""
        return self.is_expired or self._held_too_long

    @property
    def why_late(self) -> str | None:
        """What there is to say of an overrun beside that it was one."""
        if self._held_too_long:
            return f"blocked the event loop for {self._call.held_seconds:.1f} s"
        if self.is_abandoned:
            return f"went on for {self._grace:g} s after it was cancelled, and was abandoned"
        return None

    @property
    def is_owed_another(self) -> bool:
        """Whether it gave up by a limit of its own in time that others took from it."""
        lost = self._call.lost_seconds
        return lost > 0 and lost >= _NOTABLE_LOSS * self.elapsed_seconds

    @property
    def _held_too_long(self) -> bool:
        held = self._call.held_seconds
        return self._limit is not None and held > max(self._limit, _NOTABLE_HOLD_SECONDS)

    def end_for_good(self) -> asyncio.Task[None] | None:
        """Let an abandoned call make no further step; return its task if that still runs."""
        if self._task.done():
            return None
        self._call.end_at_next_step()
        self._task.cancel()
        return self._task

    def forget(self) -> None:
        """Let go of what was raised: its frames hold all that the call worked on."""
        self._call.error = None

    def _release(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _expire(self) -> None:
        if self._ended.done() or self._limit is None:
            return
        lost = self._call.lost_seconds
        left = self._limit - (perf_counter() - self._began - lost)
        if lost > 0 and left > _LEAST_SECONDS:
            self._timer = self._loop.call_later(left, self._expire)
            return
        self.is_expired = True
        self._task.cancel()
        self._timer = self._loop.call_later(self._grace, self._abandon)

    def _abandon(self) -> None:
        if not self._ended.done():
            self.is_abandoned = True
            self._ended.set_result(None)

    async def _stop(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,), timeout=self._grace)
        await end_for_good([self])


async def end_for_good(attempts: Iterable[Attempt]) -> None:
    """End abandoned calls, so that no loop waits for them when it closes.

    One that waits for a task of its own making that refuses to end can't be helped.
    """
    tasks = [task for each in attempts if (task := each.end_for_good())]
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_STEP_SECONDS)
