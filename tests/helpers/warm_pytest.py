"""Start pytest and our command from processes that have imported them already.

`python -m pytest` spends two thirds of a small run on importing pytest. A server, one for each
process of the suite, imports it once; each run is a fork of it that has loaded none of the user's
modules. Where a run loads our plugin by name and switches it on, its server has imported what such
a run imports, and nothing more: it has learned that from a run of its own. So has the server of
`python -m pytest_failure_taxonomy`, whose commands spend nine tenths on imports; but `run` is a
parent of processes, and new each time. What depends on how an interpreter starts (`PYTHON…`
variables, a locale, a terminal, a launcher before it) is started anew instead; so is everything by
`--fresh-pythons`.

xdist's workers are forks as well. A run with `-n` makes them before it begins, as children of its
own that wait to be needed. They get the pipes, the folder, the environment and the ignored signals
that a new process would get. Limits and the umask are those of the start.

A fork finds the entry points of what is installed without reading all of them again, and ends
without taking its modules apart, which would copy all that it shares: each is a fifth of the time
of a small run. What Python does before that, it does as well: it waits for threads, calls what is
registered by `atexit`, and writes out what is buffered.

As a program, `warm_pytest.py pytest ARGUMENTS` is one such run in a new process.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import io
import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "TZ")
"""How variables begin that an interpreter reads when it starts, or the libraries below it."""
_NO_MATTER: Final = frozenset({"PYTHONDONTWRITEBYTECODE"})
_MAX_REQUEST: Final = 1 << 20

_WORKERS: Final = re.compile("(?:^| )(?:-n|--numprocesses)[ =]?([0-9])(?: |$)")
"""How many workers the arguments of a run ask for."""
_RESTARTS: Final = 1
"""How many workers a run may lose before it starts new Pythons."""

_COMMAND: Final = "pytest_failure_taxonomy"
_OF_BENCHES: Final = ("pytest_failure_taxonomy.bench.models", "scipy.optimize")
"""What commands about benches import, besides what all import."""
_FOR_WORKERS: Final = ("execnet.gateway_base", "execnet.gateway_io")
_REPORTING: Final = ("-p", "failure_taxonomy", "--failure-taxonomy")
_BENCHES: Final = ("-p", "failure_taxonomy_bench")
"""The arguments of a run that loads our plugin and switches it on, and of one that has benches."""

_FILES: Final = {
    "pytest.ini": "[pytest]\n",
    "test_warming_up.py": "def test_it(): assert 0\n",
}
_BENCH_FILES: Final = {
    "conftest.py": "import pytest\n\n"
    "@pytest.fixture\ndef system_under_test(): return lambda case: 1\n",
    "bench/echo/breakdown_keys.yaml": "- exactness\n",
    "bench/echo/failure_modes.yaml": "answer.wrong: {severity: block, description: wrong}\n",
    # Scores between 0 and 1, of which some pass: what is computed of them takes numpy and scipy.
    "bench/echo/rubric.py": "def grade(case, output):\n"
    "    share = case['input'] / 4\n"
    "    return {'passed': share > 0.4, 'score': share, 'breakdown': {'exactness': share}}\n",
    "bench/echo/cases/a.jsonl": "".join(
        f'{{"id": "{n}", "input": {n}}}\n' for n in range(5)
    ),
}
_COMMAND_FILES: Final = {
    "junit.xml": "<testsuite tests='1' failures='1'><testcase classname='a' name='b'>"
    "<failure message='assert 0'>E  assert 0</failure></testcase></testsuite>",
    "log.txt": "=== 1 failed in 0.01s ===\n",
}
_COMMANDS: Final = (
    ("convert", "--from", "junit", "junit.xml", "-o", "failure-report.json"),
    ("show",),
    ("merge", "failure-report.json"),
    ("classify", "log.txt"),
)
"""What the run has to do, or our command, from which a server learns."""

_servers: dict[tuple[int, int, str, tuple[str, ...]], _Server] = {}
"""By the process and the thread that have started it, by what it has read at its start, and by what
else than pytest its runs import."""


class Switch:
    """Whether forks of a server are used at all; the option `--fresh-pythons` says no."""

    is_on = hasattr(os, "fork") and hasattr(socket, "send_fds")
    with_our_modules = True
    """Whether they may have imported our modules, too; not where a test breaks what we import."""


def warm_server(command: Sequence[str], env: Mapping[str, str]) -> _Server | None:
    """Return who can run a command as it would run by itself, `None` where it has to.

    Args:
        command: `python -m pytest` or our command, and its arguments; anything else is nothing for
            a server.
        env: the whole environment of the command.
    """
    start = [sys.executable, "-m"]
    is_ours = list(command[:3]) == [*start, _COMMAND] and "run" not in command[3:4]
    is_known = is_ours or list(command[:3]) == [*start, "pytest"]
    if not (Switch.is_on and is_known and all(type(word) is str for word in command)):
        return None
    read = _read_at_start(env)
    if not read.items() <= _OF_THE_SUITE.items():
        return None
    ours = (_COMMAND, *(_OF_BENCHES if "bench" in command[3:4] else ()))
    modules = ours if is_ours else _modules_of(command, env)
    if is_ours and not Switch.with_our_modules:
        return None
    key = (
        os.getpid(),
        threading.get_ident(),
        json.dumps(read, sort_keys=True),
        modules,
    )
    if key not in _servers:
        _servers[key] = _Server(env, modules)
    return _servers[key]


def _modules_of(arguments: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a run imports in any case, beside pytest, and the arguments to learn more by."""
    words = {*arguments, *shlex.split(env.get("PYTEST_ADDOPTS", ""))}
    # Where pytest loads our plugin by itself, it warns of what is imported already.
    with_ours = "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in env and Switch.with_our_modules
    # It warns of a plugin that it can't rewrite, too: `-p asyncio` has the name of what we import.
    has_benches = with_ours and words.issuperset(_BENCHES) and "asyncio" not in words
    reports = has_benches or (with_ours and words.issuperset(_REPORTING))
    return (
        *_FOR_WORKERS,  # in all of them: a server for each would cost more
        *(_REPORTING if reports else ()),
        *(_BENCHES if has_benches else ()),
    )


