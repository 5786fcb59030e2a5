"""One call of a system or a rubric within its limit, whatever it does.

Plain functions run in threads (`call_threads`). Every step of a call on the event loop is timed, so
that a call that blocks the loop pays for it and not the others.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from time import perf_counter
from typing import Any, Final

from pytest_failure_taxonomy.bench.run.call_threads import CallThreads, Raised
from pytest_failure_taxonomy.bench.user_code import ends_run

Function = Callable[..., Any]


def as_coroutine_function(function: Function) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that calls another one, or a plain function in a thread.

    It returns a `Raised` if the plain function raised.
    """
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    method = getattr(type(inner), "__call__", None)  # noqa: B004 - the method itself is asked
    is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(method)

    async def call_on_loop(*args: object) -> Any:
        return await function(*args)

    async def call_in_thread(*args: object) -> Any:
        result = await _threads.call(function, *args)
        if type(result) is not Raised and inspect.isawaitable(result):
            return await result
        return result

    return call_on_loop if is_async else call_in_thread


_threads: Final = CallThreads()


BLOCKING_STEP_SECONDS: Final = 0.05
"""A step this long blocks the other calls; shorter ones are not counted."""

_never_closed: list[object] = []
"""Coroutines that refuse to end; Python would print an error when they are garbage-collected."""


class StepLedger:
    """Which case is running a step now, and for how long steps have blocked the loop."""

    __slots__ = ("blocked_seconds", "current")

    def __init__(self) -> None:
        self.blocked_seconds = 0.0
        """The total of all blocking steps of all calls."""
        self.current: tuple[str, float] | None = None
        """The case whose step is running, and its start according to `time.perf_counter`."""


class TimedCall(Coroutine[Any, Any, None]):
    """A coroutine that runs another, times its steps, and stores its result or exception.

    It never raises: a `KeyboardInterrupt` that leaves a task would end the whole event loop.
    """

    def __init__(
        self,
        case_id: str,
        inner: Coroutine[Any, Any, Any],
        ledger: StepLedger,
        on_end: Callable[[], None],
    ) -> None:
        self.case_id = case_id
        self.held_seconds = 0.0
        """The total of its own steps."""
        self.value: Any = None
        self.error: BaseException | None = None
        self._blocked_seconds = 0.0
        self._blocked_before = ledger.blocked_seconds
        self._inner = inner
        self._ledger = ledger
        self._on_end = on_end
        self._is_to_end = False

    @property
    def lost_seconds(self) -> float:
        """How long other calls have blocked the loop since this call began."""
        return self._ledger.blocked_seconds - self._blocked_before - self._blocked_seconds

    def end_at_next_step(self) -> None:
        """Close the other coroutine at its next step."""
        self._is_to_end = True

    def send(self, value: Any, /) -> Any:
        """Run a step."""
        return self._step(self._inner.send, value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> Any:
        """Run a step that begins with an exception."""
        del tb
        return self._step(self._inner.throw, typ if val is None else val)

    def close(self) -> None:
        """Close the other coroutine."""
        self._inner.close()

    def __await__(self) -> Any:
        raise TypeError("a timed call is for a task of its own")

    def _step(self, step: Callable[[Any], Any], argument: Any) -> Any:
        if self._is_to_end:
            chain = _awaited_chain(self._inner)
            try:
                self._inner.close()
            except BaseException:  # noqa: BLE001 - the call was given up, its errors don't matter
                _never_closed.extend(chain)
            self.error = asyncio.CancelledError()
            self._on_end()
            raise StopIteration
        ledger = self._ledger
        began = perf_counter()
        ledger.current = (self.case_id, began)
        try:
            return step(argument)
        except StopIteration as stop:
            if type(stop.value) is Raised:
                self.error = stop.value.error
            else:
                self.value = stop.value
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            self.error = error
        finally:
            ledger.current = None
            took = perf_counter() - began
            self.held_seconds += took
            if took >= BLOCKING_STEP_SECONDS:
                self._blocked_seconds += took
                ledger.blocked_seconds += took
        self._on_end()
        raise StopIteration


def _awaited_chain(coroutine: object) -> list[object]:
    """Return a coroutine and the chain of coroutines that it awaits."""
    chain = [coroutine]
    while (coroutine := getattr(coroutine, "cr_await", None)) is not None:
        chain.append(coroutine)
    return chain


_LEAST_SECONDS: Final = 0.001
_LAST_STEP_SECONDS: Final = 0.1
_NOTABLE_HOLD_SECONDS: Final = 0.05
_NOTABLE_LOSS: Final = 0.1
"""The share of its time that a call must have lost to others to be repeated."""


class Attempt:
    """A call in a task of its own, and its result.

    It does not use `asyncio.timeout` for the deadline because it must know whether the deadline
    ended the call, extend it by the time that other calls blocked the loop, and stop waiting even
    for a call that ignores its cancellation.
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
        """Prepare the call without starting it.

        Args:
            case_id: The case, which the ledger names while the call runs a step.
            work: The call.
            ledger: The ledger of the loop.
            limit_seconds: When to cancel it; `None` if it enforces a limit of its own.
            grace_seconds: How long it may take to end after it was cancelled.
        """
        self.elapsed_seconds = 0.0
        self.is_expired = False
        """Whether our deadline ended the call."""
        self.is_abandoned = False
        """Whether it continues although it was cancelled."""
        self._limit = limit_seconds
        self._grace = grace_seconds
        self._began = perf_counter()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._call = TimedCall(case_id, work, ledger, self._release)
        self._task: asyncio.Task[None]

    async def run(self) -> None:
        """Make the call and wait until it ends or is abandoned.

        Raises:
            asyncio.CancelledError: The caller was cancelled. The call was then cancelled, too, and
                had its grace period.
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
        """What the call raised if it must end the whole run, or `None`."""
        error = self._call.error
        if error is not None and ends_run(error, is_cancelled_by_us=self.is_expired):
            return error
        return None

    @property
    def is_too_late(self) -> bool:
        """Whether it exceeded its limit, or blocked the loop so long that no deadline fired."""
        return self.is_expired or self._held_too_long

    @property
    def why_late(self) -> str | None:
        """Details about why it is too late, or `None`."""
        if self._held_too_long:
            return f"blocked the event loop for {self._call.held_seconds:.1f} s"
        if self.is_abandoned:
            return f"went on for {self._grace:g} s after it was cancelled, and was abandoned"
        return None

    @property
    def is_owed_another(self) -> bool:
        """Whether other calls blocked the loop long enough to make it time out by itself."""
        lost = self._call.lost_seconds
        return lost > 0 and lost >= _NOTABLE_LOSS * self.elapsed_seconds

    @property
    def _held_too_long(self) -> bool:
        held = self._call.held_seconds
        return self._limit is not None and held > max(self._limit, _NOTABLE_HOLD_SECONDS)

    def end_for_good(self) -> asyncio.Task[None] | None:
        """Stop an abandoned call at its next step; return its task if that still runs."""
        if self._task.done():
            return None
        self._call.end_at_next_step()
        self._task.cancel()
        return self._task

    def forget(self) -> None:
        """Drop the exception: its frames keep everything that the call used alive."""
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

    This can't end a call that waits for a task of its own that refuses to end.
    """
    tasks = [task for each in attempts if (task := each.end_for_good())]
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_STEP_SECONDS)
