"""A process that runs cases, as its client sees it: its task, its answers, its end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.isolate import processes, wire
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import to_dict, value

SPARE_SECONDS: Final = 10.0
"""How long after a case's limit its server may take to report before it is killed."""

_SERVER: Final = str(Path(__file__).with_name("server.py"))
_FOLDER_PREFIX: Final = "failure-taxonomy-rubrics-"
_FIRST_FREE_DESCRIPTOR: Final = 3
_SECONDS_TO_END: Final = 5.0
_SECONDS_FOR_LAST_SPENDS: Final = 0.5
"""Less than the grace period of a system that is cancelled."""
_CHUNK: Final = 1 << 18

_KEPT: Final = frozenset(packaged_table("bench")["kept_for_rubrics"])
"""The variables of the user's environment that a rubric sees, besides `LC_*`."""
_FOLDERS: Final = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP")

SET_FOR_RUBRICS: Final = frozenset(
    {*_KEPT, *_FOLDERS, wire.MARK}
    | {"PYTHONPATH", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
)
"""Variables that each rubric has, with values that are not the user's to choose."""


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


def rubric_environment(
    given: Mapping[str, str], folder: str, variables: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of a rubric: what Python and the system need, nothing of the user's.

    Args:
        given: The environment of this process.
        folder: The private folder, used as home and for temporary files.
        variables: The names of the variables that the user lets through.
    """
    kept = {
        name: value
        for name, value in given.items()
        if name.upper() in _KEPT or name.startswith("LC_") or name in variables
    }
    if given.get("PYTHONPATH"):
        parts = given["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # Python would look for it in HOME
    return {
        **kept,
        **dict.fromkeys(_FOLDERS, folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        wire.MARK: mark_of(folder),
    }


def mark_of(folder: str) -> str:
    """Return the mark of the processes that belong to a private folder."""
    return os.path.basename(folder)


@value
class Reply:
    """How a case or the loading of a rubric ended: a code of `wire`, and what belongs to it.

    What the process of a case wrote to its own descriptor has the code of that message.
    """

    what: bytes
    status: int = 0
    body: bytes = b""
    printed: str = ""

    @classmethod
    def of(cls, what: bytes, status: int = 0, body: bytes = b"") -> Reply:
        """Return the reply that a server has sent."""
        if what != wire.ANSWERED:
            return cls(what=what, status=status, body=body)
        _, what, _, body_bytes, _ = wire.MESSAGE.unpack_from(body)
        end = wire.MESSAGE.size + body_bytes
        printed = body[end:].decode("utf-8", "backslashreplace")
        return cls(what=what, status=status, body=body[wire.MESSAGE.size : end], printed=printed)


def how_it_ended(returncode: int) -> str:
    """Return in words how a process ended.

    Args:
        returncode: As `subprocess` gives it: negative for a signal.
    """
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _above_standard(end: socket.socket) -> socket.socket:
    """Return a socket whose descriptor is none of the three standard ones.

    If one of ours was closed, a socket may have its number: it would clash with the server's own,
    and a system that closes them again would close it.
    """
    if end.fileno() >= _FIRST_FREE_DESCRIPTOR:
        return end
    import fcntl

    with end:
        number = fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
    return socket.socket(end.family, end.type, end.proto, fileno=number)


OnSpends = Callable[[bytes], None]


class ServerDiedError(Exception):
    """The server ended while a case waited for its verdict."""


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
                    [sys.executable, _SERVER, str(theirs.fileno()), task.rubric or task.target],
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
        self, body: bytes, limit_seconds: float | None, on_spends: OnSpends | None = None
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
            raise ServerDiedError
        self._number += 1
        number = self._number
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = (reply, on_spends)
        self._send(wire.REQUEST.pack(wire.GRADE, number, limit_seconds or 0.0, len(body)) + body)
        timer = None
        if limit_seconds is not None:  # a rubric may have stopped the server with a signal
            timer = self._loop.call_later(limit_seconds + SPARE_SECONDS, self._process.kill)
        try:
            return await reply
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting.pop(number, None) is not None and not self.has_ended:
                self._send(wire.REQUEST.pack(wire.CANCEL, number, 0.0, 0))
                if on_spends is not None:  # the case is being killed: wait for the last it tells
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
        for waiting, _ in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ServerDiedError())
        if not self._end.done():
            self._end.set_result(None)


async def run_directly(
    task: Task, body: bytes, limit_seconds: float | None, on_spends: OnSpends | None = None
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
            stderr=subprocess.PIPE if task.is_script or task.target else subprocess.DEVNULL,
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
            await asyncio.wait([running], timeout=_SECONDS_FOR_LAST_SPENDS)  # tells what it spent
    finally:
        processes.remove_folder(folder)
