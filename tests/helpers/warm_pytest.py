"""Start pytest from a process that has imported it already: a third of the time of a new one.

`python -m pytest` spends two thirds of a small run on importing pytest. A server, one for each
process of the suite, imports it once; each run is a fork of it that has loaded none of our modules
and none of the user's. What depends on how an interpreter starts (`PYTHON…` variables, a locale, a
terminal, a launcher before it) is started anew instead; so is everything by `--fresh-pythons`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "TZ")
"""How variables begin that an interpreter reads when it starts, or the libraries below it."""
_NO_MATTER: Final = frozenset({"PYTHONDONTWRITEBYTECODE"})
_MAX_REQUEST: Final = 1 << 20

_servers: dict[tuple[int, int, str], _Server] = {}
"""By the process and the thread that have started it, and by what it has read at its start."""


class Switch:
    """Whether forks of a server are used at all; the option `--fresh-pythons` says no."""

    is_on = hasattr(os, "fork") and hasattr(socket, "send_fds")


def warm_server(command: Sequence[str], env: Mapping[str, str]) -> _Server | None:
    """Return who can run a command as it would run by itself, `None` where it has to.

    Args:
        command: `python -m pytest` and its arguments; anything else is nothing for a server.
        env: the whole environment of the command.
    """
    is_pytest = list(command[:3]) == [sys.executable, "-m", "pytest"]
    if not (Switch.is_on and is_pytest and all(type(word) is str for word in command)):
        return None
    read = _read_at_start(env)
    if not read.items() <= _OF_THE_SUITE.items():
        return None
    key = (os.getpid(), threading.get_ident(), json.dumps(read, sort_keys=True))
    if key not in _servers:
        _servers[key] = _Server(env)
    return _servers[key]


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if k.startswith(_AT_START) and k not in _NO_MATTER}


_OF_THE_SUITE: Final = _read_at_start(os.environ)
"""What a run may have of all that; a test that sets more of it gets a new interpreter."""


class _Server:
    """A process that has imported pytest, and forks for each run of it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=dict(env),
            )
        atexit.register(self._stop, os.getpid())

    def run(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command that is one of pytest's.

        Args:
            command: `python -m pytest` and its arguments.
            cwd: the folder to start it in.
            env: its whole environment.
            timeout: in seconds; after it the process is killed.

        Returns:
            Its exit status as `subprocess` has it, what it wrote on stdout, and on stderr.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        request = json.dumps({"arguments": command[3:], "cwd": str(cwd), "env": dict(env)})
        # Pipes, as `subprocess` has them: a limit on files must not cut what is printed.
        with open(os.devnull, "rb") as stdin, ThreadPoolExecutor(2) as readers:
            pipes = [os.pipe(), os.pipe()]
            outputs = [readers.submit(_read_all, read) for read, _ in pipes]
            streams = [stdin.fileno(), *(write for _, write in pipes)]
            try:
                socket.send_fds(self._socket, [request.encode()], streams)
            finally:
                for _, write in pipes:
                    os.close(write)
            status = self._status(command, timeout)
            stdout, stderr = (output.result() for output in outputs)
        return status, stdout, stderr

    def _status(self, command: Sequence[str], timeout: float) -> int:
        process_id = int(self._socket.recv(64))
        self._socket.settimeout(timeout)
        try:
            return int(self._socket.recv(64))
        except TimeoutError:
            os.kill(process_id, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(command), timeout) from None
        finally:
            self._socket.settimeout(None)

    def _stop(self, process_id: int) -> None:
        if os.getpid() == process_id:
            self._socket.close()
            self._process.wait()


def _read_all(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()


def serve(connection: socket.socket) -> list[str] | None:
    """Fork for each request until nobody is left to ask; return pytest's arguments in a fork."""
    signal.signal(signal.SIGINT, lambda *_: None)
    import_module("pytest")
    for name in import_module("_pytest.config").default_plugins:
        if name != "pytester":  # its asserts are rewritten
            import_module(f"_pytest.{name}")
    gc.collect()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
        if not request:
            return None
        asked: dict[str, Any] = json.loads(request)
        process_id = os.fork()
        if process_id == 0:
            connection.close()
            gc.unfreeze()
            return _become(asked, streams)
        for stream in streams:
            os.close(stream)
        connection.send(str(process_id).encode())
        _, status = os.waitpid(process_id, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    """Take on what a new process would have been given."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.dont_write_bytecode = bool(asked["env"].get("PYTHONDONTWRITEBYTECODE"))
    sys.path[0] = asked["cwd"]
    arguments: list[str] = asked["arguments"]
    return arguments


if __name__ == "__main__":
    given = serve(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        sys.argv = ["pytest", *given]
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
