"""Start the watcher, a process that outlives pytest and completes its report; wait for it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.record.layout import record_folder
from pytest_failure_taxonomy.system.files import READ, KeptDescriptor
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.process import command_of, has_process

os = isolate_module(os)

HAS_OBSERVERS: Final = hasattr(os, "pidfd_open")
"""Whether this system lets one process look at another (Linux)."""
_SHELL: Final = "/bin/sh"
_LOWEST: Final = 3
"""The descriptors below are standard input, output and error. If pytest was started with one of
them closed, a file that it opens may get the number, and would be lost in the watcher."""
_SCRIPT: Final = Path(__file__).with_name("process.py")
WATCHER_SECONDS: Final = 3.0
"""How long a watcher may take with a report: 30 ms on an idle machine, a second on a busy one."""


_watched: set[int] = set()
"""Ids of processes that have a watched run. A pytest that runs inside of a test of such a process
ends before the process, and must not be watched."""

_lingering: dict[int, tuple[int, str]] = {}
"""By process id: the watcher of a run that has ended while its process goes on, and the run's id.
The next run in the same process ends that watcher: the exit status is no longer the first run's."""


class Watch:
    """The watcher of one run."""

    def __init__(self) -> None:
        self.watcher_id: int | None = None
        """The process id of the watcher, once it is started."""
        self._process_id = os.getpid()
        self._run_id = ""
        self._channel: KeptDescriptor | None = None
        """One end of a pair of sockets, of which the watcher holds the other."""

    def start(
        self,
        report: Path,
        run_id: str,
        record: Sequence[Path],
        libraries: Sequence[str],
        *,
        stall_seconds: float,
        ends_stalled: bool,
        completes: bool,
        is_program: bool,
    ) -> str | None:
        """Start a watcher of this process; return why that is not possible, or `None`.

        A shell starts the watcher in the background and ends, so that it is nobody's child. A test
        that waits for its children, or lists them, must not find it.

        Args:
            report: the path of the run's report.
            run_id: the run.
            record: the files of its record. The watcher inherits their descriptors: a short run
                may have removed the files before the watcher could open them.
            libraries: what it needs to import besides this package.
            stall_seconds: after how long without progress something is stalled; 0 for never.
            ends_stalled: end what is.
            completes: complete the report at the end.
            is_program: pytest is all that its process does.
        """
        if not sys.executable:
            return "Python does not know its own program (sys.executable is empty)"
        process_id = os.getpid()
        numbers = f"seconds={stall_seconds:g};ends={ends_stalled:d};completes={completes:d}"
        folder = record_folder(report, run_id)  # the last of them: it may contain anything
        settings = f"{numbers};program={is_program:d};folder={folder}"
        descriptors: list[int] = []
        try:
            descriptors.append(_move_up(os.pidfd_open(process_id)))
            for path in record:  # one by one, so that `finally` closes those that are open
                descriptors.append(_move_up(os.open(path, READ)))  # noqa: PERF401 - see above
            # The module `socket` takes 4 ms to import, and adds nothing here.
            import _socket

            ours, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            self._channel = KeptDescriptor(ours.detach())
            descriptors.append(_move_up(its.detach()))
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
            former = _lingering.pop(process_id, None)
            with suppress(OSError):  # it may have ended, and another process have its id by now
                if former is not None and _is_there(*former):
                    os.kill(former[0], signal.SIGKILL)
            self.watcher_id = _spawn_orphan(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_SCRIPT),
                    ",".join(map(str, descriptors)),
                    str(process_id),
                    str(_SCRIPT.parents[2]),
                    str(report),
                    run_id,
                    settings,
                    *_folders_of(libraries),
                ]
            )
        except OSError as error:
            self.leave_to_parent()
            said = error.strerror or str(error)
            return f"{error.filename}: {said}" if error.filename else said
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._process_id, self._run_id = process_id, run_id
        _watched.add(process_id)
        return None

    def is_lost(self) -> bool:
        """Tell whether the watcher was started and has ended."""
        return self.watcher_id is not None and not _is_there(self.watcher_id, self._run_id)

    def hand_over(self, descriptors: Mapping[str, int]) -> bool:
        """Give the watcher descriptors to read from or write to when this process has died.

        They wait in a socket, so it does not matter how soon this process dies.

        Args:
            descriptors: by one letter, as in `record.layout`.
        """
        import _socket

        channel = self._channel
        if self.watcher_id is None or not descriptors or channel is None or not channel.is_open():
            return False
        content = array("i", descriptors.values()).tobytes()
        sender = _socket.socket(fileno=channel.descriptor)
        try:
            sender.sendmsg(
                ["".join(descriptors).encode()],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)],
                _socket.MSG_DONTWAIT,
            )
        except OSError:
            return False
        finally:
            sender.detach()
        return True

    def leave_to_parent(self) -> None:
        """Let go of the watcher in a forked child."""
        if self._channel is not None:
            self._channel.close()

    def stop(self) -> None:
        """Let a later run in this process have its own watcher; this one waits for the process.

        It lets go of what it was given.
        """
        self.leave_to_parent()
        if self.watcher_id is not None:
            _watched.discard(self._process_id)
            _lingering[self._process_id] = self.watcher_id, self._run_id


