"""Turn a record, and what another process has seen of the run, into the judge's evidence.

What was stalled and the memory are files of the record that the watcher writes while the run lives;
a test may have written anything into them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.survive.layout import (
    COUNTERS,
    MEMORY,
    OBSERVED,
    OBSERVED_NEW,
)
from pytest_failure_taxonomy.survive.reader import (
    RecordedRun,
    StartedTest,
    Timer,
    WorkerState,
    parse,
)
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.kernel_log import find_oom_victim
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.order import (
    INDEX_BITS,
    MAIN,
    Order,
    Plan,
    order_of,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value
from pytest_failure_taxonomy.taxonomy.words import words_at

MAX_OBSERVED_BYTES: Final = 8 * 1024 * 1024
"""The stacks of a hundred workers take a quarter of it."""
MAX_MEMORY_BYTES: Final = 64 * 1024
"""Four times what the watcher writes."""
_SLACK_NS: Final = 1_000_000_000
"""By how much two measurements of a test's start may differ."""


@value
class Observed:
    """What another process has seen of a run while it lived."""

    stalls: tuple[evidence.SeenStall, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen."""


@value
class ProcessEnd:
    """How and when a process ended, as another process saw it."""

    exit: evidence.ProcessExit
    ended_ns: int | None = None
    """On the monotonic clock of this boot."""
    observed: Observed | None = None
    """What was seen of the run while it lived; `None` for what its record has of that."""
    left: evidence.Left = evidence.Left()
    """What the process has left of its last moments."""
    contents: Sequence[bytes] | None = None
    """Of the two files of its record; `None` where these are to be read."""


_WORDS: Final[dict[evidence.Activity, str]] = {
    "collection": "the collection",
    "session": "the end of the session",
    "shutdown": "the interpreter's end",
    "controller": "xdist's controller",
}


def words_of_subject(stall: evidence.SeenStall) -> str:
    """Name what is stalled: a test, and its phase if that is not the call; a hook, a worker."""
    if stall.what == "test":
        phase = "" if stall.phase in ("call", None) else f" ({stall.phase})"
        return f"{stall.nodeid}{phase}"
    worker = f" ({stall.worker})" if stall.worker else ""
    return f"{stall.name or _WORDS[stall.what]}{worker}"


def words_of_stall(stall: evidence.SeenStall) -> str:
    """Return the line that tells of what makes no progress."""
    state, seconds = stall.stall.state, stall.stall.seconds
    what, at = words_of_subject(stall), f", {stall.place}" if stall.place else ""
    if state == "polling":
        return f"polling for {seconds:.0f} s: {what}{at}"
    if state == "busy":
        return f"still running {seconds:.0f} s: {what}{at}"
    return f"stalled {seconds:.0f} s: {what} {words_at(state, stall.stall.where)}"


def times_of_limit(stall: evidence.SeenStall, limit_seconds: float) -> int:
    """Return after how many limits it was to be told lately, which is 1, 2, 4, 8 and so on."""
    times = 1
    while stall.stall.seconds >= 2 * times * limit_seconds:
        times *= 2
    return times


def read_observed(folder: Folder) -> Observed:
    """Return what the record in a folder has of it; nothing if it can't be read."""
    with suppress(OSError):
        return parse_observed(folder.read(OBSERVED, MAX_OBSERVED_BYTES))
    return Observed()


def parse_observed(content: bytes) -> Observed:
    """Parse the contents of the file; nothing comes of what can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        return parse(Observed, json.loads(content), ignores_unknown=True)
    return Observed()


def encode_observed(observed: Observed) -> bytes:
    """Return the contents of the file."""
    return json.dumps(observed, default=to_dict).encode("ascii")


def write_observed(folder: Folder, content: bytes) -> None:
    """Replace the file as a whole.

    Raises:
        OSError: if it can't be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(folder.open_file(OBSERVED_NEW, flags), "wb") as file:
        file.write(content)
    folder.rename(OBSERVED_NEW, OBSERVED)


def with_stalls(
    run: evidence.RunEvidence,
    observed: Observed,
    *,
    ended_ns: int | None,
    is_over: bool,
) -> evidence.RunEvidence:
    """Return the evidence with what was stalled at the end.

    Args:
        run: what else was seen of it.
        observed: what was seen before its end. A test that went on since is not stalled.
        ended_ns: when the run ended, on the monotonic clock; `None` if unknown.
        is_over: the session has ended, so that nothing but the interpreter's end can be stalled.
    """
    was_idle = not run.in_flight and not run.counts.ran
    was_interrupted = not run.finished or bool(run.interruptions)
    in_flight = {test.nodeid for test in run.in_flight}
    return replace(
        run,
        ended_tests=tuple(
            each
            for each in observed.stalls
            if each.stall.is_ended and each.worker is None
            if each.nodeid is not None and each.nodeid not in in_flight
        ),
        in_flight=tuple(
            _with_stall(test, observed, ended_ns) for test in run.in_flight
        ),
        stalls=tuple(
            each
            for each in stalled_activities(observed, ended_ns, is_over=is_over)
            if is_over
            or each.stall.is_ended
            or (was_interrupted and (each.what != "collection" or was_idle))
        ),
    )


def stalled_activities(
    observed: Observed | None, ended_ns: int | None, *, is_over: bool
) -> tuple[evidence.SeenStall, ...]:
    """Return what was stalled and is no test."""
    return tuple(
        replace(each, stall=_until(each, ended_ns))
        for each in (observed or Observed()).stalls
        if each.what != "test" and (each.what == "shutdown") == is_over
    )


def stall_of_worker(observed: Observed, worker: str) -> evidence.Stall | None:
    """Return the stall for which a worker was ended, or `None`."""
    for each in observed.stalls:
        if each.worker == worker and each.stall.is_ended:
            return each.stall
    return None


def _with_stall(
    test: evidence.InFlightTest, observed: Observed, ended_ns: int | None
) -> evidence.InFlightTest:
    wanted = "test", test.nodeid, test.worker, test.phase
    for each in observed.stalls:
        if (each.what, each.nodeid, each.worker, each.phase) != wanted:
            continue
        # One that began before the test did is that of an earlier run of it.
        elapsed_ns = (test.elapsed_seconds or 0.0) * 1e9 + _SLACK_NS
        if (
            not ended_ns
            or test.elapsed_seconds is None
            or ended_ns - elapsed_ns <= each.began_ns
        ):
            place = test.location or each.stall.location
            return replace(test, stall=_until(each, ended_ns), location=place)
    return test


def _until(seen: evidence.SeenStall, ended_ns: int | None) -> evidence.Stall:
    since = max(0, (ended_ns or 0) - seen.seen_ns) / 1e9
    return replace(seen.stall, seconds=round(seen.stall.seconds + since, 3))


# Its memory.


def read_memory(folder: Folder) -> evidence.MemorySeen | None:
    """Return what the record in a folder has of it; `None` if nothing can be read."""
    with suppress(OSError):
        return parse_memory(folder.read(MEMORY, MAX_MEMORY_BYTES))
    return None


def parse_memory(content: bytes) -> evidence.MemorySeen | None:
    """Return what was seen, from JSON; `None` for what can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        seen = parse(evidence.MemorySeen, json.loads(content))
        numbers = [each for each in to_dict(seen).values() if isinstance(each, int)]
        numbers += [each.peak_rss_bytes for each in seen.processes]
        return seen if min(numbers) >= 0 else None
    return None


def oom_kill_of(
    process_id: int, since_ns: int, until_ns: int
) -> evidence.OomKill | None:
    """Return what the kernel's log says of a process that it killed for want of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return evidence.OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)


# The evidence of a run whose process has ended.


def evidence_of(
    run: RecordedRun,
    end: ProcessEnd,
    workers: Mapping[str, WorkerState],
    traces: evidence.Traces | None = None,
    outputs: Mapping[str, str | None] | None = None,
) -> evidence.RunEvidence:
    """Return the evidence of a run whose process has ended.

    Args:
        run: its record.
        end: of its process. Where it isn't known when that was, the evidence does not say how long
            a test had run.
        workers: what each xdist worker has recorded of itself, by its id.
        traces: what the process has left of its last moments.
        outputs: what the tests of workers had written, by the workers' ids.
    """
    ended_ns, seen_exit = end.ended_ns, end.exit
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
    limits += enclosing_limits(run, ended_ns)
    # What workers have all been at is much the same: each worker collects the same files.
    activities = [run.activity, *(state.activity for state in workers.values())]
    unheard, counters = _endings(run, workers, in_flight)
    unheard.update(test.nodeid for test in in_flight)
    unheard.subtract(test.nodeid for test in run.in_flight)
    not_run = []
    for (
        nodeid
    ) in run.not_run:  # those that never started, as far as the workers' records tell
        if unheard[nodeid] > 0:
            unheard[nodeid] -= 1
        else:
            not_run.append(nodeid)
    # A failure is counted before it is written, and a process may die between the two.
    listed = sum(failure.phase == "call" or failure.crashed for failure in failures)
    unwritten = (
        counters["failed"] - listed + counters["errors"] - run.counters["errors"]
    )
    ended = run.named("end")
    if seen_exit.code is None and run.exit_code is not None:
        seen_exit = replace(seen_exit, code=run.exit_code, source="record")
    seen = evidence.RunEvidence(
        stage=run.header.stage,
        strict_baseline=run.header.strict_baseline,
        finished=run.exit_code is not None,
        rootdir=run.header.context.rootdir,
        exit=replace(seen_exit, session_code=run.exit_code, limits=tuple(limits)),
        should_fail=ended[-1].should_fail if ended else "",
        coverage=ended[-1].coverage if ended else "",
        gate=ended[-1].gate if ended else "",
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
        order=_order(run, workers),
        workers=tuple(
            replace(
                each,
                tests=workers[each.id].tests if each.id in workers else each.tests,
                # Or, if it did not say its own, what was seen.
                peak_rss_bytes=each.peak_rss_bytes
                if each.peak_rss_bytes is not None or end.exit.memory is None
                else end.exit.memory.peak_of(each.process_id),
            )
            for each in run.last_of_workers()
        ),
        unrecorded=evidence.Unrecorded(
            failures=max(run.missing.get("failure", 0), unwritten),
            collection_failures=run.missing.get("collection_failure", 0),
            errors=run.missing.get("error", 0),
            interruptions=run.missing.get("interruption", 0),
        ),
    )
    is_over = run.exit_code is not None
    return with_stalls(
        seen, end.observed or Observed(), ended_ns=ended_ns, is_over=is_over
    )


def enclosing_limits(
    run: RecordedRun, ended_ns: int | None
) -> Iterator[evidence.TimeLimit]:
    """Yield the limits of the `timeout` commands around a process that ended at that time."""
    for limit in run.header.enclosing_limits:
        elapsed = None if ended_ns is None else (ended_ns - limit.started_ns) / 1e9
        yield evidence.TimeLimit(
            owner="timeout",
            budget_seconds=limit.budget_seconds,
            elapsed_seconds=elapsed,
        )


def context_of(run: RecordedRun, end: ProcessEnd) -> evidence.RunContext:
    """Return the context of a run, with its duration if the time of its end is known."""
    since = run.header.started_ns
    duration = None if end.ended_ns is None else max(0, end.ended_ns - since) / 1e9
    environment = run.header.context.environment
    for watcher in run.named(
        "watcher"
    ):  # the watcher starts after the header is written
        environment = replace(environment, watcher=watcher)
    if (memory := end.exit.memory) is not None:
        kill = end.exit.oom_kill
        # All of the group was used, if a process was killed for that.
        is_full = kill is not None and kill.limit_bytes == memory.limit_bytes
        last = 0 if kill is None else kill.rss_bytes
        use = evidence.MemoryUse(
            limit_bytes=memory.limit_bytes,
            cgroup_peak_bytes=memory.limit_bytes
            if is_full
            else memory.cgroup_peak_bytes,
            peak_rss_bytes=max(memory.peak_of(run.header.process.pid) or 0, last)
            or None,
        )
        if use != evidence.MemoryUse():
            environment = replace(environment, memory=use)
    return replace(
        run.header.context, duration_seconds=duration, environment=environment
    )


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
            elapsed_seconds=None
            if ended_ns is None
            else max(0, ended_ns - test.start_ns) / 1e9,
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
        if len(state.endings) != len(
            run.nodeids
        ):  # `--dist each`: each has a part of them
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
        name: max(count, received[name]) + unreceived[name]
        for name, count in run.counters.items()
    }
    return lost, counters


