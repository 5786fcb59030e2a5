"""Which tests are flaky, and whether that is worth a quarantine."""

from __future__ import annotations

from datetime import datetime
from math import sqrt
from statistics import NormalDist
from typing import Any, Final

from sqlalchemy import Connection, case, func, or_, select

from pytest_failure_taxonomy.history.questions import FAILING, Wanted, matches, of_runs
from pytest_failure_taxonomy.history.store import History, as_time, parts
from pytest_failure_taxonomy.history.tables import OUTCOMES, RUNS, TESTS
from pytest_failure_taxonomy.taxonomy.values import value

WINDOW_RUNS: Final = 1_000
"""How many runs, the latest ones, tell which tests are flaky."""
CHANGES_OF_MIND: Final = 3
"""From how many changes between passed and failed on one branch a test counts as flaky.

A fault that is made and mended is two.
"""
WORTH_QUARANTINE: Final = 0.02
"""The rate of failures from which a flaky test costs more than it tells: one run in fifty."""
_CONFIDENCE: Final = 0.95


@value
class FlakyRow:
    """One test that passes and fails, as `history flaky` shows it."""

    nodeid: str
    runs: int
    """Runs of which its outcome is known, from the last pass before its first failure on."""
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


def find_flaky(
    history: History, wanted: Wanted | None = None, *, limit: int = 20, runs: int = WINDOW_RUNS
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
        pattern = matches(TESTS.c.nodeid, wanted.nodeid if wanted else None)
        ids = select(TESTS.c.id).where(*pattern) if pattern else None
        facts = flaky_facts(connection, window, ids)
        facts.sort(key=lambda each: (-each.failures, each.id))
        best = facts[:limit]
        names: dict[int, str] = {}
        for some in parts([each.id for each in best]):
            rows = connection.execute(
                select(TESTS.c.id, TESTS.c.nodeid).where(TESTS.c.id.in_(some))
            )
            names |= {row.id: row.nodeid for row in rows}
    return [_flaky_row(each, names[each.id]) for each in best]


def wilson_interval(failures: int, runs: int) -> tuple[float, float]:
    """Return Wilson's score interval of 95 % for a rate (Wilson, JASA 22, 1927, 209-212)."""
    if not runs:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    rate, share = failures / runs, z * z / runs
    middle = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * sqrt(rate * (1 - rate) / runs + share / (4 * runs))
    return max(0.0, middle - half), min(1.0, middle + half)


def window_of(wanted: Wanted | None, runs: int, *, without: str = "") -> Any:
    """Return the latest runs, as a table expression; `without` is the id of one to leave out."""
    return (
        select(RUNS.c.number, RUNS.c.started_at, RUNS.c.commit_id, RUNS.c.branch, RUNS.c.dirty)
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
    reruns: int
    commits: int
    changes: int
    last_failed: datetime


def flaky_facts(connection: Connection, window: Any, ids: Any) -> list[FlakyFacts]:
    """Return the flaky tests within a window of runs.

    Args:
        connection: has begun a transaction.
        window: the runs, as `_window` returns them.
        ids: the tests to look at, as a list or a query; `None` for all.
    """
    has_failed = case((OUTCOMES.c.outcome.in_(FAILING), 1), else_=0)
    has_passed = case((OUTCOMES.c.outcome.in_(("passed", "flaky")), 1), else_=0)
    is_rerun = case((OUTCOMES.c.outcome == "flaky", 1), else_=0)
    known = or_(has_failed == 1, has_passed == 1)
    joined = OUTCOMES.join(window, window.c.number == OUTCOMES.c.run_number)
    conditions = [known] if ids is None else [known, OUTCOMES.c.test_id.in_(ids)]
    # A pass on a rerun is a failure that was seen, too.
    was_seen = or_(has_failed == 1, is_rerun == 1)
    failures = func.sum(case((was_seen, 1), else_=0))
    mixed = (
        select(
            OUTCOMES.c.test_id,
            func.count().label("runs"),
            failures.label("failures"),
            func.sum(is_rerun).label("reruns"),
            func.max(case((or_(has_failed == 1, is_rerun == 1), window.c.started_at))).label(
                "last"
            ),
        )
        .select_from(joined)
        .where(*conditions)
        .group_by(OUTCOMES.c.test_id)
        .having(failures > 0, func.sum(has_passed) > 0)
    )
    candidates = {row.test_id: row for row in connection.execute(mixed)}
    if not candidates:
        return []
    per_commit = (
        select(OUTCOMES.c.test_id)
        .select_from(joined)
        .where(*conditions, window.c.commit_id.is_not(None), window.c.dirty.is_not(True))
        .group_by(OUTCOMES.c.test_id, window.c.commit_id)
        .having(func.sum(has_failed) > 0, func.sum(has_passed) > 0)
        .subquery()
    )
    commits: dict[int, int] = {
        row.test_id: row.times
        for row in connection.execute(
            select(per_commit.c.test_id, func.count().label("times")).group_by(per_commit.c.test_id)
        )
    }
    before = func.lag(has_failed).over(
        partition_by=(OUTCOMES.c.test_id, window.c.branch),
        order_by=(window.c.started_at, OUTCOMES.c.run_number),
    )
    steps = (
        select(OUTCOMES.c.test_id, has_failed.label("now"), before.label("before"))
        .select_from(joined)
        .where(*conditions)
        .subquery()
    )
    changes: dict[int, int] = {
        row.test_id: row.times
        for row in connection.execute(
            select(steps.c.test_id, func.count().label("times"))
            .where(steps.c.now != steps.c.before)
            .group_by(steps.c.test_id)
        )
    }
    found = [
        FlakyFacts(
            id=test,
            runs=int(row.runs),
            failures=int(row.failures),
            reruns=int(row.reruns),
            commits=commits.get(test, 0),
            changes=changes.get(test, 0),
            last_failed=as_time(row.last),
        )
        for test, row in candidates.items()
    ]
    return [
        each for each in found if each.commits or each.reruns or each.changes >= CHANGES_OF_MIND
    ]


def _flaky_row(facts: FlakyFacts, nodeid: str) -> FlakyRow:
    low, high = wilson_interval(facts.failures, facts.runs)
    if low >= WORTH_QUARANTINE:
        advice = "quarantine"
    else:
        advice = "watch" if high >= WORTH_QUARANTINE else "keep"
    return FlakyRow(
        nodeid=nodeid,
        runs=facts.runs,
        failures=facts.failures,
        rate=facts.failures / facts.runs,
        low=low,
        high=high,
        commits=facts.commits,
        changes=facts.changes,
        last_failed=facts.last_failed,
        advice=advice,
    )
