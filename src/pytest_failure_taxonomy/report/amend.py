"""Judge reports again, with what is known now: the end of a process, other runs, or experiments.

A report tells its findings and causes without the failures that they were made from, so they are
taken as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.build import JSONObject
from pytest_failure_taxonomy.report.model import CODEC
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import judgement
from pytest_failure_taxonomy.taxonomy.amendments import (
    Amendment,
    amend_cause,
    charge_verdict,
    recommend,
)
from pytest_failure_taxonomy.taxonomy.causes import gather_causes, whether_retry_helps
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import ChargedTo, Proof
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

_MOST: Final = 1_000_000
"""The most findings of one reason that a report may claim; no run has as many failed tests."""
_STALL: Final = ("state", "seconds", "where", "stack")
_AS_BEFORE: Final = ("confidence", "evidence", "ambiguous", "owner")
_UNQUOTED: Final = {"source": "report", "detail": "in the report that pytest wrote"}


def amend_report(
    report: dict[str, Any], end: ev.ProcessExit, stalls: tuple[ev.SeenStall, ...] = ()
) -> dict[str, Any]:
    """Return the report that pytest wrote, with how its process ended after that.

    It is unchanged where that says nothing new. The reasons found before still hold; the end may
    add one, and what was stalled before it another; the judge says which comes first. Without
    `stalls`, those count that were added to the report before.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is not a report of ours.
    """
    before = report["exit"]["code"]
    is_as_before = end.code == before and end.signal == report["exit"]["signal"]
    # At our own limit, a handler of SIGTERM may have left with the session's status.
    if end.code is None or (is_as_before and end.enforced_limit_seconds is None):
        return report
    evidence = ev.RunEvidence(
        stage=judgement.Stage(report["run"]["stage"]),
        exit=replace(end, session_code=before),
        counts=counts_of(report["summary"]),
        stalls=stalls
        or tuple(
            ev.SeenStall(
                what="shutdown", stall=ev.Stall(**{name: row[name] for name in _STALL})
            )
            for row in report.get("stalls", ())
            if row["what"] == "shutdown"
        ),
    )
    session_code = before if end.code == 0 else report["session_exit_code"]
    return {
        **build.with_stalls_at_end(report, stalls),
        "session_exit_code": session_code,
        **judge_again([report], evidence, build.Limits()),
    }


def judge_again(
    reports: Sequence[Mapping[str, Any]], new: ev.RunEvidence, limits: build.Limits
) -> JSONObject:
    """Return the fields that say what reports have found, and what is new, come to together.

    These are `exit`, `verdict`, `reasons` and `causes`. A verdict that one of the reports has, too,
    has its evidence.
    """
    told = [finding for report in reports for finding in findings_of(report)]
    causes_told = [cause for report in reports for cause in causes_of(report)]
    evidence = replace(
        new,
        settled=(*told, *new.settled),
        settled_causes=(*causes_told, *gather_causes(new.settled)),
    )
    judged = judge(evidence)
    verdict = build.verdict_as_json(judged.verdict, limits)
    same = [
        each["verdict"] for each in reports if are_of_one_kind(each["verdict"], verdict)
    ]
    if verdict is not None and len(same) == 1:
        verdict |= {name: same[0][name] for name in _AS_BEFORE}
    causes = build.causes_as_json(
        judged, limits, (cause for report in reports for cause in report["causes"])
    )
    if verdict is not None and causes:
        verdict["charge_to"] = _charge_of(verdict, causes)
    return {
        "exit": build.exit_as_json(evidence, judged),
        "verdict": verdict,
        "reasons": build.reasons_as_json(judged, limits),
        "causes": causes,
    }


def amend(report: JSONObject, amendment: Amendment) -> JSONObject:
    """Return a report with an amendment, and with what follows from it.

    Args:
        report: its JSON object, which stays as it is.
        amendment: what a neighbour proposes.
    """
    verdict = report["verdict"]
    amended = _with_histories(report, amendment)
    if verdict is not None:
        quoted = [to_dict(evidence) for evidence in amendment.evidence]
        verdict = {**verdict, "evidence": [*verdict["evidence"], *quoted]}
        if amendment.of_verdict is not None:
            verdict["history"] = CODEC.encode(amendment.of_verdict)
        if amendment.nodeid is not None and verdict["nodeid"] is not None:
            verdict["nodeid"] = amendment.nodeid
        amended["verdict"] = verdict
    if not (amendment.histories or amendment.of_verdict or amendment.proofs):
        return amended
    kind = None if verdict is None else verdict["kind"]
    causes = [amend_cause(cause, amendment, kind) for cause in causes_of(report)]
    rows = [CODEC.encode(cause) for cause in causes]
    if verdict is not None:
        build.sort_causes(rows)
    amended["causes"] = rows
    if verdict is not None:
        judge_causes_again(amended)
    return amended


def with_proofs(report: JSONObject, proofs: Mapping[str, JSONObject]) -> JSONObject:
    """Return a report with what experiments say of its causes, by their keys."""
    values = {key: proof_from_json(proof) for key, proof in proofs.items()}
    return amend(report, Amendment(proofs=values))


def proof_from_json(proof: JSONObject) -> Proof:
    """Return the value of `causes[].proof`, which another version may have written."""
    return Proof(**{**build.NO_PROOF, **proof})


def _with_histories(report: JSONObject, amendment: Amendment) -> JSONObject:
    """Return a report with what earlier runs say of its groups."""
    groups = []
    for group in report["groups"]:
        history = amendment.histories.get(group["fingerprint"])
        if history is not None:
            groups.append({**group, "history": CODEC.encode(history)})
        else:
            groups.append(group)
    return {**report, "groups": groups}


def judge_causes_again(report: JSONObject) -> None:
    """Write into a verdict what follows from what is known of the causes."""
    verdict, causes = report["verdict"], report["causes"]
    if not causes:
        return
    verdict["charge_to"] = _charge_of(verdict, causes)
    if report["limits"]["causes_omitted"]:
        return
    verdict["retryable"] = whether_retry_helps(cause["retryable"] for cause in causes)
    recommend_again(report)


def recommend_again(report: JSONObject) -> None:
    """Write into a verdict what is recommended for the causes of its report."""
    verdict, commit = report["verdict"], build.baseline_commit(report)
    advice = recommend(verdict["kind"], causes_of(report), commit)
    if advice.recovery_action != verdict["recovery_action"]:
        verdict["recovery_action"] = str(advice.recovery_action)
        verdict["failure_type"] = str(advice.failure_type)
        verdict["nodeid"] = advice.nodeid


def _charge_of(verdict: JSONObject, causes: Sequence[JSONObject]) -> ChargedTo | None:
    charges = [(cause["kind"], cause["charge_to"]) for cause in causes]
    return charge_verdict(verdict["kind"], charges)


def are_of_one_kind(one: JSONObject | None, other: JSONObject | None) -> bool:
    """Tell whether two verdicts, reasons or causes are there and have one reason and kind."""
    if one is None or other is None:
        return False
    return (one["reason"], one["kind"]) == (other["reason"], other["kind"])


def counts_of(summary: Mapping[str, int]) -> ev.Counts:
    """Return how many tests a report's run has run, and how many of them passed."""
    ran = max(0, summary["collected"] - summary["not_run"])
    return ev.Counts(collected=ran, passed=summary["passed"])


