"""Call a system under test on the workers of a Dask cluster.

A case is no task of the scheduler, which runs a task again when its worker dies or when
a result is lost: that would call the system twice, and pay twice. Each case is one call
of one worker (`Client.run`), which nothing repeats. The rubrics run here.

The worker's own event loop must go on whatever a system does, or the scheduler takes
the worker for dead. So each call runs in a process of its own there.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import user_code
from pytest_failure_taxonomy.bench.answers import Answer, Spending
from pytest_failure_taxonomy.bench.isolate.client import IsolatedSystem
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.errors import BenchError

CONNECT_SECONDS: Final = 10.0
"""How long a scheduler may take to answer, and a cluster to have a worker."""
CHECK_SECONDS: Final = 60.0
"""How long all that may take, and the workers to import the system."""
_LOOK_SECONDS: Final = 0.1
_SECONDS_TO_CANCEL: Final = 0.5
"""Less than the grace period of a system that is cancelled."""
_SECONDS_TO_CLOSE: Final = 3.0
_SPARE_SECONDS: Final = 30.0
"""How long after the limit of a case its worker ends it: its caller may be gone."""


class WorkerLost(user_code.ToldError):
    """The worker ended before the system had returned."""

    failure_kind = "sandbox.worker_lost"
    is_systemic = False  # it takes all its cases with it, which says nothing of others


class ClusterLost(user_code.ToldError):
    """The scheduler is gone, or has no worker left."""

    failure_kind = "sandbox.worker_lost"


@dataclass(frozen=True)
class Reply:
    """What a call has spent so far, and its answer or the facts of its error."""

    cost_usd: float
    usage: dict[str, float]
    seconds: float | None
    outcome: Answer | user_code.ErrorFacts | None = None

    def count_for(self, case: BenchCase) -> None:
        """Count what the call has spent, and how long it took."""
        if self.cost_usd or self.usage:
            case.spend(self.cost_usd, **self.usage)
        if self.seconds is not None:
            case.note_seconds(self.seconds)


class DaskSystem:
    """Calls a system under test on the workers of a cluster, from one event loop.

    The number of cases at a time is up to the caller; a case goes to the worker with
    the fewest of ours for each of its threads.
    """

    is_isolated = True
    """What it returns or raises is plain data."""

    def __init__(self, target: str, address: str, limit_seconds: float = 300.0) -> None:
        self._target = target
        self._address = address
        self._limit_seconds = limit_seconds
        self._client: Any = None
        self._in_flight: Counter[str] = Counter()

    async def check(self) -> None:
        """Connect, and have each worker import the system; call nothing.

        Raises:
            BenchError: There is no scheduler, or a line for each worker that can't.
        """
        from distributed import Client

        options = {"set_as_default": False, "timeout": CONNECT_SECONDS}
        client = self._client = Client(self._address, asynchronous=True, **options)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await client
                await self._find_workers()
                arguments = (check_system, self._target, VERSION)
                problems = await client.run(*arguments, on_error="return")
        except Exception as error:  # noqa: BLE001 - `distributed` has many
            why = user_code.describe(error)
            raise BenchError(
                f"the cluster {self._address} can't be reached ({why}); start its"
                " scheduler and workers, or give the address of one that runs"
            ) from None
        by_worker = sorted(problems.items())
        lines = [f"the worker {name}: {why}" for name, why in by_worker if why]
        if lines:
            raise BenchError("\n".join(lines))

    async def __call__(self, case: BenchCase) -> Answer:
        """Return what the system returns; if cancelled, end the call on the worker.

        Raises:
            WorkerLost: The worker ended, and what the call has spent is not known.
            ClusterLost: The scheduler can't be reached any more, or has no worker.
            ToldError: The system raised.
        """
        threads = await self._find_workers()
        loads = {name: self._in_flight[name] / (threads[name] or 1) for name in threads}
        worker = min(loads, key=loads.__getitem__)
        ask_worker = partial(self._client.run, workers=[worker])
        token = secrets.token_hex(8)
        limit = case.timeout_per_case_seconds or self._limit_seconds
        self._in_flight[worker] += 1
        try:
            replies = await ask_worker(call_system, self._target, case, token, limit)
            reply: Reply = replies[worker]
        except asyncio.CancelledError:
            # Nobody waits any more, but what it has spent counts.
            with suppress(Exception):
                async with asyncio.timeout(_SECONDS_TO_CANCEL):
                    replies = await ask_worker(cancel_call, token)
                    replies[worker].count_for(case)
            raise
        except Exception as error:  # noqa: BLE001 - as above
            await self._find_workers()
            why = user_code.describe(error)
            raise WorkerLost(f"the worker {worker} gave no answer ({why})") from None
        finally:
            self._in_flight[worker] -= 1
        reply.count_for(case)
        if isinstance(reply.outcome, Answer):
            return reply.outcome
        raise user_code.raised_elsewhere(reply.outcome or {})

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.close(_SECONDS_TO_CLOSE)

    async def _find_workers(self) -> dict[str, int]:
        """Return the threads of each worker; wait a while for the first one."""
        with suppress(Exception):
            async with asyncio.timeout(CONNECT_SECONDS):
                # A client that has lost its scheduler would connect anew for each case.
                while self._client.status == "running":
                    threads: dict[str, int] = await self._client.nthreads()
                    if threads:
                        return threads
                    await asyncio.sleep(_LOOK_SECONDS)
        raise ClusterLost(f"the scheduler {self._address} is gone, or has no worker")


# On a worker, where `distributed` imports this module to find these functions.

_system: Final = cache(IsolatedSystem)
_calls_by_token: Final[dict[str, tuple[asyncio.Task[Answer], Spending]]] = {}


async def check_system(target: str, version: str) -> None:
    """Import the system; refuse another version of us."""
    if version != VERSION:
        why = f"has pytest-failure-taxonomy {VERSION}; install {version} there"
        raise BenchError(why)
    await _system(target).connect()


async def call_system(target: str, case: BenchCase, token: str, limit: float) -> Reply:
    """Call the system for a case, unless its caller cancels it by the token."""
    spending = Spending()
    call = asyncio.create_task(_system(target)(case.spending_to(spending)))
    _calls_by_token[token] = (call, spending)
    outcome: Answer | user_code.ErrorFacts | None = None
    try:
        outcome = await asyncio.wait_for(call, limit + _SPARE_SECONDS)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sent back
        outcome = user_code.told(error).facts()
    finally:
        del _calls_by_token[token]
    return Reply(spending.cost_usd, spending.usage, spending.seconds, outcome)


def cancel_call(token: str) -> Reply:
    """End a call, whose process is killed, and return what it has spent."""
    call, spending = _calls_by_token[token]
    call.cancel()
    return Reply(spending.cost_usd, spending.usage, spending.seconds)
