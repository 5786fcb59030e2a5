"""A file that one process has at a time, and that names this process."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.system.files import (
    KeptDescriptor,
    identity_of,
    open_shared,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.process import is_alive, read_identity

json = isolate_module(json)
os = isolate_module(os)

_MAX_LOCK_BYTES: Final = 200
"""Of what the file of a lock says."""

_held: set[Path] = set()
"""Paths that runs of this process have locked. A POSIX lock does not exclude its own
process, and a test may run another pytest in this process."""


class FileLock:
    """A lock on a path, held until this process ends or releases it.

    It is a POSIX lock on a file of its own. Unlike a `flock`, it is not inherited by a
    process that a test leaves behind. A test may close its descriptor, and the lock is
    gone then; so the file names its process as well, and is nobody else's as long as
    that lives. Where a system or a file system has no such locks, that name is all
    there is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        """Of the file that is locked."""
        self.owner: dict[str, Any] = {}
        """The `pid` of the process that had it when this one asked, and what identifies
        that."""
        self._lock: KeptDescriptor | None = None

    def acquire(self, *, make: bool = True) -> bool:
        """Take the lock; return whether this process has it now.

        Args:
            make: create the file of the lock if it does not exist.

        Raises:
            OSError: if the file can't be created or opened; another user may own it,
                for one.
        """
        if self.path in _held:
            self.owner = {"pid": os.getpid()}
            return False
        while True:
            # Its number moves first: closing any descriptor of a file releases all
            # locks on it.
            lock = KeptDescriptor(open_shared(self.path, make=make))
            is_free = _lock_file(lock.descriptor)
            self.owner = _read_owner(lock.descriptor)
            if not is_free:
                lock.close()
                return False
            with suppress(FileNotFoundError):
                if identity_of(os.lstat(self.path)) == lock.identity:
                    break
            lock.close()  # its owner has released it and removed the file
        with suppress(OSError, ValueError, TypeError, KeyError):
            if self.owner["pid"] != os.getpid() and is_alive(self.owner):
                lock.close()
                return False
        with suppress(OSError):  # a full disk: then the lock alone has to do
            os.ftruncate(lock.descriptor, 0)
            os.lseek(lock.descriptor, 0, os.SEEK_SET)
            os.write(
                lock.descriptor, json.dumps(read_identity(os.getpid())).encode("ascii")
            )
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


def _read_owner(descriptor: int) -> dict[str, Any]:
    """Return the process that a lock's file names; nothing if it names none."""
    try:
        owner = json.loads(os.read(descriptor, _MAX_LOCK_BYTES))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _lock_file(descriptor: int) -> bool:
    """Lock a file if no process has it; return false if one has."""
    try:
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except (ImportError, OSError):
        pass  # this system, or this file system, has no such locks
    return True
