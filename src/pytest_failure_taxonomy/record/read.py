"""Read the record of a run, which may be incomplete, damaged or forged, into values."""

from __future__ import annotations

import errno
import json
import math
import os
import struct
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.record.layout import (
    ACTIVITIES,
    CAPTURE,
    CAPTURE_AT,
    COUNTED_AT,
    COUNTED_EVENTS,
    COUNTERS,
    COUNTERS_AT,
    CURRENT,
    CURRENT_AT,
    EVENTS,
    HEAD,
    LOSS_AT,
    MAGIC,
    MAX_EVENTS_BYTES,
    NOT_STARTED,
    PAGE,
    PHASES,
    STARTED,
    STATE,
    TIMER,
    TIMER_AT,
    TIMER_METHODS,
    WRITTEN_AT,
    file_size,
    starts_offset,
    worker_folder,
)
from pytest_failure_taxonomy.record.parsing import parse
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.system.files import Folder, open_folder, reason_of
from pytest_failure_taxonomy.system.journal import whole_lines
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Interruption,
    Phase,
    RunContext,
    RunError,
    RunningActivity,
    TestFailure,
    WatcherState,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch
from pytest_failure_taxonomy.taxonomy.reasons import Stage
from pytest_failure_taxonomy.taxonomy.user_rules import Rule
from pytest_failure_taxonomy.taxonomy.values import value

_WORDS: Final = {
    "failure": ("failure", "failures"),
    "collection_failure": ("collection error", "collection errors"),
    "error": ("internal error", "internal errors"),
    "interruption": ("interruption", "interruptions"),
    "worker": ("worker's state", "workers' states"),
    "recovered": ("recovered test", "recovered tests"),
}
"""What counted events are called in a message, singular and plural."""

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Longer events are not read: parsed, they take a multiple of this."""
MAX_EVENTS: Final = 1_000_000
"""Further events are not read."""
MAX_STATE_BYTES: Final = file_size(10_000_000)
_MAX_PROCESS_ID: Final = 1 << 31
_MAX_WORD: Final = 80


@value
class Timer:
    """An armed timer of pytest-timeout."""

    armed_ns: int
    budget_seconds: float
    method: str


@value
class StartedTest:
    """A test that had started and not ended."""

    nodeid: str
    phase: Phase
    start_ns: int


@value
class LeftThread:
    """A thread that was there when the session ended, and is no daemon."""

    native_id: int
    name: str
    place: str | None
    """What of the user's own code it was at: `tests/test_x.py:4`."""


@value
class WorkerState:
    """What an xdist worker has recorded of itself."""

    test: StartedTest | None = None
    activity: RunningActivity | None = None
    timer: Timer | None = None
    process_id: int = 0
    """0 where it has not recorded it."""
    capture: tuple[int, int] = (0, 0)
    """Its descriptors of the files with its captured stdout and stderr; 0 for none."""
    tests: int = 0
    """How many it has started."""
    endings: bytes = b""
    """A byte for each selected test: 0, or 1 and the index of the counter of how it has ended."""


@value
class RecordedProcess:
    """The identity of a run's process, from `system.process.read_identity`."""

    pid: int
    start_ticks: int | None
    boot_id: str | None


@value
class EnclosingLimit:
    """The limit of a `timeout` command around the run."""

    pid: int
    budget_seconds: float
    started_ns: int


@value
class RecordedMemory:
    """How often the OOM killer had been active when the run began, and the file with the count."""

    events_file: str | None
    oom_kills: int | None


@value
class Header:
    """The first event of a record."""

    run_id: str
    started_ns: int
    """On the monotonic clock."""
    stage: Stage
    strict_baseline: bool
    faulthandler_exit_seconds: float | None
    rules: tuple[Rule, ...]
    redact: tuple[str, ...]
    process: RecordedProcess
    enclosing_limits: tuple[EnclosingLimit, ...]
    memory: RecordedMemory
    context: RunContext


@value
class _NamedTest:
    nodeid: str


@value
class _Rerun:
    nodeid: str
    worker: str | None = None


@value
class _End:
    should_fail: str
    coverage: str = ""