def _count_of_workers(arguments: Sequence[str]) -> int:
    found = _WORKERS.search(" ".join(arguments))
    return 0 if found is None else int(found[1])


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {
        k: v for k, v in env.items() if k.startswith(_AT_START) and k not in _NO_MATTER
    }


_OF_THE_SUITE: Final = _read_at_start(os.environ)
"""What a run may have of all that; a test that sets more of it gets a new interpreter."""


class _Server:
    """A process that has imported pytest, and forks for each run of it."""

    def __init__(self, env: Mapping[str, str], modules: Sequence[str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "server", str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=dict(env),
            )
        atexit.register(self._stop, os.getpid())

    def run(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        timeout: float,
        *,
        is_merged: bool = False,
    ) -> tuple[int, bytes, bytes]:
        """Run a command that is one of pytest's.

        Args:
            command: `python -m pytest` and its arguments.
            cwd: the folder to start it in.
            env: its whole environment.
            timeout: in seconds; after it the process is killed.
            is_merged: have what goes to stderr on stdout.

        Returns:
            Its exit status as `subprocess` has it, what it wrote on stdout, and on stderr.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        request = json.dumps(
            {"arguments": command[2:], "cwd": str(cwd), "env": dict(env)}
        )
        # Pipes, as `subprocess` has them: a limit on files must not cut what is printed.
        with open(os.devnull, "rb") as stdin, ThreadPoolExecutor(2) as readers:
            pipes = [os.pipe(), os.pipe()]
            outputs = [readers.submit(_read_all, read) for read, _ in pipes]
            outward = [write for _, write in pipes]
            streams = [stdin.fileno(), outward[0], outward[0 if is_merged else 1]]
            try:
                socket.send_fds(self._socket, [request.encode()], streams)
            finally:
                for write in outward:
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


def _warm_up(modules: tuple[str, ...]) -> None:
    """Import what each run imports before it looks at anything of the user's."""
    learns = modules.index("-p") if "-p" in modules else len(modules)
    names = list(modules[:learns])
    if _COMMAND not in modules:
        import_module("pytest")
        plugins = import_module("_pytest.config").default_plugins
        # The asserts of `pytester` are rewritten.
        names[:0] = [f"_pytest.{plugin}" for plugin in plugins if plugin != "pytester"]
    for name in names:
        with suppress(ImportError):  # of another version
            import_module(name)
    for name in _loaded_by_a_run(modules) if {"-p", _COMMAND} & {*modules} else ():
        with suppress(ImportError):  # the name of an alias
            import_module(name)
    inspect.getmodule(
        _warm_up.__code__
    )  # reads where each module's file is, once a process
    _remember_entry_points()
    gc.collect()
    gc.freeze()  # a fork that traverses what it shares would copy it


def _remember_entry_points() -> None:
    """Have the forks take the entry points of what is installed from here, not from its files."""
    # The path of its files is private, but has the same name in each version of Python.
    kind: Any = metadata.PathDistribution
    installed: list[Any] = list(metadata.distributions())
    known = {str(each._path): each.entry_points for each in installed}
    read: Callable[[Any], Any] = kind.entry_points.fget

    def entry_points(distribution: Any) -> Any:
        path = str(distribution._path)
        return known[path] if path in known else read(distribution)

    kind.entry_points = property(entry_points)


def _loaded_by_a_run(modules: Sequence[str]) -> list[str]:
    """Return the names of what a run imports that has a failure, or our command, in their order."""
    read, write = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        try:
            os.close(read)
            known = {*sys.modules, "conftest", "test_warming_up"}
            with tempfile.TemporaryDirectory() as folder:
                _run_once(Path(folder), modules)
            loaded = [name for name in sys.modules if name not in known]
            os.write(write, json.dumps(loaded).encode())
        finally:
            os._exit(0)
    os.close(write)
    names: list[str] = json.loads(_read_all(read))
    os.waitpid(process_id, 0)
    return names


def _run_once(folder: Path, modules: Sequence[str]) -> None:
    files, runs = dict(_COMMAND_FILES), [[_COMMAND, *words] for words in _COMMANDS]
    if "-p" in modules:
        files = {**_FILES, **(_BENCH_FILES if _BENCHES[1] in modules else {})}
        runs = [["pytest", "-p", "no:cacheprovider", *modules[modules.index("-p") :]]]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    # What the asking run is told, such as where a step of GitHub writes, is not for this one.
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.startswith((*_AT_START, "PATH", "HOME"))
    }
    os.environ.clear()
    os.environ.update(kept, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    for sys.argv in runs:
        with suppress(SystemExit):
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    os.chdir("/")


def serve(connection: socket.socket) -> list[str] | None:
    """Fork for each request until nobody is left to ask; return the words of one in its fork."""
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        request, streams, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
        if not request:
            return None
        asked: dict[str, Any] = json.loads(request)
        process_id = os.fork()
        if process_id == 0:
            connection.close()
            return _become(asked, streams)
        for stream in streams:
            os.close(stream)
        connection.send(str(process_id).encode())
        _, status = os.waitpid(process_id, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    """Take on what a new process would have been given."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _take_surroundings(asked, streams)
    sys.path[0] = asked["cwd"]
    arguments: list[str] = asked["arguments"]
    return arguments


def _take_surroundings(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.dont_write_bytecode = bool(asked["env"].get("PYTHONDONTWRITEBYTECODE"))


class _Workers:
    """Forks of a process that is about to run pytest, to be xdist's workers."""

    def __init__(self, count: int) -> None:
        self._read = _read_at_start(os.environ)
        self._waiting: list[tuple[int, socket.socket]] = []
        for _ in range(count):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            process_id = os.fork()
            if process_id == 0:
                for connection in (ours, *(other for _, other in self._waiting)):
                    connection.close()
                _work(theirs)
            theirs.close()
            self._waiting.append((process_id, ours))
        atexit.register(self._dismiss, os.getpid())
        self._bootstrap: str = import_module("execnet.gateway_io").popen_bootstrapline
        self._give()

    def _give(self) -> None:
        """Have execnet ask here first where it starts a Python."""
        gateways: Any = import_module("execnet.gateway_io")
        new_python: Any = gateways.Popen2IOMaster
        streams: Any = gateways.Popen2IO

        def start(args: list[str], execmodel: Any) -> Any:
            worker = self._start(args)
            if worker is None:
                return new_python(args, execmodel)
            started = new_python.__new__(new_python)
            started.popen = worker
            streams.__init__(started, worker.stdin, worker.stdout, execmodel)
            return started

        gateways.Popen2IOMaster = start

    def _start(self, args: Sequence[str]) -> _Worker | None:
        """Have a fork be the worker that the command would be, `None` where it can't."""
        words = [sys.executable, "-u", "-c", self._bootstrap]
        if args != words or _read_at_start(os.environ) != self._read:
            return None
        while self._waiting:
            process_id, connection = self._waiting.pop(0)
            with connection, suppress(OSError):
                return _Worker(process_id, connection, args)
            os.waitpid(process_id, 0)  # something has ended it
        return None

    def _dismiss(self, process_id: int) -> None:
        if os.getpid() == process_id:
            for _, connection in self._waiting:
                connection.close()
            for waiting, _ in self._waiting:
                os.waitpid(waiting, 0)


class _Worker(subprocess.Popen[bytes]):
    """A child process that is not executed but was forked before and is now told its work."""

    def __init__(
        self, process_id: int, connection: socket.socket, args: Sequence[str]
    ) -> None:
        self._process_id, self._connection = process_id, connection
        super().__init__(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _execute_child(self, *given: Any) -> None:
        stdin_read, _, _, stdout_write = pipes = given[10:14]
        request = {
            "cwd": os.getcwd(),
            "env": dict(os.environ),
            "ignored": [
                n
                for n in signal.valid_signals()
                if signal.getsignal(n) is signal.SIG_IGN
            ],
        }
        try:
            socket.send_fds(
                self._connection,
                [json.dumps(request).encode()],
                [stdin_read, stdout_write, 2],
            )
        finally:
            close: Callable[..., None] = self._close_pipe_fds  # type: ignore[attr-defined]  # its end is that of what it overrides
            close(*pipes, -1, -1)
        self.pid = self._process_id
        self._child_created = True


def _work(connection: socket.socket) -> None:
    """Wait to be needed, then do what execnet's new Python would do, and exit."""
    usual = signal.signal(signal.SIGINT, lambda *_: None)
    request, streams, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
    connection.close()
    if not request:
        os._exit(0)
    asked: dict[str, Any] = json.loads(request)
    signal.signal(signal.SIGINT, usual)
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    _take_surroundings(asked, streams)
    errors = io.FileIO(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        errors, "utf-8", "backslashreplace", write_through=True
    )
    sys.argv = ["-c"]
    sys.path[0] = ""
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(eval(sys.stdin.readline()), vars(main))  # noqa: S102, S307 - execnet's own first line
    _end(0)


def _end(status: int) -> NoReturn:
    """End as Python does, but for its modules; they are not taken apart."""
    shutdown: Callable[[], None] = threading._shutdown  # type: ignore[attr-defined]  # Python's own
    shutdown()
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            with suppress(
                AttributeError, ValueError
            ):  # there is none, or a test has closed it
                stream.flush()
    except OSError:
        sys.exit(status)  # Python tries it again, and tells of it
    os._exit(status & 0xFF)


def _main() -> None:
    mode, *given = sys.argv[1:]
    arguments: list[str] | None
    if mode == "server":
        connection = socket.socket(fileno=int(given[0]))
        _warm_up(tuple(given[1:]))
        arguments = serve(connection)
    else:
        sys.path[0] = os.getcwd()  # as `python -m pytest` has it
        _warm_up(
            _FOR_WORKERS
        )  # one run of its own to learn from would cost more than it saves
        arguments = ["pytest", *given]
    if arguments is None:
        return
    count = _count_of_workers(arguments) if arguments[0] == "pytest" else 0
    if count:
        _Workers(count + _RESTARTS)
    sys.argv = arguments
    status = 0
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        if isinstance(exit_.code, int):
            status = exit_.code
        elif exit_.code is not None:
            raise  # Python shows what it is
    _end(status)


if __name__ == "__main__":
    _main()
