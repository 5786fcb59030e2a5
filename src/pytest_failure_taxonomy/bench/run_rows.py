"""A kept run as rows for a notebook or a spreadsheet: one for each case and call of its system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.run_records import KeptAttempt
    from pytest_failure_taxonomy.bench.runs_on_disk import KeptRun

Row = dict[str, Any]


def rows_of(run: KeptRun) -> list[Row]:
    """Return the rows of a run, in the order of its cases and their calls.

    All rows have the same fields in the same order. A case without a call that ended has one row
    without an `attempt`.
    """
    rows: list[Row] = []
    for case_id in dict.fromkeys([*run.cases, *run.attempts]):
        calls: list[KeptAttempt | None] = list(run.attempts.get(case_id, ()))
        last = run.last_of(case_id)
        for call in calls or [None]:
            is_last = call is last if last is not None else call is (calls or [None])[-1]
            rows.append(_row(run, case_id, call, is_last=is_last))
    return rows


def _row(run: KeptRun, case_id: str, call: KeptAttempt | None, *, is_last: bool) -> Row:
    header, case = run.header, run.cases.get(case_id)
    score = None if call is None else call.score
    return {
        "run_id": header.run_id,
        "task_class": header.task_class,
        "system": header.system.name,
        "system_version": header.system.version,
        "system_label": header.system.label,
        "case_id": case_id,
        "repetition": None if case is None else case.repetition,
        "tags": [] if case is None else list(case.tags),
        "is_last": is_last,
        "result": run.state_of(case_id) if is_last else "repeated",
        "attempt": None if call is None else call.attempt,
        "started_at": None if call is None else call.started_at,
        "seconds": None if call is None else call.seconds,
        "worker": None if call is None else call.worker,
        "cost_usd": None if call is None else call.cost_usd,
        "usage": {} if call is None else call.usage,
        "ended": None if call is None else call.ended,
        "kind": None if call is None else call.kind,
        "fingerprint": None if call is None else call.fingerprint,
        "passed": None if score is None else score.passed,
        "score": None if score is None else score.score,
        "breakdown": {} if score is None else score.breakdown,
        "failure_modes": [mode.model_dump() for mode in score.failure_modes] if score else [],
        "case_cost_usd": None if score is None else score.cost_usd,
        "rubric_cost_usd": None if score is None or call is None else call.rubric_cost_usd,
        "wall_clock_ms": None if score is None else score.wall_clock_ms,
        "has_output": call is not None and call.gave_output and "output" not in call.truncated,
        "output": None if call is None else call.output,
        "transcript": None if call is None else call.transcript,
        "printed": None if call is None else call.printed,
        "truncated": [] if call is None else list(call.truncated),
        "is_redacted": call is not None and call.is_redacted,
    }