@value
class KeptBenches:
    """Where a run keeps what its benches come to, if it does so."""

    folder: str
    """The folder of the files."""
    session: str
    """How the names of this pytest's files begin, and what it is called in others."""


_EVENTS: Final[dict[str, tuple[str, type]]] = {
    "failure": ("failure", TestFailure),
    "collection_failure": ("failure", CollectionFailure),
    "error": ("error", RunError),
    "interruption": ("stop", Interruption),
    "worker": ("worker", WorkerEnd),
    "watcher": ("watcher", WatcherState),
    "mismatch": ("mismatch", CollectionMismatch),
    "thread": ("thread", LeftThread),
}
"""The only field of each of these events, and its class."""
_PLAIN_EVENTS: Final[dict[str, type]] = {
    "recovered": _NamedTest,
    "rerun": _Rerun,
    "end": _End,
    "benches": KeptBenches,
}
"""Events that have several fields, as the fields of a class."""


@value
class RecordedRun:
    """The contents of a record."""

    header: Header
    events: list[tuple[str, Any]]
    """The known events after the header, without the selection, in their order."""
    nodeids: list[str]
    """The selected tests, in their order."""
    counters: dict[str, int]
    exit_code: int | None
    """The exit code of the session, if it has ended."""
    in_flight: tuple[StartedTest, ...]
    """In order of selection."""
    not_run: tuple[str, ...]
    timer: Timer | None
    is_reported: bool
    """The run itself has written its whole report."""
    missing: Mapping[str, int]
    """By name of event: how many were counted and are not in the file."""
    is_lost: bool
    """What is missing could not be written, as on a full disk; a kill loses an event, too."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be read."""
    activity: RunningActivity | None = None
    """What was being collected or called, where that was no test."""

    def named(self, event: str) -> list[Any]:
        """Return the values of all events of one name, in their order."""
        return [held for name, held in self.events if name == event]


def read_record(folder: Path, run_id: str) -> RecordedRun:
    """Read the record in a folder.

    Raises:
        ReportError: if there is none, if it belongs to another run, or if it can't be parsed.
    """
    try:
        opened = open_folder(folder)
    except FileNotFoundError:
        return parse_record(b"", b"", run_id, str(folder))
    except OSError as error:
        raise ReportError(f"{folder}: the record can't be read: it {reason_of(error)}") from error
    with opened:
        return parse_record(*read_contents(opened), run_id, str(folder))


def read_contents(folder: Folder) -> tuple[bytes, bytes]:
    """Return the contents of the two files of a record; empty for a file that is missing.

    Raises:
        ReportError: if one can't be read, or does not belong to the owner of the folder.
    """
    return _read(folder, STATE, MAX_STATE_BYTES), _read(folder, EVENTS, MAX_EVENTS_BYTES)


def has_ended(state: bytes) -> bool:
    """Tell whether a state file says that the session has ended."""
    if len(state) < HEAD.size:
        return False
    magic, finished, _, _ = HEAD.unpack_from(state)
    return bool(magic == MAGIC and finished)


