"""The layout of a record: the names of its files, and what stands where in them.

A record is a hidden folder beside the report, named after the run. It has

- `state`: a file of fixed size, mapped into memory: one page of numbers, then a byte
  and a start time for each selected test, then the tests in the order of their starts.
  A store into it takes 0.1 µs, survives the death of the process, and needs no
  descriptor that a test could close or use. What is stored is in the process's own
  memory, too, so that it can be written again.
- `events`: JSON lines, appended when anything happens but a test that passes.
- `stacks`: the stacks of all threads at a SIGTERM.
- `asked`: the same, whenever the watcher has asked for them.
- `crash`: what faulthandler writes at a fatal error, such as a segmentation fault.
- `reserve`: room for the report in case that the disk is full at the end.
- `observed`: what another process has seen of the run while it lived, such as a stall.
- `memory`: how much memory another process has seen the run use.
- a folder for each xdist worker, with its own `state` and `events`: its byte for each
  test says how the test ended, its events what tests did to its process. The controller
  may die before it has heard of that.

Only its user can enter the folder. These names alone are ever removed from it.

The watcher reads the record as long as pytest lives, so nothing is imported here but
what the interpreter has loaded anyway: not `typing`, say, which takes more memory than
the rest.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from pytest_failure_taxonomy.taxonomy.evidence import Activity, Phase

STATE: Final = "state"
EVENTS: Final = "events"
STACKS: Final = "stacks"
"""faulthandler writes the stacks of all threads to it at a SIGTERM."""
CRASH: Final = "crash"
"""faulthandler writes the stacks to it at a fatal error.

Whoever completes the report shows them to the user, too.
"""
RESERVE: Final = "reserve"
ASKED: Final = "asked"
"""faulthandler writes all threads' stacks to it when the watcher asks for them."""
OBSERVED: Final = "observed"
"""Written by the watcher, and replaced as a whole each time."""
OBSERVED_NEW: Final = "observed.new"
"""Becomes `observed` once it is written."""
CRASH_BYTES: Final = 16 * 1024
"""Room that it has from the start. It ends with null bytes where it is not filled."""
MEMORY: Final = "memory"
"""Written by the watcher, in place.

pytest makes the file, so that it goes with the record.
"""
FILES: Final = frozenset(
    {STATE, EVENTS, STACKS, CRASH, RESERVE, ASKED, OBSERVED, OBSERVED_NEW, MEMORY}
)
"""The files of a record and of a worker's folder in it."""
RESERVE_BYTES: Final = 64 * 1024
"""Room for some 45 failing tests: a short traceback takes 1.4 KB of a report."""

MAX_EVENTS_BYTES: Final = 512 * 1024 * 1024
"""Events beyond this size are not read.

Half a million long node ids take a tenth of it.
"""

MAGIC: Final = b"PFTREC03"
"""The last two characters are the version of the layout."""
PAGE: Final = 4096
"""Size in bytes of the numbers before the states of the tests."""

NUMBER: Final = struct.Struct("<I")
"""32 bits, as most numbers have."""

HEAD: Final = struct.Struct("<8sIIII")
"""Magic, whether the session has ended, its exit code (32 bits on Windows), how many
tests are selected, and whether the whole report is written."""

FINISHED_AT: Final = 8
FINISHED: Final = struct.Struct("<II")
COUNT_AT: Final = 16
"""Where the parts of the head are that change."""

WRITTEN_AT: Final = 20
"""1 once the whole report is written. Setting it needs no room on the disk."""

LOSS_AT: Final = HEAD.size
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
"""Events that are counted before they are written, and the words for one and several.

They are 32 bits each, in this order, at `COUNTED_AT`. A full disk loses events but no
counts, so a reader knows how many are missing.
"""

TIMER_AT: Final = 128
TIMER: Final = struct.Struct("<QdI")
"""pytest-timeout's timer: when it was armed in ns of the monotonic clock, its seconds,
and the index of its method (0 for none)."""
TIMER_METHODS: Final = ("", "thread", "signal")

PROCESS_AT: Final = 168
PROCESS: Final = struct.Struct("<QI")
"""The process that writes the file: when it started, in clock ticks since the boot (0
if unknown), and its id."""

DEBUGGER_AT: Final = PROCESS_AT + PROCESS.size
"""A byte: 1 while a debugger waits for the user."""

