"""Read the record of a run, which may be incomplete, damaged or forged, into values."""

from __future__ import annotations

import errno
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.codec import RECORD
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.facts import (
    EnclosingLimit,
    Snapshot,
    StartedTest,
    Timer,
    WorkerState,
)
from pytest_failure_taxonomy.survive.folder import worker_folder
from pytest_failure_taxonomy.survive.layout import PAGE
from pytest_failure_taxonomy.system.files import (
    Folder,
    open_folder,
    reason_of,
    whole_lines,
)
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.amendments import SectionPlace
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch
from pytest_failure_taxonomy.taxonomy.order import MAIN, MAX_STARTS, Plan
from pytest_failure_taxonomy.taxonomy.user_rules import Rule
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.text import safe_text

T = TypeVar("T")

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Longer events are not read: parsed, they take a multiple of this."""
MAX_EVENTS: Final = 1_000_000
"""Further events are not read."""
MAX_STATE_BYTES: Final = layout.file_size(10_000_000)
_ENDINGS: Final = bytes(max(0, state - layout.ENDED) for state in range(256))
"""By the state of a test, 0 or 1 and the index of its result's counter."""
_MAX_PROCESS_ID: Final = 1 << 31
_MAX_WORD: Final = 80


@value
class LeftThread:
    """A thread that was there when the session ended, and is no daemon."""

    native_id: int
    name: str
    place: str | None
    """What of the user's own code it was at: `tests/test_x.py:4`."""
    nodeid: str | None = None
    """The test in which it was started; `None` if that is not known."""

    @property
    def words(self) -> str:
        """Name, place and test: `thread server, tests/test_x.py:4, started in …`."""
        test = self.nodeid and f"started in {self.nodeid}"
        return ", ".join(filter(None, (f"thread {self.name}", self.place, test)))


@value
class RecordedProcess:
    """The identity of a run's process, from `system.process.read_identity`."""

    pid: int
    start_ticks: int | None
    boot_id: str | None


@value
class RecordedMemory:
    """Earlier kills by the OOM killer at the start, and the file with the count."""

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
    context: evidence.RunContext
    path: tuple[str, ...] = ()
    """The folders of `sys.path`."""


@value
class _NamedTest:
    nodeid: str
    worker: str | None = None


@value
class _End:
    should_fail: str = ""
    coverage: str = ""
    gate: str = ""


