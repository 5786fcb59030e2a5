"""One call of a system or a rubric within its limit, whatever it does.

A coroutine runs in a task on an event loop, a plain function in a thread of its own. The runner
waits for either on its own loop. In a run of pytest that is another loop than the one on which
systems run, so that nothing that a case does to its loop reaches the runner.

A limit is one of the case's own time: what an event loop, or all threads, were kept from by others
doesn't count.

What a call returns or raises may run code when it is read. So it is read within the call, and the
runner is told plain data.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

from pytest_failure_taxonomy.bench.answers import is_plain
from pytest_failure_taxonomy.bench.user_code import ToldError, ends_run, told

Function = Callable[..., Any]

_TICK_SECONDS: Final = 0.05
_LEAST_LATE_SECONDS: Final = 0.03
"""A loop is late that runs what is due later than this: it was blocked, or the GIL was held."""
_BLOCKING_STEP_SECONDS: Final = 0.05
"""A step this long blocks the other calls; shorter ones are not counted."""
_LEAST_SECONDS: Final = 0.001
_LAST_STEP_SECONDS: Final = 0.1

_never_closed: list[object] = []
"""Coroutines that refuse to end; Python would print an error when they are garbage-collected."""


class LoopLostError(Exception):
    """Another case has blocked the event loop of a call for good."""


class Loop:
    """An event loop on which calls run, and how long it was kept from what was due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.attempts: set[Attempt] = set()
        """Those that run on it."""
        self.is_lost = False
        """Whether one of them blocks it for good."""
        self._late_seconds = 0.0
        self._due = float("inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch; to be called on the loop."""
        self._due = perf_counter() + _TICK_SECONDS
        self._timer = self.loop.call_later(_TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Watch no longer; to be called on the loop."""
        if self._timer is not None:
            self._timer.cancel()

    def late_seconds(self) -> float:
        """Return how long it was late until now; any thread may ask."""
        late = self.silent_seconds()
        return self._late_seconds + (late if late > _LEAST_LATE_SECONDS else 0.0)

    def silent_seconds(self) -> float:
        """Return for how long it has not run what is due; any thread may ask."""
        return perf_counter() - self._due

    def give_up(self) -> None:
        """Leave a loop that is blocked for good."""
        self.is_lost = True
        for each in tuple(self.attempts):
            each.leave_loop()

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop: now if it is the running one, soon otherwise."""
        try:
            is_here = asyncio.get_running_loop() is self.loop
        except RuntimeError:  # a thread
            is_here = False
        if is_here:
            function(*args)
            return
        with suppress(RuntimeError):  # it is closed, nobody is waiting
            self.loop.call_soon_threadsafe(function, *args)

    def _tick(self) -> None:
        self._late_seconds = self.late_seconds()
        self.start()


def is_async(function: Function) -> bool:
    """Tell whether a function, or an object that can be called, returns a coroutine."""
    while isinstance(function, partial):
        function = function.func
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is asked
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


@dataclass(kw_only=True, eq=False)
class Attempt:
    """A call in a task or a thread of its own, and its result.

    It does not use `asyncio.timeout` for the deadline because it must know whether the deadline
    ended the call, extend it by the time that others took, and stop waiting even for a call that
    ignores its cancellation.
    """

    call: Callable[[], Any]
    """What is called: plain or async."""
    read: Callable[[Any], Any]
    """Makes plain data of what it returns; an exception that this raises is the call's."""
    is_async: bool
    """As `is_async` tells."""
    is_ours: bool = False
    """Whether what it returns and raises is plain already."""
    loop: Callable[[], Loop]
    """Returns where its coroutine runs, be it async or one that returns an awaitable."""
    here: Loop
    """The running loop."""
    limit_seconds: float | None
    """When to cancel it; `None` if it enforces a limit of its own."""
    grace_seconds: float
    """How long it may take to end after it was cancelled."""

    def __post_init__(self) -> None:
        self.value: Any = None
        """What was read of what the call returned."""
        self.error: ToldError | None = None
        """What the call raised, as plain data."""
        self.fatal_error: BaseException | None = None
        """What ends the whole run if it was raised, or took the call's loop away; or `None`."""
        self.elapsed_seconds = 0.0
        """Until the caller went on."""
        self.own_seconds = 0.0
        """From the call's own beginning to its end; until it was given up if it has none."""
        self.is_expired = False
        """Whether our deadline ended the call."""
        self.is_abandoned = False
        """Whether it continues although it was cancelled."""
        self._clock = self.here
        """The loop whose lateness is not the call's own time."""
        self._ended: asyncio.Future[None] = self.here.loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._lost_before = 0.0
        """What `_lost_seconds` was on an earlier clock."""
        self._steps: _Steps | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._computed_seconds = 0.0
        """How long its thread has computed, once the plain function has ended."""

    async def run(self) -> None:
        """Make the call and wait until it ends or is abandoned.

        Raises:
            asyncio.CancelledError: The caller was cancelled. The call was then cancelled, too, and
                had its grace period.
        """
        self._began = perf_counter()
        if self.is_async:
            self._start_coroutine()
        else:
            self._late_before = self._clock.late_seconds()
            context = copy_context()
            self._thread = threading.Thread(
                target=context.run,
                args=(self._in_thread,),
                name="bench-call",
                daemon=True,
            )
            self._thread.start()
        if self.limit_seconds is not None and not self._ended.done():
            self._timer = self.here.loop.call_later(self.limit_seconds, self._expire)
        try:
            await self._ended
        except asyncio.CancelledError:
            self._ended = self.here.loop.create_future()  # the former one was cancelled
            await self._stop()
            raise
        finally:
            if not self._ended.done():
                self._ended.cancel()
            self._clock.attempts.discard(self)
            if self._timer is not None:
                self._timer.cancel()
        self.elapsed_seconds = perf_counter() - self._began
        self.own_seconds = self.own_seconds or self.elapsed_seconds

    def _in_thread(self) -> None:
        """Make the call of a plain function; what it returns may be for a loop to await."""
        self._call_began = (
            perf_counter()
        )  # a new thread may wait for the interpreter's lock
        try:
            value = self.call()
            is_awaitable = inspect.isawaitable(value)
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            self._conclude(None, error)
            return
        if not is_awaitable:
            self._conclude(value, None)
        elif not self._ended.done():
            self.call, self.is_async = partial(_awaited, value), True
            self.here.call(self._start_coroutine)
        elif inspect.iscoroutine(value):
            with suppress(
                BaseException
            ):  # it may have been started, and may refuse to end
                value.close()  # avoids the warning that it was never awaited

    def _start_coroutine(self) -> None:
        self._clock = self.loop()
        self._clock.attempts.add(self)
        self._late_before = self._clock.late_seconds()
        self._clock.call(self._begin, self._clock)

    def _begin(self, on: Loop) -> None:
        """Create the task, on its loop."""
        if on is not self._clock:  # that loop was lost, and has come back
            return
        if self._thread is None:
            self._call_began = perf_counter()
        try:
            self._steps = _Steps(self.call(), self._end_steps)
        except BaseException as error:  # noqa: BLE001 - as above
            self._conclude(None, error)
            return
        self._task = on.loop.create_task(self._steps)
        if self.is_expired:
            self._task.cancel()

    def _end_steps(
        self, steps: _Steps, value: Any, error: BaseException | None
    ) -> None:
        if steps is not self._steps:
            return
        self._clock.attempts.discard(self)  # it needs the loop no longer
        if self.is_ours or (error is None and is_plain(value)):
            self._conclude(value, error)
        else:  # its methods may keep the loop for good
            self._lost_before, self._clock = self._lost_seconds(), self.here
            self._late_before = self._clock.late_seconds()
            threading.Thread(
                target=self._conclude,
                args=(value, error),
                name="bench-call",
                daemon=True,
            ).start()

    def _conclude(self, value: Any, error: BaseException | None) -> None:
        """Read what came of the call, and tell the runner."""
        seconds = perf_counter() - self._call_began
        read, shown, fatal = None, None, None
        try:
            if error is None:
                read = self.read(value)
        except BaseException as raised:  # noqa: BLE001 - as above
            error = raised
        if error is not None:
            shown = told(error)
            if shown.is_lost or ends_run(error, is_cancelled_by_us=self.is_expired):
                fatal = error
        if threading.current_thread() is self._thread:
            self._computed_seconds = time.thread_time()
        self.here.call(self._end, read, shown, fatal, seconds)

    def _end(
        self,
        value: Any = None,
        error: ToldError | None = None,
        fatal: BaseException | None = None,
        seconds: float = 0.0,
    ) -> None:
        if not self._ended.done():
            self.own_seconds = seconds
            self.value, self.error, self.fatal_error = value, error, fatal
            self._ended.set_result(None)

    @property
    def is_too_late(self) -> bool:
        """Whether it exceeded its limit, or kept all others so long that no deadline fired."""
        return self.is_expired or self._held_too_long

    @property
    def why_late(self) -> str:
        """Why it is too late, if it is."""
        if self._held_too_long:
            if self._steps is None:
                return f"computed for {self._computed_seconds:.1f} s"
            end = " and did not come back" if self.is_abandoned else ""
            return f"blocked the event loop for {self._held_seconds:.1f} s{end}"
        if self.is_abandoned:
            return f"went on for {self.grace_seconds:g} s after it was cancelled, and was abandoned"
        return f"was not done within {self.limit_seconds or 0:g} s"

    @property
    def is_in_step(self) -> bool:
        """Whether it keeps its loop now."""
        return self._steps is not None and self._steps.is_in_step

    @property
    def _held_seconds(self) -> float:
        """How long it may have kept others: its steps the loop, or its thread the GIL."""
        if self._steps is not None:
            return self._steps.held_seconds()
        return self._computed_seconds or self._cpu_seconds()

    @property
    def _held_too_long(self) -> bool:
        if self.limit_seconds is None or (
            self._steps is None and not self._computed_seconds
        ):
            return False
        return self._held_seconds > max(self.limit_seconds, _BLOCKING_STEP_SECONDS)

    def end_for_good(self) -> asyncio.Task[None] | None:
        """Stop an abandoned call at its next step; return its task if that still runs."""
        if self._task is None or self._task.done():
            return None
        if self._steps is not None:
            self._steps.is_to_end = True
        self._clock.call(self._task.cancel)
        return self._task

    def leave_loop(self) -> None:
        """End a call whose loop another one has blocked for good; one that has not begun moves."""
        steps = self._steps
        if steps is not None and steps.has_begun:
            lost = LoopLostError("another case or task blocked the event loop for good")
            self._end(None, told(lost), lost)
            return
        self._steps = self._task = None
        if steps is not None:
            steps.is_to_end = True
        self._began = perf_counter()
        self._start_coroutine()

    def _expire(self) -> None:
        if self._ended.done() or self.limit_seconds is None:
            return
        left = self.limit_seconds - (
            perf_counter() - self._began - self._lost_seconds()
        )
        if left > _LEAST_SECONDS:
            silent = self._clock.silent_seconds()
            if silent > self.limit_seconds + self.grace_seconds and not any(
                each.is_in_step for each in self._clock.attempts
            ):
                self._clock.give_up()  # a task or a callback that a case has made keeps it
                if self._ended.done():
                    return
                left = self.limit_seconds  # it begins anew, on another loop
            self._timer = self.here.loop.call_later(
                max(left, _TICK_SECONDS), self._expire
            )
            return
        self.is_expired = True
        if not self.is_async:  # no thread can be ended
            self._end()
            return
        if self._task is not None:
            self._clock.call(self._task.cancel)
        self._timer = self.here.loop.call_later(self.grace_seconds, self._abandon)

    def _lost_seconds(self) -> float:
        """Return how long others kept it from running."""
        late = self._clock.late_seconds() - self._late_before
        return self._lost_before + max(0.0, late - self._held_seconds)

    def _cpu_seconds(self) -> float:
        """Return how long a thread has computed: if all others stood still, it kept the GIL."""
        thread = self._thread
        if (
            thread is None
            or thread.ident is None
            or not hasattr(time, "pthread_getcpuclockid")
        ):
            return 0.0
        with suppress(OSError):  # it has just ended
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        return 0.0

    def _abandon(self) -> None:
        if self._ended.done():
            return
        self.is_abandoned = True
        self._ended.set_result(None)
        if self._clock is not self.here and self.is_in_step:
            self._clock.attempts.discard(self)
            self._clock.give_up()

    async def _stop(self) -> None:
        if self._task is not None:
            self._clock.call(self._task.cancel)
            await asyncio.wait((self._ended,), timeout=self.grace_seconds)
            await end_for_good([self])


async def _awaited(value: Any) -> Any:
    return await value


async def end_for_good(attempts: Iterable[Attempt]) -> None:
    """End abandoned calls, so that no loop waits for them when it closes.

    This can't end a call that waits for a task of its own that refuses to end.
    """
    tasks = [task for each in attempts if (task := each.end_for_good())]
    loop = asyncio.get_running_loop()
    own = [task for task in tasks if task.get_loop() is loop]
    if own:
        await asyncio.wait(own, timeout=_LAST_STEP_SECONDS)


class _Steps(Coroutine[Any, Any, None]):
    """A coroutine that runs another, times its steps, and tells its result or exception.

    It never raises: a `KeyboardInterrupt` that leaves a task would end the whole event loop.
    """

    def __init__(
        self,
        inner: Coroutine[Any, Any, Any],
        on_end: Callable[[_Steps, Any, BaseException | None], None],
    ) -> None:
        self.is_to_end = False
        """Whether to close the other coroutine at its next step."""
        self.has_begun = False
        self._inner = inner
        self._on_end = on_end
        self._held_seconds = 0.0
        self._step_began = 0.0
        """0 between steps."""

    @property
    def is_in_step(self) -> bool:
        """Whether it keeps its loop now; any thread may ask."""
        return bool(self._step_began)

    def held_seconds(self) -> float:
        """Return for how long its blocking steps have kept the loop; any thread may ask."""
        began = self._step_began
        took = perf_counter() - began if began else 0.0
        return self._held_seconds + (took if took >= _BLOCKING_STEP_SECONDS else 0.0)

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
        if self.is_to_end:
            chain = _awaited_chain(self._inner)
            try:
                self._inner.close()
            except BaseException:  # noqa: BLE001 - the call was given up, its errors don't matter
                _never_closed.extend(chain)
            self._on_end(self, None, asyncio.CancelledError())
            raise StopIteration
        value, raised = None, None
        self.has_begun = True
        self._step_began = perf_counter()
        try:
            return step(argument)
        except StopIteration as stop:
            value = stop.value
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            raised = error
        finally:
            self._held_seconds, self._step_began = self.held_seconds(), 0.0
        self._on_end(self, value, raised)
        raise StopIteration


def _awaited_chain(coroutine: object) -> list[object]:
    """Return a coroutine and the chain of coroutines that it awaits."""
    chain = [coroutine]
    while (coroutine := getattr(coroutine, "cr_await", None)) is not None:
        chain.append(coroutine)
    return chain
