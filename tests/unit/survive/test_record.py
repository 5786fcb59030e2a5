"""A run's record: what is written is what is read, whole, torn, foreign or gone."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.hooks.failures import EventLog
from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.hooks.progress import Progress
from pytest_failure_taxonomy.hooks.session import snapshot_of
from pytest_failure_taxonomy.redaction.secrets import NodeIds, Secrets
from pytest_failure_taxonomy.report.load import as_json
from pytest_failure_taxonomy.survive import writer
from pytest_failure_taxonomy.survive.complete import reconstruct
from pytest_failure_taxonomy.survive.facts import (
    ProcessEnd,
    StartedTest,
    WorkerState,
    facts_of,
)
from pytest_failure_taxonomy.survive.folder import record_folder, remove_record
from pytest_failure_taxonomy.survive.layout import (
    COLLECTING,
    COUNTERS,
    CURRENT_STATE_AT,
    DONE,
    EVENTS,
    HEAD,
    IN_CALL,
    IN_HOOK,
    IN_LAST_HOOK,
    IN_TEARDOWN,
    MAGIC,
    MAX_NODEID_BYTES,
    NOT_STARTED,
    PAGE,
    STARTED,
    STATE,
    file_size,
    order_offset,
    starts_offset,
)
from pytest_failure_taxonomy.survive.observed import context_of
from pytest_failure_taxonomy.survive.reader import (
    RecordedRun,
    parse_record,
    parse_worker,
    read_record,
    read_worker,
)
from pytest_failure_taxonomy.survive.writer import DiskRecord, Record
from pytest_failure_taxonomy.system.files import move_high, open_folder
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    Interruption,
    ProcessExit,
    RunError,
    RunEvidence,
    RunningActivity,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import assert_valid_report, make_context, make_failure

RUN_ID: Final = "0123456789abcdef" * 2
STARTED_NS: Final = 5_000_000_000
HEADER: Final[dict[str, Any]] = {
    "run_id": RUN_ID,
    "started_ns": STARTED_NS,
    "stage": "final_test",
    "strict_baseline": False,
    "faulthandler_exit_seconds": None,
    "rules": [],
    "redact": [],
    "process": {"pid": 1, "start_ticks": 1, "boot_id": "none"},
    "enclosing_limits": [],
    "memory": {"events_file": None, "oom_kills": None},
}
COUNTED: Final = COUNTERS[:STARTED]
VANISHED: Final = ProcessEnd(exit=ProcessExit(code=None, source="finalize"))


class Recording:
    """A record that is being written, with a clock that a test moves."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.now_ns = STARTED_NS
        record.write("run", **HEADER, context=make_context())
        secrets = Secrets()
        nodeids = NodeIds(secrets)
        self.progress = Progress(record, STARTED_NS, nodeids.show_all)
        self.progress.clock = self._clock
        self.log = EventLog(record, secrets, nodeids, Faults(cast("Any", None)))

    def _clock(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def seen(self, ended_ns: int) -> RunEvidence:
        """Return what pytest itself would say of the run."""
        snapshot = snapshot_of(
            self.progress,
            self.log,
            stage=Stage.FINAL_TEST,
            strict_baseline=False,
            rootdir="",
            workers=(),
            should_fail="",
        )
        return facts_of(snapshot, replace(VANISHED, ended_ns=ended_ns))

    def run_test(self, nodeid: str) -> None:
        """Have a test start, pass and end."""
        self.progress.start(nodeid)
        self.progress.advance(nodeid, IN_CALL)
        self.progress.advance(nodeid, IN_TEARDOWN)
        self.progress.count_pass(nodeid)
        self.progress.finish(nodeid)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the record of a report goes."""
    return record_folder(tmp_path / "report.json", RUN_ID)


@pytest.fixture
def recording(folder: Path) -> Iterator[Recording]:
    """Return a record on disk of three tests: one passed, one in its call, one to come."""
    recording = Recording(DiskRecord(folder))
    recording.progress.select(["t.py::a", "t.py::b", "t.py::c"])
    recording.run_test("t.py::a")
    recording.progress.start("t.py::b")
    recording.progress.advance("t.py::b", IN_CALL)
    yield recording
    assert isinstance(recording.record, DiskRecord)
    recording.record.remove()


def read(folder: Path) -> RecordedRun:
    """Read the record of the run that these tests write."""
    return read_record(folder, RUN_ID)


def evidence(
    run: RecordedRun,
    workers: Mapping[str, WorkerState] | None = None,
    ended_ns: int | None = None,
) -> RunEvidence:
    """Return the evidence of a record whose process has vanished."""
    end = replace(VANISHED, ended_ns=ended_ns)
    return facts_of(run.snapshot(), end, workers=workers)


def worker_at(folder: Path) -> WorkerState:
    """Read the state of a worker whose folder this is."""
    return parse_worker((folder / STATE).read_bytes())


def descriptors() -> dict[int, str]:
    """Return the open descriptors of this process, and what they are of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with_name = f"/proc/self/fd/{name}"
        if os.path.islink(with_name):
            found[int(name)] = os.readlink(with_name)
    return found


# What is written is what is read.

NODEIDS: Final = [f"tests/test_it.py::test_{name}" for name in "abcdef"] + [
    "test_ünï.py::test[\udc80-\n]"
]
STEPS: Final = st.one_of(
    st.tuples(
        st.just("start"), st.sampled_from([*NODEIDS, "unknown.py::x", "unknown.py::y"])
    ),
    st.tuples(st.just("call"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("teardown"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("finish"), st.sampled_from([*NODEIDS, "unknown.py::x"])),
    st.tuples(st.just("pass"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("rerun"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("fail"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("subtest"), st.sampled_from(NODEIDS)),
    st.tuples(st.just("count"), st.sampled_from(COUNTED)),
    st.tuples(st.just("error"), st.text(max_size=5)),
    st.tuples(st.just("stop"), st.text(max_size=5)),
    st.tuples(st.just("uncollected"), st.sampled_from(NODEIDS)),
)


def facts_in_record(seen: RunEvidence) -> dict[str, Any]:
    """Return the fields of the evidence that come from the record of one process."""
    return {
        "counts": seen.counts,
        "in_flight": [(test.nodeid, test.phase) for test in seen.in_flight],
        "not_run": seen.not_run,
        "failures": seen.failures,
        "errors": seen.errors,
        "interruptions": seen.interruptions,
        "collection_failures": seen.collection_failures,
        "unrecorded": seen.unrecorded,
        "order": seen.order,
    }


def rerun(recording: Recording, nodeid: str) -> None:
    """Have a test run again, so that its subtests that failed count no more."""
    recording.progress.count_rerun(nodeid, None)
    recording.log.write("rerun", nodeid=nodeid, worker=None)
    recording.log.remove_subtests(nodeid, None)


def take_step(recording: Recording, step: str, word: str) -> None:
    """Have one thing happen in a run."""
    progress, log = recording.progress, recording.log
    if step == "start" and progress.phase_of(word) is not None:
        return  # it runs already
    steps: dict[str, Callable[[], None]] = {
        "start": lambda: progress.start(word),
        "call": lambda: progress.advance(word, IN_CALL),
        "teardown": lambda: progress.advance(word, IN_TEARDOWN),
        "finish": lambda: progress.finish(word),
        "pass": lambda: progress.count_pass(word),
        "rerun": lambda: rerun(recording, word),
        "fail": lambda: log.add_failure(make_failure(nodeid=word)),
        "subtest": lambda: log.add_failure(make_failure(nodeid=word, part="subtest")),
        "count": lambda: progress.count(word),
        "error": lambda: log.add_error(RunError(origin="plugin", message=word)),
        "stop": lambda: log.add_interruption(
            Interruption(exception="KeyboardInterrupt", message=word)
        ),
        "uncollected": lambda: log.add_collection_failure(
            CollectionFailure(nodeid=word, message=word)
        ),
    }
    steps[step]()


@settings(deadline=None, max_examples=60)
@given(
    selection=st.lists(st.sampled_from(NODEIDS), max_size=10),
    steps=st.lists(STEPS, max_size=40),
)
def test_the_reader_says_what_the_run_knew(
    tmp_path_factory: pytest.TempPathFactory,
    selection: list[str],
    steps: list[tuple[str, str]],
) -> None:
    """Whatever happens in whichever order, the record gives back what was in memory: the counts,
    the tests in flight, those not run, and each failure, error and interruption.
    """
    folder = tmp_path_factory.mktemp("record")
    disk, memory = Recording(DiskRecord(folder)), Recording(Record())
    for recording in (disk, memory):
        recording.progress.select(selection)
        for step, word in steps:
            take_step(recording, step, word)
        recording.record.keep()  # as it is when the state of a test that has passed changes
    ended_ns = disk.now_ns
    read_again = evidence(read(folder), ended_ns=ended_ns)
    seen, seen_without_disk = disk.seen(ended_ns), memory.seen(ended_ns)
    assert facts_in_record(read_again) == facts_in_record(
        replace(
            seen,
            # The place for tests that were not selected has no name on disk.
            in_flight=tuple(
                test for test in seen.in_flight if test.nodeid in selection
            ),
        )
    )
    assert facts_in_record(seen_without_disk) == facts_in_record(seen)
    assert disk.record.lost is None
    with open_folder(folder) as opened:
        assert remove_record(opened) is None
    assert not folder.exists()


def test_a_record_is_read_while_it_is_written(
    folder: Path, recording: Recording
) -> None:
    """Each thing is there the moment it has happened, with its time."""
    run = read(folder)
    assert run.nodeids == ["t.py::a", "t.py::b", "t.py::c"]
    assert run.counters == {**dict.fromkeys(COUNTED, 0), "passed": 1}
    ((test),) = run.in_flight
    assert (test.nodeid, test.phase, test.start_ns) == (
        "t.py::b",
        "call",
        STARTED_NS + 3_000_000,  # the clock has ticked when the first test ended, too
    )
    assert run.not_run == ("t.py::c",)
    assert (run.exit_code, run.timer, run.notes) == (None, None, ())
    recording.record.clock = lambda: STARTED_NS
    recording.record.arm_timer(2.5, "thread")
    armed = read(folder).timer
    assert armed is not None
    assert (armed.armed_ns, armed.budget_seconds, armed.method) == (
        STARTED_NS,
        2.5,
        "thread",
    )
    recording.record.arm_timer(0.0, "")
    assert read(folder).timer is None


@pytest.mark.parametrize(
    "exit_code", [0, 1, 255, 0xC000_0005, 0xFFFF_FFFF]
)  # as on Windows
def test_the_end_of_a_session_is_noted(
    folder: Path, recording: Recording, exit_code: int
) -> None:
    """A finished session says so with its exit code, and loses nothing of what it was."""
    assert isinstance(recording.record, DiskRecord)
    recording.record.finish(exit_code)
    run = read(folder)
    assert run.exit_code == exit_code
    assert run.not_run == ("t.py::c",)
    assert evidence(run).finished is True


def test_the_context_is_given_back(folder: Path, recording: Recording) -> None:
    """Which run it was is read as it was written; how long it took where its end is known."""
    run = read(folder)
    assert (
        context_of(run, replace(VANISHED, ended_ns=STARTED_NS + 12_500_000_000))
        == make_context()
    )
    assert context_of(run, VANISHED) == make_context(duration_seconds=None)


def test_a_failure_is_given_back(folder: Path, recording: Recording) -> None:
    """What was raised and what was said of it are read as they were written."""
    said = Attribution(
        reason=FailureReason.SANDBOX_ERROR,
        kind="sandbox.browser",
        source="test",
        detail="gone",
    )
    failure = make_failure(attributed=said)
    assert failure.exception is not None
    recording.log.add_failure(failure)
    assert evidence(read(folder)).failures == (failure,)


def test_a_test_selected_twice_runs_twice(folder: Path) -> None:
    """With `--dist each` a node id stands in the selection once a worker; each place counts."""
    recording = Recording(DiskRecord(folder))
    recording.progress.select(["a", "b", "a", "b"])
    recording.run_test("a")
    recording.run_test("b")
    recording.run_test("a")
    run = read(folder)
    assert (run.in_flight, run.not_run) == ((), ("b",))


def test_tests_out_of_order_find_their_places(folder: Path) -> None:
    """Tests start in any order under xdist; one that was never selected is no other's."""
    recording = Recording(DiskRecord(folder))
    recording.progress.select(["a", "b", "c", "d"])
    recording.progress.start("c")
    recording.progress.start("stranger")
    recording.progress.start("a")
    recording.progress.finish("stranger")
    recording.run_test("d")
    run = read(folder)
    assert [test.nodeid for test in run.in_flight] == ["a", "c"]
    assert run.not_run == ("b",)


def test_the_selection_is_made_anew(folder: Path) -> None:
    """A later selection replaces an earlier one, smaller or larger, and the counts stay."""
    recording = Recording(DiskRecord(folder))
    recording.progress.count("warnings", 3)
    for selection in (["a"], ["a", "b", "c"], ["c"]):
        recording.progress.select(selection)
        assert read(folder).nodeids == selection
        assert read(folder).counters["warnings"] == 3
    recording.run_test("c")
    assert read(folder).not_run == ()


def test_a_large_selection_is_written_in_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand node ids are never in memory twice, and are read back."""
    sizes = []
    write_bytes = os.write

    def count(descriptor: int, content: bytes) -> int:
        sizes.append(len(content))
        return write_bytes(descriptor, content)

    monkeypatch.setattr(isolate_module(os), "write", count)
    nodeids = [
        f"tests/test_module_{i // 100}.py::test_number[{i}]" for i in range(100_000)
    ]
    recording = Recording(DiskRecord(folder))
    recording.progress.select(nodeids)
    recording.run_test(nodeids[0])
    recording.progress.start(nodeids[70_000])
    monkeypatch.undo()
    assert len(sizes) > 100_000 / writer.NODEIDS_A_LINE
    assert max(sizes) < 100 * writer.NODEIDS_A_LINE
    run = read(folder)
    assert run.nodeids == nodeids
    assert [test.nodeid for test in run.in_flight] == [nodeids[70_000]]
    assert len(run.not_run) == 99_998
    assert os.stat(folder / STATE).st_size >= file_size(100_000)


# What is torn, foreign or gone.


def test_events_cut_at_any_byte(folder: Path, recording: Recording) -> None:
    """Wherever a death cuts the events, the rest is read and the loss is said; only a record
    without its beginning can't be read at all.
    """
    recording.log.add_failure(make_failure())
    recording.log.add_error(RunError(origin="plugin", message="boo"))
    state, events = ((folder / name).read_bytes() for name in (STATE, EVENTS))
    first = events.index(b"\n") + 1
    whole = evidence(parse_record(state, events, RUN_ID, "here"))
    for size in range(len(events)):
        if size < first:
            with pytest.raises(ReportError, match="the record has no beginning"):
                parse_record(state, events[:size], RUN_ID, "here")
            continue
        run = parse_record(state, events[:size], RUN_ID, "here")
        seen = evidence(run)
        context_of(run, VANISHED)
        is_torn = events[:size][-1:] != b"\n"
        assert ("the record's last event is torn" in run.notes) == is_torn
        assert seen.failures in ((), whole.failures)
        assert seen.errors in ((), whole.errors)
        assert (run.nodeids != ["t.py::a", "t.py::b", "t.py::c"]) == any(
            "tests were selected" in note for note in run.notes
        )


def test_a_state_cut_at_any_byte(folder: Path, recording: Recording) -> None:
    """A state file that is too short is read as far as it goes, and the loss is said."""
    state, events = ((folder / name).read_bytes() for name in (STATE, EVENTS))
    for size in (0, 1, 7, 63, PAGE - 1, *range(PAGE, file_size(3))):
        run = parse_record(state[:size], events, RUN_ID, "here")
        assert run.notes, size
        assert set(run.not_run) <= set(run.nodeids)
        assert evidence(run).counts.collected == 3
    assert parse_record(state, events, RUN_ID, "here").notes == ()


@settings(deadline=None)
@given(noise=st.binary(max_size=200), at=st.integers(0, 5_000))
def test_noise_in_the_state(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    """Bytes of another hand in the state make numbers wrong, never a crash."""
    state, events = _written(tmp_path_factory)
    broken = (state[:at] + noise + state[at + len(noise) :])[: len(state)]
    try:
        run = parse_record(broken, events, RUN_ID, "here")
    except ReportError:
        return
    assert evidence(run, ended_ns=STARTED_NS).counts.collected == 2
    assert set(run.not_run) <= {"a", "b"}


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(line=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_noise_in_the_events(
    tmp_path_factory: pytest.TempPathFactory, line: bytes
) -> None:
    """A line that is no event is left out and counted; what stands around it is read."""
    state, events = _written(tmp_path_factory)
    first, rest = events.split(b"\n", 1)
    run = parse_record(state, b"\n".join([first, line, rest]), RUN_ID, "here")
    assert run.nodeids == ["a", "b"]
    assert [test.nodeid for test in run.in_flight] == ["b"]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b'["failure"]',
        b'["failure", 1]',
        b'{"failure": {}}',
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_garbage_line_is_counted(
    folder: Path, recording: Recording, line: bytes
) -> None:
    """What can't be read is said."""
    with (folder / EVENTS).open("ab") as file:
        file.write(line + b"\n")
    run = read(folder)
    assert run.notes == ("1 of the record's events can't be read",)
    assert run.not_run == ("t.py::c",)


@pytest.mark.parametrize(
    "line",
    [
        ["selected", {}],
        ["selected", {"nodeids": 5}],
        ["selected", {"nodeids": [None]}],
        ["failure", {}],
        ["failure", {"failure": {"nodeid": "a"}}],
        ["failure", {"failure": None}],
        ["exception", {}],
        ["collection_failure", {"failure": {}}],
        ["error", {"error": {"origin": "plugin", "message": "x", "colour": "red"}}],
        ["interruption", {"stop": {}}],
        ["recovered", {}],
        ["worker", {"worker": {}}],
        ["worker", {}],
        ["end", {}],
    ],
    ids=json.dumps,
)
def test_an_event_of_another_shape_is_refused(
    folder: Path, recording: Recording, line: list[Any]
) -> None:
    """An event that has our name and not our fields is an error in one line, or left out."""
    recording.log.add_failure(make_failure())
    with (folder / EVENTS).open("a") as file:
        file.write(json.dumps(line) + "\n")
    refusal = ""
    try:
        assert_valid_report(as_json(reconstruct(read(folder), None, VANISHED)))
    except ReportError as error:
        refusal = str(error)
    assert "\n" not in refusal


@pytest.mark.parametrize("missing", [*HEADER, "context"])
def test_a_beginning_that_lacks_something_is_refused(
    folder: Path, recording: Recording, missing: str
) -> None:
    """A header without one of its fields is an error in one line."""
    first, rest = (folder / EVENTS).read_bytes().split(b"\n", 1)
    _, fields = json.loads(first)
    del fields[missing]
    (folder / EVENTS).write_bytes(json.dumps(["run", fields]).encode() + b"\n" + rest)
    with pytest.raises(
        ReportError, match=missing if missing != "run_id" else "of run None"
    ):
        reconstruct(read(folder), None, replace(VANISHED, ended_ns=STARTED_NS))


def test_a_record_of_another_run_is_refused(folder: Path, recording: Recording) -> None:
    """A record is read for its own run alone."""
    with pytest.raises(
        ReportError, match=f"the record is of run {RUN_ID}, not of {'f' * 32}"
    ):
        read_record(folder, "f" * 32)


@pytest.mark.parametrize(
    ("magic", "words"),
    [
        (b"PFTREC04", "layout 04, this program reads 03; use the version"),
        (b"PFTREC\xff\xff", "this program reads 03"),
        (b"SQLite f", "state is no record of a run"),
        (b"\0" * 8, "state is no record of a run"),
    ],
)
def test_a_foreign_state_is_refused(
    folder: Path, recording: Recording, magic: bytes, words: str
) -> None:
    """A newer layout is told from what never was a record; neither is guessed at."""
    with (folder / STATE).open("r+b") as file:
        file.write(magic)
    with pytest.raises(ReportError, match=words):
        read(folder)


def test_missing_files(folder: Path, recording: Recording) -> None:
    """Without its numbers a record is read and says so; without its events it can't be."""
    os.unlink(folder / STATE)
    run = read(folder)
    assert run.notes == ("the record's numbers are missing",)
    assert run.not_run == ()  # nobody knows
    os.unlink(folder / EVENTS)
    with pytest.raises(ReportError, match="the record has no beginning"):
        read(folder)
    shutil.rmtree(folder)
    with pytest.raises(ReportError, match="the record has no beginning"):
        read(folder)


def test_a_record_that_is_no_folder_of_files(folder: Path) -> None:
    """A folder where a file should be is an error that can be told."""
    (folder / EVENTS).mkdir(parents=True)
    with pytest.raises(ReportError, match="the record can't be read: Is a directory"):
        read(folder)


# Workers.


def test_a_workers_state(folder: Path) -> None:
    """A worker's test, phase, count and timer are read as they were noted."""
    record = DiskRecord(folder)
    assert worker_at(folder) == WorkerState()
    record.numbers.counters[STARTED] += 2
    record.clock = lambda: STARTED_NS
    record.set_current("t.py::ü")
    record.arm_timer(1.5, "signal")
    state = worker_at(folder)
    assert state.test is not None
    assert (state.test.nodeid, state.test.phase, state.test.start_ns) == (
        "t.py::ü",
        "setup",
        STARTED_NS,
    )
    assert (state.tests, state.timer and state.timer.method) == (2, "signal")
    record.set_byte(CURRENT_STATE_AT, IN_TEARDOWN)
    assert worker_at(folder).test is not None
    record.set_byte(CURRENT_STATE_AT, 4)
    assert worker_at(folder).test is None
    record.remove()


def test_an_activity(folder: Path) -> None:
    """What is done that is no test is read as it was recorded; a worker's test comes first."""
    record = DiskRecord(folder)
    record.set_activity(COLLECTING, "a/test_ü.py")
    expected = RunningActivity(what="collection", name="a/test_ü.py")
    assert worker_at(folder) == WorkerState(activity=expected)
    record.set_activity(COLLECTING, "x" * 10_000)
    assert len((worker_at(folder).activity or expected).name or "") == MAX_NODEID_BYTES
    record.set_activity(IN_LAST_HOOK, "")
    seen = worker_at(folder).activity
    assert seen is not None
    assert (seen.what, seen.name, seen.is_hook) == ("session", None, True)
    record.set_current("t.py::a")
    record.set_activity(IN_LAST_HOOK, "pytest_sessionfinish")
    state = worker_at(folder)
    assert (state.test and state.test.nodeid, state.activity) == ("t.py::a", None)
    record.set_byte(CURRENT_STATE_AT, DONE)
    record.set_activity(NOT_STARTED, "")
    assert worker_at(folder) == WorkerState()
    record.remove()


def test_the_activity_is_evidence(recording: Recording, folder: Path) -> None:
    """What pytest was at comes first, then what a worker was at."""
    activity = RunningActivity(what="collection", name="test_it.py")
    workers = {"gw0": WorkerState(), "gw1": WorkerState(activity=activity)}
    run = read(folder)
    assert evidence(run, workers=workers).activity == activity
    recording.record.set_activity(IN_HOOK, "pytest_configure")
    run = read(folder)
    assert evidence(run, workers=workers).activity == RunningActivity(
        what="collection", name="pytest_configure", is_hook=True
    )


def test_what_a_controller_has_not_heard(recording: Recording, folder: Path) -> None:
    """A test that a worker has ended is counted, though the controller died before it knew."""
    nodeids = [f"t.py::{name}" for name in "abcdefg"]
    progress = recording.progress
    progress.select(nodeids)
    for nodeid in nodeids[:4]:
        progress.start(nodeid)
    progress.finish(nodeids[0])
    progress.advance(
        nodeids[1], IN_TEARDOWN
    )  # and died before it could count the failure
    progress.advance(nodeids[2], IN_CALL)
    passed, failed = 1 + COUNTERS.index("passed"), 1 + COUNTERS.index("failed")
    flying = StartedTest(nodeid=nodeids[5], phase="call", start_ns=STARTED_NS)
    workers = {
        "gw0": WorkerState(endings=bytes([passed, failed, passed, 0, 0, 0, 0])),
        "gw1": WorkerState(
            endings=bytes([0, 0, 0, failed, passed, 0, 255]), test=flying
        ),
        "gw2": WorkerState(endings=b"\1"),
    }
    seen = evidence(read(folder), workers=workers)
    assert (seen.counts.passed, seen.counts.failed, seen.unrecorded.failures) == (
        3,
        2,
        2,
    )
    assert [test.nodeid for test in seen.in_flight] == [nodeids[5]]
    assert seen.not_run == (nodeids[6],)


def test_a_very_long_node_id_of_a_worker_is_cut(folder: Path) -> None:
    """What does not fit its place writes over nothing else."""
    record = DiskRecord(folder)
    record.set_current("t.py::" + "x" * 10_000)
    state = worker_at(folder)
    assert state.test is not None
    assert len(state.test.nodeid) == MAX_NODEID_BYTES
    assert not any((folder / STATE).read_bytes()[PAGE:])
    record.set_current("t.py::short")
    state = worker_at(folder)
    assert state.test is not None
    assert state.test.nodeid == "t.py::short"
    record.remove()


@pytest.mark.parametrize(
    "content", [b"", b"PFTREC01", b"\xff" * PAGE, MAGIC + b"\xff" * PAGE]
)
def test_a_workers_state_that_is_none(folder: Path, content: bytes) -> None:
    """What can't be read of a worker is not known."""
    folder.mkdir()
    (folder / STATE).write_bytes(content)
    assert worker_at(folder) == WorkerState() or len(content) > PAGE
    with open_folder(folder) as opened:
        assert read_worker(opened, "gone") == WorkerState()


# Descriptors, forks, folders.


@pytest.mark.linux("lists the descriptors in `/proc`")
def test_the_events_have_a_high_descriptor(folder: Path) -> None:
    """Our descriptor is where no program looks for one, and is not inherited by an exec."""
    before = descriptors()
    record = DiskRecord(folder)
    (ours,) = set(descriptors()) - set(before)
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert ours >= min(soft, 1 << 16) // 2 if soft > 0 else ours > 1_000
    assert not os.get_inheritable(ours)
    record.remove()
    assert set(descriptors()) == set(before)


@pytest.mark.posix("elsewhere than on POSIX a descriptor can't be moved up")
def test_where_no_high_number_is_to_be_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor that can't be moved stays where it is, and is used there."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no such number")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    descriptor = os.open(os.devnull, os.O_RDONLY)
    assert move_high(descriptor) == descriptor
    os.close(descriptor)
    recording = Recording(DiskRecord(folder))
    assert recording.record.lost is None
    assert read(folder).header.run_id == RUN_ID


@pytest.mark.posix("elsewhere than on POSIX a descriptor can't be moved up")
@pytest.mark.parametrize("limit", [-1, 64, 1_024, 20_000, 1 << 20])
def test_high_numbers_are_within_the_limit(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers that are tried are below the limit and above those that programs get."""
    tried = []

    def refuse(_descriptor: int, _command: int, lowest: int) -> int:
        tried.append(lowest)
        raise OSError(errno.EINVAL, "no such number")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    move_high(-1)
    assert len(tried) == 2
    for number in tried:
        assert 24 < number < (limit if limit > 0 else 1 << 16)


@pytest.mark.posix("elsewhere than on POSIX a descriptor can't be moved up")
def test_a_record_holds_no_low_descriptor(folder: Path) -> None:
    """Neither the map nor the events take a number that a test would get: it closes what it finds
    there, or counts what is open.
    """
    lowest = os.dup(0)
    os.close(lowest)
    recording = Recording(DiskRecord(folder))
    recording.progress.select(["a", "b"])
    again = os.dup(0)
    os.close(again)
    assert again == lowest


def test_a_descriptor_that_was_closed_by_others(
    folder: Path, recording: Recording
) -> None:
    """A test that closes all descriptors costs the record nothing."""
    assert isinstance(recording.record, DiskRecord)
    os.close(recording.record._events.descriptor)
    recording.log.add_error(RunError(origin="plugin", message="after"))
    assert recording.record.lost is None
    assert [error.message for error in evidence(read(folder)).errors] == ["after"]


@pytest.mark.posix("the number has to be one that `open` doesn't give at once")
def test_a_foreign_file_under_our_number_stays_untouched(
    tmp_path: Path, folder: Path, recording: Recording
) -> None:
    """A test that closes our descriptor and gets its number for a file of its own keeps its file:
    nothing of ours gets into it, and it is not closed.
    """
    assert isinstance(recording.record, DiskRecord)
    number = recording.record._events.descriptor
    os.close(number)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT, 0o600)
    os.dup2(theirs, number)
    os.close(theirs)
    recording.log.add_error(RunError(origin="plugin", message="after"))
    os.write(number, b"theirs")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert [error.message for error in evidence(read(folder)).errors] == ["after"]
    os.dup2(
        number, recording.record._events.descriptor
    )  # and once more, before the record is removed
    recording.record.remove()
    os.write(number, b" still")
    assert (tmp_path / "theirs").read_bytes() == b"theirs still"
    os.close(number)


def test_the_folder_is_removed_in_the_middle(
    folder: Path, recording: Recording
) -> None:
    """A test that removes the report's folder does not stop the run, and its numbers stay right
    in memory; what is written to disk after that can't be told from no record.
    """
    shutil.rmtree(folder)
    recording.progress.count_pass("t.py::b")
    recording.progress.finish("t.py::b")
    recording.log.add_error(RunError(origin="plugin", message="after"))
    recording.run_test("t.py::c")
    recording.progress.select(["x"])
    assert recording.progress.counters["passed"] == 3
    assert recording.progress.not_started() == ("x",)


def test_a_full_disk_is_told(
    folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be written is lost, and the record says so once; the run goes on."""

    def refuse(*args: object, **given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(isolate_module(os), "write", refuse)
        patch.setattr(writer, "map_file", refuse)
        recording.log.add_error(RunError(origin="plugin", message="lost"))
        recording.progress.select(["x", "y"])
        recording.progress.start("x")
    assert recording.record.lost is not None
    assert "is not whole: No space left on device" in recording.record.lost
    assert "x" in [test.nodeid for test in recording.progress.in_flight()]
    assert [error.message for error in recording.log.errors] == ["lost"]


def test_no_room_for_a_record(tmp_path: Path) -> None:
    """A folder that can't be made is the caller's to handle."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        DiskRecord(tmp_path / "file" / "record")


@pytest.mark.posix("needs `os.fork`")
def test_a_forked_child_leaves_the_record_alone(
    folder: Path, recording: Recording
) -> None:
    """A child that a test forks runs on with numbers of its own; the parent's record is as if it
    had never been.
    """
    before = {name: (folder / name).read_bytes() for name in (STATE, EVENTS)}
    child = os.fork()
    if child == 0:
        status = 1
        try:
            recording.progress.count_pass("t.py::b")
            recording.progress.finish("t.py::b")
            recording.run_test("t.py::c")
            recording.log.add_failure(make_failure())
            recording.record.write("recovered", nodeid="t.py::b")
            passed = recording.progress.counters["passed"]
            status = 0 if (passed, recording.progress.not_started()) == (3, ()) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert {name: (folder / name).read_bytes() for name in (STATE, EVENTS)} == before
    assert recording.progress.counters["passed"] == 1


def test_only_the_records_own_folder_is_removed(tmp_path: Path, folder: Path) -> None:
    """A link that somebody has put into a record's folder stays, and what it points to."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    record = DiskRecord(folder)
    DiskRecord(folder / "gw0")
    os.symlink(tmp_path / "precious", folder / "link")
    assert (
        record.remove()
        == f"{folder} stays: it holds files that belong to no record (link)"
    )
    assert [path.name for path in folder.iterdir()] == ["link"]
    assert (tmp_path / "precious" / "file").read_text() == "kept"


def test_removing_twice_or_writing_after_it(folder: Path) -> None:
    """A record that is gone takes writes and a second removal without a word."""
    record = DiskRecord(folder)
    record.remove()
    record.remove()
    record.set_byte(CURRENT_STATE_AT, DONE)
    assert not folder.exists()


def test_a_link_in_the_place_of_a_file_is_not_followed(
    tmp_path: Path, folder: Path
) -> None:
    """A record is never written through a symbolic link."""
    (tmp_path / "target").write_text("theirs")
    for name in (STATE, EVENTS):
        folder.mkdir(exist_ok=True)
        os.symlink(tmp_path / "target", folder / name)
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            DiskRecord(folder)
        os.unlink(folder / name)
    assert (tmp_path / "target").read_text() == "theirs"


@pytest.mark.parametrize("tests", [0, 1, 2, 3, 4, 5, 1_000, 99_999])
def test_the_layout_has_room_for_all(tests: int) -> None:
    """States and start times of all tests, and one more, lie apart and aligned."""
    assert starts_offset(tests) >= PAGE + tests + 1
    assert starts_offset(tests) % 4 == 0
    assert order_offset(tests) == starts_offset(tests) + 4 * (tests + 1)
    assert file_size(tests) == order_offset(tests) + 4 * (tests + 1)
    assert HEAD.size < 64


def _written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return the two files of a run of two tests, the second of them in flight."""
    folder = tmp_path_factory.mktemp("record")
    recording = Recording(DiskRecord(folder))
    recording.progress.select(["a", "b"])
    recording.run_test("a")
    recording.progress.start("b")
    contents = (folder / STATE).read_bytes(), (folder / EVENTS).read_bytes()
    assert isinstance(recording.record, DiskRecord)
    recording.record.remove()
    return contents


def test_a_filler_is_shorter_than_what_it_replaces(folder: Path) -> None:
    """Each of several copies goes, a changed one too, and the words between them stay."""
    value = "value-of-the-user-0123456789"
    record = DiskRecord(folder)
    record.write("end", should_fail=f"{value} and {value} or {value[:-3]}xyz")
    record.erase({value: "***"})
    (line,) = (folder / EVENTS).read_text().splitlines()
    assert json.loads(line)[1]["should_fail"] == "*** and *** or ***xyz"
    record.remove()
