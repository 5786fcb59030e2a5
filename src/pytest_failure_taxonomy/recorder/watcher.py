"""Start a second process that outlives pytest, sees how it ends and completes its report."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.recorder import watch

_SHELL: Final = "/bin/sh"


def start_watcher(report: Path, run_id: str) -> bool:
    """Start a process that watches this one; tell whether it could be started.

    A shell starts it in the background and ends, so that it is nobody's child: a test that waits
    for its children, or lists them, must not find one that it did not make.
    """
    if not hasattr(os, "pidfd_open") or os.getpid() == 1 or not os.access(_SHELL, os.X_OK):
        return False
    try:
        descriptor = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        os.set_inheritable(descriptor, True)
        _spawn_orphan(
            [
                sys.executable,
                "-I",
                "-S",
                str(Path(watch.__file__)),
                str(descriptor),
                str(os.getpid()),
                str(Path(__file__).parents[2]),
                str(report),
                run_id,
            ]
        )
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _spawn_orphan(command: list[str]) -> None:
    nothing = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    arguments = ["sh", "-c", '"$@" &', "sh", *command]
    child = os.posix_spawn(_SHELL, arguments, os.environ, file_actions=nothing)
    with suppress(ChildProcessError):  # the user's program has the system reap its children
        os.waitpid(child, 0)