def _order(run: RecordedRun, noted: Mapping[str, WorkerState]) -> Order | None:
    """Return in which order the tests started, as far as a dead controller or a worker tells."""
    if run.missing.get("worker"):
        return None  # nobody knows what their numbers are
    names = [MAIN, *dict.fromkeys(each.id for each in run.named("worker"))]
    plan = next(iter(run.named("plan")[-1:]), Plan())
    indices = {nodeid: index for index, nodeid in reversed([*enumerate(run.nodeids)])}
    starts, heard = [*run.starts], {*run.starts}
    for number, worker in enumerate(names):
        state, unheard = noted.get(worker, WorkerState()), []
        if (
            len(state.endings) == plan.tests
        ):  # it may have run more than anybody heard of
            unheard = [
                1 + index for index, ending in enumerate(state.endings) if ending
            ]
        if state.test is not None and state.test.nodeid in indices:
            unheard.append(1 + indices[state.test.nodeid])
        places = [number << INDEX_BITS | place for place in unheard]
        starts += [start for start in places if start not in heard]
    return order_of(starts, names, run.nodeids, plan)


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
        found.append(
            (f"pytest-timeout ({timer.method})", timer.budget_seconds, elapsed)
        )
    if faulthandler_seconds:
        found.append(("faulthandler_timeout", faulthandler_seconds, elapsed_seconds))
    return tuple(
        evidence.TimeLimit(
            owner=owner, budget_seconds=budget, elapsed_seconds=elapsed, nodeid=nodeid
        )
        for owner, budget, elapsed in found
    )
