"""Run rubrics and systems under test in processes of their own, which can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import symtable
import sys
import weakref
from functools import cached_property
from importlib.util import decode_source
from pathlib import Path
from typing import Any, Final, Literal

from pytest_failure_taxonomy.bench import scores
from pytest_failure_taxonomy.bench.answers import Answer
from pytest_failure_taxonomy.bench.isolate import wire
from pytest_failure_taxonomy.bench.isolate.connection import (
    Connection,
    OnSpends,
    Reply,
    ServerDiedError,
    Task,
    how_it_ended,
    run_directly,
)
from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass
from pytest_failure_taxonomy.bench.scores import RubricAnswer, RubricError
from pytest_failure_taxonomy.bench.user_code import ToldError, raised_elsewhere
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace

MAX_OUTPUT_BYTES: Final = 64 << 20
"""Limit of the JSON that a system under test returns."""

_CAN_FORK: Final = hasattr(os, "fork")
_IMPORT_SECONDS: Final = 300.0
"""How long a system may take to be imported."""
_MAX_LOADS: Final = 2
"""How often a rubric is loaded that kills the process that loads it."""


class IsolatedRubric:
    """Runs a `rubric.py` in a separate process for each case, with limits.

    It can grade many cases at a time, on one event loop. Its servers start with the first case.
    Without `fork` (Windows) there are none, and each case gets a new interpreter.
    """

    is_isolated = True
    """It keeps its limit, and what it answers or raises is plain data."""

    def __init__(self, rubric: Path, settings: BenchSettings) -> None:
        """Prepare; no process is started yet.

        Args:
            rubric: The file.
            settings: How it is isolated, its limits, which hold for loading the file, too, and the
                variables of this process's environment that it sees.
        """
        self._is_warm = settings.rubric_isolation == "warm"
        self._limit_seconds = settings.rubric_wall_clock_seconds
        self._task = Task(
            rubric=os.path.abspath(rubric),
            memory_mb=settings.rubric_memory_mb,
            variables=settings.rubric_env,
        )
        self._problem: RubricError | None = None
        self._died_loading: set[Connection] = set()
        self._servers = _Servers()
        weakref.finalize(self, self._servers.close)

    async def __call__(self, case: BenchCase, output: object) -> RubricAnswer:
        """Grade an output.

        Raises:
            RubricTimeoutError: The rubric exceeded its limit and was killed.
            RubricError: The rubric gave no verdict.
        """
        limit_seconds = case.rubric_wall_clock_seconds or self._limit_seconds
        try:
            body = json.dumps({"case": case.fields, "output": output}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RubricError(f"can't be given its case: {error}") from error
        try:
            if not _CAN_FORK:
                reply = await run_directly(self._fresh_task, body, limit_seconds)
            elif self._is_warm:
                reply = await self._ask_warm(body, limit_seconds)
            else:
                fresh, connection = self._servers.fresh, Connection(self._fresh_task, None)
                fresh.add(connection)
                try:
                    reply = await connection.ask(body, limit_seconds)
                finally:
                    fresh.discard(connection)
                    await connection.aclose()
        except ServerDiedError:
            raise RubricError("killed the process that runs rubrics") from None
        return read_answer(reply, limit_seconds)

    async def aclose(self) -> None:
        """Kill all processes and remove their files; may be called again."""
        await self._servers.aclose()

    async def _ask_warm(self, body: bytes, limit_seconds: float) -> Reply:
        try:
            return await (await self._loaded("main")).ask(body, limit_seconds)
        except ServerDiedError:
            # Either this case killed the server, or one that ran beside it: try it alone.
            async with self._servers.alone:
                return await (await self._loaded("suspects")).ask(body, limit_seconds)

    async def _loaded(self, which: Literal["main", "suspects"]) -> Connection:
        """Return a server that has loaded the rubric.

        Raises:
            RubricError: No server can load it; later cases fail with the same error, untried.
        """
        while self._problem is None:
            connection = self._servers.get(which, self._task, self._limit_seconds)
            reply = await connection.loaded()
            if reply is None:
                self._died_loading.add(connection)
                if len(self._died_loading) == _MAX_LOADS:
                    ended = how_it_ended(connection.status)
                    self._problem = RubricError(f"{ended} while it was loaded")
            elif reply.what == wire.TIMED_OUT:
                self._problem = scores.RubricTimeoutError(
                    f"was not loaded within {self._limit_seconds:g} s"
                )
            elif reply.what == wire.BROKEN:
                said = json.loads(reply.body)
                reason = said["reason"].removeprefix("raised ")
                self._problem = RubricError(
                    f"could not be loaded: {reason}", traceback=said["traceback"]
                )
            else:
                return connection
        problem = self._problem
        raise type(problem)(str(problem), traceback=problem.traceback)

    @cached_property
    def _fresh_task(self) -> Task:
        is_script = not defines_grade(self._task.rubric)
        return replace(self._task, is_script=is_script, loads_first=False)


def open_rubrics(
    task_class: TaskClass, settings: BenchSettings
) -> IsolatedRubric | scores.CombinedRubrics:
    """Return what grades the cases of a task class; the caller has to close it.

    Raises:
        BenchError: The task class has no rubric of its own.
    """
    if not task_class.rubrics:
        raise BenchError(f"{task_class.name}: has no rubric.py; load it from a folder")
    opened = {name: IsolatedRubric(path, settings) for name, path in task_class.rubrics.items()}
    if len(opened) == 1:
        return next(iter(opened.values()))
    return scores.CombinedRubrics(opened, task_class)


class ProcessDied(ToldError):  # noqa: N818 - users read the name as the kind of end
    """The process ended before the system had returned."""


class IsolatedSystem:
    """Calls a system under test in other processes, where nothing that it does reaches us.

    The processes are forks of one that has imported the system's module. They have the path, the
    environment and the working directory of this process. Each runs one case at a time, and another
    one after it unless the case has left something behind, such as a thread.
    """

    is_isolated = True
    """What it returns or raises is plain data."""
    most_at_once = 64
    """How many cases it should be given at a time."""

    def __init__(self, target: str) -> None:
        """Prepare; no process is started yet.

        Args:
            target: `package.module:callable`, plain or async, taking a `BenchCase`.
        """
        self.starts_threads = False
        """Whether its module has started threads, which no fork has; known when connected."""
        self.version: str | None = None
        """A text in its attribute `version`, likewise."""
        self._around: object = None
        self._task = Task(target=target, max_bytes=MAX_OUTPUT_BYTES)
        self._servers = _Servers()
        weakref.finalize(self, self._servers.close)

    async def __call__(self, case: BenchCase) -> Any:
        """Return what the system returns; if cancelled, kill its process.

        What the system spends there, `case.spend` is told here, whatever becomes of the process.

        Raises:
            ToldError: The system raised, or its process ended.
        """
        body = pickle.dumps(case)

        def spend(lines: bytes) -> None:
            for line in lines.splitlines():
                cost_usd, usage = json.loads(line)
                case.spend(cost_usd, **usage)

        reply = await self._ask(body, spend)
        if reply.what == wire.RAISED:
            raise raised_elsewhere(json.loads(reply.body), reply.printed)
        if reply.what == wire.ANSWER and not reply.status:
            return Answer(**json.loads(reply.body))
        if reply.what == wire.TOO_LARGE:
            raise ProcessDied(f"the system returned more than {MAX_OUTPUT_BYTES:,} bytes of JSON")
        why = how_it_ended(os.waitstatus_to_exitcode(reply.status))
        if reply.what == wire.NOT_STARTED:
            why = f"could not be started: {reply.body.decode(errors='replace')}"
        raise ProcessDied(f"the system's process {why}")

    async def connect(self) -> None:
        """Have a process that has imported the system, in the surroundings that ours has now.

        Raises:
            BenchError: It can't be imported.
        """
        around = ({**os.environ, "PYTEST_CURRENT_TEST": ""}, os.getcwd(), sys.path[:])
        if not _CAN_FORK:
            return
        self._servers.renew(is_changed=self._around != around)
        self._around = around
        server = self._servers.get("main", self._task, _IMPORT_SECONDS)
        loaded = await server.loaded()
        problem = ""
        if loaded is None:
            problem = f"its process {how_it_ended(server.status)}"
        elif loaded.what == wire.TIMED_OUT:
            problem = f"it takes more than {_IMPORT_SECONDS:g} s"
        elif loaded.what == wire.BROKEN:
            raise BenchError(json.loads(loaded.body)["message"])
        else:
            known = json.loads(loaded.body)
            self.starts_threads, self.version = known["has_threads"], known["version"]
        if problem:
            name = self._task.target.partition(":")[0]
            raise BenchError(f"{name} can't be imported ({problem}); mend the module")

    async def _ask(self, body: bytes, on_spends: OnSpends) -> Reply:
        if not _CAN_FORK:
            return await run_directly(self._task, body, None, on_spends)
        server = self._servers.get("main", self._task, None)
        loaded = await server.loaded()
        if loaded is None:
            raise ProcessDied(f"the system's process {how_it_ended(server.status)} on loading it")
        if loaded.what == wire.BROKEN:
            raise raised_elsewhere(json.loads(loaded.body))
        try:
            return await server.ask(body, None, on_spends)
        except ServerDiedError:
            # Not tried again: a call of the system may cost money.
            raise ProcessDied("the process that starts the system's was killed") from None

    async def aclose(self) -> None:
        """Kill all processes; may be called again."""
        await self._servers.aclose()


class _Servers:
    """The servers of one rubric or system; an event loop can only use its own."""

    def __init__(self) -> None:
        self._kept: dict[str, Connection] = {}
        self.fresh: set[Connection] = set()
        self.is_closed = False
        self.alone = asyncio.Lock()
        """Held by the one case that uses the server for suspects."""

    def get(self, which: str, task: Task, load_seconds: float | None) -> Connection:
        """Return a server; start a new one if there is none or it has ended.

        Raises:
            RubricError: All servers were closed while a case was still waiting.
        """
        if self.is_closed:
            raise RubricError("was stopped")
        found = self._kept.get(which)
        if found is None or found.has_ended:
            found = self._kept[which] = Connection(task, load_seconds)
        return found

    def renew(self, *, is_changed: bool) -> None:
        """Have the next case start a new server, if one is asked for and none is busy."""
        if is_changed and not any(each.is_busy for each in self._kept.values()):
            self.fresh.update(self._kept.values())
            self._kept.clear()

    async def aclose(self) -> None:
        """Close all servers without blocking their loop, and refuse to start more."""
        self.is_closed = True
        await asyncio.gather(*(each.aclose() for each in (*self._kept.values(), *self.fresh)))

    def close(self) -> None:
        """Close all servers."""
        for each in (*self._kept.values(), *self.fresh):
            each.close()


def read_answer(reply: Reply, limit_seconds: float) -> RubricAnswer:
    """Return what a rubric answered.

    Raises:
        RubricTimeoutError: The rubric exceeded its limit.
        RubricError: The rubric gave no answer; the message continues "the rubric ...".
    """
    if reply.what == wire.TIMED_OUT:
        raise scores.RubricTimeoutError(f"was not done within {limit_seconds:g} s")
    if reply.what == wire.TOO_LARGE:
        raise RubricError(f"gave more than {wire.MAX_VERDICT_BYTES:,} bytes as its verdict")
    if reply.what == wire.NOT_STARTED:
        raise RubricError(f"could not be started: {reply.body.decode(errors='replace')}")
    ended = how_it_ended(os.waitstatus_to_exitcode(reply.status))
    if reply.what == wire.NO_ANSWER:
        raise RubricError(f"{ended} and gave no verdict")
    if reply.what == wire.RAISED:
        said = json.loads(reply.body)
        raise RubricError(said["reason"], traceback=said["traceback"], printed=reply.printed)
    if reply.status:
        errors = reply.printed if reply.what == wire.OUTPUT else ""
        raise RubricError(ended, traceback=errors, printed=reply.printed)
    if reply.what == wire.OUTPUT:  # of a script
        try:
            printed = json.loads(reply.body)
        except (ValueError, RecursionError):
            printed = None
        if not isinstance(printed, dict):
            shown = reply.body[:200].decode("utf-8", "backslashreplace").strip()
            what = f"printed {shown!r}" if shown else "printed nothing"
            raise RubricError(
                f"{what} on stdout; one JSON object, its verdict, and nothing else would be right",
                printed=reply.printed,
            )
    return RubricAnswer(json=reply.body, printed=reply.printed)


def defines_grade(rubric: str) -> bool:
    """Return whether a file has a top-level `grade`, without running the file.

    A file that can't be compiled counts as having one: the error then appears when it is loaded.
    """
    try:
        table = symtable.symtable(decode_source(Path(rubric).read_bytes()), rubric, "exec")
        grade = table.lookup("grade")
    except KeyError:
        return False
    except (OSError, SyntaxError, ValueError):
        return True
    return grade.is_assigned() or grade.is_imported()
