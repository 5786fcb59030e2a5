"""What the history answers: which runs there were, what fails most, and which tests are flaky."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import sqrt
from statistics import NormalDist
from typing import Any, Final

import sqlalchemy as sa

from pytest_failure_taxonomy.history.store import WATCHED_RUNS, History, remove_runs
from pytest_failure_taxonomy.history.tables import (
    CAUSES,
    FAILURES,
    OUTCOMES,
    PROJECTS,
    RUN_CAUSES,
    RUNS,
    TESTS,
    parts,
    rows_with,
)
from pytest_failure_taxonomy.taxonomy.values import value

FAILING: Final = ("failed", "error", "in_flight")
"""Outcomes of tests that failed."""
UNCLASSIFIED: Final = "UNKNOWN"
WINDOW_RUNS: Final = WATCHED_RUNS
"""How many runs, the latest ones, tell which tests are flaky."""
CHANGES_OF_MIND: Final = 3
"""From how many changes between passed and failed on one branch a test counts as flaky.

A fault that is made and mended is two.
"""
WORTH_QUARANTINE: Final = 0.02
"""The rate of failures from which a flaky test costs more than it tells: one run in fifty."""
_CONFIDENCE: Final = 0.95


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


ALL: Final = Wanted()


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


@value
class FlakyRow:
    """One test that passes and fails, as `history flaky` shows it."""

    nodeid: str
    runs: int
    """Runs since it was first seen, without those in which it was skipped or did not run."""
    failures: int
    rate: float
    low: float
    high: float
    """The bounds of Wilson's interval of 95 % for the rate."""
    commits: int
    """Commits on which it has passed and failed."""
    changes: int
    """Changes between passed and failed on one branch, in the order of the runs' times."""
    last_failed: datetime
    advice: str
    """`quarantine`, `watch` or `keep`."""


def list_runs(history: History, wanted: Wanted = ALL, *, limit: int = 20) -> list[RunRow]:
    """Return the latest runs, the last one first.

    A filter by node id finds the runs in which a test of that name failed; one by reason, kind or
    owner looks at verdicts.
    """
    columns = [RUNS.c[name] for name in RunRow.__annotations__ if name in RUNS.c]
    query = (
        sa.select(*columns, RUNS.c.commit_id.label("commit"), PROJECTS.c.name.label("project"))
        .join(PROJECTS)
        .where(*of_runs(wanted), *_of_verdicts(wanted))
        .order_by(RUNS.c.started_at.desc(), RUNS.c.number.desc())
        .limit(limit)
    )
    with history.reading() as connection:
        return [RunRow(**row) for row in connection.execute(query).mappings()]


