"""Read the record of a run, whole or torn, and turn it back into evidence."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.recorder.record.layout import (
    COUNTERS,
    COUNTERS_AT,
    CURRENT,
    CURRENT_AT,
    EVENTS,
    HEAD,
    MAGIC,
    NOT_STARTED,
    PAGE,
    PHASES,
    STARTED,
    STATE,
    TIMER,
    TIMER_AT,
    TIMER_METHODS,
    file_size,
    starts_offset,
)
from pytest_failure_taxonomy.taxonomy.evidence import Phase
from pytest_failure_taxonomy.taxonomy.values import value

_NEEDED: Final = frozenset({"context", "memory", "process", "stage", "started_ns"})
"""What a header has to have to be of any use."""

MAX_EVENTS_BYTES: Final = 512 * 1024 * 1024
"""A record's events beyond this are not read; half a million long node ids take a tenth of it."""


@value
class Timer:
    """A timer of pytest-timeout that was armed."""

    armed_ns: int
    budget_seconds: float
    method: str


@value
class StartedTest:
    """A test that had started and not finished."""

    nodeid: str
    phase: Phase
    start_ns: int


@value
class WorkerState:
    """What an xdist worker was at when it last said so."""

    test: StartedTest | None = None
    timer: Timer | None = None
    tests: int = 0
    """How many it has started."""


