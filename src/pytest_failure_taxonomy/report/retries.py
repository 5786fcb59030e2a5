"""A run and the retries of what failed in it by the environment, as one report.

A retry settles a test if the test passes or fails again. Then the report of the earlier
run is left without it, and the merged one has it as it ended last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Final, Literal

from pytest_failure_taxonomy.report.merging import Merger
from pytest_failure_taxonomy.report.model import FailureReport, RetriedTest, Retry
from pytest_failure_taxonomy.taxonomy.evidence import Counts
from pytest_failure_taxonomy.taxonomy.judgement import Cause, HeldReason
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

SESSION: Final = ""
"""The node id of pytest's session, retried where nothing could be collected."""
_KILLED: Final = frozenset({"process.killed", "process.oom", "sandbox.memory"})
"""Kinds of deaths from outside, whoever has to answer for them."""
_CUT: Final = ["failures", "collection_errors", "internal_errors", "nodeids", "causes"]
_PASSED: Final = frozenset({"passed", "xfailed", "xpassed", "flaky"})


def find_retried(report: FailureReport) -> dict[str, Cause]:
    """Return what a retry may rescue, by node id, with why it did not pass."""
    owed = [cause for cause in report.causes if _is_owed(cause, report)]
    others = [cause for cause in report.causes if cause not in owed]
    stays = {nodeid for cause in others for nodeid in cause.nodeids}
    retried = {nodeid: cause for cause in owed for nodeid in cause.nodeids}
    ends = [cause for cause in owed if not (cause.tests or cause.files)]
    # What a failure of the subject's has stopped stays: the run is a failed one.
    stops = ends if others else [*ends, *owed]
    if stops:
        for nodeid in _list_unfinished(report):
            retried.setdefault(nodeid, stops[0])
    if stops and not (retried or report.summary.collected):
        return {SESSION: stops[0]}
    return {nodeid: retried[nodeid] for nodeid in retried if nodeid not in stays}


def _is_owed(cause: Cause, report: FailureReport) -> bool:
    """Tell whether the environment owes a cause that a retry may change."""
    is_stopped = cause.kind.startswith("interrupt.")
    if cause.retryable is False or cause.unnamed or is_stopped:
        return False
    signals = {worker.exit.signal for worker in report.workers} - {None}
    is_killed = cause.kind in _KILLED
    if cause.kind == "worker.crashed":
        is_killed = signals == {"SIGKILL"}
    return is_killed or cause.charge_to == "environment"


def _list_unfinished(report: FailureReport) -> list[str]:
    """Return the tests that the end of a run has stopped or kept from running."""
    return [*(test.nodeid for test in report.in_flight), *report.not_run.nodeids]


def is_cut(report: FailureReport) -> bool:
    """Tell whether a report lacks something that failed or did not run."""
    limits = to_dict(report.limits)
    return any(limits[f"{name}_omitted"] for name in _CUT)


class RetriedRun:
    """A run with its retries."""

    def __init__(self, first: FailureReport) -> None:
        self._first = first
        self._runs: list[tuple[FailureReport, Retry | None]] = [(first, None)]

    def add(
        self,
        retried: Mapping[str, Cause],
        report: FailureReport,
        *,
        is_stopped: bool = False,
    ) -> None:
        """Add a retry.

        Args:
            retried: what it was to run, with why.
            report: of the retry.
            is_stopped: a person, a signal or the time limit has ended it.
        """
        passed = _find_passed(retried, report)
        stopped = _list_unfinished(report) if is_stopped else []
        failures = [failure for run, _ in self._runs for failure in run.failures]
        kinds = {failure.nodeid: failure.kind for failure in failures}
        tests = [
            RetriedTest(
                nodeid=nodeid,
                key=cause.key,
                cause=cause.what,
                kind=kinds.get(nodeid, cause.kind),
                fix=cause.fix,
                owner=cause.owner,
                outcome=_judge_outcome(nodeid, cause, report, passed, stopped),
            )
            for nodeid, cause in retried.items()
        ]
        retry = Retry(number=len(self._runs), tests=tuple(tests))
        left = [(_leave_out(run, retry, report), its) for run, its in self._runs]
        failed = {nodeid for nodeid in retried if nodeid in retried[nodeid].nodeids}
        self._runs = [*left, (_count_rescued(report, retry, failed), retry)]

    def report(self) -> FailureReport:
        """Return the report of the whole."""
        merger = Merger()
        for report, retry in self._runs:
            merger.add(report, retry=retry)
        first = self._first
        return replace(merger.result(), order=first.order, extensions=first.extensions)