def parse_record(state: bytes, events: bytes, run_id: str, where: str) -> RecordedRun:
    """Parse the contents of the two files of a record; raises as `read_record` does."""
    notes: list[str] = []
    parsed = _parse_events(events, notes)
    if not parsed or parsed[0][0] != "run":
        raise ReportError(f"{where}: the record has no beginning; nothing can be read from it")
    header = _parse_header(parsed[0][1], run_id, where)
    nodeids: list[str] = []
    rest = []
    unknown = 0
    for name, fields in parsed[1:]:
        if name == "selection":  # repeated each time that a worker of `--dist each` has collected
            nodeids = []
        elif name == "selected":
            named = fields.get("nodeids")
            nodeids += map(str, named if isinstance(named, list) else ())
        elif name in _EVENTS or name in _PLAIN_EVENTS:
            try:
                if name in _PLAIN_EVENTS:
                    event = parse(_PLAIN_EVENTS[name], fields)
                else:
                    field, kind = _EVENTS[name]
                    event = parse(kind, fields[field])
                rest.append((name, event))
            except (ValueError, KeyError):
                unknown += 1
    if unknown:
        notes.append(f"{unknown} of the record's events can't be understood")
    numbers = _State(state, len(nodeids), where, notes)
    there = Counter(name for name, _ in rest)
    missing = {
        name: count - there[name] for name, count in numbers.counted.items() if count > there[name]
    }
    if missing or numbers.loss:
        names = ", ".join(f"{count} {_WORDS[name][count != 1]}" for name, count in missing.items())
        why = f": {os.strerror(numbers.loss)}" if numbers.loss in errno.errorcode else ""
        notes.append(f"the record lacks {names or 'what could not be written'}{why}")
    return RecordedRun(
        header=header,
        events=rest,
        nodeids=nodeids,
        counters=numbers.counters,
        exit_code=numbers.exit_code,
        in_flight=numbers.in_flight(nodeids, header.started_ns),
        not_run=numbers.not_run(nodeids),
        timer=numbers.timer,
        is_reported=numbers.is_reported,
        missing=missing,
        is_lost=bool(numbers.loss and missing),
        notes=tuple(notes),
        activity=numbers.activity,
    )


def read_worker(folder: Folder, worker: str) -> WorkerState:
    """Read what an xdist worker has recorded of itself, as far as that is possible."""
    try:
        with folder.open_folder(worker_folder(worker)) as inner:
            return parse_worker(inner.read(STATE, MAX_STATE_BYTES))
    except OSError:
        return WorkerState()


def parse_worker(state: bytes) -> WorkerState:
    """Read a worker's state file."""
    if len(state) < PAGE or state[: len(MAGIC)] != MAGIC:
        return WorkerState()
    start_ns, at, name = _parse_current(state)
    test = StartedTest(nodeid=name, phase=PHASES[at], start_ns=start_ns) if at in PHASES else None
    (started,) = struct.unpack_from("<I", state, COUNTERS_AT + 4 * STARTED)
    process_id, stdout, stderr = CAPTURE.unpack_from(state, CAPTURE_AT)
    return WorkerState(
        test=test,
        activity=_parse_activity(state),
        timer=_parse_timer(state),
        process_id=process_id,
        capture=(stdout, stderr),
        tests=started,
        endings=state[PAGE:],
    )


def _parse_current(state: bytes) -> tuple[int, int, str]:
    """Return start, state and name of what a process is at."""
    start_ns, at, length = CURRENT.unpack_from(state, CURRENT_AT)
    name = state[CURRENT_AT + CURRENT.size : PAGE][: min(length, PAGE)]
    return start_ns, at, name.decode("utf-8", "replace")


def _parse_activity(state: bytes) -> RunningActivity | None:
    _, at, name = _parse_current(state)
    if at not in ACTIVITIES:
        return None
    what, is_hook = ACTIVITIES[at]
    return RunningActivity(what=what, name=name or None, is_hook=is_hook)


