"""Judge reports again, with what is known now: the end of a process, other runs, or experiments.

A report has its reasons and causes without the failures that they were made from, so they
are taken as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.model import Exit, FailureReport, MergedRun
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.amendments import (
    Amendment,
    amend_cause,
    charge_verdict,
    recommend,
)
from pytest_failure_taxonomy.taxonomy.causes import (
    gather_causes,
    sort_causes,
    whether_retry_helps,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    Evidence,
    Finding,
    Group,
    GroupHistory,
    HeldReason,
    Verdict,
    describe_kind,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

_MOST: Final = 1_000_000
"""The most findings of one reason that a report may claim; no run has as many failed tests."""
_UNQUOTED: Final = Evidence(source="report", detail="in the report that pytest wrote")


@value
class Conclusion:
    """What several things that are known of a run come to together, as fields of a report."""

    exit: Exit
    verdict: Verdict | None
    reasons: tuple[HeldReason, ...]
    causes: tuple[Cause, ...]


def add_late_end(
    report: FailureReport,
    end: ev.ProcessExit,
    stalls: tuple[ev.SeenStall, ...] = (),
) -> FailureReport:
    """Return the report that pytest wrote, with how its process ended after that.

    It is unchanged where that says nothing new. The reasons found before still hold; the end may
    add one, and what was stalled before it another; the judge says which comes first. Without
    `stalls`, those count that were added to the report before.

    Raises:
        ValueError: it claims more than any run has.
    """
    before = report.exit.code
    is_as_before = end.code == before and end.signal == report.exit.signal
    # At our own limit, a handler of SIGTERM may have left with the session's status.
    if end.code is None or (is_as_before and end.enforced_limit_seconds is None):
        return report
    evidence = ev.RunEvidence(
        stage=report.run.stage,
        exit=replace(end, session_code=before),
        counts=counts_of(report.summary),
        stalls=stalls or tuple(_stalls_at_end(report)),
    )
    conclusion = judge_again([report], evidence, build.Limits())
    return replace(
        build.with_stalls_at_end(report, stalls),
        session_exit_code=before if end.code == 0 else report.session_exit_code,
        **to_dict(conclusion),
    )


def _stalls_at_end(report: FailureReport) -> Iterator[ev.SeenStall]:
    for row in report.stalls:
        if row.what == "shutdown":
            stall = ev.Stall(
                state=row.state, seconds=row.seconds, where=row.where, stack=row.stack
            )
            yield ev.SeenStall(what=row.what, stall=stall)


def judge_again(
    reports: Sequence[FailureReport | MergedRun],
    new: ev.RunEvidence,
    limits: build.Limits,
) -> Conclusion:
    """Judge the reports and the new evidence together.

    A verdict that one of the reports has, too, has its evidence.

    Raises:
        ValueError: a report claims more than any run has.
    """
    findings: list[Finding] = []
    causes: list[Cause] = []
    for report in reports:
        findings += _findings_of(report.reasons, report.verdict)
        causes += report.causes
    if any(cause.count > _MOST for cause in causes):
        raise ValueError(f"a cause has more than {_MOST:,} failures")
    evidence = replace(
        new,
        settled=(*findings, *new.settled),
        settled_causes=(*causes, *gather_causes(new.settled)),
    )
    judged = judge(evidence)
    verdict = judged.verdict and limits.cap_value(judged.verdict)
    reasons = limits.cap_value(judged.reasons)
    listed = build.list_causes(judged, limits)
    verdicts = [report.verdict for report in reports if report.verdict is not None]
    same = [before for before in verdicts if are_of_one_kind(before, verdict)]
    if verdict is not None and len(same) == 1:
        (before,) = same
        verdict = replace(
            verdict,
            confidence=before.confidence,
            evidence=before.evidence,
            ambiguous=before.ambiguous,
            owner=before.owner,
        )
    if verdict is not None and listed:
        charge_to = charge_verdict(verdict.kind, listed)
        verdict = replace(verdict, charge_to=charge_to)
    return Conclusion(
        exit=build.exit_of(evidence, judged),
        verdict=verdict,
        reasons=reasons,
        causes=listed,
    )


def amend(report: FailureReport, amendment: Amendment) -> FailureReport:
    """Return a report with what a neighbour proposes, and with what follows from it."""
    verdict = report.verdict
    if verdict is not None:
        nodeid = verdict.nodeid
        if amendment.nodeid is not None and nodeid is not None:
            nodeid = amendment.nodeid
        verdict = replace(
            verdict,
            evidence=(*verdict.evidence, *amendment.evidence),
            history=amendment.of_verdict or verdict.history,
            nodeid=nodeid,
        )
    groups = _add_histories(report.groups, amendment.histories)
    report = replace(report, verdict=verdict, groups=groups)
    of_causes = (amendment.histories, amendment.proofs, amendment.bases)
    if not (any(of_causes) or amendment.of_verdict):
        return report
    kind = None if verdict is None else verdict.kind
    causes = tuple([amend_cause(cause, amendment, kind) for cause in report.causes])
    if verdict is not None:
        causes = sort_causes(causes)
    return judge_causes_again(replace(report, causes=causes))


def _add_histories(
    groups: Sequence[Group], histories: Mapping[str, GroupHistory]
) -> tuple[Group, ...]:
    """Return groups with what earlier runs say of them."""
    known = []
    for group in groups:
        history = histories.get(group.fingerprint)
        known.append(group if history is None else replace(group, history=history))
    return tuple(known)


def judge_causes_again(report: FailureReport) -> FailureReport:
    """Return a report with a verdict that follows from what is known of the causes."""
    verdict, causes = report.verdict, report.causes
    if verdict is None or not causes:
        return report
    verdict = replace(verdict, charge_to=charge_verdict(verdict.kind, causes))
    if report.limits.causes_omitted:
        return replace(report, verdict=verdict)
    retryable = whether_retry_helps([cause.retryable for cause in causes])
    verdict = replace(verdict, retryable=retryable)
    return recommend_again(replace(report, verdict=verdict))


def recommend_again(report: FailureReport) -> FailureReport:
    """Return a report with a verdict that recommends what its causes need."""
    verdict = report.verdict
    if verdict is None:
        return report
    commit = build.baseline_commit(report)
    advice = recommend(verdict.kind, report.causes, commit)
    if advice.recovery_action == verdict.recovery_action:
        return report
    return replace(report, verdict=replace(verdict, **to_dict(advice)))


def are_of_one_kind(
    one: Verdict | HeldReason | Cause | None,
    other: Verdict | HeldReason | Cause | None,
) -> bool:
    """Tell whether two verdicts, reasons or causes are there and have one reason and kind."""
    if one is None or other is None:
        return False
    return (one.reason, one.kind) == (other.reason, other.kind)


def counts_of(summary: ev.Counts) -> ev.Counts:
    """Return how many tests a report's run has run, and how many of them passed."""
    ran = max(0, summary.collected - summary.not_run)
    return ev.Counts(collected=ran, passed=summary.passed)


