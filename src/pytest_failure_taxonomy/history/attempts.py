"""Record an agent's attempts at its subtasks, and say what to do after a failed one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history.tables import (
    ATTEMPT,
    ATTEMPTS,
    clean_text,
    started_at,
)
from pytest_failure_taxonomy.logs.log_lines import marker_in
from pytest_failure_taxonomy.report.build import baseline_commit
from pytest_failure_taxonomy.report.summary import traits_of
from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure
from pytest_failure_taxonomy.taxonomy.judgement import (
    MARKER_REASONS,
    FailureTraits,
    FailureType,
    explain_recovery,
    is_circular_fix,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pytest_failure_taxonomy.history.database import History
    from pytest_failure_taxonomy.report.model import FailureReport

MAX_ERROR: Final = 20_000
"""Characters of an error that are kept."""
_RUN_ID: Final = func.coalesce(ATTEMPT.run_id, "")


@value
class PastAttempt:
    """One attempt at a subtask."""

    subtask_id: str
    approach: str
    """What was tried, in words."""
    success: bool
    error: str | None
    failure_type: str | None
    """`None` for a success."""
    reason: str | None
    """The reason of the run that failed, one of the fifteen, where there was one."""
    run_id: str | None
    commit: str | None
    at: datetime
    """UTC, without a zone."""


@value
class Recovery:
    """What to do after an attempt, and what it was decided by."""

    success: bool
    failure_type: str | None
    """`None` for a success, and so is all up to `failure_reason`, but for the hints."""
    action: str | None = None
    reason: str | None = None
    """Why that is recommended, in one sentence."""
    hints: tuple[str, ...] = ()
    failure_reason: str | None
    is_circular: bool
    """Two of the last three attempts were similar, whatever the failure's type is."""
    attempt_count: int
    """Attempts since the last success, this one included."""
    last_good_commit: str | None
    """Of the last success; before the first one, of the report's valid baseline."""
    tried: tuple[PastAttempt, ...]
    """All earlier attempts at the subtask, the oldest first."""


def attempts_of(history: History, subtask: str) -> list[PastAttempt]:
    """Return the attempts at a subtask, the oldest first."""
    with history.reading() as connection:
        return _read_attempts(connection, subtask)


def recover(
    history: History,
    subtask: str,
    approach: str,
    *,
    error: str | None = None,
    report: FailureReport | None = None,
    success: bool = False,
    commit: str | None = None,
) -> Recovery:
    """Record an attempt, and recommend what to do next.

    The type of a failure is that of the report's verdict or of the error's text; where
    neither tells, attempts that go round in circles are `CIRCULAR_FIX`.

    Args:
        history: an open history.
        subtask: the subtask's id.
        approach: what was tried, in words.
        error: what the failed attempt has printed.
        report: of the run, in place of `error`; a run without a verdict is a success.
        success: the attempt has succeeded.
        commit: the commit that the attempt has left; by default the report's.

    Raises:
        HistoryError: subtask or approach are empty, or the database can't be written.
    """
    for name, text, right in (
        ("subtask", subtask, "the subtask's id"),
        ("approach", approach, "a few words that say what was tried"),
    ):
        if not text.strip():
            raise HistoryError(f"{name}: it is empty; give {right}")
    subtask, approach = clean_text(subtask.strip()), clean_text(approach.strip())
    with history.writing() as connection:
        attempt, earlier = _record(
            connection, subtask, approach, error, report, success=success, commit=commit
        )
        # Of any subtask: it is what an agent would go back to.
        last_good = connection.scalar(
            select(ATTEMPT.commit_id)
            .where(ATTEMPT.success, ATTEMPT.commit_id.is_not(None))
            .order_by(ATTEMPT.at.desc(), _RUN_ID.desc(), ATTEMPT.id.desc())
            .limit(1)
        )
    count = 1
    for past in reversed(earlier):
        if past.success:
            break
        count += 1
    if last_good is None and report is not None:
        last_good = baseline_commit(report)
    recovery = Recovery(
        success=attempt.success,
        failure_type=attempt.failure_type,
        failure_reason=attempt.reason,
        is_circular=is_circular_fix(approach, [past.approach for past in earlier]),
        attempt_count=count,
        last_good_commit=last_good,
        tried=tuple(earlier),
    )
    if attempt.success:
        return recovery
    advice = explain_recovery(
        attempt.failure_type or FailureType.UNKNOWN,
        attempt_count=count,
        last_good_commit=last_good,
        traits=_find_traits(attempt, report),
    )
    return replace(
        recovery,
        action=str(advice.action),
        reason=advice.reason,
        hints=advice.hints,
    )


