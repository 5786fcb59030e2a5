"""Keep two runs from writing to one report."""

from __future__ import annotations

import os
from contextlib import suppress

# Bound here, because a test may replace them in their modules and never put them back.
from os import close, fstat, lstat, unlink
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.system.own_files import identity_of, move_high, open_shared

_held: set[Path] = set()
"""Paths that runs of this process have: a lock of POSIX does not tell two runs of one process
apart, and a test may run a pytest of its own inside of this one."""


class ReportLock:
    """Hold a report's path against other runs until this process ends or lets go.

    A POSIX lock on a file of its own: it ends with the process, and a process that a test leaves
    behind does not inherit it, as it would a `flock`.
    """

    def __init__(self, report: Path) -> None:
        self._path = lock_path(report)
        self._descriptor = -1
        self._identity = (0, 0)

    def acquire(self, *, make: bool = True) -> bool:
        """Take the lock; tell whether this run has it.

        A system without such locks has no say: there the later run wins.

        Args:
            make: make the lock's file where it is not there.

        Raises:
            OSError: the lock's file can't be made; it belongs to another user, say, or is no file.
        """
        if self._path in _held:
            return False
        try:
            import fcntl
        except ImportError:
            return True
        descriptor = self._lock_file(fcntl, make=make)
        if descriptor is None:
            return False
        self._descriptor = descriptor
        self._identity = identity_of(fstat(descriptor))
        _held.add(self._path)
        return True

    def _lock_file(self, fcntl: Any, *, make: bool) -> int | None:
        """Return a descriptor of the locked file, `None` if another process has the lock."""
        while True:
            # Moved first: closing any descriptor of a file lets go of all its locks.
            descriptor = move_high(open_shared(self._path, make=make))
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                close(descriptor)
                return None
            with suppress(FileNotFoundError):
                if os.path.samestat(fstat(descriptor), lstat(self._path)):
                    return descriptor
            close(descriptor)  # the one who had it removed the file when it let go

    def release(self) -> None:
        """Let go and remove the lock's file."""
        if self._descriptor < 0:
            return
        _held.discard(self._path)
        with suppress(OSError):
            ours = identity_of(fstat(self._descriptor))
            if ours == self._identity:
                with suppress(OSError):
                    if identity_of(lstat(self._path)) == ours:
                        unlink(self._path)
                close(self._descriptor)
        self._descriptor = -1


def lock_path(report: Path) -> Path:
    """Return the file that is locked for a report's path."""
    return path_beside(report, ".lock")
