"""One call of a system or a rubric within its limit, whatever it does.

Plain functions run in daemon threads of their own: the executor of asyncio has few threads, which
calls that never end would use up, and the interpreter waits for them at exit. Every step of a call
on the event loop is timed, so that a call that blocks the loop pays for it and not the others.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, Final

from pytest_failure_taxonomy.bench.exceptions import ends_run

Function = Callable[..., Any]


class Raised:
    """What a call raised, as a value: a coroutine can't raise a `StopIteration`, a thread no more.

    A plain class, as one is made for each call that raises.
    """

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def as_coroutine_function(function: Function) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that calls another one, or a plain function in a thread.

    What it returns is a `Raised` where the plain function raised.
    """
    if _is_async(function):

        async def call_on_loop(*args: object) -> Any:
            return await function(*args)

        return call_on_loop
    return partial(_call_in_thread, function)


def _is_async(function: Function) -> bool:
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is asked


async def _call_in_thread(function: Function, *args: object) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def work() -> None:
        result: Any
        try:
            result = context.run(function, *args)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it decides
            result = Raised(error)
        try:
            loop.call_soon_threadsafe(_deliver, done, result)
        except RuntimeError:  # the loop is closed: nobody waits any more
            _drop(result)

    threading.Thread(target=work, name="bench-call", daemon=True).start()
    result = await done
    if not isinstance(result, Raised) and inspect.isawaitable(result):
        return await result
    return result


def _deliver(done: asyncio.Future[Any], result: Any) -> None:
    if done.done():
        _drop(result)
    else:
        done.set_result(result)


def _drop(result: Any) -> None:
    if inspect.iscoroutine(result):
        result.close()  # or Python would warn that it was never awaited


BLOCKING_STEP_SECONDS: Final = 0.05
"""A step this long keeps others from what they were waiting for; shorter ones are not counted."""

_never_closed: list[object] = []
"""Coroutines that refuse to end, kept, as Python would complain of each when it is dropped."""


class StepLedger:
    """Who makes a step just now, and for how long others have blocked the loop."""

    __slots__ = ("blocked_seconds", "current")

    def __init__(self) -> None:
        self.blocked_seconds = 0.0
        """All blocking steps of all calls together."""
        self.current: tuple[str, float] | None = None
        """The case whose step is running, and since when on `time.perf_counter`."""


class TimedCall(Coroutine[Any, Any, None]):
    """A coroutine that runs another, times its steps, and keeps what comes of it as a value.

    It raises nothing: a `KeyboardInterrupt` that leaves a task ends the whole event loop.
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
        """All its own steps together."""
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
        """How long others have blocked the loop since this call was made."""
        return self._ledger.blocked_seconds - self._blocked_before - self._blocked_seconds

    def end_at_next_step(self) -> None:
        """Never give the other coroutine another step but the one in which it is closed."""
        self._is_to_end = True

    def send(self, value: Any, /) -> Any:
        """Make a step."""
        return self._step(self._inner.send, value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> Any:
        """Make a step that begins with an exception."""
        del tb
        return self._step(self._inner.throw, typ if val is None else val)

    def close(self) -> None:
        """Close the other coroutine."""
        self._inner.close()

    def __await__(self) -> Any:
        raise TypeError("a timed call is for a task of its own")

    def _step(self, step: Callable[[Any], Any], argument: Any) -> Any:
        if self._is_to_end:
            self._end_now()
            raise StopIteration
        ledger = self._ledger
        began = perf_counter()
        ledger.current = (self.case_id, began)
        try:
            return step(argument)
        except StopIteration as stop:
            self._take(stop.value)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it decides
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

    def _take(self, value: Any) -> None:
        if type(value) is Raised:
            self.error = value.error
        else:
            self.value = value

    def _end_now(self) -> None:
        chain = _awaited_chain(self._inner)
        try:
            self._inner.close()
        except BaseException:  # noqa: BLE001 - it is given up; what it says has no one to hear it
            _never_closed.extend(chain)
        self.error = asyncio.CancelledError()
        self._on_end()


def _awaited_chain(coroutine: object) -> list[object]:
    """Return a coroutine and what it awaits, and what that awaits, and so on."""
    chain = [coroutine]
    while (coroutine := getattr(coroutine, "cr_await", None)) is not None:
        chain.append(coroutine)
    return chain


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
