"""Start a second process that outlives pytest, sees how it ends and completes its report."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.own_files import READ

_SHELL: Final = "/bin/sh"
_SCRIPT: Final = Path(__file__).parents[1] / "watch.py"


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

    def start(self, report: Path, run_id: str, record: Sequence[Path]) -> bool:
        """Have this process watched; tell whether it is.

        A shell starts the watcher in the background and ends, so that it is nobody's child: a test
        that waits for its children, or lists them, must not find one that it did not make.

        Args:
            report: the path of the run's report.
            run_id: the run.
            record: the files of its record. They are handed over open: the run may be over, and
                they removed, before the watcher has come so far as to open them.
        """
        process_id = os.getpid()
        if not _can_watch(process_id):
            return False
        descriptors: list[int] = []
        try:
            descriptors.append(os.pidfd_open(process_id))
            descriptors += [os.open(path, READ) for path in record]
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
                    str(_SCRIPT.parents[1]),
                    str(report),
                    run_id,
                ]
            )
        except OSError:
            return False
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._process_id = process_id
        self._watcher = watcher_id, run_id
        _watched.add(process_id)
        return True

    def stop(self) -> None:
        """Let a later run in this process have a watcher of its own; this one stays to the end."""
        if self._process_id is not None and self._watcher is not None:
            _watched.discard(self._process_id)
            _lingering[self._process_id] = self._watcher


def _can_watch(process_id: int) -> bool:
    is_able = hasattr(os, "pidfd_open") and os.access(_SHELL, os.X_OK) and bool(sys.executable)
    # As process 1 of a container its end is the end of everything, a watcher's included.
    return is_able and process_id != 1 and process_id not in _watched


def _spawn_orphan(command: list[str]) -> int:
    """Start a command as nobody's child and return its process id."""
    reading, writing = os.pipe()
    try:
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
    return int(said or b"0")


def _dismiss(watcher: tuple[int, str] | None) -> None:
    """End a watcher, unless its number is another process's by now."""
    if watcher is None:
        return
    process_id, run_id = watcher
    with suppress(OSError):
        command = Path(f"/proc/{process_id}/cmdline").read_bytes()
        if run_id.encode() in command.split(b"\0"):
            os.kill(process_id, signal.SIGKILL)
