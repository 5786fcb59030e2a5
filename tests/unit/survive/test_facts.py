"""What the snapshot of a record comes to as evidence, without a record."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.survive.facts import (
    EnclosingLimit,
    Observed,
    ProcessEnd,
    Snapshot,
    StartedTest,
    Timer,
    WorkerState,
    facts_of,
    limits_of_test,
    stall_of_worker,
    stalled_activities,
)
from pytest_failure_taxonomy.survive.layout import COUNTERS
from pytest_failure_taxonomy.taxonomy.evidence import (
    Change,
    Interruption,
    Location,
    MemorySeen,
    ProcessExit,
    ProcessPeak,
    RunEvidence,
    RunningActivity,
    SeenStall,
    Stall,
    TestFailure,
    TimeLimit,
    Traces,
    Unrecorded,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.order import INDEX_BITS, Plan, digest_of
from pytest_failure_taxonomy.taxonomy.values import replace

SECOND: Final = 1_000_000_000
NODEIDS: Final = ("t.py::a", "t.py::b", "t.py::c")
A, B, C = NODEIDS
PASSED: Final = COUNTERS.index("passed") + 1
SKIPPED: Final = COUNTERS.index("skipped") + 1
PLAN: Final = Plan(tests=3, digest=digest_of(NODEIDS))


def snapshot(**known: Any) -> Snapshot:
    """Return a snapshot of a run of three tests of which none has started."""
    counters = {name: 0 for name in COUNTERS if name != "started"}
    fields = {
        "stage": Stage.FINAL_TEST,
        "strict_baseline": False,
        "rootdir": "/project",
        "nodeids": NODEIDS,
        "in_flight": (),
        "not_run": (),
        "starts": (),
        "plan": PLAN,
        "processes": ("main",),
        "failures": (),
        "recovered": frozenset(),
        "collection_failures": (),
        "errors": (),
        "interruptions": (),
        "mismatch": None,
        "workers": (),
        "missing": {},
        "should_fail": "",
        **known,
        "counters": counters | known.get("counters", {}),
    }
    return Snapshot(**fields)


def ended(code: int | None = None, second: float | None = None, **more: Any) -> Any:
    """Return the end of a process, perhaps at a second of the clock."""
    at_ns = None if second is None else int(second * SECOND)
    end = ProcessExit(code=code, source="watcher", memory=more.pop("memory", None))
    return ProcessEnd(exit=end, ended_ns=at_ns, **more)


def started(nodeid: str = A, second: float = 0, **more: Any) -> StartedTest:
    """Return a test that was called from a second on."""
    phase = more.pop("phase", "call")
    start_ns = int(second * SECOND)
    return StartedTest(nodeid=nodeid, phase=phase, start_ns=start_ns, **more)


def facts(known: dict[str, Any], end: ProcessEnd, **more: Any) -> RunEvidence:
    """Return the evidence of a run of which this is known."""
    return facts_of(snapshot(**known), end, **more)


def failure(nodeid: str = A, **more: Any) -> TestFailure:
    """Return the failure of a test."""
    return TestFailure(nodeid=nodeid, message="no", **{"phase": "call", **more})


def stall(what: Any = "test", **more: Any) -> SeenStall:
    """Return something that was stalled for 5 s when it was looked at, at 10 s."""
    details: dict[str, Any] = {"state": "blocked", "seconds": 5.0}
    details |= {"where": None, "stack": None}
    details |= {name: more.pop(name) for name in ("is_ended", "location") & more.keys()}
    more = {"began_ns": 5 * SECOND, "seen_ns": 10 * SECOND, **more}
    return SeenStall(what=what, stall=Stall(**details), **more)


# The exit code


@pytest.mark.parametrize(
    ("code", "session_code", "expected"),
    [
        (None, 1, (1, "record")),
        (3, 1, (3, "watcher")),
        (0, None, (0, "watcher")),
        (None, None, (None, "watcher")),
    ],
)
def test_a_session_answers_where_its_process_does_not(
    code: int | None, session_code: int | None, expected: tuple[int | None, str]
) -> None:
    """The code of the process comes first; the session's is told as well."""
    seen = facts({"session_code": session_code}, ended(code))
    assert (seen.exit.code, seen.exit.source) == expected
    assert seen.exit.session_code == session_code