def is_observable() -> bool:
    """Tell whether another process can look at a run in this one while it lives."""
    return HAS_OBSERVERS and os.getpid() not in _watched


def _move_up(descriptor: int) -> int:
    """Return a descriptor, moved if its number is one of the standard three."""
    if descriptor >= _LOWEST:
        return descriptor
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST)
    finally:
        os.close(descriptor)


def _spawn_orphan(command: list[str]) -> int:
    """Start a command that is nobody's child, and return its process id."""
    reading, writing = os.pipe()
    try:
        writing = _move_up(writing)
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        script = '"$@" >/dev/null & echo $!'
        arguments = ["sh", "-c", script, "sh", *command]
        try:
            # In a session of its own from the start: a kill of pytest's group must not reach it.
            child = os.posix_spawn(_SHELL, arguments, os.environ, file_actions=files, setsid=True)
        except NotImplementedError:  # an old C library; the watcher calls setsid() itself
            child = os.posix_spawn(_SHELL, arguments, os.environ, file_actions=files)
        os.close(writing)
        writing = -1
        said = os.read(reading, 32)
        with suppress(ChildProcessError):  # the program has the system reap its children
            os.waitpid(child, 0)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if not said.strip().isdigit():
        raise OSError(None, f"{_SHELL} could not start a process")
    return int(said)


def _is_there(process_id: int, run_id: str) -> bool:
    """Tell whether the watcher of a run still runs; another process may have its id by now."""
    return run_id in command_of(process_id)


def wait_for_watcher(report: Path, seconds: float = WATCHER_SECONDS) -> None:
    """Wait while a watcher completes a report whose pytest has ended.

    A report that is read earlier is not complete. Return at once if pytest still runs, or if there
    is no watcher.

    Args:
        report: the report's path.
        seconds: how long to wait at most.
    """
    deadline = time.monotonic() + seconds
    place = os.path.realpath(report)
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            words = command_of(int(entry)) if entry.isdigit() else []
            if not any(os.path.basename(word) == _SCRIPT.name for word in words[:6]):
                continue
            watched = [word for word in words if word.isdigit()]
            is_of_report = any(os.path.realpath(word) == place for word in words if word)
            if is_of_report and not any(has_process(int(each)) for each in watched):
                with suppress(OSError):  # it has ended; and it is no child
                    descriptor = os.pidfd_open(int(entry))
                    try:
                        select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
                    finally:
                        os.close(descriptor)


def _folders_of(libraries: Sequence[str]) -> list[str]:
    """Return where libraries are imported from, and the one that searches patterns of the user.

    The watcher starts without `site`, and an editable install is not beside these libraries.
    """
    paths = [getattr(sys.modules.get("regex"), "__file__", None)]
    for library in libraries:
        with suppress(ImportError, ValueError):  # a test may have put something else in its place
            spec = find_spec(library)
            paths.append(None if spec is None else spec.origin)
    return list(dict.fromkeys([str(Path(path).parents[1]) for path in paths if path]))