def find_top(history: History, wanted: Wanted = ALL, *, limit: int = 20) -> list[CauseRow]:
    """Return the causes that most runs had, with the time that their failures took."""
    runs, causes = of_runs(wanted, nodeid=False), _of_verdicts(wanted, CAUSES)
    if wanted.nodeid is not None:
        of_tests = sa.select(FAILURES.c.cause_id).join(TESTS, TESTS.c.id == FAILURES.c.test_id)
        causes.append(CAUSES.c.id.in_(of_tests.where(*matches(TESTS.c.nodeid, wanted.nodeid))))
    counted = (
        sa.select(
            RUN_CAUSES.c.cause_id,
            sa.func.count().label("runs"),
            sa.func.sum(RUN_CAUSES.c.count).label("failures"),
            sa.func.sum(RUN_CAUSES.c.seconds).label("seconds"),
        )
        .group_by(RUN_CAUSES.c.cause_id)
        .order_by(
            sa.func.count().desc(), sa.func.sum(RUN_CAUSES.c.count).desc(), RUN_CAUSES.c.cause_id
        )
        .limit(limit)
    )
    if runs:
        counted = counted.join(RUNS).where(*runs)
    if causes:
        counted = counted.where(RUN_CAUSES.c.cause_id.in_(sa.select(CAUSES.c.id).where(*causes)))
    best = counted.subquery()
    names = CauseRow.__annotations__.keys() - {"runs"}
    columns = [CAUSES.c[name] for name in names if name in CAUSES.c]
    query = (
        sa.select(*columns, best.c.runs, best.c.failures, best.c.seconds)
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


def count_periods(history: History, wanted: Wanted = ALL, *, by: str = "week") -> list[Period]:
    """Return the runs of each day, week (it begins on Monday) or month, the earliest first."""
    query = sa.select(RUNS.c.started_at, RUNS.c.reason, RUNS.c.duration_seconds).where(
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
        numbers = list(connection.scalars(sa.select(RUNS.c.number).where(*of_runs(wanted))))
        if dry_run:
            return len(numbers)
        remove_runs(connection, numbers)
        gone = TESTS.c.last_seen < before
        if project is not None:
            gone = sa.and_(gone, TESTS.c.project_id.in_(_projects(project)))
        used = sa.select(OUTCOMES.c.test_id).where(OUTCOMES.c.test_id == TESTS.c.id)
        connection.execute(TESTS.delete().where(gone, ~used.exists()))
    if numbers and history.is_sqlite:
        history.shrink()
    return len(numbers)


def _projects(name: str) -> sa.Select[tuple[int]]:
    return sa.select(PROJECTS.c.id).where(PROJECTS.c.name == name)


def of_runs(wanted: Wanted, *, nodeid: bool = True) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on runs, whatever their verdict is."""
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
            sa.select(OUTCOMES.c.run_number)
            .join(TESTS)
            .where(*matches(TESTS.c.nodeid, wanted.nodeid), OUTCOMES.c.outcome.in_(FAILING))
        )
        found.append(RUNS.c.number.in_(failing))
    return found


def _of_verdicts(wanted: Wanted, table: sa.Table = RUNS) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on what runs, or causes, are found to have."""
    found = [*matches(table.c.kind, wanted.kind)]
    if wanted.reason is not None:
        found.append(table.c.reason == wanted.reason)
    if wanted.owner is not None:
        found.append(table.c.owner == wanted.owner)
    return found


def matches(column: Any, pattern: str | None) -> list[sa.ColumnElement[bool]]:
    """Return the condition that a text matches a pattern with `*` and `?`, if there is one."""
    if pattern is None:
        return []
    if not set(pattern) & set("*?"):
        return [column == pattern]
    for special in "\\%_":
        pattern = pattern.replace(special, f"\\{special}")
    return [column.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")]


def find_flaky(
    history: History, wanted: Wanted = ALL, *, limit: int = 20, runs: int = WINDOW_RUNS
) -> list[FlakyRow]:
    """Return the flaky tests among the latest runs, the most failures first.

    A test is flaky if it has passed and failed on one clean commit, if it passed on a rerun, or if
    it has changed between passed and failed on one branch `CHANGES_OF_MIND` times.

    Args:
        history: an open history.
        wanted: which runs and node ids to look at.
        limit: how many tests to return.
        runs: how many of the latest runs to look at.
    """
    with history.reading() as connection:
        window = window_of(wanted, runs)
        pattern = matches(TESTS.c.nodeid, wanted.nodeid)
        of_names = sa.select(TESTS.c.id).where(*pattern) if pattern else None
        facts = flaky_facts(connection, window, of_names)
        best = sorted(facts, key=lambda each: (-each.failures, each.id))[:limit]
        ids, named = [each.id for each in best], sa.select(TESTS.c.id, TESTS.c.nodeid)
        names = {row.id: row.nodeid for row in rows_with(connection, named, TESTS.c.id, ids)}
    rows = []
    for each in best:
        low, high = wilson_interval(each.failures, each.runs)
        if low >= WORTH_QUARANTINE:
            advice = "quarantine"
        else:
            advice = "watch" if high >= WORTH_QUARANTINE else "keep"
        shared = {
            name: getattr(each, name) for name in FlakyRow.__annotations__ if hasattr(each, name)
        }
        rate = each.failures / each.runs
        rows.append(
            FlakyRow(nodeid=names[each.id], rate=rate, low=low, high=high, advice=advice, **shared)
        )
    return rows


def wilson_interval(failures: int, runs: int) -> tuple[float, float]:
    """Return Wilson's score interval of 95 % for a rate (Wilson, JASA 22, 1927, 209-212)."""
    if not runs:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    rate, share = failures / runs, z * z / runs
    middle = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * sqrt(rate * (1 - rate) / runs + share / (4 * runs))
    return max(0.0, middle - half), min(1.0, middle + half)


def window_of(wanted: Wanted, runs: int, *, without: str = "") -> Any:
    """Return the latest runs, as a table expression; `without` is the id of one to leave out."""
    return (
        sa.select(RUNS.c.number, RUNS.c.started_at, RUNS.c.commit_id, RUNS.c.branch, RUNS.c.dirty)
        .where(*of_runs(wanted, nodeid=False), RUNS.c.id != without)
        .order_by(RUNS.c.started_at.desc())
        .limit(runs)
        .cte("recent")
    )


@value
class FlakyFacts:
    """What a window of runs says of one flaky test."""

    id: int
    runs: int
    failures: int
    commits: int
    changes: int
    last_failed: datetime


def flaky_facts(connection: sa.Connection, window: Any, ids: Any) -> list[FlakyFacts]:
    """Return the flaky tests within a window of runs.

    The database gives one row a run, with the tests of each outcome as one text: a thousand runs of
    five hundred tests come in a third of the time that grouping them by test takes.

    Args:
        connection: has begun a transaction.
        window: the runs, as `window_of` returns them.
        ids: the tests to look at, as a list or a query; `None` for all.
    """
    conditions = [] if ids is None else [OUTCOMES.c.test_id.in_(ids)]
    test = sa.cast(OUTCOMES.c.test_id, sa.Text)
    of_runs = (
        sa.select(
            OUTCOMES.c.run_number,
            *(
                sa.func.aggregate_strings(sa.case((OUTCOMES.c.outcome.in_(outcomes), test)), ",")
                for outcomes in (FAILING, ("passed",), ("flaky",))
            ),
        )
        .select_from(OUTCOMES.join(window, window.c.number == OUTCOMES.c.run_number))
        .where(*conditions)
        .group_by(OUTCOMES.c.run_number)
    )
    outcomes = {
        number: [frozenset(map(int, tests.split(","))) if tests else frozenset() for tests in found]
        for number, *found in connection.execute(of_runs)
    }
    runs, failures, reruns, commits, changes = (Counter[int]() for _ in range(5))
    last_failed: dict[int, datetime] = {}
    # The tests that failed and those that passed: the last time on a branch, and ever on a commit.
    of_branch: dict[str | None, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    of_commit: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    have_passed: set[int] = set()
    by_time = sa.select(window).order_by(window.c.started_at, window.c.number)
    for run in connection.execute(by_time).all():
        if run.number not in outcomes:
            continue
        failed, passed, rerun = outcomes[run.number]
        good, bad = passed | rerun, failed | rerun  # what passed on a rerun has failed, too
        runs.update(good | bad)
        failures.update(bad)
        reruns.update(rerun)
        last_failed.update(dict.fromkeys(bad, run.started_at))
        have_passed |= good
        failed_last, passed_last = of_branch[run.branch]
        changes.update((failed & passed_last) | (good & failed_last))
        failed_last -= good
        failed_last |= failed
        passed_last -= failed
        passed_last |= good
        if run.commit_id is not None and not run.dirty:
            of_commit[run.commit_id][0].update(failed)
            of_commit[run.commit_id][1].update(good)
    for failed_on_it, passed_on_it in of_commit.values():
        commits.update(failed_on_it & passed_on_it)
    flaky = [
        test
        for test in failures
        if test in have_passed
        and (commits[test] or reruns[test] or changes[test] >= CHANGES_OF_MIND)
    ]
    unwritten = _passes_unwritten(connection, window, flaky)
    return [
        FlakyFacts(
            id=test,
            runs=runs[test] + unwritten.get(test, 0),
            failures=failures[test],
            commits=commits[test],
            changes=changes[test],
            last_failed=last_failed[test],
        )
        for test in flaky
    ]


def _passes_unwritten(connection: sa.Connection, window: Any, ids: list[int]) -> dict[int, int]:
    """Return how often tests have passed before the first outcome of theirs that is written down.

    A test's passes are written down from its first failure on, with the last one before it. Until
    then it has passed in each run that came to its end, from the one on in which it was first seen.
    """
    found: dict[int, int] = {}
    for some in parts(ids):
        first = (
            sa.select(OUTCOMES.c.test_id, sa.func.min(window.c.started_at).label("at"))
            .join(window, window.c.number == OUTCOMES.c.run_number)
            .where(OUTCOMES.c.test_id.in_(some))
            .group_by(OUTCOMES.c.test_id)
            .subquery()
        )
        passes = (
            sa.select(TESTS.c.id, sa.func.count())
            .select_from(TESTS)
            .join(first, first.c.test_id == TESTS.c.id)
            .join(RUNS, RUNS.c.project_id == TESTS.c.project_id)
            .join(window, window.c.number == RUNS.c.number)
            .where(
                TESTS.c.first_seen <= RUNS.c.started_at,
                RUNS.c.started_at < first.c.at,
                RUNS.c.completeness == "full",
                RUNS.c.not_run == 0,
            )
            .group_by(TESTS.c.id)
        )
        found.update(tuple(row) for row in connection.execute(passes))
    return found