_EVENTS: Final[dict[str, tuple[str | None, type]]] = {
    "failure": ("failure", evidence.TestFailure),
    "collection_failure": ("failure", evidence.CollectionFailure),
    "error": ("error", evidence.RunError),
    "interruption": ("stop", evidence.Interruption),
    "worker": ("worker", evidence.WorkerEnd),
    "watcher": ("watcher", evidence.WatcherState),
    "mismatch": ("mismatch", CollectionMismatch),
    "thread": ("thread", LeftThread),
    "change": ("change", evidence.Change),
    "recovered": (None, _NamedTest),
    "rerun": (None, _NamedTest),
    "end": (None, _End),
    "section": (None, SectionPlace),
    "plan": ("plan", Plan),
}
"""The class of each event and its only field that holds one; `None` if the event itself
does."""


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
    starts: tuple[int, ...]
    """The order of the tests, as it was recorded."""
    timer: Timer | None
    is_reported: bool
    """The run itself has written its whole report."""
    missing: Mapping[str, int]
    """By name of event: how many were counted and are not in the file."""
    is_lost: bool
    """What is missing could not be written, as on a full disk; a kill loses an event,
    too."""
    notes: tuple[str, ...] = ()
    """Sentences about what could not be read."""
    activity: evidence.RunningActivity | None = None
    """What was being collected or called, where that was no test."""
    peak_bytes: int = 0
    endings: bytes = b""
    """As of `Snapshot`; empty where the file is cut."""
    starts_ms: tuple[int, ...] = ()
    """As of `Snapshot`."""

    def list_facts(self, event: str) -> list[Any]:
        """Return the values of all events of one name, in their order."""
        return [fact for name, fact in self.events if name == event]

    def last_of(self, event: str, default: T) -> T:
        """Return the value of the last event of one name."""
        return next(iter(self.list_facts(event)[-1:]), default)

    def last_of_workers(self) -> list[evidence.WorkerEnd]:
        """Return the last recorded state of each worker, sorted by id."""
        last = {end.id: end for end in self.list_facts("worker")}
        return sorted(last.values(), key=lambda end: (len(end.id), end.id))

    def failures(self) -> list[evidence.TestFailure]:
        """Return the failures, without those of subtests whose test was run again."""
        failures: list[evidence.TestFailure] = []
        for name, fact in self.events:
            if name == "failure":
                failures.append(fact)
            elif name == "rerun" and failures:
                nodeid = fact.nodeid
                worker = fact.worker
                failures = evidence.drop_attempt(failures, nodeid, worker)
        return failures

    def snapshot(self) -> Snapshot:
        """Return what the record says of the run."""
        header = self.header
        end = self.last_of("end", _End())
        workers = dict.fromkeys(worker.id for worker in self.list_facts("worker"))
        return Snapshot(
            stage=header.stage,
            strict_baseline=header.strict_baseline,
            rootdir=header.context.rootdir,
            nodeids=self.nodeids,
            counters=self.counters,
            in_flight=self.in_flight,
            not_run=self.not_run,
            starts=self.starts,
            plan=self.last_of("plan", Plan()),
            processes=(MAIN, *workers),
            failures=self.failures(),
            recovered=frozenset(test.nodeid for test in self.list_facts("recovered")),
            collection_failures=tuple(self.list_facts("collection_failure")),
            errors=tuple(self.list_facts("error")),
            interruptions=tuple(self.list_facts("interruption")),
            mismatch=next(iter(self.list_facts("mismatch")), None),
            workers=tuple(self.last_of_workers()),
            missing=self.missing,
            should_fail=end.should_fail,
            coverage=end.coverage,
            gate=end.gate,
            finished=self.exit_code is not None,
            session_code=self.exit_code,
            timer=self.timer,
            faulthandler_seconds=header.faulthandler_exit_seconds,
            enclosing_limits=header.enclosing_limits,
            activity=self.activity,
            changes=self.changes,
            process_id=header.process.pid,
            peak_bytes=self.peak_bytes,
            endings=self.endings,
            starts_ms=self.starts_ms,
        )

    @property
    def changes(self) -> tuple[evidence.Change, ...]:
        """What tests did to the process, in order, in its state at the end."""
        return _keep_last_changes(self.list_facts("change"))


def _keep_last_changes(
    written: Iterable[evidence.Change],
) -> tuple[evidence.Change, ...]:
    """Return changes of which those that are over were written twice."""
    changes = {
        (change.what, change.number, change.nodeid): change for change in written
    }
    return tuple(changes.values())


def read_record(folder: Path, run_id: str) -> RecordedRun:
    """Read the record in a folder.

    Raises:
        ReportError: if there is none, if it belongs to another run, or if it can't be
            parsed.
    """
    try:
        opened = open_folder(folder)
    except FileNotFoundError:
        return parse_record(b"", b"", run_id, str(folder))
    except OSError as error:
        raise ReportError(
            f"{folder}: the record can't be read: it {reason_of(error)}"
        ) from error
    with opened:
        return parse_record(*read_contents(opened), run_id, str(folder))


def read_contents(folder: Folder) -> tuple[bytes, bytes]:
    """Return the contents of a record's two files; empty for a missing file.

    Raises:
        ReportError: if one can't be read, or does not belong to the owner of the
            folder.
    """
    state = _read(folder, layout.STATE, MAX_STATE_BYTES)
    return state, _read(folder, layout.EVENTS, layout.MAX_EVENTS_BYTES)


def parse_record(state: bytes, events: bytes, run_id: str, where: str) -> RecordedRun:
    """Parse the contents of the two files of a record; raises as `read_record` does."""
    notes: list[str] = []
    parsed = _parse_events(events, notes)
    if not parsed or parsed[0][0] != "run":
        raise ReportError(
            f"{where}: the record has no beginning, so nothing can be read from it"
        )
    header = _parse_header(parsed[0][1], run_id, where)
    nodeids: list[str] = []
    for name, fields in parsed[1:]:
        # Repeated each time that a worker of `--dist each` has collected.
        if name == "selection":
            nodeids = []
        elif name == "selected":
            selected = fields.get("nodeids")
            if isinstance(selected, list):
                nodeids += map(str, selected)
    readable = [event for event in parsed[1:] if event[0] in _EVENTS]
    rest = [*_decode_events(readable)]
    unknown = len(readable) - len(rest)
    if unknown:
        notes.append(f"{unknown} of the record's events can't be understood")
    numbers, counted, loss = _parse_state(
        state, nodeids, header.started_ns, where, notes
    )
    # The difference of two counters has no counts below 1.
    missing = Counter(counted) - Counter(name for name, _ in rest)
    if missing or loss:
        notes.append(f"the record lacks {_describe_missing(missing, loss)}")
    return RecordedRun(
        header=header,
        events=rest,
        nodeids=nodeids,
        missing=missing,
        is_lost=bool(loss and missing),
        notes=tuple(notes),
        **numbers,
    )


