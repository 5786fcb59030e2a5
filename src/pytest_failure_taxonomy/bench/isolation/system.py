"""Run a system under test in a process that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import weakref
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.isolation import wire
from pytest_failure_taxonomy.bench.isolation.answering import Message, how_it_ended, message_of
from pytest_failure_taxonomy.bench.isolation.connection import Connection, ServerDiedError
from pytest_failure_taxonomy.bench.isolation.fresh import run_directly
from pytest_failure_taxonomy.bench.isolation.task import Reply, Task

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase

MAX_OUTPUT_BYTES: Final = 64 << 20


class SystemUnderTestError(Exception):
    """An exception of a system under test, raised in its own process.

    What is raised is of a subclass with the name of the original's.
    """

    def __init__(self, message: str, *, traceback: str = "", printed: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        self.printed = printed


class ProcessDied(SystemUnderTestError):  # noqa: N818 - users read the name as the kind of end
    """The process ended before the system had returned."""


class IsolatedSystem:
    """Calls a system under test in a process of its own for each case.

    The processes are forks of one that has imported the system's module; path, environment and
    folder are ours.
    """

    def __init__(self, target: str) -> None:
        """Prepare; nothing is started yet.

        Args:
            target: `package.module:callable`, plain or async, taking a `BenchCase`.
        """
        self._task = Task(target=target, most_bytes=MAX_OUTPUT_BYTES)
        self._servers: dict[asyncio.AbstractEventLoop, Connection] = {}
        weakref.finalize(self, _close_all, self._servers)

    async def __call__(self, case: BenchCase) -> Any:
        """Return what the system returns; when cancelled, kill its process.

        Raises:
            SystemUnderTestError: it raised, or its process ended.
        """
        body = pickle.dumps(case)
        if hasattr(os, "fork"):
            reply = await self._ask(body)
        else:
            reply = await run_directly(self._task, body, None)
        message = message_of(reply)
        if message is not None and message.what == wire.RAISED:
            raise _as_it_was(message)
        if message is None or reply.status:
            raise ProcessDied(_why_it_died(reply))
        return json.loads(message.body)

    async def aclose(self) -> None:
        """Kill all that was started; may be called again."""
        server = self._servers.pop(asyncio.get_running_loop(), None)
        _close_all(self._servers)
        if server is not None:
            await server.aclose()

    async def _ask(self, body: bytes) -> Reply:
        loop = asyncio.get_running_loop()
        server = self._servers.get(loop)
        if server is None or not server.is_alive:
            closed = [each for each in self._servers if each.is_closed()]
            _close_all({each: self._servers.pop(each) for each in closed})
            server = self._servers[loop] = Connection(self._task, None)
        loaded = await server.loaded()
        if loaded is None:
            raise ProcessDied(f"the system's process {how_it_ended(server.status)} on loading it")
        if loaded.what == wire.BROKEN:
            raise _as_it_was(Message(what=wire.RAISED, body=loaded.body, printed=""))
        try:
            return await server.ask(body, None)
        except ServerDiedError:
            # It is not asked again: a system's call may cost money.
            raise ProcessDied("the process that starts the system's was killed") from None


def _as_it_was(message: Message) -> SystemUnderTestError:
    said = message.raised()
    kind = type(said["type"], (SystemUnderTestError,), {"__module__": __name__})
    error: SystemUnderTestError = kind(
        said["message"], traceback=said["traceback"], printed=message.printed
    )
    return error


def _why_it_died(reply: Reply) -> str:
    if reply.what == wire.TOO_LARGE:
        return f"the system returned more than {MAX_OUTPUT_BYTES:,} bytes of JSON"
    if reply.what == wire.NOT_STARTED:
        return f"the system's process could not be started: {reply.body.decode(errors='replace')}"
    ended = how_it_ended(os.waitstatus_to_exitcode(reply.status))
    return f"the system's process {ended}"


def _close_all(servers: dict[asyncio.AbstractEventLoop, Connection]) -> None:
    while servers:
        _, connection = servers.popitem()
        connection.close()
