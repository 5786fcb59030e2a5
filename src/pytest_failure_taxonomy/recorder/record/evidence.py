"""From a record and the end of its process to the evidence that the judge takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_failure_taxonomy.recorder.record.limits import limits_of_test
from pytest_failure_taxonomy.recorder.record.reader import RecordedRun, StartedTest, WorkerState
from pytest_failure_taxonomy.recorder.sent import attribution_from, raised_from
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    ContinuousIntegration,
    Counts,
    Environment,
    InFlightTest,
    Interruption,
    Location,
    ProcessExit,
    RunContext,
    RunError,
    RunEvidence,
    SeenMarker,
    TestFailure,
    TimeLimit,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.stages import Stage
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.rules import Rule


def evidence_of(
    run: RecordedRun,
    end: ProcessExit,
    *,
    ended_ns: int | None,
    workers: Mapping[str, WorkerState],
) -> RunEvidence:
    """Return the evidence of a run whose process has ended.

    Args:
        run: its record.
        end: how the process ended.
        ended_ns: when it ended, on the monotonic clock of the same boot; `None` where that can't be
            known. Then nothing is said of how long a test had run.
        workers: what each xdist worker has noted of itself, by its id.
    """
    failures = _failures(run)
    failed = {failure.nodeid for failure in failures}
    recovered = {str(fields["nodeid"]) for fields in run.named("recovered")}
    in_flight = _in_flight(run, workers, ended_ns)
    end = replace(
        end, limits=(*_test_limits(run, workers, in_flight, ended_ns), *_outer(run, ended_ns))
    )
    ended = run.named("end")
    if end.code is None and run.exit_code is not None:
        end = replace(end, code=run.exit_code, source="record")
    return RunEvidence(
        stage=Stage(run.header["stage"]),
        strict_baseline=run.header["strict_baseline"],
        finished=run.exit_code is not None,
        exit=replace(end, session_code=run.exit_code),
        should_fail=ended[-1]["should_fail"] if ended else "",
        counts=Counts(collected=len(run.nodeids), flaky=len(recovered - failed), **run.counters),
        failures=failures,
        collection_failures=tuple(
            _collection_failure(fields["failure"]) for fields in run.named("collection_failure")
        ),
        errors=tuple(RunError(**fields["error"]) for fields in run.named("error")),
        interruptions=tuple(
            Interruption(**{**fields["stop"], "location": _location(fields["stop"]["location"])})
            for fields in run.named("interruption")
        ),
        in_flight=in_flight,
        not_run=_not_run(run, in_flight),
        workers=tuple(_workers(run, workers)),
    )


def context_of(run: RecordedRun, *, ended_ns: int | None) -> RunContext:
    """Return which run it was; its duration where the time of its end is known."""
    context = run.header["context"]
    environment = context["environment"]
    ci = environment["ci"]
    duration = None if ended_ns is None else max(0, ended_ns - run.header["started_ns"]) / 1e9
    return RunContext(
        id=context["id"],
        started_at=context["started_at"],
        duration_seconds=duration,
        args=tuple(context["args"]),
        rootdir=context["rootdir"],
        environment=Environment(
            **{
                **environment,
                "plugins": tuple(environment["plugins"]),
                "ci": ci and ContinuousIntegration(**ci),
            }
        ),
    )


def rules_of(run: RecordedRun) -> tuple[Rule, ...]:
    """Return the user's rules, as they were when the run began."""
    if not run.header["rules"]:
        return ()
    from pytest_failure_taxonomy.taxonomy.rules import Rule

    return tuple(
        Rule(**{**rule, "reason": FailureReason(rule["reason"])}) for rule in run.header["rules"]
    )


def _failures(run: RecordedRun) -> tuple[TestFailure, ...]:
    return tuple(_failure(fields["failure"]) for fields in run.named("failure"))