def _find_passed(retried: Collection[str], report: FailureReport) -> list[str]:
    """Return the tests that passed in a retry.

    Those of a process that died are counted, and not listed. They are known if all
    passed that did neither fail nor stop.
    """
    if report.tests is not None:
        return [test.nodeid for test in report.tests if test.outcome in _PASSED]
    failed = {nodeid for cause in report.causes for nodeid in cause.nodeids}
    others = failed.union(_list_unfinished(report))
    rest = [nodeid for nodeid in retried if nodeid not in others]
    counts = report.summary
    count = counts.passed + counts.xfailed + counts.xpassed
    return rest if len(rest) == count else []


def _judge_outcome(
    nodeid: str,
    cause: Cause,
    report: FailureReport,
    passed: Collection[str],
    stopped: Collection[str],
) -> Literal["rescued", "same_cause", "other_cause", "not_settled"]:
    """Say what became of a test, a file or the session in a retry.

    Args:
        nodeid: of it.
        cause: why it was run again.
        report: of the retry.
        passed: tests that passed in it.
        stopped: tests that it did not come to the end of, since it was stopped.
    """
    if any(_is_of(name, nodeid) for name in stopped):
        return "not_settled"
    causes = [
        other.key
        for other in report.causes
        if nodeid == SESSION or any(_is_of(name, nodeid) for name in other.nodeids)
    ]
    if causes:
        return "same_cause" if cause.key in causes else "other_cause"
    is_rescued = any(_is_of(name, nodeid) for name in passed)
    return "rescued" if is_rescued else "not_settled"


def _is_of(name: str, nodeid: str) -> bool:
    """Tell whether a node is another one, or a part of it."""
    begins = (f"{nodeid}::", f"{nodeid}/")
    return name == nodeid or nodeid == SESSION or name.startswith(begins)


def _leave_out(
    report: FailureReport, retry: Retry, again: FailureReport
) -> FailureReport:
    """Return the report of a run without what a retry has settled.

    Args:
        report: of the run.
        retry: what was run again.
        again: the report of the retry. What that did not come to is listed there.
    """
    tests = retry.tests
    left = {test.nodeid for test in tests if test.outcome == "not_settled"}
    gone = {test.nodeid for test in tests} - left
    gone |= {*_list_unfinished(report)} & {*_list_unfinished(again)}
    # What had not run may be skipped.
    gone |= {*report.not_run.nodeids} & {test.nodeid for test in again.tests or ()}
    keys = {test.key for test in tests} - {
        test.key for test in tests if test.nodeid in left - gone
    }
    cut = [_cut_cause(cause, gone, keys) for cause in report.causes]
    causes = tuple(filter(None, cut))
    groups = []
    for group in report.groups:
        nodeids = tuple([name for name in group.nodeids if name not in gone])
        if nodeids:
            count = group.count - len(group.nodeids) + len(nodeids)
            groups.append(replace(group, nodeids=nodeids, count=count))
    lists = {}
    for name in ("failures", "collection_errors", "in_flight"):
        entries = getattr(report, name)
        lists[name] = tuple([entry for entry in entries if entry.nodeid not in gone])
    not_run = [nodeid for nodeid in report.not_run.nodeids if nodeid not in gone]
    ended = report.tests and [test for test in report.tests if test.nodeid not in gone]
    return replace(
        report,
        **lists,
        summary=_count_left(report, gone),
        reasons=_gather_reasons(causes),
        causes=causes,
        groups=tuple(groups),
        internal_errors=() if SESSION in gone else report.internal_errors,
        not_run=replace(report.not_run, count=len(not_run), nodeids=tuple(not_run)),
        tests=ended and tuple(ended),
    )


