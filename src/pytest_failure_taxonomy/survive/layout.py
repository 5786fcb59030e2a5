"""The path of a record, the layout of its files, and their removal.

A record is a hidden folder beside the report, named after the run. It has

- `state`: a file of fixed size, mapped into memory: one page of numbers, then a byte and a start
  time for each selected test, then the tests in the order of their starts. A store into it takes
  0.1 µs, survives the death of the process, and needs no descriptor that a test could close or use.
  What is stored is in the process's own memory, too, so that it can be written again.
- `events`: JSON lines, appended when anything happens but a test that passes.
- `stacks`: the stacks of all threads at a SIGTERM.
- `asked`: the same, whenever the watcher has asked for them.
- `crash`: what faulthandler writes at a fatal error, such as a segmentation fault.
- `reserve`: room for the report in case that the disk is full at the end.
- `observed`: what another process has seen of the run while it lived, such as a stall.
- `memory`: how much memory another process has seen the run use.
- a folder for each xdist worker, with its own `state`: its byte for each test says how that has
  ended. The controller may die before it has heard of that.

Only its user can enter the folder. These names, and no others, are ever removed from it.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.system.files import Folder, reason_of
from pytest_failure_taxonomy.taxonomy.evidence import Activity, Phase
from pytest_failure_taxonomy.taxonomy.words import listed
from pytest_failure_taxonomy.text import safe_text

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

MAGIC: Final = b"PFTREC03"
"""The last two characters are the version of the layout."""
PAGE: Final = 4096
"""Size in bytes of the numbers before the states of the tests."""

HEAD: Final = struct.Struct("<8sIII")
"""Magic, whether the session has ended, its exit code (32 bits on Windows), how many tests are
selected.
"""

FINISHED_AT: Final = 8
FINISHED: Final = struct.Struct("<II")
COUNT_AT: Final = 16
"""Where the parts of the head are that change."""

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
TASKS_SIGNAL_AT: Final = DEBUGGER_AT + 3
"""A byte: the signal at which the process writes where its asyncio tasks wait, 0 for none."""
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
`crash`, the user's stderr, and what is captured. `survive/watcher.py` has the same letters."""

CURRENT_AT: Final = 256
CURRENT_STATE_AT: Final = CURRENT_AT + 8
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
PHASES: Final[dict[int, Phase]] = {
    IN_SETUP: "setup",
    IN_CALL: "call",
    IN_TEARDOWN: "teardown",
}

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
    return (
        None if chosen is None else bytes.fromhex(chosen[1]).decode("utf-8", "replace")
    )


def starts_offset(tests: int) -> int:
    """Return the offset of the start times: after the states, on a multiple of four."""
    return PAGE + (tests + 1 + 3) // 4 * 4


def order_offset(tests: int) -> int:
    """Return the offset of the order: 32 bits for each start, of which `taxonomy.order` tells."""
    return starts_offset(tests) + 4 * (tests + 1)


def file_size(tests: int) -> int:
    """Return the size of the state file for a number of tests, and one more for unknown tests."""
    return order_offset(tests) + 4 * (tests + 1)


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
