"""What the history answers: which runs there were, what fails most, and how that has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, and_, func, select

from pytest_failure_taxonomy.history.store import History, remove_runs
from pytest_failure_taxonomy.history.tables import (
    CAUSES,
    FAILURES,
    OUTCOMES,
    PROJECTS,
    RUN_CAUSES,
    RUNS,
    TESTS,
)
from pytest_failure_taxonomy.taxonomy.values import value

FAILING: Final = ("failed", "error", "in_flight")
"""Outcomes of tests that failed."""
UNCLASSIFIED: Final = "UNKNOWN"


@value
class Wanted:
    """Which runs or failures an answer is about; `None` means all.

    `kind`, `nodeid` and `branch` are patterns, in which `*` stands for any text and `?` for one
    character. Times are UTC without a zone, `since` included and `until` not.
    """

    project: str | None = None
    reason: str | None = None
    kind: str | None = None
    owner: str | None = None
    stage: str | None = None
    branch: str | None = None
    nodeid: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@value
class RunRow:
    """One run, as `history list` shows it."""

    id: str
    project: str
    started_at: datetime
    duration_seconds: float | None
    stage: str
    reason: str | None
    """`None` for success."""
    kind: str | None
    owner: str | None
    nodeid: str | None
    message: str | None
    commit: str | None
    branch: str | None
    passed: int
    failed: int
    errors: int
    completeness: str


@value
class CauseRow:
    """One cause of failures, as `history top` shows it."""

    fingerprint: str
    reason: str
    kind: str
    title: str
    owner: str | None
    runs: int
    """Runs that had it."""
    failures: int
    seconds: float
    """How long the failures that reports list took."""
    first_seen: datetime
    last_seen: datetime


@value
class Period:
    """The runs of one day, week or month."""

    begins: str
    runs: int
    failed: int
    unclassified: int
    """Failed runs whose reason is `UNKNOWN`."""
    minutes_lost: float
    """How long the failed runs took."""
    reasons: Mapping[str, int]
    minutes_by_reason: Mapping[str, float]


def list_runs(history: History, wanted: Wanted | None = None, *, limit: int = 20) -> list[RunRow]:
    """Return the latest runs, the last one first.

    A filter by node id finds the runs in which a test of that name failed; one by reason, kind or
    owner looks at verdicts.
    """
    columns = [RUNS.c[name] for name in RunRow.__annotations__ if name in RUNS.c]
    query = (
        select(*columns, RUNS.c.commit_id.label("commit"), PROJECTS.c.name.label("project"))
        .join(PROJECTS)
        .where(*of_runs(wanted), *_of_verdicts(wanted))
        .order_by(RUNS.c.started_at.desc(), RUNS.c.number.desc())
        .limit(limit)
    )
    with history.reading() as connection:
        return [RunRow(**row) for row in connection.execute(query).mappings()]


def find_top(history: History, wanted: Wanted | None = None, *, limit: int = 20) -> list[CauseRow]:
    """Return the causes that most runs had, with the time that their failures took."""
    runs, causes = of_runs(wanted, nodeid=False), _of_verdicts(wanted, CAUSES)
    if wanted is not None and wanted.nodeid is not None:
        of_tests = select(FAILURES.c.cause_id).join(TESTS, TESTS.c.id == FAILURES.c.test_id)
        causes.append(CAUSES.c.id.in_(of_tests.where(*matches(TESTS.c.nodeid, wanted.nodeid))))
    counted = (
        select(
            RUN_CAUSES.c.cause_id,
            func.count().label("runs"),
            func.sum(RUN_CAUSES.c.count).label("failures"),
            func.sum(RUN_CAUSES.c.seconds).label("seconds"),
        )
        .group_by(RUN_CAUSES.c.cause_id)
        .order_by(func.count().desc(), func.sum(RUN_CAUSES.c.count).desc(), RUN_CAUSES.c.cause_id)
        .limit(limit)
    )
    if runs:
        counted = counted.join(RUNS).where(*runs)
    if causes:
        counted = counted.where(RUN_CAUSES.c.cause_id.in_(select(CAUSES.c.id).where(*causes)))
    best = counted.subquery()
    names = CauseRow.__annotations__.keys() - {"runs"}
    columns = [CAUSES.c[name] for name in names if name in CAUSES.c]
    query = (
        select(*columns, best.c.runs, best.c.failures, best.c.seconds)
        .join(best, best.c.cause_id == CAUSES.c.id)
        .order_by(best.c.runs.desc(), best.c.failures.desc(), CAUSES.c.id)
    )
    with history.reading() as connection:
        rows = connection.execute(query).mappings().all()
    # Sums are decimal numbers in PostgreSQL.
    return [
        CauseRow(**{**row, "failures": int(row["failures"]), "seconds": float(row["seconds"])})
        for row in rows
    ]


def count_periods(
    history: History, wanted: Wanted | None = None, *, by: str = "week"
) -> list[Period]:
    """Return the runs of each day, week (it begins on Monday) or month, the earliest first."""
    query = select(RUNS.c.started_at, RUNS.c.reason, RUNS.c.duration_seconds).where(
        *of_runs(wanted), *_of_verdicts(wanted)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    by_period: dict[str, list[Any]] = {}
    for row in rows:
        day = row.started_at
        if by == "week":
            day -= timedelta(days=day.weekday())
        begins = day.strftime("%Y-%m" if by == "month" else "%Y-%m-%d")
        by_period.setdefault(begins, []).append(row)
    periods = []
    for begins, rows in sorted(by_period.items()):
        reasons: defaultdict[str, int] = defaultdict(int)
        seconds: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            if row.reason is not None:
                reasons[row.reason] += 1
                seconds[row.reason] += row.duration_seconds or 0.0
        periods.append(
            Period(
                begins=begins,
                runs=len(rows),
                failed=sum(reasons.values()),
                unclassified=reasons.get(UNCLASSIFIED, 0),
                minutes_lost=sum(seconds.values()) / 60,
                reasons=dict(sorted(reasons.items(), key=lambda each: (-each[1], each[0]))),
                minutes_by_reason={name: each / 60 for name, each in sorted(seconds.items())},
            )
        )
    return periods


def prune(
    history: History, *, before: datetime, project: str | None = None, dry_run: bool = False
) -> int:
    """Remove the runs that began before a time; return how many.

    Tests that no run has had since then go, too. What an SQLite database needs on disk shrinks.
    """
    wanted = Wanted(project=project, until=before)
    with history.writing() as connection:
        numbers = list(connection.scalars(select(RUNS.c.number).where(*of_runs(wanted))))
        if dry_run:
            return len(numbers)
        remove_runs(connection, numbers)
        gone = TESTS.c.last_seen < before
        if project is not None:
            gone = and_(gone, TESTS.c.project_id.in_(_projects(project)))
        used = select(OUTCOMES.c.test_id).where(OUTCOMES.c.test_id == TESTS.c.id)
        connection.execute(TESTS.delete().where(gone, ~used.exists()))
    if numbers and history.engine.dialect.name == "sqlite":
        history.shrink()
    return len(numbers)


def _projects(name: str) -> Select[tuple[int]]:
    return select(PROJECTS.c.id).where(PROJECTS.c.name == name)


def of_runs(wanted: Wanted | None, *, nodeid: bool = True) -> list[ColumnElement[bool]]:
    """Return the conditions on runs, whatever their verdict is."""
    if wanted is None:
        return []
    found = [*matches(RUNS.c.branch, wanted.branch)]
    if wanted.project is not None:
        found.append(RUNS.c.project_id.in_(_projects(wanted.project)))
    if wanted.stage is not None:
        found.append(RUNS.c.stage == wanted.stage)
    if wanted.since is not None:
        found.append(RUNS.c.started_at >= wanted.since)
    if wanted.until is not None:
        found.append(RUNS.c.started_at < wanted.until)
    if nodeid and wanted.nodeid is not None:
        failing = (
            select(OUTCOMES.c.run_number)
            .join(TESTS)
            .where(*matches(TESTS.c.nodeid, wanted.nodeid), OUTCOMES.c.outcome.in_(FAILING))
        )
        found.append(RUNS.c.number.in_(failing))
    return found


def _of_verdicts(wanted: Wanted | None, table: Table = RUNS) -> list[ColumnElement[bool]]:
    """Return the conditions on what runs, or causes, are found to have."""
    if wanted is None:
        return []
    found = [*matches(table.c.kind, wanted.kind)]
    if wanted.reason is not None:
        found.append(table.c.reason == wanted.reason)
    if wanted.owner is not None:
        found.append(table.c.owner == wanted.owner)
    return found


def matches(column: Any, pattern: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a text matches a pattern with `*` and `?`, if there is one."""
    if pattern is None:
        return []
    if not set(pattern) & set("*?"):
        return [column == pattern]
    for special in "\\%_":
        pattern = pattern.replace(special, f"\\{special}")
    return [column.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")]