def _decode_events(
    events: Iterable[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, Any]]:
    """Yield the events that can be understood, each with its value."""
    for name, fields in events:
        field, kind = _EVENTS[name]
        with suppress(ValueError, KeyError):
            content = fields if field is None else fields[field]
            yield name, RECORD.decode(kind, content)


def _describe_missing(missing: Mapping[str, int], loss: int) -> str:
    parts = []
    for name, count in missing.items():
        singular, plural = layout.COUNTED_EVENTS[name]
        parts.append(f"{count} {singular if count == 1 else plural}")
    words = ", ".join(parts) or "what could not be written"
    if loss in errno.errorcode:
        return f"{words}: {os.strerror(loss)}"
    return words


def read_worker(folder: Folder, worker: str) -> WorkerState:
    """Read what an xdist worker has recorded of itself, as far as that is possible."""
    try:
        with folder.open_folder(worker_folder(worker)) as inner:
            state = parse_worker(inner.read(layout.STATE, MAX_STATE_BYTES))
            events = _parse_events(inner.read(layout.EVENTS, MAX_EVENT_BYTES), [])
    except OSError:
        return WorkerState()
    decoded = _decode_events(event for event in events if event[0] == "change")
    return replace(state, changes=_keep_last_changes(change for _, change in decoded))


def parse_worker(state: bytes) -> WorkerState:
    """Read a worker's state file, or what pytest's own has of the same."""
    if len(state) < PAGE or not state.startswith(layout.MAGIC):
        return WorkerState()
    start_ns, code, length = layout.CURRENT.unpack_from(state, layout.CURRENT_AT)
    name_bytes = state[layout.NAME_AT : PAGE][: min(length, PAGE)]
    name = name_bytes.decode("utf-8", "replace")
    test = activity = None
    if code in layout.PHASES:
        test = StartedTest(
            nodeid=name,
            phase=layout.PHASES[code],
            start_ns=start_ns,
        )
    elif code in layout.ACTIVITIES:
        kind, is_hook = layout.ACTIVITIES[code]
        activity = evidence.RunningActivity(
            what=kind,
            name=name or None,
            is_hook=is_hook,
        )
    capture = layout.CAPTURE.unpack_from(state, layout.CAPTURE_AT)
    process_id, stdout, stderr = capture
    (tests,) = layout.numbers_at(state, layout.COUNT_AT, 1)
    return WorkerState(
        test=test,
        activity=activity,
        timer=_parse_timer(state),
        process_id=process_id,
        capture=(stdout, stderr),
        tests=_counters_in(state)["started"],
        peak_bytes=layout.PEAK.unpack_from(state, layout.PEAK_AT)[0],
        endings=state[PAGE : PAGE + tests],
    )


def _parse_timer(state: bytes) -> Timer | None:
    armed_ns, budget, method = layout.TIMER.unpack_from(state, layout.TIMER_AT)
    if not 0 < method < len(layout.TIMER_METHODS) or not math.isfinite(budget):
        return None
    name = layout.TIMER_METHODS[method]
    return Timer(
        armed_ns=armed_ns,
        budget_seconds=budget,
        method=name,
    )


def _counters_in(state: bytes) -> dict[str, int]:
    names = layout.COUNTERS
    counters = layout.numbers_at(state, layout.COUNTERS_AT, len(names))
    return dict(zip(names, counters, strict=True))


class _Numbers(TypedDict):
    """What the state file has of the fields of `RecordedRun`."""

    counters: dict[str, int]
    exit_code: int | None
    in_flight: tuple[StartedTest, ...]
    not_run: tuple[str, ...]
    starts: tuple[int, ...]
    timer: Timer | None
    activity: evidence.RunningActivity | None
    peak_bytes: int
    is_reported: bool
    endings: bytes
    starts_ms: tuple[int, ...]