def test_what_the_record_says_of_the_run_is_passed_on() -> None:
    """Each field of the snapshot that the judge reads has its place in the evidence."""
    stop = Interruption(exception="Exit", message="enough")
    same = {
        "stage": Stage.SETUP,
        "strict_baseline": True,
        "finished": False,
        "rootdir": "/elsewhere",
        "should_fail": "a plugin",
        "last_words": "bye",
        "coverage": "79 %",
        "gate": "a gate",
        "interruptions": (stop,),
        "changes": (Change(nodeid=B, what="folder", detail="/a"),),
        "uncounted": 4,
        "not_run": (C,),
    }
    traces = Traces(output="bye")
    seen = facts(same, ended(1), traces=traces)
    assert {name: getattr(seen, name) for name in same} == same
    assert seen.traces == traces


# What tests did to their processes


@pytest.mark.parametrize(
    ("before", "rss", "detail"),
    [
        (100, 700, ["+600 MiB"]),
        (100, 150, []),
        (1000, 1070, []),
        (0, 700, []),
        (100, None, []),
    ],
    ids=["grown", "64 MiB", "a tenth", "unknown before", "unknown now"],
)
def test_the_growth_of_the_test_in_flight(
    before: int, rss: int | None, detail: list[str]
) -> None:
    """It is known where somebody has seen how much memory the process used at last."""
    known = {"in_flight": (started(A),), "peak_bytes": before << 20, "process_id": 7}
    end = ended(137)
    if rss is not None:
        peaks = (ProcessPeak(pid=7, peak_rss_bytes=rss << 20),)
        end = replace(end, exit=replace(end.exit, memory=MemorySeen(processes=peaks)))
    seen = facts(known, end)
    assert [each.detail for each in seen.changes] == detail
    assert {each.nodeid for each in seen.changes} <= {A}


def test_changes_of_workers() -> None:
    """Those that a worker has recorded of itself count; that of the controller may lag."""
    change = Change(nodeid=A, what="thread", detail="server", number=1)
    own = {"gw0": WorkerState(changes=(change,))}
    ends = (
        WorkerEnd(id="gw0", tests=1),
        WorkerEnd(id="gw1", tests=1, changes=(replace(change, nodeid=B),)),
    )
    seen = facts({"workers": ends}, ended(), workers=own)
    assert [each.nodeid for each in seen.changes] == [A, B]


# Tests in flight


def test_tests_in_flight_are_in_the_order_of_their_start() -> None:
    """The time that each had run is known where that of the end is."""
    tests = (started(B, 4, worker="gw1"), started(A, 2, phase="setup", worker="gw0"))
    seen = facts({"in_flight": tests}, ended(second=5.5))
    assert [
        (test.nodeid, test.phase, test.worker, test.elapsed_seconds)
        for test in seen.in_flight
    ] == [(A, "setup", "gw0", 3.5), (B, "call", "gw1", 1.5)]
    unknown = facts({"in_flight": tests}, ended())
    assert [test.elapsed_seconds for test in unknown.in_flight] == [None, None]
    early = facts({"in_flight": tests}, ended(second=3))
    assert [test.elapsed_seconds for test in early.in_flight] == [1.0, 0.0]


