"""The path of a record, the layout of its files, their removal, and the locks of a run.

A record is a hidden folder beside the report, named after the run. It has

- `state`: a file of fixed size, mapped into memory: one page of numbers, then a byte and a start
  time for each selected test. A store into it takes 0.1 µs, survives the death of the process, and
  needs no descriptor that a test could close or use.
- `events`: JSON lines, appended when anything happens but a test that passes.
- `stacks`: the stacks of all threads at a SIGTERM.
- `asked`: the same, whenever the watcher has asked for them.
- `crash`: what faulthandler writes at a fatal error, such as a segmentation fault.
- `reserve`: room for the report in case that the disk is full at the end.
- `observed`: what another process has seen of the run while it lived, such as a stall.
- `memory`: how much memory another process has seen the run use.
- a folder for each xdist worker, with its own `state`: the page, then a byte for each test that
  says how it has ended. The controller may die before it has heard of that.

Only its user can enter the folder. These names, and no others, are ever removed from it.

Two locks keep others away: `ReportLock` another run from the path of the report, and `held_record`
another process from rewriting the report of this run.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.system.files import (
    Folder,
    KeptDescriptor,
    identity_of,
    open_shared,
    reason_of,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.process import is_alive, read_identity
from pytest_failure_taxonomy.taxonomy.evidence import Activity, Phase
from pytest_failure_taxonomy.taxonomy.words import listed

json = isolate_module(json)
os = isolate_module(os)

STATE: Final = "state"
EVENTS: Final = "events"
STACKS: Final = "stacks"
"""faulthandler writes the stacks of all threads to it at a SIGTERM."""
CRASH: Final = "crash"
"""faulthandler writes the stacks to it at a fatal error. Whoever completes the report shows them to
the user, too."""
RESERVE: Final = "reserve"
ASKED: Final = "asked"
"""faulthandler writes the stacks of all threads to it when the watcher asks for them."""
OBSERVED: Final = "observed"
"""Written by the watcher, and replaced as a whole each time."""
OBSERVED_NEW: Final = "observed.new"
"""Becomes `observed` once it is written."""
CRASH_BYTES: Final = 16 * 1024
"""Room that it has from the start. It ends with null bytes where it is not filled."""
MEMORY: Final = "memory"
"""Written by the watcher, in place; pytest makes the file, so that it goes with the record."""
FILES: Final = frozenset(
    {STATE, EVENTS, STACKS, CRASH, RESERVE, ASKED, OBSERVED, OBSERVED_NEW, MEMORY}
)
"""The files of a record and of a worker's folder in it."""
RESERVE_BYTES: Final = 64 * 1024
"""Room for some 45 failing tests: one with a short traceback takes 1.4 KB of a report."""

MAX_EVENTS_BYTES: Final = 512 * 1024 * 1024
"""Events beyond this size are not read; half a million long node ids take a tenth of it."""

MAGIC: Final = b"PFTREC02"
"""The last two characters are the version of the layout."""
PAGE: Final = 4096
"""Size in bytes of the numbers before the states of the tests."""

HEAD: Final = struct.Struct("<8sIII")
"""Magic, whether the session has ended, its exit code (32 bits on Windows), how many tests are
selected.
"""

WRITTEN_AT: Final = HEAD.size
"""32 bits: 1 once the whole report is written. Setting it needs no room on the disk."""

LOSS_AT: Final = HEAD.size + 4
"""32 bits: the errno of the error that lost the first event, 0 for none."""

COUNTERS_AT: Final = 64
COUNTERS: Final = (
    "passed",
    "failed",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "rerun",
    "warnings",
    "deselected",
    "started",
)
"""The counters: 32 bits each, in this order from `COUNTERS_AT` on."""

STARTED: Final = COUNTERS.index("started")
"""The index of the counter of started tests, which workers have."""

COUNTED_AT: Final = COUNTERS_AT + 4 * len(COUNTERS)
COUNTED_EVENTS: Final = {
    "failure": ("failure", "failures"),
    "collection_failure": ("collection error", "collection errors"),
    "error": ("internal error", "internal errors"),
    "interruption": ("interruption", "interruptions"),
    "worker": ("worker's state", "workers' states"),
    "recovered": ("recovered test", "recovered tests"),
}
"""Events that are counted before they are written, and what one and several are called: 32 bits
each, in this order, at `COUNTED_AT`. A full disk loses events but no counts, so that a reader knows
how many are missing."""

TIMER_AT: Final = 128
TIMER: Final = struct.Struct("<QdI")
"""pytest-timeout's timer: when it was armed in ns of the monotonic clock, its seconds, and the
index of its method (0 for none)."""
TIMER_METHODS: Final = ("", "thread", "signal")

PROCESS_AT: Final = 168
PROCESS: Final = struct.Struct("<QI")
"""The process that writes the file: when it started, in clock ticks since the boot (0 if unknown),
and its id."""

DEBUGGER_AT: Final = PROCESS_AT + PROCESS.size
"""A byte: 1 while a debugger waits for the user."""

DUMP_SIGNAL_AT: Final = DEBUGGER_AT + 1
"""A byte: the signal at which the process writes its stacks, 0 for none."""

END_SIGNAL_AT: Final = DEBUGGER_AT + 2
"""A byte: the signal at which the process ends its session, 0 for none."""
END_MESSAGE: Final = "the run was stalled (--failure-taxonomy-end-stalled)"
"""The message of the `pytest.exit` by which it does so."""

