"""Threads for calls of plain functions, used again for the next call when one has ended.

The executor of asyncio has few threads, which calls that never end would use up, and the
interpreter waits for them at exit. These are daemon threads, and a call for which none is idle gets
a new one.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

IDLE_SECONDS: Final = 2.0
"""How long a thread waits for another call before it ends."""

_NAME: Final = "bench-call"


class Raised:
    """What a call raised, as a value: a future can't hold a `StopIteration`."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class CallThreads:
    """Daemon threads, as many as there are calls at a time."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Prepare; the first call starts the first thread.

        Args:
            idle_seconds: How long a thread waits for another call before it ends.
        """
        self._idle_seconds = idle_seconds
        self._forget_threads()

    def _forget_threads(self) -> None:
        self._process_id = os.getpid()
        self._idle: deque[_CallThread] = deque()
        self._inboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = WeakKeyDictionary()

    def call(self, function: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
        """Start to call a function in a thread, in a copy of the caller's context.

        Returns:
            A future of the running loop: what the function returns, or `Raised`. If it is
            cancelled, the call continues.
        """
        if self._process_id != os.getpid():  # a fork has none of its parent's threads
            self._forget_threads()
        loop = asyncio.get_running_loop()
        inbox = self._inboxes.get(loop)
        if inbox is None:
            inbox = self._inboxes[loop] = _Inbox()
        done: asyncio.Future[Any] = loop.create_future()
        call = _Call(function, args, done, inbox)
        try:
            # The thread that became idle last: the others end when there is little to do.
            thread = self._idle.pop()
        except IndexError:
            _CallThread(self._idle, self._idle_seconds, call).start()
        else:
            thread.take(call)
        return done


class _Call:
    """A call, and where its result goes."""

    __slots__ = ("_args", "_context", "_done", "_function", "_inbox")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[object, ...],
        done: asyncio.Future[Any],
        inbox: _Inbox,
    ) -> None:
        self._function = function
        self._args = args
        self._context = copy_context()
        self._done = done
        self._inbox = inbox

    def run(self) -> Callable[[], None]:
        """Make the call, and return a function that has the event loop deliver the result."""
        try:
            result = self._context.run(self._function, *self._args)
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            result = Raised(error)
        self._inbox.add(self._done, result)
        return partial(self._inbox.wake, self._done.get_loop())


class _CallThread(threading.Thread):
    """A thread that makes one call after another."""

    def __init__(self, idle: deque[_CallThread], idle_seconds: float, call: _Call) -> None:
        super().__init__(name=_NAME, daemon=True)
        self._idle = idle
        self._idle_seconds = idle_seconds
        self._next: _Call | None = call
        self._has_next = threading.Lock()  # locked while there is no next call

    def take(self, call: _Call) -> None:
        """Make a call; only who has removed the thread from the idle ones may ask for it."""
        self._next = call
        self._has_next.release()

    def run(self) -> None:
        """Make calls until none has come for a while."""
        self._has_next.acquire()
        while (call := self._next) is not None:
            self._next = None
            deliver = call.run()
            # An idle thread must not keep anything of a call alive.
            del call
            # Idle before the loop learns of the result, so that its next call finds this thread.
            self._idle.append(self)
            deliver()
            del deliver
            if not self._has_next.acquire(timeout=self._idle_seconds):
                try:
                    self._idle.remove(self)
                except ValueError:  # a call for this thread is on its way
                    self._has_next.acquire()


class _Inbox:
    """Results of calls on their way to an event loop, which wakes up once for several."""

    def __init__(self) -> None:
        self._is_loop_woken = False
        self._results: deque[tuple[asyncio.Future[Any], Any]] = deque()

    def add(self, done: asyncio.Future[Any], result: Any) -> None:
        """Add a result; the loop learns of it by `wake`."""
        self._results.append((done, result))

    def wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop deliver the results, unless another thread has seen to that already."""
        if self._is_loop_woken:
            return
        self._is_loop_woken = True
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed, nobody is waiting
            self._is_loop_woken = False
            while self._results:
                _drop(self._results.popleft()[1])

    def _deliver(self) -> None:
        # This comes first, so that what is added from now on wakes the loop again.
        self._is_loop_woken = False
        while self._results:
            done, result = self._results.popleft()
            if done.done():
                _drop(result)
            else:
                done.set_result(result)


def _drop(result: Any) -> None:
    if inspect.iscoroutine(result):
        with suppress(BaseException):  # it may have been started, and may refuse to end
            result.close()  # avoids the warning that it was never awaited
