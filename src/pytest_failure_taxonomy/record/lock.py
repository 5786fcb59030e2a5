"""The locks of a run.

`ReportLock` keeps another run from the path of the report, and `held_record` another process from
rewriting the report of this run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.record.layout import STATE
from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.system.files import Folder, KeptDescriptor, identity_of, open_shared
from pytest_failure_taxonomy.system.process import is_alive, read_identity

_MAX_LOCK_BYTES: Final = 200
"""Of what the file of a lock says."""

_held: set[Path] = set()
"""Paths that runs of this process have locked. A POSIX lock does not exclude its own process, and a
test may run another pytest in this process."""


class ReportLock:
    """A lock on the path of a report, held until this process ends or releases it.

    It is a POSIX lock on a file of its own. Unlike a `flock`, it is not inherited by a process that
    a test leaves behind. A test may close its descriptor, and the lock is gone then; so the file
    names its process as well, and is nobody else's as long as that lives.
    """

    def __init__(self, report: Path) -> None:
        self.path = path_beside(report, ".lock")
        """Of the file that is locked."""
        self._lock: KeptDescriptor | None = None

    def acquire(self, *, make: bool = True) -> bool:
        """Take the lock; return whether this run has it now.

        On a system without such locks every run gets it.

        Args:
            make: create the file of the lock if it does not exist.

        Raises:
            OSError: if the file can't be created or opened; another user may own it, for one.
        """
        if self.path in _held:
            return False
        try:
            import fcntl
        except ImportError:
            return True
        while True:
            # Its number moves first: closing any descriptor of a file releases all locks on it.
            lock = KeptDescriptor(open_shared(self.path, make=make))
            try:
                fcntl.lockf(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                return False
            with suppress(FileNotFoundError):
                if identity_of(os.lstat(self.path)) == lock.identity:
                    break
            lock.close()  # its owner has released it and removed the file
        with suppress(OSError, ValueError, TypeError, KeyError):
            named = json.loads(os.pread(lock.descriptor, _MAX_LOCK_BYTES, 0))
            if named["pid"] != os.getpid() and is_alive(named):
                lock.close()
                return False
        with suppress(OSError):  # a full disk: then the lock alone has to do
            os.ftruncate(lock.descriptor, 0)
            owner = json.dumps(read_identity(os.getpid())).encode("ascii")
            os.pwrite(lock.descriptor, owner, 0)
        self._lock = lock
        _held.add(self.path)
        return True

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._lock is None:
            return
        _held.discard(self.path)
        with suppress(OSError):
            if identity_of(os.lstat(self.path)) == self._lock.identity:
                os.unlink(self.path)
        self._lock.close()
        self._lock = None


@contextmanager
def held_record(folder: Folder, seconds: float) -> Iterator[bool]:
    """Keep other processes from rewriting the report of a run for a moment; yield whether we can.

    The watcher rewrites the report of a run that is stalled, while pytest or `failure-taxonomy run`
    may be about to write the last one. The lock is a `flock` of the record's state file, so that
    it goes with its process and needs no file of its own.

    Args:
        folder: of the record.
        seconds: how long to wait for it at most.
    """
    try:
        import fcntl

        descriptor = folder.open_file(STATE, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        deadline, is_held = time.monotonic() + seconds, False
        while True:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = True
            if is_held or time.monotonic() >= deadline:
                break
            time.sleep(0.002)
        yield is_held
    finally:
        with suppress(OSError):
            os.close(descriptor)
