"""Build the judge's evidence of a run from a snapshot of its record.

There is one way from a record to the evidence, for the pytest that lives and for
whoever comes after its death. The two differ in where the snapshot comes from, the
memory or the disk, and in what is known beside it: fields of `Snapshot` that have a
default, and the arguments of `facts_of`.

pytest itself imports this module, so nothing is read or parsed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.survive.layout import COUNTERS
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.order import INDEX_BITS, Order, Plan, order_of
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch

_OUTCOMES: Final[tuple[evidence.TestOutcome, ...]] = (
    "failed",  # not used
    "passed",
    "failed",
    "error",
    "skipped",
    "xfailed",
    "xpassed",
)
"""How a test has ended, by 1 and the index of its result's counter."""
_SLACK_NS: Final = 1_000_000_000
"""By how much two measurements of a test's start may differ."""


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
    phase: evidence.Phase
    start_ns: int
    worker: str | None = None
    """The xdist worker that runs it, where its controller knows that."""


@value
class EnclosingLimit:
    """The limit of a `timeout` command around the run."""

    pid: int
    budget_seconds: float
    started_ns: int


@value
class WorkerState:
    """What an xdist worker has recorded of itself."""

    test: StartedTest | None = None
    activity: evidence.RunningActivity | None = None
    timer: Timer | None = None
    process_id: int = 0
    """0 where it has not recorded it."""
    capture: tuple[int, int] = (0, 0)
    """Its descriptors of the files with its captured stdout and stderr; 0 for none."""
    tests: int = 0
    """How many it has started."""
    peak_bytes: int = 0
    """The most resident memory that it had used before the test; 0 if unknown."""
    changes: tuple[evidence.Change, ...] = ()
    """What its tests did to its process."""
    endings: bytes = b""
    """As of `Snapshot`."""


@value
class Snapshot:
    """What a record holds at one moment, read from memory or from disk."""

    stage: Stage
    strict_baseline: bool
    rootdir: str
    nodeids: Sequence[str]
    """The selected tests, in their order."""
    counters: Mapping[str, int]
    """In the words of `layout.COUNTERS`."""
    in_flight: tuple[StartedTest, ...]
    not_run: tuple[str, ...]
    """Selected tests that never started, in their order."""
    starts: Sequence[int]
    """The order of the tests, as it was recorded."""
    plan: Plan
    processes: Sequence[str]
    """The processes that run tests, by their numbers in `starts`."""
    failures: Sequence[evidence.TestFailure]
    """In order of occurrence, without subtests of a test that was run again."""
    recovered: frozenset[str]
    """Node ids of tests that passed when they were run again."""
    collection_failures: tuple[evidence.CollectionFailure, ...]
    errors: tuple[evidence.RunError, ...]
    interruptions: tuple[evidence.Interruption, ...]
    mismatch: CollectionMismatch | None
    workers: tuple[evidence.WorkerEnd, ...]
    missing: Mapping[str, int]
    """By name of event: how many were counted and are not among the values above."""
    should_fail: str
    changes: tuple[evidence.Change, ...] = ()
    """What tests did to this process, in order of occurrence."""

    # What the live session knows, and no record.
    last_words: str = ""
    uncounted: int = 0

    # What only matters once the process is dead.
    finished: bool = True
    """pytest came to its own end."""
    session_code: int | None = None
    """The exit code of a session that had ended before its process did."""
    coverage: str = ""
    gate: str = ""
    timer: Timer | None = None
    faulthandler_seconds: float | None = None
    enclosing_limits: tuple[EnclosingLimit, ...] = ()
    activity: evidence.RunningActivity | None = None
    """What was being collected or called, where that was no test."""
    process_id: int | None = None
    peak_bytes: int = 0
    """As of `WorkerState`."""
    endings: bytes = b""
    """A byte for each selected test: 0, or 1 and the index of its result's counter."""
    starts_ms: Sequence[int] = ()
    """When each selected test started, after the start of the run; 0 if it has not."""