def test_a_workers_own_record_of_its_test_counts() -> None:
    """Its controller may lag behind; a worker whose end was seen runs nothing."""
    workers = {
        "gw0": WorkerState(test=started(A)),
        "gw1": WorkerState(test=started(B)),
        "gw2": WorkerState(test=started(C)),
        "gw3": WorkerState(),
    }
    ends = (
        WorkerEnd(id="gw0", tests=1, ending="died"),
        WorkerEnd(id="gw1", tests=1, ending="finished"),
    )
    known = {"workers": ends, "in_flight": (started(C, worker="gw1"),)}
    seen = facts(known, ended(), workers=workers)
    running = [(test.nodeid, test.worker) for test in seen.in_flight]
    assert running == [(B, "gw1"), (C, "gw2")]


def test_what_a_process_has_left_is_of_its_own_test() -> None:
    """The main process's traces are of the first test, which no worker ran."""
    traces = Traces(stack="in a", location=Location(path="t.py", line=2), output="hi")
    tests = (started(A), started(B, 1))
    first, second = facts({"in_flight": tests}, ended(), traces=traces).in_flight
    assert (first.stack, first.location, first.output) == (
        traces.stack,
        traces.location,
        traces.output,
    )
    assert (second.stack, second.output) == (None, None)
    of_worker = {"in_flight": (started(A, worker="gw0"), started(B, 1))}
    outputs = {"gw0": "written", "gw1": "by another"}
    first, second = facts(of_worker, ended(), traces=traces, outputs=outputs).in_flight
    assert (first.stack, first.output, second.output) == (None, "written", None)


# Counts


def test_what_workers_counted_is_added_to_what_the_controller_heard() -> None:
    """A result that never came is added; one that came and was not counted is, too."""
    workers = {
        # It had told of `a`, and not of `b`.
        "gw0": WorkerState(endings=bytes([PASSED, SKIPPED, 0])),
        # No list of tests: it says nothing of the tests above.
        "gw1": WorkerState(endings=bytes([PASSED])),
    }
    known = {"not_run": (B, C), "counters": {"passed": 0, "skipped": 2}}
    seen = facts(known, ended(), workers=workers)
    assert (seen.counts.passed, seen.counts.skipped) == (1, 3)
    assert (seen.counts.collected, seen.not_run) == (3, (C,))


@pytest.mark.parametrize(
    ("phase", "passed"),
    [
        pytest.param("call", 6, id="it had not ended"),
        pytest.param("teardown", 5, id="its result had come"),
    ],
)
def test_a_result_of_the_test_that_ran_was_heard_from_its_teardown_on(
    phase: str, passed: int
) -> None:
    """A worker that is ahead of its controller has ended the test that ran there."""
    workers = {"gw0": WorkerState(endings=bytes([PASSED, 0, 0]), test=started(B))}
    test = started(A, phase=phase, worker="gw0")
    known = {"in_flight": (test,), "not_run": (B, C), "counters": {"passed": 5}}
    seen = facts(known, ended(), workers=workers)
    assert seen.counts.passed == passed
    assert [test.nodeid for test in seen.in_flight] == [B]
    assert seen.not_run == (C,)


@pytest.mark.parametrize("ending", [0, len(COUNTERS) + 1, 255])
def test_a_damaged_ending_counts_nothing(ending: int) -> None:
    """A byte that stands for no result leaves its test not run."""
    workers = {"gw0": WorkerState(endings=bytes([ending, 0, 0]))}
    seen = facts({"not_run": NODEIDS}, ended(), workers=workers)
    assert seen.counts.passed == 0
    assert seen.not_run == NODEIDS


def test_a_test_that_is_run_again_has_no_result_yet() -> None:
    """An earlier ending of a test that runs is no result of it."""
    workers = {"gw0": WorkerState(endings=bytes([PASSED, 0, 0]), test=started(A))}
    seen = facts({"not_run": (A, B, C)}, ended(), workers=workers)
    assert (seen.counts.passed, seen.not_run) == (0, (B, C))


def test_a_test_that_passed_when_run_again_is_flaky() -> None:
    """Unless it has failed after all, in its teardown."""
    recovered = frozenset({A, B})
    seen = facts({"recovered": recovered, "failures": (failure(B),)}, ended(1))
    assert seen.counts.flaky == 1


