"""What a worker of a Dask cluster does for a bench: it calls the system under test.

`distributed` imports this module in the worker, by way of the functions that `dask_backend` sends.
The worker's own event loop must go on whatever a system does, or the scheduler takes the worker for
dead. So the calls run on another loop, in a thread, as the cases of a local run do.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from pytest_failure_taxonomy._version import VERSION
from pytest_failure_taxonomy.bench.answers import Answer, ForwardedSpending
from pytest_failure_taxonomy.bench.call_threads import Raised
from pytest_failure_taxonomy.bench.calls import as_coroutine_function
from pytest_failure_taxonomy.bench.errors_elsewhere import facts_of
from pytest_failure_taxonomy.bench.fan_out import BackgroundLoop
from pytest_failure_taxonomy.bench.isolate.client import MAX_OUTPUT_BYTES, IsolatedSystem
from pytest_failure_taxonomy.bench.output_json import json_problem
from pytest_failure_taxonomy.bench.user_code import import_callable
from pytest_failure_taxonomy.bench.user_errors import Traceback
from pytest_failure_taxonomy.errors import BenchError

_EXTENSION: Final = "pytest-failure-taxonomy"
_MAX_MESSAGE: Final = 2_000
_writing_tracebacks = threading.Lock()
"""Python 3.11 fails if two threads write one at a time."""

Spent = tuple[float, dict[str, float]]


async def greet(target: str) -> dict[str, str]:
    """Return this worker's version of the package, and why it can't call the system, or ''."""
    problem = ""
    try:
        await asyncio.to_thread(import_callable, target, "sut")
    except BenchError as error:
        problem = str(error)
    return {"version": VERSION, "problem": problem}


async def call(
    target: str,
    isolation: str,
    topic: str,
    token: str,
    limit_seconds: float,
    body: bytes,
    dask_worker: Any = None,
) -> dict[str, Any]:
    """Call the system for a case.

    Args:
        target: The system as `package.module:callable`.
        isolation: `process` for a process of its own for each case.
        topic: Each amount that the system spends is logged as an event of this topic.
        token: Names this call.
        limit_seconds: When to end the call if nobody else has: its client may be gone.
        body: The pickled case.
        dask_worker: Filled in by `distributed`.

    Returns:
        `spends`, and `answer` or else `error`.
    """
    return await _calls_of(dask_worker).run(target, isolation, topic, token, limit_seconds, body)


async def cancel(token: str, dask_worker: Any = None) -> list[Spent]:
    """End a call, and return what it has spent."""
    return _calls_of(dask_worker).cancel(token)


def _calls_of(worker: Any) -> _Calls:
    if _EXTENSION not in worker.extensions:
        worker.extensions[_EXTENSION] = _Calls(worker)
    calls: _Calls = worker.extensions[_EXTENSION]
    return calls


class _Calls:
    """The calls that run in one worker."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._background = BackgroundLoop()
        self._systems: dict[tuple[str, str], Callable[..., Any]] = {}
        self._running: dict[str, tuple[asyncio.Future[Any], _Spends]] = {}

    async def run(
        self, target: str, isolation: str, topic: str, token: str, limit_seconds: float, body: bytes
    ) -> dict[str, Any]:
        """Call the system for a case, as `call` says."""
        spends = _Spends(partial(self._tell, topic, token))
        try:
            case = pickle.loads(body)  # noqa: S301 - whoever may call this, may run anything here
            system = await asyncio.to_thread(self._system, target, isolation)
        except Exception as error:  # noqa: BLE001 - it is the result of the case
            return {"spends": [], "error": _described(error)}
        work = _answered(system, case.spending_to(ForwardedSpending(spends.add)), spends)
        running = asyncio.wrap_future(self._background.submit(work))
        self._running[token] = (running, spends)
        try:
            said = await asyncio.wait_for(running, limit_seconds)
        except (TimeoutError, asyncio.CancelledError) as error:
            if _ends_this_task(error):
                raise
            said = {"error": _described(error)}
        finally:
            del self._running[token]
        return {**said, "spends": spends.taken()}

    def cancel(self, token: str) -> list[Spent]:
        """End a call; a plain function goes on, because no thread can be ended."""
        if token not in self._running:
            return []
        running, spends = self._running[token]
        running.cancel()
        return spends.taken()

    def _system(self, target: str, isolation: str) -> Callable[..., Any]:
        key = (target, isolation)
        if key not in self._systems:
            imported = import_callable(target, "sut")
            system = IsolatedSystem(target) if isolation == "process" else imported
            self._systems[key] = as_coroutine_function(system)
        return self._systems[key]

    def _tell(self, topic: str, token: str, number: int, spent: Spent) -> None:
        with suppress(Exception):  # a worker that is closing; the answer has all amounts, too
            self._worker.log_event(topic, json.dumps([token, number, *spent]))


class _Spends:
    """What a call has spent, each amount with its number."""

    def __init__(self, tell: Callable[[int, Spent], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._entries: list[Spent] = []

    def add(self, cost_usd: float, usage: Mapping[str, float]) -> None:
        """Add an amount, and tell it at once."""
        spent = (cost_usd, dict(usage))
        with self._lock:
            self._entries.append(spent)
            number = len(self._entries)
        self._tell(number, spent)

    def taken(self) -> list[Spent]:
        """Return all amounts so far, in the order of their numbers."""
        with self._lock:
            return list(self._entries)


async def _answered(system: Callable[..., Any], case: Any, spends: _Spends) -> dict[str, Any]:
    """Return what a system answers or raises, as plain data."""
    try:
        value = await system(case)
        if isinstance(value, Raised):
            raise value.error
        return {"answer": _packed(value, spends)}
    except BaseException as error:
        if _ends_this_task(error):
            raise
        return {"error": _described(error)}  # whatever it is, it is the case's result


def _ends_this_task(error: BaseException) -> bool:
    """Tell whether the task that runs this was cancelled, and not one that the system made."""
    task = asyncio.current_task()
    is_cancelled = task is not None and task.cancelling() > 0
    return is_cancelled and isinstance(error, asyncio.CancelledError)


def _packed(value: Any, spends: _Spends) -> str:
    """Return an answer as JSON: its output, or an object with the fields of an `Answer`."""
    is_answer = isinstance(value, Answer)
    answer = value if is_answer else Answer(output=value)
    problem = json_problem(answer.output) or json_problem(answer.transcript)
    text = "" if problem else json.dumps({"is_answer": is_answer, **answer.as_json()})
    if len(text) > MAX_OUTPUT_BYTES:
        problem = f"ValueError: the system returned more than {MAX_OUTPUT_BYTES:,} bytes of JSON"
    if problem:
        spends.add(answer.cost_usd, answer.usage or {})  # it counts without an output, too
        name, _, words = problem.partition(": ")
        raise type(name, (Exception,), {})(words)
    return text


def _described(error: BaseException) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    message = ""
    with suppress(Exception):  # methods of the exception are called
        message = str(error)[:_MAX_MESSAGE]
        facts = facts_of(error)
    with _writing_tracebacks:
        text = Traceback(error).text()
    return {**facts, "type": type(error).__name__, "message": message, "traceback": text}
