"""Call a system under test on the workers of a Dask cluster.

A case is no task of the scheduler, which runs a task again when its worker dies, when
the worker is closed, or when a result is lost: that would call the system twice, and
pay twice. Each case is one call of one worker (`Client.run`), which nothing repeats.
The rubrics run here.

`distributed` imports this module in the worker, too, by way of the functions that are
sent there: `greet`, `call_system` and `cancel_call`. The worker's own event loop must
go on whatever a system does, or the scheduler takes the worker for dead. So the calls
run in threads, and coroutines on another loop, as those of a local run do.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from itertools import count
from typing import Any, Final

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import user_code
from pytest_failure_taxonomy.bench.answers import Spending, read_output
from pytest_failure_taxonomy.bench.isolate.client import IsolatedSystem
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.run.calls import Attempt, Loop
from pytest_failure_taxonomy.bench.run.fan_out import FanOut
from pytest_failure_taxonomy.errors import BenchError

CONNECT_SECONDS: Final = 10.0
"""How long a scheduler may take to answer, and a cluster to have a worker."""
CHECK_SECONDS: Final = 60.0
"""How long all that may take, and the workers to import the system."""
_LOOK_SECONDS: Final = 0.1
_SECONDS_FOR_LAST_SPENDS: Final = 0.5
"""Less than the grace period of a system that is cancelled."""
_SECONDS_TO_END: Final = 3.0
_SPARE_SECONDS: Final = 30.0
"""How long after the limit of a case its worker ends it by itself."""

Spent = tuple[int, float, dict[str, float]]
"""An amount: its number within a call, from 0, what it cost, and the usage."""


class WorkerLost(user_code.ToldError):
    """The worker ended before the system had returned."""

    failure_kind = "sandbox.worker_lost"
    is_systemic = False
    """One worker takes all its cases with it, which says nothing about the others."""


class ClusterLost(user_code.ToldError):
    """The scheduler is gone, or has no worker left."""

    failure_kind = "sandbox.worker_lost"


def scheduler_address(url: str, where: str) -> str:
    """Return the address of the scheduler that a URL names.

    Args:
        url: `dask://host:port`.
        where: What gives it, for messages.

    Raises:
        BenchError: It names none, or `distributed` is not installed.
    """
    match = re.fullmatch(r"dask://([^/?#@]+:\d+)/?", url)
    if match is None:
        why = f"{where}: {url!r} names no cluster; give dask://HOST:PORT, its scheduler"
        raise BenchError(why)
    if find_spec("distributed") is None:
        right = 'pip install "pytest-failure-taxonomy[dask]"'
        raise BenchError(f"{where}: distributed is not installed; {right}")
    return f"tcp://{match[1]}"


class DaskSystem:
    """Calls a system under test on the workers of a cluster, each case once.

    All calls come from one event loop. The number of cases at a time is up to the
    caller; a case goes to the worker with the fewest of ours for each of its threads.
    """

    is_isolated = True
    """What it returns or raises is plain data."""

    def __init__(
        self,
        target: str,
        address: str,
        *,
        is_isolated: bool = True,
        limit_seconds: float = 300.0,
    ) -> None:
        """Prepare; `check` connects.

        Args:
            target: `package.module:callable`, which the workers import.
            address: The scheduler's, as `scheduler_address` returns it.
            is_isolated: Whether the worker calls it in processes of its own.
            limit_seconds: Limit of cases that set none. The caller cancels a call that
                exceeds it; the worker does so later, in case the caller is gone.
        """
        self._target = target
        self._address = address
        self._is_isolated = is_isolated
        self._limit_seconds = limit_seconds
        self._client: Any = None
        self._topic = secrets.token_hex(8)
        self._calls: dict[str, Callable[[Iterable[Spent]], None]] = {}
        self._in_flight: Counter[str] = Counter()

    async def check(self) -> None:
        """Connect, and have each worker import the system; call nothing.

        Raises:
            BenchError: The scheduler can't be reached, there is no worker, or one can't
                call the system; the message has a line for each problem.
        """
        from distributed import Client

        self._client = Client(
            self._address,
            asynchronous=True,
            set_as_default=False,
            timeout=CONNECT_SECONDS,
        )
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._client
                self._client.subscribe_topic(self._topic, self._take_event)
                await self._find_workers()
                replies = await self._client.run(
                    greet,
                    self._target,
                    VERSION,
                    on_error="return",
                )
        except Exception as error:  # noqa: BLE001 - `distributed` has many
            why = user_code.describe(error)
            raise BenchError(
                f"the cluster {self._address} can't be reached ({why}); start its"
                " scheduler and workers, or give the address of one that runs"
            ) from None
        problems = [
            f"the worker {worker}: {problem}"
            for worker, problem in sorted(replies.items())
            if problem is not None
        ]
        if problems:
            raise BenchError("\n".join(problems))

    async def __call__(self, case: BenchCase) -> Any:
        """Return what the system returns; if cancelled, end the call on the worker.

        What the system spends there, `case.spend` is told here, also if the worker is
        lost.

        Raises:
            WorkerLost: The worker ended.
            ClusterLost: The scheduler can't be reached any more, or has no worker.
            ToldError: The system raised.
        """
        counted: set[int] = set()

        def spend(spends: Iterable[Spent]) -> None:
            # An amount comes as an event, and once more with the reply.
            for number, cost_usd, usage in spends:
                if number not in counted:
                    counted.add(number)
                    case.spend(cost_usd, **usage)

        threads = await self._find_workers()
        worker = min(
            threads,
            key=lambda name: self._in_flight[name] / (threads[name] or 1),
        )
        ask_worker = partial(self._client.run, workers=[worker])
        token = secrets.token_hex(8)
        limit_seconds = case.timeout_per_case_seconds or self._limit_seconds
        self._calls[token] = spend
        self._in_flight[worker] += 1
        try:
            replies = await ask_worker(
                call_system,
                self._target,
                case,
                is_isolated=self._is_isolated,
                topic=self._topic,
                token=token,
                limit_seconds=limit_seconds + _SPARE_SECONDS,
            )
            reply = replies[worker]
            spend(reply["spends"])
            if reply["seconds"] is not None:
                case.note_seconds(reply["seconds"])
        except asyncio.CancelledError:
            # Nobody waits any more, but what it has spent counts.
            with suppress(Exception):
                async with asyncio.timeout(_SECONDS_FOR_LAST_SPENDS):
                    replies = await ask_worker(cancel_call, token)
                    spend(replies[worker])
            raise
        except Exception as error:  # noqa: BLE001 - as above
            await asyncio.sleep(_SECONDS_FOR_LAST_SPENDS)  # which may be under way
            await self._find_workers()
            why = user_code.describe(error)
            raise WorkerLost(f"the worker {worker} gave no answer ({why})") from None
        finally:
            self._in_flight[worker] -= 1
            del self._calls[token]
        if "error" in reply:
            raise user_code.raised_elsewhere(reply["error"])
        return reply["answer"]

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.close(_SECONDS_TO_END)

    def _take_event(self, event: tuple[float, tuple[str, Spent]]) -> None:
        token, spent = event[1]
        if token in self._calls:
            self._calls[token]([spent])

    async def _find_workers(self) -> dict[str, int]:
        """Return the threads of each worker; wait a while for the first one.

        Raises:
            ClusterLost: The scheduler is gone, or there is no worker.
        """
        with suppress(Exception):
            async with asyncio.timeout(CONNECT_SECONDS):
                # A client that has lost its scheduler would try to connect anew for
                # each case.
                while self._client.status == "running":
                    threads: dict[str, int] = await self._client.nthreads()
                    if threads:
                        return threads
                    await asyncio.sleep(_LOOK_SECONDS)
        raise ClusterLost(f"the scheduler {self._address} is gone, or has no worker")


# On a worker.

_fan_out: Final = FanOut()
_isolated_system: Final = cache(IsolatedSystem)
_running: Final[dict[str, tuple[asyncio.Task[None], list[Spent]]]] = {}
"""The calls, by their tokens, with what each has spent."""


async def greet(target: str, version: str) -> None:
    """Import the system.

    Raises:
        BenchError: It can't be imported, or this worker has another version of us.
    """
    if version != VERSION:
        why = f"has pytest-failure-taxonomy {VERSION}; install {version} there"
        raise BenchError(why)
    await asyncio.to_thread(user_code.import_callable, target)


async def call_system(
    target: str,
    case: BenchCase,
    *,
    is_isolated: bool,
    topic: str,
    token: str,
    limit_seconds: float,
    dask_worker: Any = None,
) -> dict[str, Any]:
    """Call the system for a case.

    Args:
        target: The system as `package.module:callable`.
        case: The case.
        is_isolated: Whether it is called in processes of its own.
        topic: Each amount that the system spends is logged as an event of this topic.
        token: Names this call.
        limit_seconds: When to end the call if nobody else has: its client may be gone.
        dask_worker: Filled in by `distributed`.

    Returns:
        `spends`, `seconds` (how long the call took), and `answer` or else `error`.
    """
    spends: list[Spent] = []
    numbers = count()

    def tell(cost_usd: float, usage: Mapping[str, float]) -> None:  # by any thread
        spent = (next(numbers), cost_usd, dict(usage))
        spends.append(spent)
        # A worker that is closing logs nothing; the reply has all amounts, too.
        with suppress(Exception):
            dask_worker.log_event(topic, (token, spent))

    here = Loop(asyncio.get_running_loop())
    call = _isolated_system(target) if is_isolated else partial(_call, target)
    spending = Spending(tell)
    attempt = Attempt(
        call=partial(call, case.spending_to(spending)),
        read=partial(read_output, tell),
        is_async=False,  # a worker that came late imports the system in the thread
        loop=(lambda: here) if is_isolated else _fan_out.loop_of_systems,
        here=here,
        limit_seconds=limit_seconds,
        grace_seconds=_SECONDS_TO_END,
    )
    running = asyncio.create_task(attempt.run())
    _running[token] = (running, spends)
    await asyncio.wait([running])
    del _running[token]
    seconds = attempt.own_seconds if spending.seconds is None else spending.seconds
    if attempt.value is not None:
        return {"answer": attempt.value, "spends": spends, "seconds": seconds}
    error = attempt.error or user_code.ToldError("the call was ended")
    facts = {name: getattr(error, name) for name in user_code.FACTS}
    facts |= {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": error.traceback.text(),
    }
    return {"error": facts, "spends": spends, "seconds": seconds}


def _call(target: str, case: BenchCase) -> Any:
    """Return what the system returns, which may be a coroutine."""
    return user_code.import_callable(target)(case)


def cancel_call(token: str) -> list[Spent]:
    """End a call, and return what it has spent.

    A plain function goes on, because no thread can be ended.
    """
    if token not in _running:
        return []
    running, spends = _running[token]
    running.cancel()
    return spends