def _failure(sent: dict[str, Any]) -> TestFailure:
    return TestFailure(
        **{
            **sent,
            "exception": raised_from(sent["exception"]),
            "location": _location(sent["location"]),
            "limit": _limit(sent["limit"]),
            "attributed": attribution_from(sent["attributed"]),
            "marker": _marker(sent["marker"]),
        }
    )


def _collection_failure(sent: dict[str, Any]) -> CollectionFailure:
    return CollectionFailure(
        **{
            **sent,
            "exception": raised_from(sent["exception"]),
            "location": _location(sent["location"]),
        }
    )


def _marker(sent: dict[str, Any] | None) -> SeenMarker | None:
    if sent is None:
        return None
    return SeenMarker(name=sent["name"], reason=FailureReason(sent["reason"]))


def _limit(sent: dict[str, Any] | None) -> TimeLimit | None:
    return None if sent is None else TimeLimit(**sent)


def _location(sent: dict[str, Any] | None) -> Location | None:
    return None if sent is None else Location(**sent)


def _workers(run: RecordedRun, noted: Mapping[str, WorkerState]) -> list[WorkerEnd]:
    """Return the last that was said of each worker, sorted by id."""
    last = {fields["worker"]["id"]: fields["worker"] for fields in run.named("worker")}
    return [
        WorkerEnd(
            **{
                **last[worker],
                "limit": _limit(last[worker]["limit"]),
                "tests": noted[worker].tests if worker in noted else last[worker]["tests"],
            }
        )
        for worker in sorted(last, key=lambda worker: (len(worker), worker))
    ]


def _in_flight(
    run: RecordedRun, noted: Mapping[str, WorkerState], ended_ns: int | None
) -> tuple[InFlightTest, ...]:
    """Return the tests that ran at the end, in order of their start.

    Where xdist ran them, each worker's own word counts: what the controller has heard may be a
    test old.
    """
    ended = {each.id for each in _workers(run, noted) if each.ending != "finished"}
    started: list[tuple[StartedTest, str | None]] = [
        (state.test, worker)
        for worker, state in noted.items()
        if state.test is not None and worker not in ended
    ]
    if not noted:
        started = [(test, None) for test in run.in_flight]
    return tuple(
        InFlightTest(
            nodeid=test.nodeid,
            phase=test.phase,
            worker=worker,
            elapsed_seconds=None if ended_ns is None else max(0, ended_ns - test.start_ns) / 1e9,
        )
        for test, worker in sorted(started, key=lambda each: each[0].start_ns)
    )


def _not_run(run: RecordedRun, in_flight: tuple[InFlightTest, ...]) -> tuple[str, ...]:
    """Leave out what a worker had started before the controller could hear of it."""
    unheard = Counter(test.nodeid for test in in_flight)
    unheard.subtract(test.nodeid for test in run.in_flight)
    left = []
    for nodeid in run.not_run:
        if unheard[nodeid] > 0:
            unheard[nodeid] -= 1
        else:
            left.append(nodeid)
    return tuple(left)


def _test_limits(
    run: RecordedRun,
    workers: Mapping[str, WorkerState],
    in_flight: tuple[InFlightTest, ...],
    ended_ns: int | None,
) -> tuple[TimeLimit, ...]:
    """Return the limits of the test that was running in the process itself."""
    if ended_ns is None or workers or not in_flight:
        return ()
    return limits_of_test(
        in_flight[0].nodeid,
        elapsed_seconds=in_flight[0].elapsed_seconds or 0.0,
        ended_ns=ended_ns,
        timer=run.timer,
        faulthandler_seconds=run.header["faulthandler_exit_seconds"],
    )


def _outer(run: RecordedRun, ended_ns: int | None) -> tuple[TimeLimit, ...]:
    """Return the limits around the process."""
    return tuple(
        TimeLimit(
            owner="timeout",
            budget_seconds=limit["budget_seconds"],
            elapsed_seconds=None if ended_ns is None else (ended_ns - limit["started_ns"]) / 1e9,
        )
        for limit in run.header["enclosing_limits"]
    )
