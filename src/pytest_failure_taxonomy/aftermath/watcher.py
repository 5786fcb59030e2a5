"""Start a second process that outlives pytest, sees how it ends and completes its report."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.system.own_files import READ, read_file

_SHELL: Final = "/bin/sh"
_MAX_COMMAND_BYTES: Final = 64 * 1024
_LOWEST: Final = 3
"""Descriptors below are standard input, output and error, also where they were closed: what is
handed over under such a number is lost when the other side gets its own."""
_SCRIPT: Final = Path(__file__).with_name("watch.py")


_watched: set[int] = set()
"""Ids of processes that have a watched run going on: a pytest that is run inside of a test of this
process ends without the process ending, and is not to be watched."""

_lingering: dict[int, tuple[int, str]] = {}
"""By the id of its process: the watcher of a run that has ended, waiting for the process to end,
and the run's id. The next run in the same process dismisses it: what the process ends with is no
longer that run's doing."""


class Watch:
    """A watcher of this process, for one run."""

    def __init__(self) -> None:
        self._process_id: int | None = None
        self._watcher: tuple[int, str] | None = None

    def start(self, report: Path, run_id: str, record: Sequence[Path]) -> str | None:
        """Have this process watched; return `None`, or why it can't be.

        A shell starts the watcher in the background and ends, so that it is nobody's child: a test
        that waits for its children, or lists them, must not find one that it did not make.

        Args:
            report: the path of the run's report.
            run_id: the run.
            record: the files of its record. They are handed over open: the run may be over, and
                they removed, before the watcher has come so far as to open them.
        """
        if not sys.executable:
            return "Python does not know its own program (sys.executable is empty)"
        process_id = os.getpid()
        descriptors: list[int] = []
        try:
            descriptors.append(_move_up(os.pidfd_open(process_id)))
            for path in record:  # one by one: those that are open are closed, whatever is next
                descriptors.append(_move_up(os.open(path, READ)))  # noqa: PERF401 - as said
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
            _dismiss(_lingering.pop(process_id, None))
            watcher_id = _spawn_orphan(
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
                ]
            )
        except OSError as error:
            said = error.strerror or str(error)
            return f"{error.filename}: {said}" if error.filename else said
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._process_id = process_id
        self._watcher = watcher_id, run_id
        _watched.add(process_id)
        return None

    def is_lost(self) -> bool:
        """Tell whether there was a watcher and is none any more."""
        return self._watcher is not None and not _is_there(*self._watcher)

    def stop(self) -> None:
        """Let a later run in this process have a watcher of its own; this one stays to the end."""
        if self._process_id is not None and self._watcher is not None:
            _watched.discard(self._process_id)
            _lingering[self._process_id] = self._watcher


def is_watchable() -> bool:
    """Tell whether this process is one that a run should have watched, where that can be done."""
    process_id = os.getpid()
    # As process 1 of a container its end is the end of everything, a watcher's included.
    return hasattr(os, "pidfd_open") and process_id != 1 and process_id not in _watched


def _move_up(descriptor: int) -> int:
    """Return the descriptor under a number that is not one of the standard three."""
    if descriptor >= _LOWEST:
        return descriptor
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST)
    finally:
        os.close(descriptor)


def _spawn_orphan(command: list[str]) -> int:
    """Start a command as nobody's child and return its process id."""
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
            # From its first moment in a session of its own: a kill of pytest's group is not for it.
            child = os.posix_spawn(_SHELL, arguments, os.environ, file_actions=files, setsid=True)
        except NotImplementedError:  # an old C library; the watcher leaves the session by itself
            child = os.posix_spawn(_SHELL, arguments, os.environ, file_actions=files)
        os.close(writing)
        writing = -1
        said = os.read(reading, 32)
        with suppress(ChildProcessError):  # the user's program has the system reap its children
            os.waitpid(child, 0)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if not said.strip().isdigit():
        raise OSError(None, f"{_SHELL} could not start a process")
    return int(said)


def _dismiss(watcher: tuple[int, str] | None) -> None:
    """End a watcher, unless its number is another process's by now."""
    if watcher is None:
        return
    with suppress(OSError):
        if _is_there(*watcher):
            os.kill(watcher[0], signal.SIGKILL)


def _is_there(process_id: int, run_id: str) -> bool:
    """Tell whether the watcher of a run still lives; a dead one's number may be another's."""
    try:
        command = read_file(f"/proc/{process_id}/cmdline", _MAX_COMMAND_BYTES)
    except OSError:
        return False
    return run_id.encode() in command.split(b"\0")