@value
class RecordedRun:
    """All that a record holds."""

    header: dict[str, Any]
    """The fields of the first event, `run`."""
    events: list[tuple[str, dict[str, Any]]]
    """All further events but the selection, in their order."""
    nodeids: list[str]
    """The selected tests, in their order."""
    counters: dict[str, int]
    exit_code: int | None
    """What the session ended with, if it did."""
    in_flight: tuple[StartedTest, ...]
    """In order of selection."""
    not_run: tuple[str, ...]
    timer: Timer | None
    notes: tuple[str, ...] = ()
    """What could not be read, in words."""

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of all events of one name, in their order."""
        return [fields for name, fields in self.events if name == event]


def read_record(folder: Path, run_id: str) -> RecordedRun:
    """Read the record in a folder.

    Raises:
        ReportError: there is none, it is of another run, or it can't be understood.
    """
    return parse_record(_read(folder / STATE), _read(folder / EVENTS), run_id, str(folder))


def parse_record(state: bytes, events: bytes, run_id: str, where: str) -> RecordedRun:
    """Read a record from the contents of its two files; `read_record` says what is raised."""
    notes: list[str] = []
    parsed = _parse_events(events, notes)
    if not parsed or parsed[0][0] != "run":
        raise ReportError(f"{where}: the record has no beginning; nothing can be read from it")
    header = parsed[0][1]
    if header.get("run_id") != run_id:
        raise ReportError(f"{where}: the record is of run {header.get('run_id')}, not of {run_id}")
    lacking = sorted(_NEEDED - header.keys())
    if lacking:
        raise ReportError(f"{where}: the record's beginning lacks {', '.join(lacking)}")
    nodeids: list[str] = []
    rest = []
    for name, fields in parsed[1:]:
        if name == "selection":  # made anew each time a worker of `--dist each` has collected
            nodeids = []
        elif name == "selected":
            named = fields.get("nodeids")
            nodeids += map(str, named if isinstance(named, list) else ())
        else:
            rest.append((name, fields))
    numbers = _State(state, len(nodeids), where, notes)
    return RecordedRun(
        header=header,
        events=rest,
        nodeids=nodeids,
        counters=numbers.counters,
        exit_code=numbers.exit_code,
        in_flight=numbers.in_flight(nodeids, header["started_ns"]),
        not_run=numbers.not_run(nodeids),
        timer=numbers.timer,
        notes=tuple(notes),
    )


def read_worker(folder: Path) -> WorkerState:
    """Read what an xdist worker has noted of itself, as far as it is there."""
    state = _read(folder / STATE)
    if len(state) < PAGE or state[: len(MAGIC)] != MAGIC:
        return WorkerState()
    start_ns, at, length = CURRENT.unpack_from(state, CURRENT_AT)
    name = state[CURRENT_AT + CURRENT.size :][: min(length, PAGE)].decode("utf-8", "replace")
    test = StartedTest(nodeid=name, phase=PHASES[at], start_ns=start_ns) if at in PHASES else None
    (started,) = struct.unpack_from("<I", state, COUNTERS_AT + 4 * STARTED)
    return WorkerState(test=test, timer=_parse_timer(state), tests=started)


class _State:
    """The state file, as far as it is there."""

    def __init__(self, content: bytes, selected: int, where: str, notes: list[str]) -> None:
        self.tests = 0
        self.exit_code: int | None = None
        self.counters = dict.fromkeys(COUNTERS[:STARTED], 0)
        self.timer: Timer | None = None
        self.content = content
        if len(content) < PAGE:
            notes.append("the record's numbers are missing")
            return
        magic, finished, code, tests = HEAD.unpack_from(content)
        if magic != MAGIC:
            raise ReportError(_what_else(magic, where))
        self.exit_code = code if finished else None
        if tests and (tests != selected or len(content) < file_size(tests)):
            notes.append(f"the record says that {tests} tests were selected and names {selected}")
            tests = min(tests, selected, _tests_that_fit(len(content), tests))
        self.tests = tests
        values = struct.unpack_from(f"<{STARTED}I", content, COUNTERS_AT)
        self.counters = dict(zip(COUNTERS[:STARTED], values, strict=True))
        self.timer = _parse_timer(content)

    def in_flight(self, nodeids: list[str], started_ns: int) -> tuple[StartedTest, ...]:
        states = self.content[PAGE : PAGE + self.tests]
        running = [index for index, at in enumerate(states) if at in PHASES]
        return tuple(
            StartedTest(
                nodeid=nodeids[index],
                phase=PHASES[states[index]],
                start_ns=started_ns + 1_000_000 * self._start_ms(index),
            )
            for index in running
        )

    def not_run(self, nodeids: list[str]) -> tuple[str, ...]:
        states = self.content[PAGE : PAGE + self.tests]
        known = tuple(nodeids[index] for index, at in enumerate(states) if at == NOT_STARTED)
        return known + tuple(nodeids[self.tests :])

    def _start_ms(self, index: int) -> int:
        _, _, _, count = HEAD.unpack_from(self.content)
        offset = starts_offset(count) + 4 * index
        if offset + 4 > len(self.content):
            return 0
        return int(struct.unpack_from("<I", self.content, offset)[0])


def _tests_that_fit(size: int, tests: int) -> int:
    return max(0, min(tests, size - PAGE))


def _parse_timer(state: bytes) -> Timer | None:
    armed_ns, seconds, method = TIMER.unpack_from(state, TIMER_AT)
    if not 0 < method < len(TIMER_METHODS):
        return None
    return Timer(armed_ns=armed_ns, budget_seconds=seconds, method=TIMER_METHODS[method])


def _parse_events(content: bytes, notes: list[str]) -> list[tuple[str, dict[str, Any]]]:
    if len(content) >= MAX_EVENTS_BYTES:
        notes.append(f"the record was read up to {MAX_EVENTS_BYTES} bytes")
    *lines, torn = content.split(b"\n")
    if torn:
        notes.append("the record's last event is torn")
    events: list[tuple[str, dict[str, Any]]] = []
    unreadable = 0
    for line in lines:
        try:
            name, fields = json.loads(line)
            events.append((str(name), dict(fields)))
        except (ValueError, TypeError, RecursionError):
            unreadable += 1
    if unreadable:
        notes.append(f"{unreadable} of the record's events can't be read")
    return events


def _what_else(magic: bytes, where: str) -> str:
    if magic[:6] == MAGIC[:6]:
        version = magic[6:].decode("ascii", "replace")
        return (
            f"{where}: the record has layout {version}, this program reads {MAGIC[6:].decode()}; "
            "use the version of pytest-failure-taxonomy that wrote it"
        )
    return f"{where}: {STATE} is no record of a run"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_EVENTS_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ReportError(f"{path}: the record can't be read: {error.strerror}") from error