def _findings_of(
    reasons: Sequence[HeldReason], verdict: Verdict | None
) -> Iterator[Finding]:
    """Yield the findings behind reasons: those at a node each, with the details that are quoted.

    Raises:
        ValueError: a reason has more than any run has.
    """
    for held in reasons:
        is_verdict = are_of_one_kind(held, verdict)
        if held.count > _MOST:
            raise ValueError(f"{held.count} are no findings of one reason")
        quoted = verdict.evidence if verdict is not None and is_verdict else ()
        singly = max(len(held.nodeids), min(len(quoted), held.count))
        for index in range(singly + (held.count > singly)):
            source = quoted[index] if index < len(quoted) else _UNQUOTED
            nodeid = held.nodeids[index] if index < len(held.nodeids) else None
            yield Finding(
                reason=held.reason,
                kind=held.kind,
                source=source.source,
                detail=source.detail,
                nodeid=nodeid,
                count=1 if index < singly else held.count - singly,
                retryable=verdict.retryable if verdict and is_verdict else None,
                failure_type=verdict.failure_type if verdict and is_verdict else None,
                is_hearsay=held.kind.startswith("marker.") and not is_verdict,
            )


def causes_of_groups(report: FailureReport | MergedRun) -> tuple[Cause, ...]:
    """Return the causes of a report that has none, because its schema had no such field.

    They are its groups, and the reasons that no group has.
    """
    verdict = report.verdict
    if verdict is None:
        return ()
    causes = list(map(build.cause_of_group, report.groups))
    kinds = {cause.kind for cause in causes}
    for held in report.reasons:
        is_primary = are_of_one_kind(held, verdict)
        is_hearsay = held.kind.startswith("marker.") and not is_primary
        if held.kind in kinds or is_hearsay:
            continue
        kind = describe_kind(held.kind, held.reason)
        cause = Cause(
            key=f"{held.reason} {held.kind}",
            what=verdict.message if is_primary else kind.phrase(held.count),
            fix=None,
            reason=held.reason,
            kind=held.kind,
            owner=None,
            retryable=None,
            count=held.count,
            nodeids=held.nodeids,
            fingerprints=(),
        )
        causes.append(cause)
    with_answers = []
    for cause in causes:
        retryable = describe_kind(cause.kind, cause.reason).retryable
        if are_of_one_kind(cause, verdict):
            retryable = verdict.retryable
        with_answers.append(replace(cause, retryable=retryable))
    return sort_causes(with_answers)