def _parse_state(
    state: bytes, nodeids: list[str], started_ns: int, where: str, notes: list[str]
) -> tuple[_Numbers, dict[str, int], int]:
    """Read the state file, as far as that is possible.

    Returns:
        Fields of `RecordedRun`, how many events were counted by name, and the errno of
        a loss.
    """
    has_numbers = len(state) >= PAGE
    if not has_numbers:
        notes.append("the record's numbers are missing")
        state = layout.MAGIC.ljust(PAGE, b"\0")
    magic, finished, code, count, written = layout.HEAD.unpack_from(state)
    if magic != layout.MAGIC:
        raise ReportError(f"{where}: {_explain_unreadable(magic)}")
    tests = count
    if tests and (tests != len(nodeids) or len(state) < layout.file_size(tests)):
        notes.append(
            f"the record says that {tests} tests were selected and names {len(nodeids)}"
        )
        tests = min(tests, len(nodeids), len(state) - PAGE)
    starts_at = layout.starts_offset(count)
    in_flight = []
    not_run = []
    for index, phase_code in enumerate(state[PAGE : PAGE + tests]):
        if phase_code == layout.NOT_STARTED:
            not_run.append(nodeids[index])
        elif phase_code in layout.PHASES:
            place = starts_at + 4 * index
            # Less than four bytes are left of a file that was cut.
            start_ms = int.from_bytes(state[place : place + 4], "little")
            test = StartedTest(
                nodeid=nodeids[index],
                phase=layout.PHASES[phase_code],
                start_ns=started_ns + 1_000_000 * start_ms,
            )
            in_flight.append(test)
    not_run += nodeids[count:]
    is_whole = count == len(nodeids) and len(state) >= layout.file_size(count)
    own = parse_worker(state[:PAGE])
    counters = _counters_in(state)
    del counters["started"]
    (loss,) = layout.numbers_at(state, layout.LOSS_AT, 1)
    fields: _Numbers = {
        "counters": counters,
        "exit_code": code if finished else None,
        "in_flight": tuple(in_flight),
        "not_run": tuple(not_run) if has_numbers else (),
        "starts": _parse_order(state, count),
        "timer": own.timer,
        "activity": own.activity,
        "peak_bytes": own.peak_bytes,
        "is_reported": bool(written),
        "endings": state[PAGE : PAGE + tests].translate(_ENDINGS) if is_whole else b"",
        "starts_ms": layout.numbers_at(state, starts_at, tests) if is_whole else (),
    }
    names = layout.COUNTED_EVENTS
    counts = layout.numbers_at(state, layout.COUNTED_AT, len(names))
    return fields, dict(zip(names, counts, strict=True)), loss


def _parse_order(state: bytes, tests: int) -> tuple[int, ...]:
    """Return the order of the tests, as far as it is there."""
    if not tests:
        return ()
    order_at = layout.order_offset(tests)
    end = min(layout.file_size(tests), len(state))
    starts = min((end - order_at) // 4, MAX_STARTS + 1)
    if starts > 0:
        return layout.numbers_at(state, order_at, starts)
    return ()


def _explain_unreadable(magic: bytes) -> str:
    """Say why a state file with such a beginning can't be read."""
    if magic[:6] != layout.MAGIC[:6]:
        return f"{layout.STATE} is no record of a run"
    version = ascii(magic[6:].decode("ascii", "replace"))[1:-1]
    return (
        f"the record has layout {version}, "
        f"this program reads {layout.MAGIC[6:].decode()}; "
        "use the version of pytest-failure-taxonomy that wrote it"
    )


def _parse_events(
    content: bytes, notes: list[str]
) -> list[tuple[str, dict[str, object]]]:
    if len(content) >= layout.MAX_EVENTS_BYTES:
        notes.append(f"the record was read up to {layout.MAX_EVENTS_BYTES} bytes")
    events: list[tuple[str, dict[str, object]]] = []
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


def _parse_header(fields: dict[str, object], run_id: str, where: str) -> Header:
    if fields.get("run_id") != run_id:
        other_id = safe_text(str(fields.get("run_id")), _MAX_WORD)
        raise ReportError(f"{where}: the record is of run {other_id}, not of {run_id}")
    try:
        header = RECORD.decode_known(Header, fields)
        if not 0 < header.process.pid < _MAX_PROCESS_ID:
            raise ValueError("process.pid is no process's")
        if header.context.id != run_id:
            raise ValueError("context.id is another run's")
        if header.started_ns < 0:
            raise ValueError("started_ns is below 0")
    except ValueError as error:
        raise ReportError(
            f"{where}: the record can't be understood "
            f"(its beginning: {safe_text(str(error))}); "
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
        raise ReportError(
            f"{where}: the record can't be read: {error.strerror}"
        ) from error