def test_failures_are_in_the_order_of_the_selection() -> None:
    """Whichever worker was faster."""
    failures = (failure(C, worker="gw0"), failure(A, worker="gw1"))
    seen = facts({"failures": failures}, ended(1))
    assert [found.nodeid for found in seen.failures] == [A, C]


# What was counted and could not be written


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param({}, Unrecorded(), id="nothing"),
        pytest.param(
            {"counters": {"failed": 3}, "failures": (failure(),)},
            Unrecorded(failures=2),
            id="counted-failures",
        ),
        pytest.param(
            {
                "counters": {"failed": 2, "errors": 1},
                "failures": (failure(), failure(A, phase="teardown")),
            },
            Unrecorded(failures=1),
            id="an-error-is-no-failed-call",
        ),
        pytest.param(
            {
                "counters": {"failed": 1},
                "failures": (failure(phase="setup", crashed=True),),
            },
            Unrecorded(),
            id="a-crash-is-counted-as-failed",
        ),
        pytest.param(
            {
                "missing": {
                    "failure": 4,
                    "collection_failure": 3,
                    "error": 2,
                    "interruption": 1,
                },
                "counters": {"failed": 1},
            },
            Unrecorded(failures=4, collection_failures=3, errors=2, interruptions=1),
            id="missing-events",
        ),
    ],
)
def test_what_could_not_be_written_is_counted(
    known: dict[str, Any], expected: Unrecorded
) -> None:
    """The greater one of two counts holds: of events, and of results without one."""
    assert facts(known, ended()).unrecorded == expected


def test_an_error_that_only_a_worker_knows_is_unrecorded() -> None:
    """Its result came to nobody, so nobody has described it."""
    error = COUNTERS.index("errors") + 1
    workers = {"gw0": WorkerState(endings=bytes([error, 0, 0]))}
    seen = facts({"not_run": NODEIDS}, ended(), workers=workers)
    assert seen.unrecorded == Unrecorded(failures=1)


# The order of the tests


def place(number: int, index: int) -> int:
    """Return a start as it is recorded."""
    return number << INDEX_BITS | index + 1


@pytest.mark.parametrize(
    ("code", "known"),
    [(1, {}), (0, {"failures": (failure(),)}), (0, {"finished": False})],
)
def test_a_run_to_repeat_has_its_order(code: int, known: dict[str, Any]) -> None:
    """That is one that failed in any way."""
    starts = (place(0, 2), place(0, 0))
    seen = facts({"starts": starts, **known}, ended(code))
    assert seen.order is not None
    assert seen.order.workers == {"main": "2 0"}
    assert facts({"starts": starts}, ended(0)).order is None


def test_an_order_needs_all_workers() -> None:
    """A worker that could not be recorded has a number that nobody can name."""
    known = {"starts": (place(0, 0),), "missing": {"worker": 1}}
    assert facts(known, ended(1)).order is None


def test_starts_that_only_a_worker_knows_follow() -> None:
    """A start that the controller has heard of stands once."""
    workers = {
        "gw0": WorkerState(endings=bytes([PASSED, 0, 0]), test=started(B)),
        "gw1": WorkerState(endings=b"", test=started(C)),
        "gw2": WorkerState(endings=bytes([PASSED]), test=started("t.py::other")),
    }
    known = {
        "starts": (place(0, 0),),
        "processes": ("gw0", "gw1", "gw2", "gw3"),
    }
    seen = facts(known, ended(1), workers=workers)
    assert seen.order is not None
    assert seen.order.workers == {"gw0": "0-1", "gw1": "2"}
    assert not seen.order.truncated


# Workers