class _State:
    """The state file, as far as it can be read."""

    def __init__(self, content: bytes, selected: int, where: str, notes: list[str]) -> None:
        self.tests = 0
        self.exit_code: int | None = None
        self.counters = dict.fromkeys(COUNTERS[:STARTED], 0)
        self.counted = dict.fromkeys(COUNTED_EVENTS, 0)
        self.is_reported = False
        self.loss = 0
        self.timer: Timer | None = None
        self.activity: RunningActivity | None = None
        self.content = content
        if len(content) < PAGE:
            notes.append("the record's numbers are missing")
            return
        magic, finished, code, tests = HEAD.unpack_from(content)
        if magic != MAGIC:
            if magic[:6] != MAGIC[:6]:
                raise ReportError(f"{where}: {STATE} is no record of a run")
            version = magic[6:].decode("ascii", "replace")
            raise ReportError(
                f"{where}: the record has layout {version}, this program reads "
                f"{MAGIC[6:].decode()}; use the version of pytest-failure-taxonomy that wrote it"
            )
        self.exit_code = code if finished else None
        (written,) = struct.unpack_from("<I", content, WRITTEN_AT)
        (self.loss,) = struct.unpack_from("<I", content, LOSS_AT)
        self.is_reported = bool(written)
        counted = struct.unpack_from(f"<{len(COUNTED_EVENTS)}I", content, COUNTED_AT)
        self.counted = dict(zip(COUNTED_EVENTS, counted, strict=True))
        if tests and (tests != selected or len(content) < file_size(tests)):
            notes.append(f"the record says that {tests} tests were selected and names {selected}")
            tests = min(tests, selected, len(content) - PAGE)
        self.tests = tests
        values = struct.unpack_from(f"<{STARTED}I", content, COUNTERS_AT)
        self.counters = dict(zip(COUNTERS[:STARTED], values, strict=True))
        self.timer = _parse_timer(content)
        self.activity = _parse_activity(content)

    def in_flight(self, nodeids: list[str], started_ns: int) -> tuple[StartedTest, ...]:
        states = self.content[PAGE : PAGE + self.tests]
        running = []
        for index, at in enumerate(states):
            if at in PHASES:
                _, _, _, count = HEAD.unpack_from(self.content)
                offset = starts_offset(count) + 4 * index
                has_start = offset + 4 <= len(self.content)
                (ms,) = struct.unpack_from("<I", self.content, offset) if has_start else (0,)
                start_ns = started_ns + 1_000_000 * ms
                running.append(
                    StartedTest(nodeid=nodeids[index], phase=PHASES[at], start_ns=start_ns)
                )
        return tuple(running)

    def not_run(self, nodeids: list[str]) -> tuple[str, ...]:
        states = self.content[PAGE : PAGE + self.tests]
        known = tuple(nodeids[index] for index, at in enumerate(states) if at == NOT_STARTED)
        return known + tuple(nodeids[self.tests :])


def _parse_timer(state: bytes) -> Timer | None:
    armed_ns, seconds, method = TIMER.unpack_from(state, TIMER_AT)
    if not 0 < method < len(TIMER_METHODS) or not math.isfinite(seconds):
        return None
    return Timer(armed_ns=armed_ns, budget_seconds=seconds, method=TIMER_METHODS[method])


def _parse_events(content: bytes, notes: list[str]) -> list[tuple[str, dict[str, Any]]]:
    if len(content) >= MAX_EVENTS_BYTES:
        notes.append(f"the record was read up to {MAX_EVENTS_BYTES} bytes")
    events: list[tuple[str, dict[str, Any]]] = []
    unreadable = 0
    for _, line in whole_lines(BytesIO(content)):
        if len(events) + unreadable >= MAX_EVENTS:
            notes.append(f"the record was read up to {MAX_EVENTS} events")
            break
        if len(line) > MAX_EVENT_BYTES:
            unreadable += 1
            continue
        try:
            name, fields = json.loads(line)
            events.append((str(name), dict(fields)))
        except (ValueError, TypeError, RecursionError):
            unreadable += 1
    else:
        if content and not content.endswith(b"\n"):
            notes.append("the record's last event is torn")
    if unreadable:
        notes.append(f"{unreadable} of the record's events can't be read")
    return events


def _parse_header(fields: dict[str, Any], run_id: str, where: str) -> Header:
    if fields.get("run_id") != run_id:
        found = safe_text(str(fields.get("run_id")), _MAX_WORD)
        raise ReportError(f"{where}: the record is of run {found}, not of {run_id}")
    try:
        header = parse(Header, fields, ignores_unknown=True)
        if not 0 < header.process.pid < _MAX_PROCESS_ID:
            raise ValueError("process.pid is no process's")
        if header.context.id != run_id:
            raise ValueError("context.id is another run's")
        if header.started_ns < 0:
            raise ValueError("started_ns is below 0")
    except ValueError as error:
        raise ReportError(
            f"{where}: the record can't be understood (its beginning: {safe_text(str(error))}); "
            "use the version of pytest-failure-taxonomy that wrote it"
        ) from error
    return header


def _read(folder: Folder, name: str, max_bytes: int) -> bytes:
    try:
        return folder.read(name, max_bytes)
    except FileNotFoundError:
        return b""
    except OSError as error:
        where = folder.path / name
        raise ReportError(f"{where}: the record can't be read: {error.strerror}") from error