def _find_traits(attempt: PastAttempt, report: FailureReport | None) -> FailureTraits:
    if report is not None and report.verdict is not None:
        return traits_of(report, report.verdict)
    # Of a text there is only its type: a build or a check that failed fails again.
    is_unknown = attempt.failure_type == FailureType.UNKNOWN
    return FailureTraits(reason=attempt.reason, retryable=None if is_unknown else False)


def add_attempt_of(connection: Connection, report: FailureReport) -> None:
    """Record the attempt that a run says it was, in the run's own transaction."""
    attempt = report.attempt
    if attempt is not None and attempt.subtask and attempt.approach:
        _record(connection, attempt.subtask, attempt.approach, None, report)


def _record(
    connection: Connection,
    subtask: str,
    approach: str,
    error: str | None,
    report: FailureReport | None,
    *,
    success: bool = False,
    commit: str | None = None,
) -> tuple[PastAttempt, list[PastAttempt]]:
    """Judge and write an attempt; return it, and the earlier attempts at the subtask.

    That of a run replaces what was recorded of the same run before.
    """
    earlier = _read_attempts(connection, subtask)
    approaches = [past.approach for past in earlier]
    verdict = run_id = None
    at = datetime.now(UTC).replace(tzinfo=None)
    if report is not None:
        verdict, run_id = report.verdict, report.run.id
        # Its end: reports that a harness has joined all began at one moment.
        duration = timedelta(seconds=report.run.duration_seconds or 0.0)
        at = started_at(report) + duration
        git = report.environment.git
        if not commit and git is not None and not git.dirty:
            commit = git.commit
        success = success or verdict is None
        # Reports may be added in any order.
        earlier = [
            past
            for past in earlier
            if (past.at, past.run_id or "") < (at, run_id) and past.run_id != run_id
        ]
        # A harness tries one system again and again on purpose.
        is_trial = report.trial is not None
        approaches = [] if is_trial else [past.approach for past in earlier]
    failure_type = reason = None
    if success:
        error = None
    elif verdict is not None:
        error, reason = verdict.message, verdict.reason
        failure_type = verdict.failure_type or FailureType.UNKNOWN
        is_unknown = failure_type == FailureType.UNKNOWN
        # A type that the verdict gives is seen, circles are only inferred.
        if is_unknown and is_circular_fix(approach, approaches):
            failure_type = FailureType.CIRCULAR_FIX
    else:
        error = error or ""
        reason = MARKER_REASONS.get(marker_in(error) or "")
        failure_type = classify_failure(
            error, subtask, history=approaches, approach=approach
        )
    attempt = PastAttempt(
        subtask_id=subtask,
        approach=approach,
        success=success,
        error=clean_text(error, MAX_ERROR),
        failure_type=failure_type and str(failure_type),
        reason=reason and str(reason),
        run_id=run_id,
        commit=commit or None,
        at=at,
    )
    if run_id is not None:
        connection.execute(delete(ATTEMPTS).where(ATTEMPT.run_id == run_id))
    row = to_dict(attempt)
    row["commit_id"] = row.pop("commit")
    connection.execute(insert(ATTEMPTS), [row])
    return attempt, earlier


def _read_attempts(connection: Connection, subtask: str) -> list[PastAttempt]:
    # Columns have the names of fields, but `commit` is a word of SQL.
    names = [name for name in PastAttempt.__annotations__ if name in ATTEMPT]
    rows = connection.execute(
        select(*ATTEMPT[*names], ATTEMPT.commit_id.label("commit"))
        .where(ATTEMPT.subtask_id == subtask)
        .order_by(ATTEMPT.at, _RUN_ID, ATTEMPT.id)
    )
    return [PastAttempt(**row) for row in rows.mappings()]
