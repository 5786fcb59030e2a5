"""Correct a report that pytest wrote itself by how its process ended after that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_failure_taxonomy.report.build import exit_as_json, reasons_as_json, verdict_as_json
from pytest_failure_taxonomy.report.limits import JSONObject, Limits
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit, RunEvidence
from pytest_failure_taxonomy.taxonomy.failure_types import FailureType
from pytest_failure_taxonomy.taxonomy.findings import Finding
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.stages import Stage
from pytest_failure_taxonomy.taxonomy.values import replace

_MOST: Final = 1_000_000
"""Findings of one reason; a run has no more tests that failed."""
_UNQUOTED: Final = {"source": "report", "detail": "in the report that pytest wrote"}


def amend_report(report: dict[str, Any], end: ProcessExit) -> dict[str, Any]:
    """Return the report with the end of its process in it; unchanged where that says nothing new.

    What was judged before stands; the end adds to it, and the judge says which comes first.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is no report of ours.
    """
    before = report["exit"]["code"]
    if end.code is None or (end.code == before and end.signal == report["exit"]["signal"]):
        return report
    evidence = RunEvidence(
        stage=Stage(report["run"]["stage"]),
        exit=replace(end, session_code=before),
        settled=tuple(_findings(report)),
    )
    judgement = judge(evidence)
    limits = Limits()
    return {
        **report,
        "exit": exit_as_json(evidence, judgement),
        "verdict": _verdict(report["verdict"], verdict_as_json(judgement.verdict, limits)),
        "reasons": reasons_as_json(judgement, limits),
    }


def _verdict(before: JSONObject | None, after: JSONObject | None) -> JSONObject | None:
    """Return the verdict that was, made with all the evidence, where it is still the same."""
    if before is None or after is None:
        return after
    is_same = (before["reason"], before["kind"]) == (after["reason"], after["kind"])
    return before if is_same else after


def _findings(report: dict[str, Any]) -> Iterator[Finding]:
    """Yield what was found before, as far as the report tells: all reasons, their first details."""
    verdict = report["verdict"] or {}
    for held in report["reasons"]:
        is_verdict = (held["reason"], held["kind"]) == (verdict["reason"], verdict["kind"])
        quoted = verdict["evidence"] if is_verdict else []
        said = verdict["failure_type"] if is_verdict else None
        if held["count"] > _MOST:
            raise ValueError(f"{held['count']} are no findings of one reason")
        for index in range(held["count"]):
            told = quoted[index] if index < len(quoted) else _UNQUOTED
            yield Finding(
                reason=FailureReason(held["reason"]),
                kind=held["kind"],
                source=told["source"],
                detail=told["detail"],
                nodeid=held["nodeids"][index] if index < len(held["nodeids"]) else None,
                retryable=verdict["retryable"] if is_verdict else None,
                failure_type=None if said is None else FailureType(said),
                is_hearsay=held["kind"].startswith("marker."),
            )