DUMP_SIGNAL_AT: Final = DEBUGGER_AT + 1
"""A byte: the signal at which the process writes its stacks, 0 for none."""

END_SIGNAL_AT: Final = DEBUGGER_AT + 2
"""A byte: the signal at which the process ends its session, 0 for none."""
TASKS_SIGNAL_AT: Final = DEBUGGER_AT + 3
"""A byte: the signal at which the process writes where its asyncio tasks wait, or 0."""
END_SIGNAL: Final = 11
TASKS_SIGNAL: Final = 12
"""Which signals these are, from SIGRTMIN on, if the program has no use for them."""
END_MESSAGE: Final = "the run was stalled (--failure-taxonomy-end-stalled)"
"""The message of the `pytest.exit` by which it does so."""

READER_AT: Final = 184
READER: Final = struct.Struct("<QQiI")
"""Where the user reads what pytest prints: device, inode and number of a descriptor of
the process, and the flags below."""
IS_SHOWN: Final = 1
"""Lines are wanted there; all bits are 0 until the session starts."""
IS_COLOURED: Final = 2
TELLS_WORK: Final = 4
"""What takes long is wanted there even if it works."""
THREAD_AT: Final = READER_AT + READER.size
"""32 bits: the thread that runs the tests, as in `threading.get_native_id`."""
PEAK_AT: Final = 216
PEAK: Final = struct.Struct("<Q")
"""The most resident memory in bytes that the process had used when the last test ended;
0 if unknown."""
CAPTURE_AT: Final = 152
CAPTURE: Final = struct.Struct("<iii")
"""A worker's process id, and its descriptors of the files with its captured stdout and
stderr, 0 for none."""

CRASH_FILE: Final = "c"
TERMINAL: Final = "t"
STDOUT: Final = "o"
STDERR: Final = "e"
"""What a descriptor stands for that is handed over to the process that outlives this
one: the file `crash`, the user's stderr, and captured output."""
MAX_DUMP_BYTES: Final = 1024 * 1024
"""What is read of stacks. faulthandler writes a hundred frames of a hundred threads."""

CURRENT_AT: Final = 256
CURRENT_STATE_AT: Final = CURRENT_AT + 8
CURRENT: Final = struct.Struct("<QII")
"""A worker's current test, or a process's activity besides tests: its start in ns of
the monotonic clock, its state, and the bytes of its node id or name, which follows."""
NAME_AT: Final = CURRENT_AT + CURRENT.size
MAX_NODEID_BYTES: Final = PAGE - NAME_AT

NOT_STARTED: Final = 0
IN_SETUP: Final = 1
IN_CALL: Final = 2
IN_TEARDOWN: Final = 3
DONE: Final = 4
"""It has ended, and nobody knows how."""
ENDED: Final = 15
"""A test has ended if its state is this plus 1 and its result's counter's index."""
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
"""The states besides tests: the activity, and whether the name is that of a hook."""
AT_WORK: Final = frozenset({*PHASES, *ACTIVITIES})
"""The states of a process that is in a test, or at what is no test."""


def has_ended(head: bytes) -> bool:
    """Tell whether a state file, or its beginning, says that the session has ended."""
    if len(head) < HEAD.size:
        return False
    magic, is_finished, *_ = HEAD.unpack_from(head)
    return bool(magic == MAGIC and is_finished)


def is_reported(head: bytes, status: int | None) -> bool:
    """Tell whether the report was written, and has the exit code of its process.

    Args:
        head: the beginning of a state file.
        status: of the process, as `waitpid` returns it; `None` if unknown.
    """
    if not has_ended(head):
        return False
    _, _, code, _, is_written = HEAD.unpack_from(head)
    return bool(is_written) and status in (None, code << 8)


def numbers_at(state: bytes, place: int, count: int) -> tuple[int, ...]:
    """Return numbers of 32 bits that stand one after the other."""
    return struct.unpack_from(f"<{count}I", state, place)


def starts_offset(tests: int) -> int:
    """Return the offset of the start times: after the states, on a multiple of four."""
    return PAGE + (tests + 1 + 3) // 4 * 4


def order_offset(tests: int) -> int:
    """Return the offset of the order: 32 bits for each start (`taxonomy.order`)."""
    return starts_offset(tests) + 4 * (tests + 1)


def file_size(tests: int) -> int:
    """Return the size of the state file for some tests, and one for unknown tests."""
    return order_offset(tests) + 4 * (tests + 1)
