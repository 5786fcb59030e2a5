"""Call plain functions from the event loop without letting them hold it.

Each call has a daemon thread of its own. asyncio's executor has few, which calls that never end
would use up, and the interpreter waits for each of them before it ends.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

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
