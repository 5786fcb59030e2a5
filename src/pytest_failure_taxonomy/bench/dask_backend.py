"""Call a system under test on the workers of a Dask cluster.

A case is no task of the scheduler, which runs a task again when its worker dies, when the worker is
closed, or when a result is lost: that would call the system twice, and pay twice. Each case is one
call of one worker (`Client.run`), which nothing repeats. The rubrics run here.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pytest_failure_taxonomy._version import VERSION
from pytest_failure_taxonomy.bench.answers import Answer
from pytest_failure_taxonomy.bench.errors_elsewhere import SystemUnderTestError, raised_elsewhere
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase

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


class WorkerLost(SystemUnderTestError):  # noqa: N818 - users read the name as the kind of end
    """The worker ended before the system had returned. The case is not called again by itself."""

    failure_kind = "sandbox.worker_lost"
    is_systemic = False
    """One worker takes all its cases with it, which says nothing about the others."""


class SchedulerLost(SystemUnderTestError):  # noqa: N818 - as above
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

    It can be used from one event loop after another; each has a connection of its own. The number
    of cases at a time is up to the caller; a case goes to the worker with the fewest of ours for
    each of its threads.
    """

    def __init__(
        self, target: str, address: str, *, isolation: str = "thread", limit_seconds: float = 300.0
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            target: `package.module:callable`, which the workers import.
            address: The scheduler's, as `scheduler_address` returns it.
            isolation: `process` calls it in a process of its own for each case, on the worker.
            limit_seconds: Limit of cases that set none. The caller cancels a call that exceeds it;
                the worker does so later, in case the caller is gone.
        """
        self._target = target
        self._address = address
        self._isolation = isolation
        self._limit_seconds = limit_seconds
        self._clusters: dict[asyncio.AbstractEventLoop, _Cluster] = {}

    async def __call__(self, case: BenchCase) -> Any:
        """Return what the system returns; if cancelled, end the call on the worker.

        What the system spends there, `case.spend` is told here, also if the worker is lost.

        Raises:
            WorkerLost: The worker ended, or there is none.
            SchedulerLost: The scheduler can't be reached any more.
            SystemUnderTestError: The system raised.
        """
        try:
            cluster = await self._cluster()
        except BenchError as error:
            raise SchedulerLost(str(error)) from None
        limit_seconds = (case.timeout_per_case_seconds or self._limit_seconds) + _SPARE_SECONDS
        said = await cluster.call(self._target, self._isolation, limit_seconds, case)
        if "error" in said:
            raise raised_elsewhere(said["error"])
        answer = json.loads(said["answer"])
        return Answer(**answer) if answer.pop("is_answer") else answer["output"]

    async def connect(self) -> None:
        """Connect, so that the first case does not take longer.

        Raises:
            BenchError: The scheduler can't be reached.
        """
        await self._cluster()

    async def check(self) -> None:
        """Connect, and have each worker import the system; call nothing.

        Raises:
            BenchError: The scheduler can't be reached, there is no worker, or one can't call the
                system; the message has a line for each problem.
        """
        cluster = await self._cluster()
        await cluster.greet(self._target)

    async def aclose(self) -> None:
        """Close the connection of this loop; may be called again."""
        cluster = self._clusters.pop(asyncio.get_running_loop(), None)
        if cluster is not None:
            await cluster.aclose()

    async def _cluster(self) -> _Cluster:
        loop = asyncio.get_running_loop()
        if loop not in self._clusters:
            self._clusters[loop] = _Cluster(self._address)
        cluster = self._clusters[loop]
        await cluster.connect()
        return cluster


class _Call:
    """A case that runs on a worker."""

    def __init__(self, case: BenchCase) -> None:
        self._case = case
        self._told: set[int] = set()

    def spend(self, number: int, cost_usd: float, usage: dict[str, float]) -> None:
        """Count an amount, unless it was counted before."""
        if number not in self._told:
            self._told.add(number)
            self._case.spend(cost_usd, **usage)

    def spend_all(self, spends: list[tuple[float, dict[str, float]]]) -> None:
        """Count all amounts that were not counted before."""
        for number, spent in enumerate(spends, 1):
            self.spend(number, *spent)


class _Cluster:
    """The connection to a cluster from one event loop."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._problem: BenchError | None = None
        self._topic = ""
        self._is_listening = asyncio.Event()
        self._calls: dict[str, _Call] = {}
        self._numbers = 0
        self._in_flight: Counter[str] = Counter()
        self._lost = ""
        """Why nothing can be called any more."""

    async def connect(self) -> None:
        """Connect unless that was done before.

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
                    await self._listen(client)
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

    async def _listen(self, client: Any) -> None:
        """Have the workers' events sent here, and wait until that works."""
        self._topic = f"pytest-bench-{client.id}"
        client.subscribe_topic(self._topic, self._take_event)
        while not self._is_listening.is_set():
            await client.log_event(self._topic, "")
            await asyncio.sleep(_LOOK_SECONDS / 10)

    def _take_event(self, event: tuple[float, str]) -> None:
        text = event[1]
        if not text:
            self._is_listening.set()
            return
        token, number, cost_usd, usage = json.loads(text)
        if token in self._calls:
            self._calls[token].spend(number, cost_usd, usage)

    async def greet(self, target: str) -> None:
        """Have each worker import the system.

        Raises:
            BenchError: There is no worker, or one can't; the message has a line for each.
        """
        from pytest_failure_taxonomy.bench import dask_worker

        if not await self._workers():
            raise BenchError(
                f"the cluster {self._address} has no worker; start one: dask worker {self._address}"
            )
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                said = await self._client.run(dask_worker.greet, target, on_error="return")
        except Exception as error:  # noqa: BLE001 - as above
            raise BenchError(
                f"the cluster {self._address} does not answer ({_short(error)}); look at its logs"
            ) from None
        problems = [_wrong_with(worker, words) for worker, words in sorted(said.items())]
        if any(problems):
            raise BenchError("\n".join(each for each in problems if each))

    async def _workers(self) -> dict[str, int]:
        """Return the threads of each worker; wait a while if there is none."""
        until = asyncio.get_running_loop().time() + CONNECT_SECONDS
        while True:
            found: dict[str, int] = dict(await self._client.nthreads())
            if found or asyncio.get_running_loop().time() > until:
                return found
            await asyncio.sleep(_LOOK_SECONDS)

    async def call(
        self, target: str, isolation: str, limit_seconds: float, case: BenchCase
    ) -> dict[str, Any]:
        """Call the system for a case on a worker, as `dask_worker.call` does."""
        body = pickle.dumps(case)
        self._numbers += 1
        token = f"{self._topic}-{self._numbers}"
        call = self._calls[token] = _Call(case)
        arguments = (target, isolation, self._topic, token, limit_seconds, body)
        try:
            worker = await self._choose()
            self._in_flight[worker] += 1
            try:
                said = await self._ask(worker, token, call, arguments)
            finally:
                self._in_flight[worker] -= 1
            call.spend_all(said["spends"])
            return said
        finally:
            del self._calls[token]

    async def _choose(self) -> str:
        """Return the worker with the fewest of our cases for each of its threads."""
        if self._lost:
            raise SchedulerLost(self._lost)
        try:
            threads = await self._workers()
        except Exception as error:  # noqa: BLE001 - `distributed` has many
            raise self._lose(error) from None
        if not threads:
            raise WorkerLost(f"the cluster {self._address} has no worker left")
        return min(threads, key=lambda each: (self._in_flight[each] / (threads[each] or 1), each))

    async def _ask(
        self, worker: str, token: str, call: _Call, arguments: tuple[Any, ...]
    ) -> dict[str, Any]:
        from pytest_failure_taxonomy.bench import dask_worker

        try:
            answers = await self._client.run(
                dask_worker.call, *arguments, workers=[worker], on_error="return"
            )
        except asyncio.CancelledError:
            await self._end(worker, token, call)
            raise
        except Exception as error:  # noqa: BLE001 - `distributed` has many
            raise await self._why_lost(worker, error) from None
        said = answers.get(worker)
        if isinstance(said, dict):
            return said
        if said is None or isinstance(said, OSError):  # that of a closed connection is one, too
            raise await self._why_lost(worker, said)
        raise said

    async def _end(self, worker: str, token: str, call: _Call) -> None:
        """End a call that is not waited for any more, and count what it has spent."""
        from pytest_failure_taxonomy.bench import dask_worker

        with suppress(Exception):
            async with asyncio.timeout(_SECONDS_FOR_LAST_SPENDS):
                spends = await self._client.run(dask_worker.cancel, token, workers=[worker])
                call.spend_all(spends[worker])

    async def _why_lost(self, worker: str, error: Exception | None) -> SystemUnderTestError:
        """Return whether a worker or the scheduler is gone, when the last amounts are told."""
        await asyncio.sleep(_SECONDS_FOR_LAST_SPENDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._client.nthreads()
        except Exception as problem:  # noqa: BLE001 - as above
            return self._lose(problem)
        why = f" ({_short(error)})" if error is not None else ""
        return WorkerLost(f"the worker {worker} was lost while it ran the case{why}")

    def _lose(self, error: Exception) -> SchedulerLost:
        self._lost = self._lost or (
            f"the scheduler {self._address} was lost ({type(error).__name__})"
        )
        return SchedulerLost(self._lost)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await _close(self._client)


async def _close(client: Any) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_SECONDS_TO_CLOSE):
            await client.close(_SECONDS_TO_CLOSE)
            await asyncio.sleep(_LOOK_SECONDS / 2)  # its last timers end


def _wrong_with(worker: str, said: dict[str, str] | Exception) -> str:
    """Return what is wrong with a worker that was greeted, or ''."""
    where = f"the worker {worker}"
    if isinstance(said, ModuleNotFoundError) and "pytest_failure_taxonomy" in str(said):
        return f"{where}: pytest-failure-taxonomy is not installed there; install version {VERSION}"
    if isinstance(said, Exception):
        return f"{where}: can't be asked ({_short(said)}); install the same packages there as here"
    if said["version"] != VERSION:
        return f"{where}: has pytest-failure-taxonomy {said['version']}; install {VERSION} there"
    return f"{where}: {said['problem']}" if said["problem"] else ""


def _short(error: BaseException) -> str:
    """Return the type and the first line of the message of an exception."""
    first = str(error).partition("\n")[0]
    name = type(error).__name__
    return f"{name}: {first[:200]}" if first else name
