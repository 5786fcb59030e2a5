"""Turn a record and the end of its process into the evidence that the judge reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pytest_failure_taxonomy.record.layout import COUNTERS
from pytest_failure_taxonomy.record.observed import MemorySeen, Observed, peak_of, with_stalls
from pytest_failure_taxonomy.record.read import RecordedRun, StartedTest, Timer, WorkerState
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict


def evidence_of(
    run: RecordedRun,
    end: evidence.ProcessExit,
    *,
    ended_ns: int | None,
    workers: Mapping[str, WorkerState],
    observed: Observed | None = None,
    traces: evidence.Traces | None = None,
    outputs: Mapping[str, str | None] | None = None,
    memory: MemorySeen | None = None,
) -> evidence.RunEvidence:
    """Return the evidence of a run whose process has ended.

    Args:
        run: its record.
        end: how the process ended.
        ended_ns: when it ended, on the monotonic clock of the same boot; `None` if unknown. Then
            the evidence does not say how long a test had run.
        workers: what each xdist worker has recorded of itself, by its id.
        observed: what another process has seen of the run while it lived.
        traces: what the process has left of its last moments.
        outputs: what the tests of workers had written, by the workers' ids.
        memory: what was seen of the run's memory.
    """
    failures = _failures(run)
    failed = {failure.nodeid for failure in failures}
    recovered = {test.nodeid for test in run.named("recovered")}
    in_flight = _in_flight(run, workers, ended_ns)
    if traces is not None and in_flight and in_flight[0].worker is None:
        in_flight = (replace(in_flight[0], **to_dict(traces)), *in_flight[1:])
    if outputs:
        in_flight = tuple(
            replace(test, output=outputs.get(test.worker)) if test.worker else test
            for test in in_flight
        )
    limits: list[evidence.TimeLimit] = []
    if ended_ns is not None and not workers and in_flight:
        limits += limits_of_test(
            in_flight[0].nodeid,
            elapsed_seconds=in_flight[0].elapsed_seconds or 0.0,
            ended_ns=ended_ns,
            timer=run.timer,
            faulthandler_seconds=run.header.faulthandler_exit_seconds,
        )
    for limit in run.header.enclosing_limits:  # of the commands around the process
        elapsed = None if ended_ns is None else (ended_ns - limit.started_ns) / 1e9
        limits.append(
            evidence.TimeLimit(
                owner="timeout", budget_seconds=limit.budget_seconds, elapsed_seconds=elapsed
            )
        )
    end = replace(end, limits=tuple(limits))
    # What workers have all been at is much the same: each worker collects the same files.
    activities = [run.activity, *(state.activity for state in workers.values())]
    unheard, counters = _endings(run, workers, in_flight)
    unheard.update(test.nodeid for test in in_flight)
    unheard.subtract(test.nodeid for test in run.in_flight)
    not_run = []
    for nodeid in run.not_run:  # those that never started, as far as the workers' records tell
        if unheard[nodeid] > 0:
            unheard[nodeid] -= 1
        else:
            not_run.append(nodeid)
    # A failure is counted before it is written, and a process may die between the two.
    listed = sum(failure.phase == "call" or failure.crashed for failure in failures)
    unwritten = counters["failed"] - listed + counters["errors"] - run.counters["errors"]
    ended = run.named("end")
    if end.code is None and run.exit_code is not None:
        end = replace(end, code=run.exit_code, source="record")
    seen = evidence.RunEvidence(
        stage=run.header.stage,
        strict_baseline=run.header.strict_baseline,
        finished=run.exit_code is not None,
        exit=replace(end, session_code=run.exit_code),
        should_fail=ended[-1].should_fail if ended else "",
        coverage=ended[-1].coverage if ended else "",
        counts=evidence.Counts(
            collected=len(run.nodeids), flaky=len(recovered - failed), **counters
        ),
        failures=failures,
        collection_failures=tuple(run.named("collection_failure")),
        errors=tuple(run.named("error")),
        interruptions=tuple(run.named("interruption")),
        mismatch=next(iter(run.named("mismatch")), None),
        in_flight=in_flight,
        activity=next(filter(None, activities), None),
        traces=traces,
        not_run=tuple(not_run),
        workers=tuple(_workers(run, workers, memory)),
        unrecorded=evidence.Unrecorded(
            failures=max(run.missing.get("failure", 0), unwritten),
            collection_failures=run.missing.get("collection_failure", 0),
            errors=run.missing.get("error", 0),
            interruptions=run.missing.get("interruption", 0),
        ),
    )
    is_over = run.exit_code is not None
    return with_stalls(seen, observed or Observed(), ended_ns=ended_ns, is_over=is_over)


def context_of(
    run: RecordedRun,
    *,
    ended_ns: int | None,
    end: evidence.ProcessExit | None = None,
    memory: MemorySeen | None = None,
) -> evidence.RunContext:
    """Return the context of a run, with its duration if the time of its end is known.

    Args:
        run: its record.
        ended_ns: when its process ended, on the monotonic clock.
        end: how it ended.
        memory: what was seen of its memory until then.
    """
    duration = None if ended_ns is None else max(0, ended_ns - run.header.started_ns) / 1e9
    environment = run.header.context.environment
    for watcher in run.named("watcher"):  # the watcher starts after the header is written
        environment = replace(environment, watcher=watcher)
    if memory is not None:
        kill = None if end is None else end.oom_kill
        last = None if kill is None else kill.rss_bytes
        # All of the group was used, if a process was killed for that.
        is_full = kill is not None and kill.limit_bytes == memory.limit_bytes
        use = evidence.MemoryUse(
            limit_bytes=memory.limit_bytes,
            cgroup_peak_bytes=memory.limit_bytes if is_full else memory.cgroup_peak_bytes,
            peak_rss_bytes=max(peak_of(memory, run.header.process.pid) or 0, last or 0) or None,
        )
        if use != evidence.MemoryUse():
            environment = replace(environment, memory=use)
    return replace(run.header.context, duration_seconds=duration, environment=environment)


def _failures(run: RecordedRun) -> tuple[evidence.TestFailure, ...]:
    """Return the failures, without those of subtests whose test was run again."""
    failures: list[evidence.TestFailure] = []
    for name, held in run.events:
        if name == "failure":
            failures.append(held)
        elif name == "rerun" and failures:
            failures = [
                each
                for each in failures
                if not evidence.is_of_attempt(each, held.nodeid, held.worker)
            ]
    return evidence.in_order_of_selection(failures, run.nodeids)


def _workers(
    run: RecordedRun, noted: Mapping[str, WorkerState], memory: MemorySeen | None
) -> list[evidence.WorkerEnd]:
    """Return the last recorded state of each worker, sorted by id."""
    found = []
    for end in run.last_of_workers():
        peak = end.peak_rss_bytes  # or, if it did not say its own, what was seen
        found.append(
            replace(
                end,
                tests=noted[end.id].tests if end.id in noted else end.tests,
                peak_rss_bytes=peak_of(memory, end.process_id) if peak is None else peak,
            )
        )
    return found


def _in_flight(
    run: RecordedRun, noted: Mapping[str, WorkerState], ended_ns: int | None
) -> tuple[evidence.InFlightTest, ...]:
    """Return the tests that were running at the end, in order of their start.

    Under xdist each worker's own record counts: the controller may lag one test behind.
    """
    ended = {each.id for each in run.last_of_workers() if each.ending != "finished"}
    started: list[tuple[StartedTest, str | None]] = [
        (state.test, worker)
        for worker, state in noted.items()
        if state.test is not None and worker not in ended
    ]
    if not noted:
        started = [(test, None) for test in run.in_flight]
    return tuple(
        evidence.InFlightTest(
            nodeid=test.nodeid,
            phase=test.phase,
            worker=worker,
            elapsed_seconds=None if ended_ns is None else max(0, ended_ns - test.start_ns) / 1e9,
        )
        for test, worker in sorted(started, key=lambda each: each[0].start_ns)
    )


def _endings(
    run: RecordedRun,
    noted: Mapping[str, WorkerState],
    in_flight: tuple[evidence.InFlightTest, ...],
) -> tuple[Counter[str], dict[str, int]]:
    """Return the tests that have ended without the controller's knowing, and the true counters.

    What workers have reported may not have been received, or not counted yet.
    """
    unheard = Counter(run.not_run)
    unheard.update(test.nodeid for test in run.in_flight if test.phase != "teardown")
    flying = {test.nodeid for test in in_flight}
    lost: Counter[str] = Counter()
    received, unreceived = Counter[str](), Counter[str]()
    for state in noted.values():
        if len(state.endings) != len(run.nodeids):  # `--dist each`: each has a part of them
            continue
        for nodeid, ending in zip(run.nodeids, state.endings, strict=True):
            if not 0 < ending <= len(COUNTERS) or nodeid in flying:
                continue
            if lost[nodeid] < unheard[nodeid]:
                lost[nodeid] += 1
                unreceived[COUNTERS[ending - 1]] += 1
            else:
                received[COUNTERS[ending - 1]] += 1
    counters = {
        name: max(count, received[name]) + unreceived[name] for name, count in run.counters.items()
    }
    return lost, counters


def limits_of_test(
    nodeid: str,
    *,
    elapsed_seconds: float,
    ended_ns: int,
    timer: Timer | None,
    faulthandler_seconds: float | None,
) -> tuple[evidence.TimeLimit, ...]:
    """Return the time limits that could have ended the process in which a test was running.

    Args:
        nodeid: the test.
        elapsed_seconds: how long the test had run, which is what faulthandler limits.
        ended_ns: when the process ended, on the monotonic clock.
        timer: the timer of pytest-timeout that was armed at that time.
        faulthandler_seconds: after how many seconds faulthandler ends the process, if it does.
    """
    found = []
    if timer is not None:
        elapsed = (ended_ns - timer.armed_ns) / 1e9
        found.append((f"pytest-timeout ({timer.method})", timer.budget_seconds, elapsed))
    if faulthandler_seconds:
        found.append(("faulthandler_timeout", faulthandler_seconds, elapsed_seconds))
    return tuple(
        evidence.TimeLimit(
            owner=owner, budget_seconds=budget, elapsed_seconds=elapsed, nodeid=nodeid
        )
        for owner, budget, elapsed in found
    )