def _cut_cause(
    cause: Cause, gone: Collection[str], keys: Collection[str]
) -> Cause | None:
    """Return what is left of a cause; `None` for nothing.

    Args:
        cause: of a run.
        gone: node ids of what is settled.
        keys: of causes of which all is.
    """
    names = ("nodeids", "tests", "files")
    left = {}
    for name in names:
        left[name] = tuple([node for node in getattr(cause, name) if node not in gone])
    nodeids = left["nodeids"]
    if not nodeids and (cause.nodeids or cause.key in keys):
        return None
    if nodeids == cause.nodeids:
        return cause
    return replace(cause, **left, count=len(nodeids))


def _gather_reasons(causes: Collection[Cause]) -> tuple[HeldReason, ...]:
    """Return the reasons that hold by some causes."""
    by_kind: dict[tuple[str, str], list[Cause]] = defaultdict(list)
    for cause in causes:
        by_kind[cause.reason, cause.kind].append(cause)
    reasons = []
    for of_kind in by_kind.values():
        nodeids = dict.fromkeys(name for cause in of_kind for name in cause.nodeids)
        reason = HeldReason(
            reason=of_kind[0].reason,
            kind=of_kind[0].kind,
            nodeids=tuple(nodeids),
            count=sum(cause.count for cause in of_kind),
        )
        reasons.append(reason)
    return tuple(reasons)


def _count_left(report: FailureReport, gone: Collection[str]) -> Counts:
    """Return the counts of a run without its settled tests and files."""
    lost: Counter[str] = Counter()
    phases: dict[str, set[str]] = defaultdict(set)
    for failure in report.failures:
        if failure.nodeid in gone:
            phases[failure.nodeid].add(failure.phase)
            lost["failed" if failure.phase == "call" else "errors"] += 1
            lost["crashed"] += failure.kind == "worker.crashed"
            lost["timed_out"] += failure.kind == "test.timeout"
    # Their calls had passed.
    lost["passed"] = sum(of_test == {"teardown"} for of_test in phases.values())
    for error in report.collection_errors:
        lost["collection_errors"] += error.nodeid in gone
    lost["errors"] += lost["collection_errors"]
    lost["in_flight"] = sum(test.nodeid in gone for test in report.in_flight)
    lost["not_run"] = sum(nodeid in gone for nodeid in report.not_run.nodeids)
    lost["collected"] = len(phases) + lost["in_flight"] + lost["not_run"]
    counts = to_dict(report.summary)
    return Counts(**{name: max(0, counts[name] - lost[name]) for name in counts})


def _count_rescued(
    report: FailureReport, retry: Retry, failed: Collection[str]
) -> FailureReport:
    """Return the report of a retry, with the tests as flaky that had failed before.

    A test that it did not settle is still counted as a failure of the run before.

    Args:
        report: of the retry.
        retry: what became of the tests.
        failed: node ids of those that had failed.
    """
    nodeids: dict[str, set[str]] = defaultdict(set)
    for test in retry.tests:
        if test.nodeid in failed:
            nodeids[test.outcome].add(test.nodeid)
    rescued, left = nodeids["rescued"], nodeids["not_settled"]
    tests = []
    for ended in report.tests or ():
        is_flaky = ended.nodeid in rescued
        tests.append(replace(ended, outcome="flaky") if is_flaky else ended)
    unfinished = _list_unfinished(report)
    stopped = [name for name in left if any(_is_of(test, name) for test in unfinished)]
    skipped = len(left) - len(stopped)
    counts = _count_left(report, stopped)
    not_run = [nodeid for nodeid in report.not_run.nodeids if nodeid not in stopped]
    flaky = len([name for name in rescued if "::" in name])
    summary = replace(
        counts,
        collected=max(0, counts.collected - skipped),
        skipped=max(0, counts.skipped - skipped),
        flaky=counts.flaky + flaky,
        rerun=counts.rerun + len(failed) - len(left),
    )
    return replace(
        report,
        summary=summary,
        not_run=replace(report.not_run, count=len(not_run), nodeids=tuple(not_run)),
        tests=report.tests and tuple(tests),
    )
