"""Call a system under test on the workers of a Dask cluster.

A case is no task of the scheduler, which runs a task again when its worker dies, when the worker is
closed, or when a result is lost: that would call the system twice, and pay twice. Each case is one
call of one worker (`Client.run`), which nothing repeats. The rubrics run here.

`distributed` imports this module in the worker, too, by way of the functions that are sent there:
`greet`, `call_system` and `cancel_call`. The worker's own event loop must go on whatever a system
does, or the scheduler takes the worker for dead. So the calls run on another loop, in a thread, as
the cases of a local run do.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import user_code
from pytest_failure_taxonomy.bench.answers import Answer, Spending, read_output
from pytest_failure_taxonomy.bench.isolate.client import MAX_OUTPUT_BYTES, IsolatedSystem
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.run.calls import Attempt, is_async
from pytest_failure_taxonomy.bench.run.fan_out import BackgroundLoop
from pytest_failure_taxonomy.errors import BenchError

CONNECT_SECONDS: Final = 10.0
"""How long a scheduler may take to answer, and a cluster to have a worker."""
GREETING_SECONDS: Final = 60.0
"""How long the workers may take to import the system."""
_LOOK_SECONDS: Final = 0.1
_SECONDS_FOR_LAST_SPENDS: Final = 0.5
"""Less than the grace period of a system that is cancelled."""
_SECONDS_TO_CLOSE: Final = 3.0
_SPARE_SECONDS: Final = 30.0
"""How long after the limit of a case its worker ends it by itself."""
_EXTENSION: Final = "pytest-failure-taxonomy"

Spent = tuple[int, float, dict[str, float]]
"""An amount: its number within a call, from 1, what it cost, and the usage."""
CountSpends = Callable[[Iterable[Spent]], None]
"""Counts the amounts of a call that were not counted before."""


class WorkerLost(user_code.ToldError):
    """The worker ended before the system had returned. The case is not called again by itself."""

    failure_kind = "sandbox.worker_lost"
    is_systemic = False
    """One worker takes all its cases with it, which says nothing about the others."""


class SchedulerLost(user_code.ToldError):
    """The scheduler is gone, and with it the cluster."""

    failure_kind = "sandbox.worker_lost"


def scheduler_address(given: str, where: str) -> str:
    """Return the address of the scheduler that a URL names.

    Args:
        given: `dask://host:port`.
        where: What gives it, for messages.

    Raises:
        BenchError: It names none, or `distributed` is not installed.
    """
    wrong = f"{where}: {given!r} names no cluster; give dask://HOST:PORT, its scheduler"
    try:
        parts = urlsplit(given)
        is_whole = parts.scheme == "dask" and parts.hostname and parts.port
    except ValueError:  # the port is no number, or too high
        raise BenchError(wrong) from None
    if not is_whole or parts.path.strip("/") or parts.query or parts.fragment:
        raise BenchError(wrong)
    if find_spec("distributed") is None:
        raise BenchError(
            f'{where}: distributed is not installed; pip install "pytest-failure-taxonomy[dask]"'
        )
    return f"tcp://{parts.netloc}"


class DaskSystem:
    """Calls a system under test on the workers of a cluster, each case once.

    All calls come from one event loop. The number of cases at a time is up to the caller; a case
    goes to the worker with the fewest of ours for each of its threads.
    """

    is_isolated = True
    """What it returns or raises is plain data."""

    def __init__(
        self, target: str, address: str, *, is_isolated: bool = True, limit_seconds: float = 300.0
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            target: `package.module:callable`, which the workers import.
            address: The scheduler's, as `scheduler_address` returns it.
            is_isolated: Whether the worker calls it in processes of its own.
            limit_seconds: Limit of cases that set none. The caller cancels a call that exceeds it;
                the worker does so later, in case the caller is gone.
        """
        self._target = target
        self._address = address
        self._is_isolated = is_isolated
        self._limit_seconds = limit_seconds
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._problem: BenchError | None = None
        self._topic = ""
        self._is_listening = asyncio.Event()
        self._calls: dict[str, CountSpends] = {}
        self._in_flight: Counter[str] = Counter()
        self._lost = ""
        """Why nothing can be called any more."""

    async def __call__(self, case: BenchCase) -> Any:
        """Return what the system returns; if cancelled, end the call on the worker.

        What the system spends there, `case.spend` is told here, also if the worker is lost.

        Raises:
            WorkerLost: The worker ended, or there is none.
            SchedulerLost: The scheduler can't be reached any more.
            ToldError: The system raised.
        """
        try:
            await self.connect()
        except BenchError as error:
            raise SchedulerLost(str(error)) from None
        counted: set[int] = set()

        def spend(spends: Iterable[Spent]) -> None:
            for number, cost_usd, usage in spends:
                if number not in counted:
                    counted.add(number)
                    case.spend(cost_usd, **usage)

        worker = await self._choose()
        token = secrets.token_hex(8)
        limit_seconds = (case.timeout_per_case_seconds or self._limit_seconds) + _SPARE_SECONDS
        how = (self._target, self._is_isolated, self._topic, token, limit_seconds)
        self._calls[token] = spend
        self._in_flight[worker] += 1
        try:
            said = await self._ask(worker, *how, pickle.dumps(case))
            spend(said["spends"])
            if said["seconds"] is not None:
                case.note_seconds(said["seconds"])
        except asyncio.CancelledError:
            with suppress(Exception):  # nobody waits any more, but what it has spent counts
                async with asyncio.timeout(_SECONDS_FOR_LAST_SPENDS):
                    spends = await self._client.run(cancel_call, token, workers=[worker])
                    spend(spends[worker])
            raise
        finally:
            self._in_flight[worker] -= 1
            del self._calls[token]
        if "error" in said:
            raise user_code.raised_elsewhere(said["error"])
        return Answer(**json.loads(said["answer"]))

    async def connect(self) -> None:
        """Connect now, so that no case waits for it, unless that was done before.

        Raises:
            BenchError: The scheduler can't be reached.
        """
        async with self._connecting:
            if self._problem is not None:  # to ask again would take as long again
                raise self._problem
            if self._client is not None:
                return
            from distributed import Client

            connect: Any = Client  # some versions have types, and some have not
            client = connect(
                self._address,
                asynchronous=True,
                set_as_default=False,
                timeout=CONNECT_SECONDS,
                name="pytest-bench",
            )
            try:
                # A little longer: the client's own words are better.
                async with asyncio.timeout(CONNECT_SECONDS + 1):
                    await client
                    self._topic = f"pytest-bench-{client.id}"
                    client.subscribe_topic(self._topic, self._take_event)
                    while not self._is_listening.is_set():  # until events come here
                        await client.log_event(self._topic, "")
                        await asyncio.sleep(_LOOK_SECONDS / 10)
            except BaseException as error:
                await _close(client)
                if not isinstance(error, Exception):
                    raise
                self._problem = BenchError(
                    f"the scheduler {self._address} can't be reached ({_short(error)}); start it,"
                    " or give the address of one that runs"
                )
                raise self._problem from None
            self._client = client

    async def check(self) -> None:
        """Connect, and have each worker import the system; call nothing.

        Raises:
            BenchError: The scheduler can't be reached, there is no worker, or one can't call the
                system; the message has a line for each problem.
        """
        await self.connect()
        if not await self._workers():
            raise BenchError(
                f"the cluster {self._address} has no worker; start one: dask worker {self._address}"
            )
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                said = await self._client.run(greet, self._target, on_error="return")
        except Exception as error:  # noqa: BLE001 - `distributed` has many
            raise BenchError(
                f"the cluster {self._address} does not answer ({_short(error)}); look at its logs"
            ) from None
        problems = []
        for worker, answer in sorted(said.items()):
            if isinstance(answer, ModuleNotFoundError) and "pytest_failure_taxonomy" in str(answer):
                what = f"pytest-failure-taxonomy is not installed there; install version {VERSION}"
            elif isinstance(answer, Exception):
                right = "install the same packages there as here"
                what = f"can't be asked ({_short(answer)}); {right}"
            elif answer["version"] != VERSION:
                other = answer["version"]
                what = f"has pytest-failure-taxonomy {other}; install {VERSION} there"
            else:
                what = answer["problem"]
            if what:
                problems.append(f"the worker {worker}: {what}")
        if problems:
            raise BenchError("\n".join(problems))

    async def aclose(self) -> None:
        """Close the connection; may be called again."""
        client, self._client = self._client, None
        if client is not None:
            await _close(client)

    def _take_event(self, event: tuple[float, str]) -> None:
        if not event[1]:
            self._is_listening.set()
            return
        token, spent = json.loads(event[1])
        if token in self._calls:
            self._calls[token]([spent])

    async def _workers(self) -> dict[str, int]:
        """Return the threads of each worker; wait a while if there is none."""
        until = asyncio.get_running_loop().time() + CONNECT_SECONDS
        while True:
            found: dict[str, int] = dict(await self._client.nthreads())
            if found or asyncio.get_running_loop().time() > until:
                return found
            await asyncio.sleep(_LOOK_SECONDS)

    async def _choose(self) -> str:
        """Return the worker with the fewest of our cases for each of its threads."""
        if self._lost:
            raise SchedulerLost(self._lost)
        try:
            threads = await self._workers()
        except Exception as error:  # noqa: BLE001 - as above
            raise self._lose(error) from None
        if not threads:
            raise WorkerLost(f"the cluster {self._address} has no worker left")
        return min(threads, key=lambda each: (self._in_flight[each] / (threads[each] or 1), each))

    async def _ask(self, worker: str, *arguments: object) -> dict[str, Any]:
        """Return what `call_system` returns on a worker.

        Raises:
            WorkerLost: The worker is gone; its last amounts were told.
            SchedulerLost: The scheduler is gone.
        """
        said: Any = None
        error: Exception | None = None
        try:
            said = (
                await self._client.run(call_system, *arguments, workers=[worker], on_error="return")
            ).get(worker)
            # The error of a closed connection is an OSError.
            if isinstance(said, OSError):
                error = said
        except Exception as problem:  # noqa: BLE001 - as above
            error = problem
        if isinstance(said, dict):
            return said
        if said is not None and error is None:
            raise said
        await asyncio.sleep(_SECONDS_FOR_LAST_SPENDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._client.nthreads()
        except Exception as problem:  # noqa: BLE001 - as above
            raise self._lose(problem) from None
        why = f" ({_short(error)})" if error is not None else ""
        raise WorkerLost(f"the worker {worker} was lost while it ran the case{why}")

    def _lose(self, error: Exception) -> SchedulerLost:
        self._lost = self._lost or (
            f"the scheduler {self._address} was lost ({type(error).__name__})"
        )
        return SchedulerLost(self._lost)


async def _close(client: Any) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_SECONDS_TO_CLOSE):
            await client.close(_SECONDS_TO_CLOSE)
            await asyncio.sleep(_LOOK_SECONDS / 2)  # its last timers end


