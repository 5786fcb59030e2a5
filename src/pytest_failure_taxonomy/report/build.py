"""Build the report's JSON object, schema version 1.2, from evidence and judgement.

This is plain data on purpose: the model in `model.py` says the same shape for readers, and the
tests hold the two together, but importing pydantic would cost each run 50 ms or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, Final

from pytest_failure_taxonomy._version import VERSION
from pytest_failure_taxonomy.report.limits import OWN_NAME, JSONObject, Limits, Redaction
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Completeness,
    Location,
    RunContext,
    RunEvidence,
    SeenStall,
    Stall,
    Surroundings,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.reasons import PYTEST_EXIT_CODE_NAMES, Judgement, Verdict
from pytest_failure_taxonomy.taxonomy.values import to_dict
from pytest_failure_taxonomy.taxonomy.words import words_of_stalled_activity

SCHEMA_ID: Final = "urn:pytest-failure-taxonomy:failure-report:1.2"
SCHEMA_VERSION: Final = "1.2"
MAX_ATTRIBUTIONS: Final = 100
"""How many attributions `extensions` lists."""


def build_report(
    run: RunEvidence,
    judgement: Judgement,
    context: RunContext,
    *,
    completeness: Completeness = "full",
    faults: Sequence[str] = (),
    redaction: Redaction | None = None,
) -> JSONObject:
    """Return the report as a JSON object, its keys in the published order.

    Args:
        run: what was seen.
        judgement: what `judge` made of it.
        context: which run it was.
        completeness: `full` from pytest itself, `reconstructed` after its death, else `running`.
        faults: what went wrong in the recorder itself, in words.
        redaction: removes secrets from every text.
    """
    limits = Limits(redaction, run.unrecorded)
    counts = to_dict(run.counts)
    warnings = counts.pop("warnings")
    report: JSONObject = {
        "run": {
            "id": context.id,
            "started_at": context.started_at,
            "duration_seconds": _seconds(context.duration_seconds),
            "stage": str(run.stage),
            "invocation": {"args": list(context.args), "rootdir": context.rootdir},
            "shard": _plain(context.shard),
        },
        "completeness": completeness,
        "exit": exit_as_json(run, judgement),
        "verdict": verdict_as_json(judgement.verdict, limits),
        "reasons": reasons_as_json(judgement, limits),
        "summary": {
            **counts,
            "timed_out": sum(each.timed_out for each in judgement.failures),
            "crashed": sum(failure.crashed for failure in run.failures),
            "in_flight": len(run.in_flight),
            "not_run": len(run.not_run),
            "collection_errors": len(run.collection_failures) + run.unrecorded.collection_failures,
            "warnings": warnings,
        },
        "failures": [
            {
                "nodeid": failure.nodeid,
                "phase": failure.phase,
                "reason": str(judged.reason),
                "kind": judged.kind,
                "failure_type": str(judged.failure_type),
                **_raised(failure, limits),
                "duration_seconds": _seconds(failure.duration_seconds),
                "attempts": failure.attempts,
                "worker": failure.worker,
                "marker": failure.marker and failure.marker.name,
                "fingerprint": judged.fingerprint,
                "rule": judged.rule,
            }
            for failure, judged in zip(
                limits.listed("failures", run.failures), judgement.failures, strict=False
            )
        ],
        "groups": [
            {
                **to_dict(group),
                "reason": str(group.reason),
                "title": limits.message(group.title),
                "nodeids": limits.nodeids(group.nodeids),
                "history": None,
            }
            for group in limits.listed("groups", judgement.groups)
        ],
        "causes": causes_as_json(judgement, limits),
        "collection_errors": [
            {
                **dict.fromkeys(("nodeid", "exception", "message", "location", "origin")),
                "failure_type": str(judged.failure_type),
                **_raised(failure, limits),
                "nodeid": failure.nodeid,
                "message": limits.message(failure.message),
            }
            for failure, judged in zip(
                limits.listed("collection_errors", run.collection_failures),
                judgement.collection_failures,
                strict=False,
            )
        ],
        "internal_errors": [
            {
                "kind": judged.kind,
                "message": limits.message(error.message),
                "traceback": limits.traceback(error.traceback),
            }
            for error, judged in zip(
                limits.listed("internal_errors", run.errors), judgement.errors, strict=False
            )
        ],
        "in_flight": [
            {
                **to_dict(test),
                "elapsed_seconds": _seconds(test.elapsed_seconds),
                "stall": test.stall
                and {
                    **_stall(test.stall, test.stall.where, limits),
                    "children": [limits.message(each) for each in test.stall.children],
                },
                "stack": limits.traceback(test.stack),
                "location": _location(test.location),
            }
            for test in run.in_flight
        ],
        "stalls": [_stalled_activity(each, limits) for each in run.stalls],
        "tests": None
        if run.tests is None
        else [
            {
                **to_dict(test),
                "start_seconds": _seconds(test.start_seconds),
                "duration_seconds": _seconds(test.duration_seconds),
            }
            for test in run.tests
        ],
        "not_run": {"count": len(run.not_run), "nodeids": limits.nodeids(run.not_run)},
        "order": None,
        "workers": [
            {
                "id": worker.id,
                "tests": worker.tests,
                "exit": {"code": worker.exit_code, "signal": worker.signal},
                "crashed_on": worker.crashed_on,
                "peak_rss_bytes": worker.peak_rss_bytes,
            }
            for worker in run.workers
        ],
        "bench": [],
        "environment": {**_plain(context.environment), "distributions": None},
        "limits": None,
        "extensions": _own_extensions(run, judgement, context, faults),
    }
    if run.mismatch is not None:
        from pytest_failure_taxonomy.taxonomy import mismatch

        error = {
            "kind": "collection.mismatch",
            "message": limits.message(mismatch.headline_of_mismatch(run.mismatch)),
            "traceback": limits.traceback(mismatch.text_of_mismatch(run.mismatch)),
        }
        report["internal_errors"].append(error)
    report = limits.fit(report)
    if limits.redacted:
        report["extensions"].setdefault(OWN_NAME, {})["redacted"] = limits.redacted
    return {
        "$schema": SCHEMA_ID,
        "schema_version": SCHEMA_VERSION,
        "generator": {"name": "pytest-failure-taxonomy", "version": VERSION},
        **report,
        "limits": limits.cut,
    }


def exit_as_json(run: RunEvidence, judgement: Judgement) -> JSONObject:
    """Return the field `exit`."""
    code = run.exit.code
    return {
        "code": code,
        "name": None if code is None else PYTEST_EXIT_CODE_NAMES.get(code),
        "signal": run.exit.signal,
        "reason": None if judgement.exit_reason is None else str(judgement.exit_reason),
        "observed": run.exit.observed,
        "source": run.exit.source,
    }


def verdict_as_json(verdict: Verdict | None, limits: Limits) -> JSONObject | None:
    """Return the field `verdict`."""
    if verdict is None:
        return None
    return {
        **dict.fromkeys(("reason", "kind")),
        "precedence": verdict.reason.precedence,
        **to_dict(verdict),
        "reason": str(verdict.reason),
        "failure_type": str(verdict.failure_type),
        "recovery_action": str(verdict.recovery_action),
        "evidence": [
            {"source": each.source, "detail": limits.message(each.detail)}
            for each in verdict.evidence
        ],
        "ambiguous": list(verdict.ambiguous),
    }


def reasons_as_json(judgement: Judgement, limits: Limits) -> list[JSONObject]:
    """Return the field `reasons`."""
    return [
        {
            "reason": str(held.reason),
            "kind": held.kind,
            "count": held.count,
            "nodeids": limits.nodeids(held.nodeids),
        }
        for held in judgement.reasons
    ]


def causes_as_json(
    judgement: Judgement, limits: Limits, before: Iterable[JSONObject] = ()
) -> list[JSONObject]:
    """Return the field `causes`; what a history and experiments say of them is added later.

    Args:
        judgement: has the causes.
        limits: cut them.
        before: causes of which a history and experiments have said something already.
    """
    known: dict[str, JSONObject] = {}
    for told in before:
        if told["key"] not in known or known[told["key"]]["history"] is None:
            known[told["key"]] = told
    causes: list[JSONObject] = []
    for cause in limits.listed("causes", judgement.causes):
        fields = to_dict(cause) | {
            "what": limits.message(cause.what),
            "reason": str(cause.reason),
            "nodeids": limits.nodeids(cause.nodeids),
            "fingerprints": list(cause.fingerprints),
        }
        fields = _UNASKED | known.get(cause.key, _UNASKED) | fields
        causes.append({name: fields[name] for name in CAUSE_FIELDS})
    if known:  # else they are in order
        sort_causes(causes)
    return causes


CAUSE_FIELDS: Final = (
    *("key", "what", "fix", "reason", "kind", "owner", "retryable", "charge_to"),
    *("count", "nodeids", "fingerprints", "history", "proof"),
)
"""The fields of a cause in their order."""
_UNASKED: Final = {"charge_to": None, "history": None, "proof": None}


def sort_causes(causes: list[JSONObject]) -> None:
    """Put causes in the order of the report, by what the history says of them, too."""
    if not causes:
        return
    from pytest_failure_taxonomy.taxonomy.causes import place_of_cause

    causes.sort(
        key=lambda cause: place_of_cause(
            cause["kind"], (cause["history"] or {}).get("state"), cause["count"]
        )
    )


def _stalled_activity(stalled: SeenStall, limits: Limits) -> JSONObject:
    where = words_of_stalled_activity(stalled) or None
    said = _stall(stalled.stall, where, limits)
    return {"what": stalled.what, **said, "worker": stalled.worker}


def _stall(stall: Stall, where: str | None, limits: Limits) -> JSONObject:
    return {
        "state": stall.state,
        "seconds": _seconds(stall.seconds),
        "where": where,
        "stack": limits.traceback(stall.stack),
    }


def _raised(failure: TestFailure | CollectionFailure, limits: Limits) -> JSONObject:
    """Return what was raised, where, and by whose code."""
    raised = failure.exception
    return {
        "exception": None
        if raised is None
        else {
            "type": raised.type,
            "module": raised.module,
            "message": limits.message(raised.message),
        },
        "location": _location(failure.location),
        "origin": None if raised is None or raised.frame is None else to_dict(raised.frame),
        "traceback": limits.traceback(failure.traceback, cut_before=failure.traceback_truncated),
    }


def _location(location: Location | None) -> JSONObject | None:
    if location is None:
        return None
    # Code objects made by hand can claim any line.
    line = location.line if location.line is not None and location.line >= 1 else None
    return {"path": location.path, "line": line}


def _own_extensions(
    run: RunEvidence, judgement: Judgement, context: RunContext, faults: Sequence[str]
) -> JSONObject:
    """Return what has no field of its own, under our own name; nothing in an ordinary run."""
    repository = context.repository
    counted = Counter(
        failure.attributed for failure in run.failures if failure.attributed is not None
    )
    own = {
        "notes": list(judgement.notes),
        "faults": [*faults, *judgement.faults],
        "attributions": [  # each once with its count, most frequent first
            {
                **{name: each for name, each in to_dict(said).items() if each is not None},
                "count": count,
            }
            for said, count in counted.most_common(MAX_ATTRIBUTIONS)
        ],
        "git": None
        if repository is None
        else {"repository": repository.name, "merge_base": repository.merge_base},
        "attempt": _plain(context.attempt),
        "surroundings": _plain(context.surroundings)
        if context.surroundings != Surroundings()
        else None,
        "session_exit_code": run.exit.session_code if run.exit.code == 0 else None,
    }
    said = {name: each for name, each in own.items() if each}
    return {OWN_NAME: said} if said else {}


def _seconds(value: float | None) -> float | None:
    """Round to microseconds; a patched clock can't make it negative, infinite or NaN."""
    if value is None or not isfinite(value):
        return None
    return round(max(0.0, value), 6)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "__slots__"):
        return _plain(to_dict(value))
    return value


def with_stalls_at_end(report: dict[str, Any], stalls: tuple[SeenStall, ...]) -> dict[str, Any]:
    """Return a report with what was stalled after the session had ended; unchanged without any."""
    rows = [_stalled_activity(each, Limits()) for each in stalls]
    before = [row for row in report.get("stalls", ()) if row["what"] != "shutdown"]
    return {**report, "stalls": [*before, *rows]} if rows else report