@value
class Observed:
    """What another process has seen of a run while it lived."""

    stalls: tuple[evidence.SeenStall, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen."""


@value
class ProcessEnd:
    """How and when a process ended, as another process saw it, or as it ends itself."""

    exit: evidence.ProcessExit
    ended_ns: int | None = None
    """On the monotonic clock of this boot."""
    observed: Observed | None = None
    """What was seen of the run while it lived; `None` for what its record has of
    that."""
    left: evidence.Left = evidence.Left()
    """What the process has left of its last moments."""
    contents: Sequence[bytes] | None = None
    """Of the two files of its record; `None` where these are to be read."""


def facts_of(
    snapshot: Snapshot,
    end: ProcessEnd,
    *,
    workers: Mapping[str, WorkerState] | None = None,
    traces: evidence.Traces | None = None,
    outputs: Mapping[str, str | None] | None = None,
) -> evidence.RunEvidence:
    """Return the evidence of a run.

    Args:
        snapshot: of its record.
        end: of its process. Where the time of the end is unknown, the evidence doesn't
            say how long a test had run.
        workers: what each xdist worker has recorded of itself, by its id. A controller
            that lives has read that already, so its snapshot has it.
        traces: what the process has left of its last moments.
        outputs: what the tests of workers had written, by the workers' ids.
    """
    workers = workers or {}
    in_flight = _find_tests_in_flight(snapshot, workers, end.ended_ns)
    in_flight = _add_last_moments(in_flight, traces, outputs or {})
    counters, unheard = _count_results(snapshot, workers, in_flight)
    unheard.update(test.nodeid for test in in_flight)
    unheard.subtract(test.nodeid for test in snapshot.in_flight)
    # What the workers are at is much the same: each of them collects the same files.
    activities = [snapshot.activity, *(state.activity for state in workers.values())]
    code = end.exit.code
    source = end.exit.source
    if code is None and snapshot.session_code is not None:
        code = snapshot.session_code
        source = "record"
    limits = _find_limits(snapshot, end.ended_ns, in_flight, workers)
    process_exit = replace(
        end.exit,
        code=code,
        source=source,
        session_code=snapshot.session_code,
        limits=tuple(limits),
    )
    failed = {failure.nodeid for failure in snapshot.failures}
    counts = evidence.Counts(
        collected=len(snapshot.nodeids),
        flaky=len(snapshot.recovered - failed),
        **counters,
    )
    ends = _add_own_records(snapshot.workers, workers, end.exit.memory)
    changes = [*snapshot.changes, *(change for end in ends for change in end.changes)]
    if in_flight and not workers:
        nodeid = in_flight[0].nodeid
        peak = _peak_of(end.exit, snapshot.process_id)
        changes += growth_of_test(nodeid, snapshot.peak_bytes, peak)
    is_worth_repeating = code != 0 or bool(failed) or not snapshot.finished
    run = evidence.RunEvidence(
        stage=snapshot.stage,
        strict_baseline=snapshot.strict_baseline,
        finished=snapshot.finished,
        rootdir=snapshot.rootdir,
        exit=process_exit,
        should_fail=snapshot.should_fail,
        last_words=snapshot.last_words,
        coverage=snapshot.coverage,
        gate=snapshot.gate,
        counts=counts,
        failures=evidence.sort_by_selection(snapshot.failures, snapshot.nodeids),
        collection_failures=snapshot.collection_failures,
        errors=snapshot.errors,
        interruptions=snapshot.interruptions,
        mismatch=snapshot.mismatch,
        in_flight=in_flight,
        tests=_list_tests(snapshot, workers, in_flight),
        changes=tuple(changes),
        activity=next(filter(None, activities), None),
        traces=traces,
        not_run=_subtract_tests(snapshot.not_run, unheard),
        order=_order_tests(snapshot, workers) if is_worth_repeating else None,
        workers=ends,
        unrecorded=_count_unrecorded(snapshot, counts),
        uncounted=snapshot.uncounted,
    )
    is_over = snapshot.session_code is not None
    observed = end.observed or Observed()
    return add_stalls(run, observed, ended_ns=end.ended_ns, is_over=is_over)


def _find_tests_in_flight(
    snapshot: Snapshot, workers: Mapping[str, WorkerState], ended_ns: int | None
) -> tuple[evidence.InFlightTest, ...]:
    """Return the tests that were running at the end, in order of their start.

    Under xdist each worker's own record counts: the controller may lag one test behind.
    """
    started = list(snapshot.in_flight)
    if workers:
        ended = {end.id for end in snapshot.workers if end.ending != "finished"}
        started = [
            replace(state.test, worker=worker)
            for worker, state in workers.items()
            if state.test is not None and worker not in ended
        ]
    started.sort(key=lambda test: test.start_ns)
    in_flight = []
    for test in started:
        elapsed_seconds = None
        if ended_ns is not None:
            elapsed_seconds = max(0, ended_ns - test.start_ns) / 1e9
        described = evidence.InFlightTest(
            nodeid=test.nodeid,
            phase=test.phase,
            worker=test.worker,
            elapsed_seconds=elapsed_seconds,
        )
        in_flight.append(described)
    return tuple(in_flight)


def _add_last_moments(
    in_flight: tuple[evidence.InFlightTest, ...],
    traces: evidence.Traces | None,
    outputs: Mapping[str, str | None],
) -> tuple[evidence.InFlightTest, ...]:
    """Add what the main process has left to its test, and to others what they wrote."""
    if traces is not None and in_flight and in_flight[0].worker is None:
        in_flight = (replace(in_flight[0], **to_dict(traces)), *in_flight[1:])
    if not outputs:
        return in_flight
    return tuple(
        replace(test, output=outputs.get(test.worker)) if test.worker else test
        for test in in_flight
    )


def _count_results(
    snapshot: Snapshot,
    workers: Mapping[str, WorkerState],
    in_flight: tuple[evidence.InFlightTest, ...],
) -> tuple[dict[str, int], Counter[str]]:
    """Return the true counters, and tests that ended unheard by the controller.

    What workers have reported may not have been received, or received and not counted
    yet.
    """
    unheard = Counter[str]()
    if not workers:
        return dict(snapshot.counters), unheard
    unfinished = Counter(snapshot.not_run)
    unfinished.update(
        test.nodeid for test in snapshot.in_flight if test.phase != "teardown"
    )
    running = {test.nodeid for test in in_flight}
    received = Counter[str]()
    unreceived = Counter[str]()
    for state in workers.values():
        # With `--dist each` each worker has a part of the tests.
        if len(state.endings) != len(snapshot.nodeids):
            continue
        for nodeid, ending in zip(snapshot.nodeids, state.endings, strict=True):
            if not 0 < ending <= len(COUNTERS) or nodeid in running:
                continue
            result = COUNTERS[ending - 1]
            if unheard[nodeid] < unfinished[nodeid]:
                unheard[nodeid] += 1
                unreceived[result] += 1
            else:
                received[result] += 1
    counters = {
        name: max(count, received[name]) + unreceived[name]
        for name, count in snapshot.counters.items()
    }
    return counters, unheard


def _list_tests(
    snapshot: Snapshot,
    workers: Mapping[str, WorkerState],
    in_flight: tuple[evidence.InFlightTest, ...],
) -> tuple[evidence.TestRun, ...] | None:
    """Return the tests that a dead run had ended, in order of their start.

    `None` if this process lives and knows more itself, or if they are too many.
    """
    if not snapshot.endings or len(snapshot.nodeids) > evidence.MAX_TESTS:
        return None
    settled = _settle_outcomes(snapshot)
    endings: dict[str | None, bytes] = {
        worker: state.endings for worker, state in workers.items()
    }
    endings[None] = snapshot.endings  # of workers on other machines, nothing else is
    listed = {test.nodeid for test in in_flight}
    tests = []
    for worker, results in endings.items():
        # With `--dist each` a worker has a part of the tests.
        if len(results) != len(snapshot.nodeids):
            continue
        for index, nodeid in enumerate(snapshot.nodeids):
            result = results[index]
            if not 0 < result < len(_OUTCOMES) or nodeid in listed:
                continue
            listed.add(nodeid)
            test = evidence.TestRun(
                nodeid=nodeid,
                outcome=settled.get(nodeid, _OUTCOMES[result]),
                start_seconds=snapshot.starts_ms[index] / 1000 or None,
                duration_seconds=None,
                worker=worker,
            )
            tests.append(test)
    return tuple(sorted(tests, key=lambda test: test.start_seconds or 0.0))


def _settle_outcomes(snapshot: Snapshot) -> dict[str, evidence.TestOutcome]:
    """Return the outcomes of tests that failed, whatever came after."""
    outcomes: dict[str, evidence.TestOutcome] = {}
    outcomes.update(dict.fromkeys(snapshot.recovered, "flaky"))
    for failure in snapshot.failures:
        is_failed = failure.phase == "call" or failure.crashed
        if is_failed or outcomes.get(failure.nodeid) != "failed":
            outcomes[failure.nodeid] = "failed" if is_failed else "error"
    return outcomes


def _subtract_tests(nodeids: tuple[str, ...], others: Counter[str]) -> tuple[str, ...]:
    """Return node ids without others, each as many times as it is there."""
    if not any(others.values()):
        return nodeids
    rest = []
    for nodeid in nodeids:
        if others[nodeid] > 0:
            others[nodeid] -= 1
        else:
            rest.append(nodeid)
    return tuple(rest)


def _count_unrecorded(
    snapshot: Snapshot, counts: evidence.Counts
) -> evidence.Unrecorded:
    """Count missing events: a process may die between counting and writing one."""
    # Those of setup and teardown are counted as errors.
    listed = 0
    for failure in snapshot.failures:
        listed += failure.phase == "call" or failure.crashed
    unheard_errors = counts.errors - snapshot.counters["errors"]
    unwritten = counts.failed - listed + unheard_errors
    missing = snapshot.missing
    return evidence.Unrecorded(
        failures=max(missing.get("failure", 0), unwritten),
        collection_failures=missing.get("collection_failure", 0),
        errors=missing.get("error", 0),
        interruptions=missing.get("interruption", 0),
    )


def _order_tests(
    snapshot: Snapshot, workers: Mapping[str, WorkerState]
) -> Order | None:
    """Return the order in which tests started, as far as the record tells."""
    if snapshot.missing.get("worker"):
        return None  # nobody knows what their numbers are
    nodeids = snapshot.nodeids
    plan = snapshot.plan
    starts = snapshot.starts
    if workers:
        starts = [*starts, *_find_unheard_starts(snapshot, workers)]
    return order_of(starts, snapshot.processes, nodeids, plan)


def _find_unheard_starts(
    snapshot: Snapshot, workers: Mapping[str, WorkerState]
) -> Iterator[int]:
    """Yield the starts that workers have recorded, and their controller has not."""
    indices: dict[str, int] = {}
    for index, nodeid in enumerate(snapshot.nodeids):
        indices.setdefault(nodeid, index)
    heard = {*snapshot.starts}
    for number, worker in enumerate(snapshot.processes):
        state = workers.get(worker, WorkerState())
        started: list[int] = []
        if len(state.endings) == snapshot.plan.tests:
            started = [index for index, end in enumerate(state.endings) if end]
        if state.test is not None and state.test.nodeid in indices:
            started.append(indices[state.test.nodeid])
        places = [number << INDEX_BITS | 1 + index for index in started]
        yield from (place for place in places if place not in heard)


def _add_own_records(
    ends: tuple[evidence.WorkerEnd, ...],
    workers: Mapping[str, WorkerState],
    memory: evidence.MemorySeen | None,
) -> tuple[evidence.WorkerEnd, ...]:
    """Add what workers have recorded, and their peaks of memory as they were seen."""
    described = []
    for end in ends:
        own = workers.get(end.id)
        peak = end.peak_rss_bytes
        if peak is None and memory is not None:
            peak = memory.peak_of(end.process_id)
        tests = end.tests if own is None else own.tests
        changes = end.changes if own is None else own.changes or end.changes
        described.append(
            replace(end, tests=tests, peak_rss_bytes=peak, changes=changes)
        )
    return tuple(described)


# Memory.

LEAST_GROWTH: Final = 64 * 1024**2
"""Bytes by which the peak of a process has to grow in a test to matter."""


def growth_of_test(
    nodeid: str, before: int, peak: int | None
) -> Iterator[evidence.Change]:
    """Yield by how much a test has made its process grow, if that matters.

    Args:
        nodeid: the test.
        before: the peak of its process before it, in bytes; 0 if unknown.
        peak: the peak since; `None` if unknown.
    """
    grown = (peak or 0) - before
    if before and grown >= LEAST_GROWTH and 10 * grown >= before:
        detail = f"+{grown >> 20:,} MiB"
        yield evidence.Change(nodeid=nodeid, what="memory", detail=detail, number=grown)


def _peak_of(end: evidence.ProcessExit, process_id: int | None) -> int | None:
    """Return the most resident memory that the process was seen to use."""
    if end.oom_kill is not None:
        return end.oom_kill.rss_bytes
    return None if end.memory is None else end.memory.peak_of(process_id)


# Time limits.


def _find_limits(
    snapshot: Snapshot,
    ended_ns: int | None,
    in_flight: tuple[evidence.InFlightTest, ...],
    workers: Mapping[str, WorkerState],
) -> Iterator[evidence.TimeLimit]:
    """Yield the limits that were running when the process ended, the tests' first."""
    if ended_ns is not None and not workers and in_flight:
        test = in_flight[0]
        yield from limits_of_test(
            test.nodeid,
            elapsed_seconds=test.elapsed_seconds or 0.0,
            ended_ns=ended_ns,
            timer=snapshot.timer,
            faulthandler_seconds=snapshot.faulthandler_seconds,
        )
    yield from limits_around(snapshot.enclosing_limits, ended_ns)


def limits_around(
    limits: Sequence[EnclosingLimit], ended_ns: int | None
) -> Iterator[evidence.TimeLimit]:
    """Yield the limits of the `timeout` commands around a process that ended then."""
    for limit in limits:
        elapsed = None
        if ended_ns is not None:
            elapsed = (ended_ns - limit.started_ns) / 1e9
        yield evidence.TimeLimit(
            owner="timeout",
            budget_seconds=limit.budget_seconds,
            elapsed_seconds=elapsed,
        )


def limits_of_test(
    nodeid: str,
    *,
    elapsed_seconds: float,
    ended_ns: int,
    timer: Timer | None,
    faulthandler_seconds: float | None,
) -> tuple[evidence.TimeLimit, ...]:
    """Return the limits that could have ended the process in which a test was running.

    Args:
        nodeid: the test.
        elapsed_seconds: how long the test had run, which is what faulthandler limits.
        ended_ns: when the process ended, on the monotonic clock.
        timer: the timer of pytest-timeout that was armed at that time.
        faulthandler_seconds: after how many seconds faulthandler ends the process.
    """
    limits = []
    if timer is not None:
        of_timer = evidence.TimeLimit(
            owner=f"pytest-timeout ({timer.method})",
            budget_seconds=timer.budget_seconds,
            elapsed_seconds=(ended_ns - timer.armed_ns) / 1e9,
            nodeid=nodeid,
        )
        limits.append(of_timer)
    if faulthandler_seconds:
        of_faulthandler = evidence.TimeLimit(
            owner="faulthandler_timeout",
            budget_seconds=faulthandler_seconds,
            elapsed_seconds=elapsed_seconds,
            nodeid=nodeid,
        )
        limits.append(of_faulthandler)
    return tuple(limits)


# Stalls.


def add_stalls(
    run: evidence.RunEvidence,
    observed: Observed,
    *,
    ended_ns: int | None,
    is_over: bool,
) -> evidence.RunEvidence:
    """Return the evidence with what was stalled at the end.

    Args:
        run: what else was seen of it.
        observed: what was seen before its end. A test that went on since is not
            stalled.
        ended_ns: when the run ended, on the monotonic clock; `None` if unknown.
        is_over: the session has ended: nothing but the interpreter's end can be
            stalled.
    """
    if not observed.stalls:
        return run
    was_idle = not run.in_flight and not run.counts.ran
    was_interrupted = not run.finished or bool(run.interruptions)
    in_flight = {test.nodeid for test in run.in_flight}
    ended_tests = [
        stall
        for stall in observed.stalls
        if stall.stall.is_ended
        and stall.worker is None
        and stall.nodeid is not None
        and stall.nodeid not in in_flight
    ]
    activities = [
        stall
        for stall in stalled_activities(observed, ended_ns, is_over=is_over)
        if is_over
        or stall.stall.is_ended
        or (was_interrupted and (stall.what != "collection" or was_idle))
    ]
    tests = [_add_stall(test, observed, ended_ns) for test in run.in_flight]
    return replace(
        run,
        ended_tests=tuple(ended_tests),
        in_flight=tuple(tests),
        stalls=tuple(activities),
    )


def stalled_activities(
    observed: Observed | None, ended_ns: int | None, *, is_over: bool
) -> tuple[evidence.SeenStall, ...]:
    """Return what was stalled apart from tests."""
    if observed is None:
        return ()
    return tuple(
        replace(stall, stall=_prolong_stall(stall, ended_ns))
        for stall in observed.stalls
        if stall.what != "test" and (stall.what == "shutdown") == is_over
    )


def stall_of_worker(observed: Observed, worker: str) -> evidence.Stall | None:
    """Return the stall for which a worker was ended, or `None`."""
    for stall in observed.stalls:
        if stall.worker == worker and stall.stall.is_ended:
            return stall.stall
    return None


def _add_stall(
    test: evidence.InFlightTest, observed: Observed, ended_ns: int | None
) -> evidence.InFlightTest:
    wanted = "test", test.nodeid, test.worker, test.phase
    for stall in observed.stalls:
        if (stall.what, stall.nodeid, stall.worker, stall.phase) != wanted:
            continue
        # One that began before the test did is that of an earlier run of it.
        is_of_this_run = True
        if ended_ns and test.elapsed_seconds is not None:
            start_ns = ended_ns - test.elapsed_seconds * 1e9
            is_of_this_run = start_ns - _SLACK_NS <= stall.began_ns
        if is_of_this_run:
            place = test.location or stall.stall.location
            return replace(test, stall=_prolong_stall(stall, ended_ns), location=place)
    return test


def _prolong_stall(stall: evidence.SeenStall, ended_ns: int | None) -> evidence.Stall:
    """Return a stall as it was at the end, if that came after it was looked at."""
    since_seconds = max(0, (ended_ns or 0) - stall.seen_ns) / 1e9
    return replace(stall.stall, seconds=round(stall.stall.seconds + since_seconds, 3))