def _short(error: BaseException) -> str:
    """Return the type and the first line of the message of an exception."""
    first = str(error).partition("\n")[0]
    name = type(error).__name__
    return f"{name}: {first[:200]}" if first else name


# On a worker.


async def greet(target: str) -> dict[str, str]:
    """Return this worker's version of the package, and why it can't call the system, or ''."""
    problem = ""
    try:
        await asyncio.to_thread(user_code.import_callable, target)
    except BenchError as error:
        problem = f"sut: {error}"
    return {"version": VERSION, "problem": problem}


async def call_system(
    target: str,
    is_isolated: bool,  # noqa: FBT001 - `distributed` calls this by position
    topic: str,
    token: str,
    limit_seconds: float,
    body: bytes,
    dask_worker: Any = None,
) -> dict[str, Any]:
    """Call the system for a case.

    Args:
        target: The system as `package.module:callable`.
        is_isolated: Whether it is called in processes of its own.
        topic: Each amount that the system spends is logged as an event of this topic.
        token: Names this call.
        limit_seconds: When to end the call if nobody else has: its client may be gone.
        body: The pickled case.
        dask_worker: Filled in by `distributed`.

    Returns:
        `spends`, `seconds` (how long the call took), and `answer` or else `error`.
    """
    calls = _calls_of(dask_worker)
    spends: list[Spent] = []
    numbers = count(1)

    def tell(cost_usd: float, usage: Mapping[str, float]) -> None:  # by any thread
        spent = (next(numbers), cost_usd, dict(usage))
        spends.append(spent)
        with suppress(Exception):  # a worker that is closing; the answer has all amounts, too
            dask_worker.log_event(topic, json.dumps([token, spent]))

    try:
        system = calls.systems.get((target, is_isolated))
        if system is None:
            system = await asyncio.to_thread(user_code.import_callable, target)
            system = IsolatedSystem(target) if is_isolated else system
            system = calls.systems.setdefault((target, is_isolated), system)
        case = pickle.loads(body)  # noqa: S301 - whoever may call this, may run anything here
    except Exception as error:  # noqa: BLE001 - it is the result of the case
        return {"spends": [], "seconds": None, "error": _described(error)}
    spending = Spending(tell)
    attempt = Attempt(
        call=partial(system, case.spending_to(spending)),
        read=partial(read_output, tell),
        is_async=is_async(system),
        loop=lambda: calls.background,
        here=calls.background,
        limit_seconds=None,
        grace_seconds=_SECONDS_TO_CLOSE,
    )
    running = asyncio.wrap_future(calls.background.submit(attempt.run()))
    calls.running[token] = (running, spends)
    failure: BaseException | None
    try:
        await asyncio.wait_for(running, limit_seconds)
        failure = attempt.error
    except (TimeoutError, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # not the call alone
            raise
        failure = error
    finally:
        del calls.running[token]
    answer: Answer = attempt.value
    seconds = attempt.own_seconds if spending.seconds is None else spending.seconds
    told = {"spends": list(spends), "seconds": seconds}
    if failure is None:
        text = json.dumps({"output": answer.output, "transcript": answer.transcript})
        if len(text) <= MAX_OUTPUT_BYTES:
            return {"answer": text, **told}
        failure = ValueError(f"the system returned more than {MAX_OUTPUT_BYTES:,} bytes of JSON")
    return {"error": _described(failure), **told}


async def cancel_call(token: str, dask_worker: Any = None) -> list[Spent]:
    """End a call, and return what it has spent.

    A plain function goes on, because no thread can be ended.
    """
    calls = _calls_of(dask_worker)
    if token not in calls.running:
        return []
    running, spends = calls.running[token]
    running.cancel()
    return list(spends)


class _Calls:
    """The systems that one worker calls, and the calls that run in it."""

    def __init__(self) -> None:
        self.background = BackgroundLoop()
        self.systems: dict[tuple[str, bool], Callable[..., Any]] = {}
        self.running: dict[str, tuple[asyncio.Future[Any], list[Spent]]] = {}


def _calls_of(worker: Any) -> _Calls:
    if _EXTENSION not in worker.extensions:
        worker.extensions[_EXTENSION] = _Calls()
    calls: _Calls = worker.extensions[_EXTENSION]
    return calls


def _described(error: BaseException) -> dict[str, Any]:
    """Return an exception as plain data."""
    said = user_code.told(error)
    facts = {name: getattr(said, name) for name in user_code.FACTS}
    what = {"type": type(said).__name__, "message": str(said), "traceback": said.traceback.text()}
    return {**facts, **what}
