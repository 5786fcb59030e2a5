"""Run rubrics and systems under test in processes of their own, which can be killed.

First a process that runs cases, as its client sees it: its task, its answers, its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import socket
import subprocess
import symtable
import sys
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from importlib.util import decode_source
from pathlib import Path
from typing import Any, Final, Literal

from pytest_failure_taxonomy.bench import scores
from pytest_failure_taxonomy.bench.answers import Answer
from pytest_failure_taxonomy.bench.isolate import processes, wire
from pytest_failure_taxonomy.bench.isolate.environment import (
    mark_of,
    rubric_environment,
)
from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass
from pytest_failure_taxonomy.bench.scores import RubricAnswer, RubricError
from pytest_failure_taxonomy.bench.user_code import ToldError, raised_elsewhere
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

SPARE_SECONDS: Final = 10.0
"""How long after a case's limit its server may take to report before it is killed."""

_SERVER: Final = str(Path(__file__).with_name("server.py"))
_FOLDER_PREFIX: Final = "failure-taxonomy-rubrics-"
_FIRST_FREE_DESCRIPTOR: Final = 3
_SECONDS_TO_END: Final = 5.0
_SECONDS_FOR_LAST_SPENDS: Final = 0.5
"""Less than the grace period of a system that is cancelled."""
_CHUNK: Final = 1 << 18


@value
class Task:
    """What a process is to run."""

    memory_mb: int = 0
    max_bytes: int = wire.MAX_VERDICT_BYTES
    loads_first: bool = True
    is_script: bool = False
    rubric: str = ""
    variables: tuple[str, ...] = ()
    """Names of variables of our environment that the rubric sees besides its own."""
    target: str = ""
    """A system under test instead of a rubric."""

    def hello(self, folder: str) -> bytes:
        """Return the first message to the process.

        Args:
            folder: The private folder of the process.
        """
        said = {
            **to_dict(self),
            "folder": "" if self.target else folder,
            "parent": os.getpid(),
            "path": sys.path if self.target else [],
        }
        body = json.dumps(said).encode()
        return wire.REQUEST.pack(wire.HELLO, 0, 0.0, len(body)) + body

    def environment(self, folder: str) -> Mapping[str, str]:
        """Return the environment of the process; a system gets all of ours, it needs its keys."""
        if self.target:
            return {**os.environ, wire.MARK: mark_of(folder)}
        return rubric_environment(os.environ, folder, self.variables)


@value
class Reply:
    """How a case or the loading of a rubric ended: a code of `wire`, and what belongs to it.

    What the process of a case wrote to its own descriptor has the code of that message.
    """

    what: bytes
    status: int = 0
    body: bytes = b""
    printed: str = ""

    @property
    def why_ended(self) -> str:
        """How the process ended, or why there was none."""
        if self.what == wire.NOT_STARTED:
            return f"could not be started: {self.body.decode(errors='replace')}"
        return processes.how_it_ended(os.waitstatus_to_exitcode(self.status))

    @classmethod
    def of(cls, what: bytes, status: int = 0, body: bytes = b"") -> Reply:
        """Return the reply that a server has sent."""
        if what != wire.ANSWERED:
            return cls(what=what, status=status, body=body)
        _, what, _, body_bytes, _ = wire.MESSAGE.unpack_from(body)
        end = wire.MESSAGE.size + body_bytes
        printed = body[end:].decode("utf-8", "backslashreplace")
        return cls(
            what=what,
            status=status,
            body=body[wire.MESSAGE.size : end],
            printed=printed,
        )


def _above_standard(end: socket.socket) -> socket.socket:
    """Return a socket whose descriptor is none of the three standard ones.

    If one of ours was closed, a socket may have its number: it would clash with the server's own,
    and a system that closes them again would close it.
    """
    if end.fileno() >= _FIRST_FREE_DESCRIPTOR:
        return end
    import fcntl

    with end:
        number = fcntl.fcntl(
            end.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR
        )
    return socket.socket(end.family, end.type, end.proto, fileno=number)


OnSpends = Callable[[bytes], None]


class ServerDiedError(Exception):
    """The server ended while a case waited for its answer."""

    def __init__(self, *, was_alone: bool) -> None:
        super().__init__()
        self.was_alone = was_alone
        """Whether no other case ran there in that time, so that this one did it."""


