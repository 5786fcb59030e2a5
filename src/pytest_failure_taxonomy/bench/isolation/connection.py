"""One process that runs rubrics, as its client sees it: started, asked, and ended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.isolation import sweeping, wire
from pytest_failure_taxonomy.bench.isolation.environment import mark_of
from pytest_failure_taxonomy.bench.isolation.task import Reply, Task

SERVER: Final = str(Path(__file__).with_name("server.py"))

SPARE_SECONDS: Final = 10.0
"""How long after a case's limit its server may take to say so before it is given up."""

_LOWEST: Final = 3

_SECONDS_TO_END: Final = 5.0
_CHUNK: Final = 1 << 18


def _moved_up(given: socket.socket) -> socket.socket:
    """Return a socket under a number that the server's own standard input and output don't take.

    Where one of the standard descriptors was closed, the system gives its number to the next file.
    """
    if given.fileno() >= _LOWEST:
        return given
    import fcntl

    with given:
        number = fcntl.fcntl(given.fileno(), fcntl.F_DUPFD_CLOEXEC, _LOWEST)
        return socket.socket(given.family, given.type, given.proto, fileno=number)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class ServerDiedError(Exception):
    """The process that runs rubrics ended while a case waited for its verdict."""


class Connection:
    """A server and the cases that wait for its replies, on one event loop."""

    def __init__(self, task: Task, load_seconds: float | None) -> None:
        """Start the server; to be called on the loop.

        Args:
            task: what it is to run.
            load_seconds: how long it may take to load that; `None` for no limit.
        """
        self._loop = asyncio.get_running_loop()
        self._owner = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="failure-taxonomy-rubrics-")
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._number = 0
        self._outgoing = bytearray()
        self._inbox = wire.Inbox(wire.REPLY)
        self._has_ended = False
        self.is_counted = False
        """Its death while it loaded the rubric is known already."""
        self._loaded: asyncio.Future[Reply | None] = self._loop.create_future()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = socket.socketpair()
        with _moved_up(theirs) as theirs:
            self._process = self._start(task, theirs)
        self._socket.settimeout(0)
        self._loop.add_reader(self._socket.fileno(), self._receive)
        hello = json.dumps(task.hello(self._folder)).encode()
        self._send(wire.REQUEST.pack(wire.HELLO, 0, 0.0, len(hello)) + hello)
        self._timer: asyncio.TimerHandle | None = None
        if load_seconds is not None:
            self._timer = self._loop.call_later(load_seconds, self._give_up_loading)

    def _start(self, task: Task, theirs: socket.socket) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, SERVER, str(theirs.fileno()), task.rubric or task.target],
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

    @property
    def is_alive(self) -> bool:
        """It can be asked."""
        return not self._has_ended

    async def loaded(self) -> Reply | None:
        """Wait until the server has loaded what it is to run; `None` where it died over that."""
        return await asyncio.shield(self._loaded)

    async def ask(self, body: bytes, limit_seconds: float | None) -> Reply:
        """Have a case run.

        A caller that is cancelled has the case killed.

        Args:
            body: what the child is given.
            limit_seconds: how long it may take; `None` for no limit.

        Raises:
            ServerDiedError: the server is gone.
        """
        if self._has_ended:
            raise ServerDiedError
        self._number += 1
        number = self._number
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = reply
        self._send(wire.REQUEST.pack(wire.GRADE, number, limit_seconds or 0.0, len(body)) + body)
        timer = None
        if limit_seconds is not None:
            timer = self._loop.call_later(limit_seconds + SPARE_SECONDS, self._break_off)
        try:
            return await reply
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting.pop(number, None) is not None and not self._has_ended:
                self._send(wire.REQUEST.pack(wire.CANCEL, number, 0.0, 0))

    async def aclose(self) -> None:
        """Have the server end all that it runs, and wait for that."""
        if not self._has_ended:
            self._say_goodbye()
            await asyncio.wait([self._end], timeout=_SECONDS_TO_END)
        self.close()

    def close(self) -> None:
        """Do the same without waiting on the loop.

        On another loop's thread it only ends the server; the reader of its own loop does the rest.
        A process that was forked from ours has to leave the server alone.
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
        if not self._loop.is_running() or self._loop is _running_loop():
            self._on_end()

    def _say_goodbye(self) -> None:
        if not self._loaded.done():
            self._process.kill()  # foreign code runs there, it would not listen
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _break_off(self) -> None:
        """Kill a server that does not answer: someone has stopped it."""
        self._process.kill()

    def _give_up_loading(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(Reply(what=wire.TIMED_OUT))
            self._break_off()

    def _send(self, data: bytes) -> None:
        if self._outgoing:
            self._outgoing += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is gone, which `_receive` is told
        if sent < len(data):
            self._outgoing += data[sent:]
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:
            self._outgoing.clear()
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
            reply = Reply(what=what, status=int(status), body=body)
            if what in (wire.READY, wire.BROKEN):
                self._finish_loading(reply)
            elif (waiting := self._waiting.pop(number, None)) is not None and not waiting.done():
                waiting.set_result(reply)
        if not data:
            self._on_end()

    def _finish_loading(self, reply: Reply | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._loaded.done() and not self._loop.is_closed():
            self._loaded.set_result(reply)

    def _on_end(self) -> None:
        """Clean up after a server that has ended, or has closed its socket, which is no better."""
        if self._has_ended:
            return
        self._has_ended = True
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)
        self._process.kill()
        self._process.wait()
        if self._process.returncode or os.path.exists(self._folder):
            sweeping.kill_marked(mark_of(self._folder))
            sweeping.remove_folder(self._folder)
        self._finish_loading(None)
        if self._loop.is_closed():
            return
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ServerDiedError())
        if not self._end.done():
            self._end.set_result(None)

    @property
    def status(self) -> int:
        """How the server ended, as `subprocess` has it."""
        return self._process.returncode or 0
