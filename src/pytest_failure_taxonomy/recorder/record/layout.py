"""Where a record lies and how its files are laid out.

A record is a hidden folder beside the report, named after the run. It holds

- `state`: a file of fixed size, mapped into memory. One page of numbers, then one byte and one
  time for each selected test. A store into it takes 0.1 µs, survives the death of the process, and
  needs no descriptor that a test could close or use.
- `events`: JSON lines, appended when something happens that is not just a test passing.
- `stacks`: what all threads were at when a SIGTERM came.
- `reserve`: room for the report, which is written into it where the disk has none left.
- a folder for each xdist worker, with a `state` of its own.

The folder is its user's alone. Whoever removes it removes these names and no other.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.taxonomy.evidence import Phase

STATE: Final = "state"
EVENTS: Final = "events"
STACKS: Final = "stacks"
"""Where faulthandler writes what all threads were at when a SIGTERM came."""
RESERVE: Final = "reserve"
FILES: Final = frozenset({STATE, EVENTS, STACKS, RESERVE})
"""All names of files that a record, or a worker's, has."""
RESERVE_BYTES: Final = 64 * 1024
"""A failing test with a short traceback takes 1.4 KB of a report."""

MAX_EVENTS_BYTES: Final = 512 * 1024 * 1024
"""A record's events beyond this are not read; half a million long node ids take a tenth of it."""

MAGIC: Final = b"PFTREC01"
"""The two last characters are the version of the layout."""
PAGE: Final = 4096
"""Bytes of numbers before the tests' own."""

HEAD: Final = struct.Struct("<8sIII")
"""Magic, whether the session has ended, its exit code (32 bits on Windows), how many tests are
selected.
"""

WRITTEN_AT: Final = HEAD.size
"""32 bits: 1 once the whole report is written. Until then the record is all that there is; no disk
has to have room for a mark that is missing."""

LOSS_AT: Final = HEAD.size + 4
"""32 bits: the number of the system's error by which the first event was lost, 0 for none."""

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
"""What is counted, each in 32 bits, in this order from `COUNTERS_AT` on."""

STARTED: Final = COUNTERS.index("started")
"""On a worker: how many tests it has started."""

COUNTED_AT: Final = COUNTERS_AT + 4 * len(COUNTERS)
COUNTED_EVENTS: Final = (
    "failure",
    "collection_failure",
    "error",
    "interruption",
    "worker",
    "recovered",
)
"""Events that are counted before they are written, each in 32 bits, in this order from `COUNTED_AT`
on. A disk that is full loses events and no counts, so a reader knows how many it lacks."""

TIMER_AT: Final = 128
TIMER: Final = struct.Struct("<QdI")
"""When pytest-timeout's timer was armed in ns of the monotonic clock, for how many seconds, and
by which method (0 for none)."""
TIMER_METHODS: Final = ("", "thread", "signal")

CURRENT_AT: Final = 192
CURRENT: Final = struct.Struct("<QII")
"""On a worker: when its test started in ns of the monotonic clock, the test's state, and the length
of its node id in bytes, which follows."""
MAX_NODEID_BYTES: Final = PAGE - CURRENT_AT - CURRENT.size

NOT_STARTED: Final = 0
IN_SETUP: Final = 1
IN_CALL: Final = 2
IN_TEARDOWN: Final = 3
DONE: Final = 4
PHASES: Final[dict[int, Phase]] = {IN_SETUP: "setup", IN_CALL: "call", IN_TEARDOWN: "teardown"}


_WORKER: Final = re.compile("gw[0-9]{1,6}")
_CHOSEN_WORKER: Final = re.compile("gw-((?:[0-9a-f]{2}){1,100})")


def record_folder(report: Path, run_id: str) -> Path:
    """Return the folder of the record that belongs to a report and a run."""
    return path_beside(report, f".{run_id}")


def worker_folder(worker: str) -> str:
    """Return the name of a worker's folder: its id, in hexadecimal where the user chose that."""
    return worker if _WORKER.fullmatch(worker) else f"gw-{worker.encode().hex()}"


def worker_of(name: str) -> str | None:
    """Return the id of the worker whose folder has a name; `None` where it is no worker's."""
    if _WORKER.fullmatch(name):
        return name
    chosen = _CHOSEN_WORKER.fullmatch(name)
    return None if chosen is None else bytes.fromhex(chosen[1]).decode("utf-8", "replace")


def starts_offset(tests: int) -> int:
    """Return where the tests' start times begin: behind their states, on a multiple of four."""
    return PAGE + (tests + 1 + 3) // 4 * 4


def file_size(tests: int) -> int:
    """Return the size of the state file for so many tests, and one more that stands for unknown."""
    return starts_offset(tests) + 4 * (tests + 1)