def findings_of(report: Mapping[str, Any]) -> Iterator[judgement.Finding]:
    """Yield the findings that a report tells of: of each reason all, with the details it quotes."""
    verdict = report["verdict"]
    for held in report["reasons"]:
        is_verdict = are_of_one_kind(held, verdict)
        quoted = verdict["evidence"] if is_verdict else []
        said = verdict["failure_type"] if is_verdict else None
        if held["count"] > _MOST:
            raise ValueError(f"{held['count']} are no findings of one reason")
        told = max(len(held["nodeids"]), min(len(quoted), held["count"]))
        for index in range(told + (held["count"] > told)):
            source = quoted[index] if index < len(quoted) else _UNQUOTED
            yield judgement.Finding(
                reason=judgement.FailureReason(held["reason"]),
                kind=held["kind"],
                source=source["source"],
                detail=source["detail"],
                nodeid=held["nodeids"][index] if index < len(held["nodeids"]) else None,
                count=1 if index < told else held["count"] - told,
                retryable=verdict["retryable"] if is_verdict else None,
                failure_type=None if said is None else judgement.FailureType(said),
                is_hearsay=held["kind"].startswith("marker.") and not is_verdict,
            )


def causes_of(report: Mapping[str, Any]) -> Iterator[judgement.Cause]:
    """Yield the causes that a report tells of.

    Raises:
        ValueError: one claims more failures than any run has.
    """
    for row in report["causes"]:
        if row["count"] > _MOST:
            raise ValueError(f"{row['count']} are no failures of one cause")
        yield CODEC.decode(judgement.Cause, row)


def causes_of_groups(report: Mapping[str, Any]) -> list[JSONObject]:
    """Return the causes of a report that has none, because its schema had no such field.

    They are its groups, and the reasons that no group has.
    """
    verdict = report["verdict"]
    if verdict is None:
        return []
    causes = list(map(build.cause_of_group, report["groups"]))
    kinds = {cause["kind"] for cause in causes}
    for held in report["reasons"]:
        is_primary = are_of_one_kind(held, verdict)
        if held["kind"] not in kinds and (
            is_primary or not held["kind"].startswith("marker.")
        ):
            kind = judgement.describe_kind(
                held["kind"], judgement.FailureReason(held["reason"])
            )
            what = verdict["message"] if is_primary else kind.phrase(held["count"])
            key = " ".join((held["reason"], held["kind"]))
            about = {**held, "key": key, "what": what, "fingerprints": []}
            causes.append({**build.NO_CAUSE, **about})
    for cause in causes:
        kind = judgement.describe_kind(
            cause["kind"], judgement.FailureReason(cause["reason"])
        )
        is_primary = are_of_one_kind(cause, verdict)
        cause["retryable"] = verdict["retryable"] if is_primary else kind.retryable
    build.sort_causes(causes)
    return causes