def test_the_end_of_a_worker_has_what_it_recorded_and_its_peak() -> None:
    """Its own count of tests holds, and its peak is what was seen last if it told none."""
    peaks = (
        ProcessPeak(pid=7, peak_rss_bytes=70),
        ProcessPeak(pid=8, peak_rss_bytes=80),
    )
    ends = (
        WorkerEnd(id="gw0", tests=1, process_id=7),
        WorkerEnd(id="gw1", tests=2, process_id=8, peak_rss_bytes=5),
        WorkerEnd(id="gw2", tests=3, process_id=9),
    )
    workers = {"gw0": WorkerState(tests=6)}
    end = ended(memory=MemorySeen(processes=peaks))
    seen = facts({"workers": ends}, end, workers=workers)
    assert [(worker.tests, worker.peak_rss_bytes) for worker in seen.workers] == [
        (6, 70),
        (2, 5),
        (3, None),
    ]
    unseen = facts({"workers": ends}, ended()).workers
    assert [worker.peak_rss_bytes for worker in unseen] == [None, 5, None]


def test_the_first_activity_that_is_known_is_that_of_the_run() -> None:
    """The main process's, else one of a worker's."""
    collected = RunningActivity(what="collection", name="t.py")
    other = RunningActivity(what="collection", name="u.py")
    workers = {"gw0": WorkerState(), "gw1": WorkerState(activity=other)}
    assert facts({}, ended(), workers=workers).activity == other
    seen = facts({"activity": collected}, ended(), workers=workers)
    assert seen.activity == collected


# Time limits

TIMER: Final = Timer(armed_ns=3 * SECOND, budget_seconds=4.0, method="thread")
AROUND: Final = EnclosingLimit(pid=5, budget_seconds=9.0, started_ns=SECOND)
OF_TIMER: Final = TimeLimit(
    owner="pytest-timeout (thread)", budget_seconds=4.0, elapsed_seconds=5.0, nodeid=A
)
OF_FAULTHANDLER: Final = TimeLimit(
    owner="faulthandler_timeout", budget_seconds=6.0, elapsed_seconds=6.0, nodeid=A
)
OF_COMMAND: Final = TimeLimit(owner="timeout", budget_seconds=9.0, elapsed_seconds=7.0)


def test_limits_of_the_test_come_before_those_around_the_run() -> None:
    """Each with how long it had run: since it was armed, or since the test began."""
    known = {
        "in_flight": (started(A, 2),),
        "timer": TIMER,
        "faulthandler_seconds": 6.0,
        "enclosing_limits": (AROUND,),
    }
    seen = facts(known, ended(second=8))
    assert seen.exit.limits == (OF_TIMER, OF_FAULTHANDLER, OF_COMMAND)
    unknown = facts(known, ended())
    [limit] = unknown.exit.limits
    assert (limit.owner, limit.elapsed_seconds) == ("timeout", None)
    on_workers = facts(known, ended(second=8), workers={"gw0": WorkerState()})
    assert on_workers.exit.limits == (OF_COMMAND,)
    between_tests = facts({**known, "in_flight": ()}, ended(second=8))
    assert between_tests.exit.limits == (OF_COMMAND,)


def test_a_limit_that_is_not_set_is_none() -> None:
    """A 0 of faulthandler means that it has no limit."""
    limits = limits_of_test(
        A,
        elapsed_seconds=1.0,
        ended_ns=SECOND,
        timer=None,
        faulthandler_seconds=0.0,
    )
    assert limits == ()


# Stalls


@pytest.mark.parametrize(
    ("differs", "is_stalled"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"nodeid": B}, False, id="another test"),
        pytest.param({"phase": "setup"}, False, id="an earlier phase"),
        pytest.param({"worker": "gw0"}, False, id="another process"),
        pytest.param({"began_ns": SECOND}, True, id="just before its start"),
        pytest.param({"began_ns": SECOND - 1}, False, id="an earlier run of it"),
    ],
)
def test_a_test_that_was_stalled_at_the_end(
    differs: dict[str, Any], is_stalled: bool
) -> None:
    """It has the stall of its own process, phase and run, prolonged to the end."""
    place = Location(path="t.py", line=4)
    seen_stall = stall(**{"nodeid": A, "phase": "call", "location": place, **differs})
    end = ended(second=12.25, observed=Observed(stalls=(seen_stall,)))
    [test] = facts({"in_flight": (started(A, 2),)}, end).in_flight
    if not is_stalled:
        assert (test.stall, test.location) == (None, None)
        return
    assert test.stall is not None
    assert (test.stall.seconds, test.location) == (7.25, place)