class Connection:
    """A server and the cases that wait for its replies, on one event loop."""

    def __init__(self, task: Task, load_seconds: float | None) -> None:
        """Start the server; call this on the event loop.

        Args:
            task: What the server is to run.
            load_seconds: Time limit for loading it; `None` for no limit.
        """
        self._loop = asyncio.get_running_loop()
        self._owner = os.getpid()
        if task.target:  # it needs the path for its name alone
            name = f"{_FOLDER_PREFIX}{os.urandom(6).hex()}"
            self._folder = os.path.join(tempfile.gettempdir(), name)
        else:
            self._folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
        self._waiting: dict[int, tuple[asyncio.Future[Reply], OnSpends | None]] = {}
        self._beside_others: set[int] = set()
        """Those that wait, or waited, together with others."""
        self._number = 0
        self._outgoing = bytearray()
        self._inbox = wire.Inbox(wire.REPLY)
        self.has_ended = False
        """Whether the server can't be asked any more."""
        self._loaded: asyncio.Future[Reply | None] = self._loop.create_future()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = map(_above_standard, socket.socketpair())
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [
                        sys.executable,
                        _SERVER,
                        str(theirs.fileno()),
                        task.rubric or task.target,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=None if task.target else self._folder,
                    env=task.environment(self._folder),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                self._socket.close()
                shutil.rmtree(self._folder, ignore_errors=True)
                raise
        self._socket.settimeout(0)
        self._loop.add_reader(self._socket.fileno(), self._receive)
        self._send(task.hello(self._folder))
        self._timer: asyncio.TimerHandle | None = None
        if load_seconds is not None:
            self._timer = self._loop.call_later(load_seconds, self._give_up_loading)

    @property
    def is_busy(self) -> bool:
        """Whether cases wait for its replies."""
        return bool(self._waiting)

    @property
    def status(self) -> int:
        """The return code of the server, as `subprocess` gives it."""
        return self._process.returncode or 0

    async def loaded(self) -> Reply | None:
        """Wait until the server has loaded the rubric or system; `None` if it died meanwhile."""
        return await asyncio.shield(self._loaded)

    async def ask(
        self,
        body: bytes,
        limit_seconds: float | None,
        on_spends: OnSpends | None = None,
    ) -> Reply:
        """Run a case; if the caller is cancelled, the case is killed.

        Args:
            body: The input of the case's process.
            limit_seconds: Time limit of the case; `None` for no limit.
            on_spends: Called with lines of `wire.pack_spent` as soon as a system has spent that,
                for the last time before this returns or raises.

        Raises:
            ServerDiedError: The server has ended.
        """
        if self.has_ended:
            raise ServerDiedError(was_alone=False)
        self._number += 1
        number = self._number
        if self._waiting:
            self._beside_others |= {number, *self._waiting}
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = (reply, on_spends)
        self._send(
            wire.REQUEST.pack(wire.GRADE, number, limit_seconds or 0.0, len(body))
            + body
        )
        timer = None
        if (
            limit_seconds is not None
        ):  # a rubric may have stopped the server with a signal
            timer = self._loop.call_later(
                limit_seconds + SPARE_SECONDS, self._process.kill
            )
        try:
            return await reply
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting.pop(number, None) is not None and not self.has_ended:
                self._send(wire.REQUEST.pack(wire.CANCEL, number, 0.0, 0))
                if (
                    on_spends is not None
                ):  # the case is being killed: wait for the last it tells
                    ended: asyncio.Future[Reply] = self._loop.create_future()
                    self._waiting[number] = (ended, on_spends)
                    with suppress(ServerDiedError, TimeoutError):
                        await asyncio.wait_for(ended, _SECONDS_FOR_LAST_SPENDS)
                    self._waiting.pop(number, None)

    async def aclose(self) -> None:
        """Stop the server and the cases that it runs, and wait until they have ended."""
        if not self.has_ended:
            self._say_goodbye()
            await asyncio.wait([self._end], timeout=_SECONDS_TO_END)
        self.close()

    def close(self) -> None:
        """Stop the server as `aclose` does, but block instead of awaiting.

        If the connection's loop runs in another thread, its reader then does the cleaning up. A
        fork of our process must not touch the server.
        """
        if self._owner != os.getpid():
            self._socket.detach()
            return
        self._say_goodbye()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(RuntimeError):  # there is none
            if self._loop is not asyncio.get_running_loop() and self._loop.is_running():
                return
        self._on_end()

    def _say_goodbye(self) -> None:
        if not self._loaded.done():
            self._process.kill()  # it is loading a rubric and does not read its socket
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _give_up_loading(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(Reply(what=wire.TIMED_OUT))
            self._process.kill()

    def _send(self, data: bytes) -> None:
        self._outgoing += data
        self._send_rest()
        if self._outgoing:
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:
            self._outgoing.clear()  # the server is gone, as `_receive` will notice
        if not self._outgoing:
            self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for (what, number, status), body in self._inbox.feed(data):
            if what in (wire.READY, wire.BROKEN):
                self._finish_loading(Reply.of(what, body=body))
            elif number in self._waiting and what == wire.SPENT:
                _, on_spends = self._waiting[number]
                if on_spends is not None:
                    on_spends(body)
            elif number in self._waiting:
                waiting, _ = self._waiting.pop(number)
                if not waiting.done():
                    waiting.set_result(Reply.of(what, int(status), body))
        if not data:
            self._on_end()

    def _finish_loading(self, reply: Reply | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._loaded.done() and not self._loop.is_closed():
            self._loaded.set_result(reply)

    def _on_end(self) -> None:
        """Clean up after a server that has ended or closed its socket."""
        if self.has_ended:
            return
        self.has_ended = True
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)
        self._process.kill()
        self._process.wait()
        if self._process.returncode or os.path.exists(self._folder):
            processes.kill_marked(mark_of(self._folder))
            processes.remove_folder(self._folder)
        self._finish_loading(None)
        if self._loop.is_closed():
            return
        for number, (waiting, _) in self._waiting.items():
            if not waiting.done():
                died = ServerDiedError(was_alone=number not in self._beside_others)
                waiting.set_exception(died)
        if not self._end.done():
            self._end.set_result(None)


async def run_directly(
    task: Task,
    body: bytes,
    limit_seconds: float | None,
    on_spends: OnSpends | None = None,
) -> Reply:
    """Run one case in a new interpreter where there is no `fork`, as on Windows.

    The case has a time limit, a folder and an environment, but no other limits, and processes that
    a rubric leaves behind are not found. If the caller is cancelled, the process is killed.

    Args:
        task: What to run.
        body: The input of the process.
        limit_seconds: Time limit of the case; `None` for no limit.
        on_spends: Called with lines of `wire.pack_spent` when the process of a system has ended.
    """

    def communicate() -> Reply:
        try:
            output, errors = process.communicate(given, limit_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # a grandchild may hold the pipes
                process.communicate(timeout=_SECONDS_TO_END)
            return Reply(what=wire.TIMED_OUT)
        if on_spends is not None:
            on_spends(errors[: errors.rfind(b"\n") + 1])
        # In the form of `waitpid`.
        code = process.returncode
        status = -code if code < 0 else (code & 0xFF) << 8
        if len(output) > task.max_bytes + wire.MESSAGE_OVERHEAD_BYTES:
            return Reply(what=wire.TOO_LARGE)
        if task.is_script:
            output = wire.pack_script(bytes(wire.TOKEN_BYTES), output, errors)
        if wire.is_complete(output):
            return Reply.of(wire.ANSWERED, status, output)
        return Reply(what=wire.NO_ANSWER, status=status)

    folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - not every event loop of Windows has subprocesses
            [sys.executable, *([task.rubric] if task.is_script else [_SERVER, "-"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A system tells there what it spends.
            stderr=subprocess.PIPE
            if task.is_script or task.target
            else subprocess.DEVNULL,
            cwd=None if task.target else folder,
            env=task.environment(folder),
            start_new_session=True,
        )
        try:
            given = body if task.is_script else task.hello(folder) + body
            running = asyncio.ensure_future(asyncio.to_thread(communicate))
            return await asyncio.shield(running)
        finally:
            with suppress(OSError):
                process.kill()
            process.wait()
            await asyncio.wait(
                [running], timeout=_SECONDS_FOR_LAST_SPENDS
            )  # tells what it spent
    finally:
        processes.remove_folder(folder)


# Rubrics and systems.

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
        is_fresh = not (self._is_warm and _CAN_FORK)
        try:
            if is_fresh and self._fresh_task.is_script:
                body = json.dumps({"case": case.fields, "output": output}).encode()
            else:
                body = wire.pack_case(case.fields, output)
        except (TypeError, ValueError, RecursionError) as error:
            raise RubricError(f"can't be given its case: {error}") from error
        try:
            if not _CAN_FORK:
                reply = await run_directly(self._fresh_task, body, limit_seconds)
            elif self._is_warm:
                reply = await self._ask_warm(body, limit_seconds)
            else:
                async with self._servers.one_for_a_case(self._fresh_task) as server:
                    reply = await server.ask(body, limit_seconds)
        except ServerDiedError:
            raise RubricError("killed the process that runs the rubrics") from None
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
                    ended = processes.how_it_ended(connection.status)
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
    opened = {
        name: IsolatedRubric(path, settings)
        for name, path in task_class.rubrics.items()
    }
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
                cost_usd, usage, seconds = json.loads(line)
                if seconds is None:
                    case.spend(cost_usd, **usage)
                else:
                    case.note_seconds(seconds)

        if not _CAN_FORK:
            reply = await run_directly(self._task, body, None, spend)
        elif case.is_suspect:
            async with self._servers.one_for_a_case(self._task) as server:
                reply = await _ask_system(server, body, spend)
        else:
            server = self._servers.get("main", self._task, None)
            reply = await _ask_system(server, body, spend)
        if reply.what == wire.RAISED:
            raise raised_elsewhere(json.loads(reply.body), reply.printed)
        if reply.what == wire.ANSWER and not reply.status:
            return Answer(**json.loads(reply.body))
        if reply.what == wire.TOO_LARGE:
            most = f"{MAX_OUTPUT_BYTES:,} bytes of JSON"
            raise ProcessDied(f"the system returned more than {most}")
        raise ProcessDied(f"the system's process {reply.why_ended}")

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
            problem = f"its process {processes.how_it_ended(server.status)}"
        elif loaded.what == wire.TIMED_OUT:
            problem = f"it takes more than {_IMPORT_SECONDS:g} s"
        elif loaded.what == wire.BROKEN:
            raise BenchError(json.loads(loaded.body)["message"])
        else:
            known = json.loads(loaded.body)
            self.starts_threads, self.version = known["has_threads"], known["version"]
        if problem:
            name = self._task.target.partition(":")[0]
            raise BenchError(f"{name} can't be imported ({problem}); fix the module")

    async def aclose(self) -> None:
        """Kill all processes; may be called again."""
        await self._servers.aclose()


async def _ask_system(server: Connection, body: bytes, on_spends: OnSpends) -> Reply:
    """Call a system.

    Raises:
        ToldError: It can't be loaded, or the server ended. Unless the case ran there alone, it is
            lost then: any of those in flight can have done that. It is not called again, since that
            may cost money; a run that is continued gives it a server of its own.
    """
    loaded = await server.loaded()
    if loaded is None:
        raise ProcessDied(
            f"the system's process {processes.how_it_ended(server.status)} on loading it"
        )
    if loaded.what == wire.BROKEN:
        raise raised_elsewhere(json.loads(loaded.body))
    try:
        return await server.ask(body, None, on_spends)
    except ServerDiedError as error:
        why = "the process that starts the system's processes was killed"
        if error.was_alone:
            raise ProcessDied(why) from None
        lost = ProcessDied(
            f"{why} while several cases ran; it is not known which of them did it"
        )
        lost.is_lost = True
        raise lost from None


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

    @asynccontextmanager
    async def one_for_a_case(self, task: Task) -> AsyncIterator[Connection]:
        """Have a server that runs a single case."""
        server = Connection(task, None)
        self.fresh.add(server)
        try:
            yield server
        finally:
            self.fresh.discard(server)
            await server.aclose()

    def renew(self, *, is_changed: bool) -> None:
        """Have the next case start a new server, if one is asked for and none is busy."""
        if is_changed and not any(each.is_busy for each in self._kept.values()):
            self.fresh.update(self._kept.values())
            self._kept.clear()

    async def aclose(self) -> None:
        """Close all servers without blocking their loop, and refuse to start more."""
        self.is_closed = True
        await asyncio.gather(
            *(each.aclose() for each in (*self._kept.values(), *self.fresh))
        )

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
        raise RubricError(
            f"gave more than {wire.MAX_VERDICT_BYTES:,} bytes as its verdict"
        )
    if reply.what == wire.NOT_STARTED:
        raise RubricError(reply.why_ended)
    if reply.what == wire.NO_ANSWER:
        raise RubricError(f"{reply.why_ended} and gave no verdict")
    if reply.what == wire.RAISED:
        said = json.loads(reply.body)
        raise RubricError(
            said["reason"], traceback=said["traceback"], printed=reply.printed
        )
    if reply.status:
        errors = reply.printed if reply.what == wire.OUTPUT else ""
        raise RubricError(reply.why_ended, traceback=errors, printed=reply.printed)
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
        table = symtable.symtable(
            decode_source(Path(rubric).read_bytes()), rubric, "exec"
        )
        grade = table.lookup("grade")
    except KeyError:
        return False
    except (OSError, SyntaxError, ValueError):
        return True
    return grade.is_assigned() or grade.is_imported()