READER_AT: Final = 184
READER: Final = struct.Struct("<QQiI")
"""Where the user reads what pytest prints: device, inode and number of a descriptor of the process,
and the flags below."""
IS_SHOWN: Final = 1
"""Lines are wanted there; all bits are 0 until the session starts."""
IS_COLOURED: Final = 2
TELLS_WORK: Final = 4
"""What takes long is wanted there even if it works."""
THREAD_AT: Final = READER_AT + READER.size
"""32 bits: the thread that runs the tests, as in `threading.get_native_id`."""
CAPTURE_AT: Final = 152
CAPTURE: Final = struct.Struct("<iii")
"""A worker's process id, and its descriptors of the files with its captured stdout and stderr, 0
for none."""

CRASH_FILE: Final = "c"
TERMINAL: Final = "t"
STDOUT: Final = "o"
STDERR: Final = "e"
"""What a descriptor is of that is handed over to the process that outlives this one: the file
`crash`, the user's stderr, and what is captured. `watcher/process.py` has the same letters."""

CURRENT_AT: Final = 256
CURRENT: Final = struct.Struct("<QII")
"""A worker's current test, or what a process is at that is no test: its start in ns of the
monotonic clock, its state, and the length in bytes of its node id or name, which follows."""
NAME_AT: Final = CURRENT_AT + CURRENT.size
MAX_NODEID_BYTES: Final = PAGE - NAME_AT

NOT_STARTED: Final = 0
IN_SETUP: Final = 1
IN_CALL: Final = 2
IN_TEARDOWN: Final = 3
DONE: Final = 4
PHASES: Final[dict[int, Phase]] = {IN_SETUP: "setup", IN_CALL: "call", IN_TEARDOWN: "teardown"}

COLLECTING: Final = 8
IN_HOOK: Final = 9
"""A hook is called before any test."""
IN_LAST_HOOK: Final = 10
"""A hook is called at the session's end."""
ACTIVITIES: Final[dict[int, tuple[Activity, bool]]] = {
    COLLECTING: ("collection", False),
    IN_HOOK: ("collection", True),
    IN_LAST_HOOK: ("session", True),
}
"""The states that are no test's: what is done in them, and whether the name is that of a hook."""

RUN_ID: Final = re.compile("[0-9a-f]{32}")
_MAX_NAMES: Final = 3
_MAX_NAME: Final = 80
"""How many foreign names a message lists, and how many characters of each."""
_WORKER: Final = re.compile("gw[0-9]{1,6}")
_CHOSEN_WORKER: Final = re.compile("gw-((?:[0-9a-f]{2}){1,100})")

_MAX_LOCK_BYTES: Final = 200
"""Of what the file of a lock says."""

_held: set[Path] = set()
"""Paths that runs of this process have locked. A POSIX lock does not exclude its own process, and a
test may run another pytest in this process."""


def record_folder(report: Path, run_id: str) -> Path:
    """Return the folder of the record that belongs to a report and a run."""
    return path_beside(report, f".{run_id}")


def worker_folder(worker: str) -> str:
    """Return the name of a worker's folder: its id, in hexadecimal if the user has chosen it."""
    return worker if _WORKER.fullmatch(worker) else f"gw-{worker.encode().hex()}"


def worker_of(name: str) -> str | None:
    """Return the id of the worker that a folder belongs to, or `None`."""
    if _WORKER.fullmatch(name):
        return name
    chosen = _CHOSEN_WORKER.fullmatch(name)
    return None if chosen is None else bytes.fromhex(chosen[1]).decode("utf-8", "replace")


def starts_offset(tests: int) -> int:
    """Return the offset of the start times: after the states, on a multiple of four."""
    return PAGE + (tests + 1 + 3) // 4 * 4


def file_size(tests: int) -> int:
    """Return the size of the state file for a number of tests, and one more for unknown tests."""
    return starts_offset(tests) + 4 * (tests + 1)


def remove_record(folder: Folder, *, only_looks: bool = False) -> str | None:
    """Remove a record and its folder. Files that no record has stay, and so does the folder then.

    Args:
        folder: of the record.
        only_looks: remove nothing, and return what would be returned.

    Returns:
        A sentence about what stays, or `None`.
    """
    try:
        left = _left_of(folder, has_workers=True, removes=not only_looks)
        if not left and not only_looks:
            folder.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return why_it_stays(folder.path, error)
    if not left:
        return None
    told = listed([safe_text(name, _MAX_NAME) for name in left], _MAX_NAMES)
    return f"{safe_text(str(folder.path))} stays: it holds what no record has ({told})"


def why_it_stays(folder: Path, error: OSError) -> str:
    """Return a sentence that says why the folder of a record could not be removed."""
    return f"{safe_text(str(folder))} stays: it {reason_of(error)}"


def _left_of(folder: Folder, *, has_workers: bool, removes: bool) -> list[str]:
    """Return the names in a folder that are not a record's; remove the others if `removes`."""
    left = []
    for name in folder.names():
        try:
            if name in FILES:
                if removes:
                    folder.unlink(name)
            elif has_workers and worker_of(name) is not None:
                with folder.open_folder(name) as inner:
                    left_inside = _left_of(inner, has_workers=False, removes=removes)
                    left += [f"{name}/{each}" for each in left_inside]
                    if removes and not left_inside:
                        inner.rmdir()
            else:
                left.append(name)
        except FileNotFoundError:
            pass
        except OSError:
            left.append(name)
    return left


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
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    yield False
                    return
                time.sleep(0.002)
            else:
                yield True
                return
    finally:
        with suppress(OSError):
            os.close(descriptor)
