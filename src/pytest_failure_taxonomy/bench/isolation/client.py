"""Grade cases in processes that can be killed, and that see nothing of this one."""

from __future__ import annotations

import asyncio
import json
import os
import symtable
import weakref
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pytest_failure_taxonomy.bench.isolation.answering import read_answer, read_loading
from pytest_failure_taxonomy.bench.isolation.connection import Connection, ServerDiedError
from pytest_failure_taxonomy.bench.isolation.fresh import run_directly
from pytest_failure_taxonomy.bench.isolation.system import IsolatedSystem
from pytest_failure_taxonomy.bench.isolation.task import Reply, Task
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase

__all__ = ["IsolatedRubric", "IsolatedSystem"]

_CAN_FORK: Final = hasattr(os, "fork")
_MOST_LOADS: Final = 2
"""How often a rubric that ends the process that loads it is loaded before it is given up."""


class IsolatedRubric:
    """Runs a `rubric.py` for each case in a process of its own, with limits.

    It may be called for many cases at a time, and from one event loop after the other; each loop
    has a server of its own, started by its first case. Without `fork` (Windows) there is no server
    to be had, and each case has a new interpreter.
    """

    enforces_limit = True

    def __init__(
        self,
        rubric: Path,
        *,
        mode: Literal["warm", "fresh"] = "warm",
        wall_clock_seconds: float = 60.0,
        memory_mb: int = 2048,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            rubric: the file.
            mode: `warm`: a fork of one process that has loaded it; `fresh`: a new interpreter.
            wall_clock_seconds: limit of a case that sets none, and of loading the file.
            memory_mb: address space of a case's process, in MiB (Linux).
        """
        self._is_warm = mode == "warm"
        self._limit_seconds = wall_clock_seconds
        self._task = Task(rubric=os.path.abspath(rubric), memory_mb=memory_mb)
        self._is_examined = False
        self._servers: dict[asyncio.AbstractEventLoop, _Servers] = {}
        self._problem: RubricError | None = None
        self._loads_that_died = 0
        weakref.finalize(self, _close_all, self._servers)

    async def __call__(self, case: BenchCase, output: object) -> RubricAnswer:
        """Grade an output.

        Raises:
            RubricTimeoutError: the rubric was not done in time, and was killed.
            RubricError: it gave no verdict.
        """
        limit_seconds = case.rubric_wall_clock_seconds or self._limit_seconds
        body = _question(case, output)
        if _CAN_FORK and self._is_warm:
            reply = await self._ask_warm(body, limit_seconds)
        elif _CAN_FORK:
            reply = await self._ask_fresh(body, limit_seconds)
        else:
            reply = await run_directly(self._fresh_task(), body, limit_seconds)
        return read_answer(reply, limit_seconds)

    async def aclose(self) -> None:
        """Kill all that was started and remove all that it has left; may be called again."""
        servers = self._servers.pop(asyncio.get_running_loop(), None)
        _close_all(self._servers)
        if servers is not None:
            servers.is_closed = True
            await asyncio.gather(*(each.aclose() for each in servers.connections()))

    async def _ask_warm(self, body: bytes, limit_seconds: float) -> Reply:
        servers = self._servers_here()
        try:
            return await (await self._loaded(servers, "main")).ask(body, limit_seconds)
        except ServerDiedError:
            # It was this case that killed the server, or one of those beside it.
            async with servers.alone:
                server = await self._loaded(servers, "suspects")
                try:
                    return await server.ask(body, limit_seconds)
                except ServerDiedError:
                    raise _killed_its_parent() from None

    async def _ask_fresh(self, body: bytes, limit_seconds: float) -> Reply:
        servers = self._servers_here()
        connection = Connection(self._fresh_task(), None)
        servers.fresh.add(connection)
        try:
            return await connection.ask(body, limit_seconds)
        except ServerDiedError:
            raise _killed_its_parent() from None
        finally:
            servers.fresh.discard(connection)
            await connection.aclose()

    async def _loaded(self, servers: _Servers, which: Literal["main", "suspects"]) -> Connection:
        """Return a server that has loaded the rubric.

        Raises:
            RubricError: none can; found once, it is said of each case without another try.
        """
        while self._problem is None:
            connection = servers.get(which, self._task, self._limit_seconds)
            reply = await connection.loaded()
            if reply is None and connection.is_counted:
                continue
            problem = read_loading(reply, connection.status, self._limit_seconds)
            if problem is None:
                return connection
            if reply is None:
                connection.is_counted = True
                self._loads_that_died += 1
                if self._loads_that_died < _MOST_LOADS:
                    continue
            self._problem = problem
        problem = self._problem
        raise type(problem)(str(problem), traceback=problem.traceback)

    def _servers_here(self) -> _Servers:
        loop = asyncio.get_running_loop()
        servers = self._servers.get(loop)
        if servers is None:
            closed = [each for each in self._servers if each.is_closed()]
            _close_all({each: self._servers.pop(each) for each in closed})
            servers = self._servers[loop] = _Servers()
        return servers

    def _fresh_task(self) -> Task:
        if not self._is_examined:
            is_script = not defines_grade(self._task.rubric)
            self._task = replace(self._task, is_script=is_script, loads_first=False)
            self._is_examined = True
        return self._task


class _Servers:
    """The servers of one event loop."""

    def __init__(self) -> None:
        self._kept: dict[str, Connection] = {}
        self.fresh: set[Connection] = set()
        self.is_closed = False
        self.alone = asyncio.Lock()
        """Held by the one case that has the server of the suspects for itself."""

    def get(self, which: str, task: Task, load_seconds: float) -> Connection:
        """Return a server, a new one in place of one that has ended.

        Raises:
            RubricError: a case was still waiting when all was closed.
        """
        if self.is_closed:
            raise RubricError("was stopped")
        found = self._kept.get(which)
        if found is None or not found.is_alive:
            found = self._kept[which] = Connection(task, load_seconds)
        return found

    def connections(self) -> list[Connection]:
        return [*self._kept.values(), *self.fresh]


def _close_all(servers: dict[asyncio.AbstractEventLoop, _Servers]) -> None:
    while servers:
        _, each = servers.popitem()
        each.is_closed = True
        for connection in each.connections():
            connection.close()


def _killed_its_parent() -> RubricError:
    return RubricError("killed the process that runs rubrics")


def _question(case: BenchCase, output: object) -> bytes:
    try:
        return json.dumps({"case": case.fields, "output": output}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RubricError(f"can't be given its case: {error}") from error


def defines_grade(rubric: str) -> bool:
    """Tell whether a file has a top-level `grade`, without running it.

    One that can't be compiled is taken for one that has: to load it says what is wrong.
    """
    try:
        table = symtable.symtable(decode_source(Path(rubric).read_bytes()), rubric, "exec")
        grade = table.lookup("grade")
    except KeyError:
        return False
    except (OSError, SyntaxError, ValueError):
        return True
    return grade.is_assigned() or grade.is_imported()
