"""The locks of a run.

`ReportLock` keeps another run from the path of the report, and `hold_record` another
process from rewriting the report of this run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.survive.layout import STATE
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.lock import FileLock

os = isolate_module(os)


class ReportLock(FileLock):
    """A lock on the path of a report."""

    def __init__(self, report: Path) -> None:
        super().__init__(path_beside(report, ".lock"))

    def acquire(self, *, make: bool = True) -> bool:
        """Take the lock as `FileLock` does; always, on a system without such locks."""
        try:
            import fcntl  # noqa: F401
        except ImportError:
            return True
        return super().acquire(make=make)


@contextmanager
def hold_record(folder: Folder, seconds: float) -> Iterator[bool]:
    """Keep others from rewriting a run's report for a moment; yield whether we can.

    The watcher rewrites the report of a run that is stalled, while pytest or
    `failure-taxonomy run` may be about to write the last one. The lock is a `flock` of
    the record's state file, so that it goes with its process and needs no file of its
    own.

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
        deadline = time.monotonic() + seconds
        is_held = False
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