def test_a_stall_lasts_as_long_as_it_was_seen_where_the_end_is_unknown() -> None:
    """And an end before the last look takes nothing away."""
    observed = Observed(stalls=(stall(nodeid=A, phase="call"),))
    for second in (None, 9.0):
        end = ended(second=second, observed=observed)
        [test] = facts({"in_flight": (started(A, 4),)}, end).in_flight
        assert test.stall is not None
        assert test.stall.seconds == 5.0


@pytest.mark.parametrize(
    ("what", "known", "is_told"),
    [
        pytest.param("collection", {"finished": False}, True, id="never-ran"),
        pytest.param(
            "collection",
            {"finished": False, "counters": {"passed": 1}},
            False,
            id="tests-have-run",
        ),
        pytest.param(
            "collection",
            {"finished": False, "in_flight": (started(),)},
            False,
            id="a-test-runs",
        ),
        pytest.param("collection", {}, False, id="came-to-its-end"),
        pytest.param(
            "collection",
            {"interruptions": (Interruption(exception="Exit", message=""),)},
            True,
            id="interrupted",
        ),
        pytest.param(
            "hook",
            {"finished": False, "counters": {"passed": 1}},
            True,
            id="hook",
        ),
        pytest.param("shutdown", {"finished": False}, False, id="no-shutdown-yet"),
        pytest.param("shutdown", {"session_code": 0}, True, id="shutdown"),
        pytest.param("hook", {"session_code": 0}, False, id="after-the-session"),
        pytest.param("test", {"finished": False}, False, id="a-test-is-none"),
    ],
)
def test_what_was_stalled_and_is_no_test(
    what: str, known: dict[str, Any], is_told: bool
) -> None:
    """It is told where the run could still be at it when it ended."""
    end = ended(second=11, observed=Observed(stalls=(stall(what),)))
    seen = facts(known, end)
    assert [found.what for found in seen.stalls] == ([what] if is_told else [])
    assert [found.stall.seconds for found in seen.stalls] == [6.0] * is_told


def test_a_stall_that_was_ended_is_told_of_a_run_that_finished() -> None:
    """Of an activity always; of a test where no worker ran it and it runs no more."""
    ended_test = stall(nodeid=A, phase="call", is_ended=True)
    others = (
        stall(nodeid=B, phase="call"),
        stall(nodeid=B, worker="gw0", is_ended=True),
        stall(nodeid=C, phase="setup", is_ended=True),
        stall("hook", is_ended=True),
    )
    observed = Observed(stalls=(ended_test, *others))
    seen = facts({"in_flight": (started(C),)}, ended(1, observed=observed))
    assert seen.ended_tests == (ended_test,)
    assert [found.what for found in seen.stalls] == ["hook"]


def test_a_worker_was_ended_for_its_own_stall() -> None:
    """One that went on, or another worker's, is none."""
    wanted = stall(worker="gw1", is_ended=True)
    stalls = (stall(worker="gw1"), stall(worker="gw0", is_ended=True), wanted)
    observed = Observed(stalls=stalls)
    assert stall_of_worker(observed, "gw1") is wanted.stall
    assert stall_of_worker(observed, "gw2") is None
    assert stall_of_worker(Observed(stalls=stalls[:1]), "gw1") is None


def test_nobody_has_looked() -> None:
    """Then nothing is known to be stalled."""
    assert stalled_activities(None, SECOND, is_over=False) == ()
