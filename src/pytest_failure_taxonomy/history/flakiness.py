"""Which tests are flaky, and whether that is worth a quarantine."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from math import sqrt
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Text, case, cast, func, select

from pytest_failure_taxonomy.history.questions import FAILING, Wanted, matches, of_runs
from pytest_failure_taxonomy.history.store import WATCHED_RUNS, History, parts
from pytest_failure_taxonomy.history.tables import OUTCOMES, RUNS, TESTS
from pytest_failure_taxonomy.taxonomy.values import replace, value

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
            found = connection.execute(
                select(TESTS.c.id, TESTS.c.nodeid).where(TESTS.c.id.in_(some))
            )
            names |= {row.id: row.nodeid for row in found}
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

    The database gives one row a run, with the tests of each outcome as one text: a thousand runs of
    five hundred tests come in a third of the time that grouping them by test takes.

    Args:
        connection: has begun a transaction.
        window: the runs, as `window_of` returns them.
        ids: the tests to look at, as a list or a query; `None` for all.
    """
    conditions = [] if ids is None else [OUTCOMES.c.test_id.in_(ids)]
    test = cast(OUTCOMES.c.test_id, Text)
    of_runs = (
        select(
            OUTCOMES.c.run_number,
            *(
                func.aggregate_strings(case((OUTCOMES.c.outcome.in_(outcomes), test)), ",")
                for outcomes in (FAILING, ("passed",), ("flaky",))
            ),
        )
        .select_from(OUTCOMES.join(window, window.c.number == OUTCOMES.c.run_number))
        .where(*conditions)
        .group_by(OUTCOMES.c.run_number)
    )
    outcomes = {
        row[0]: _Outcomes(*(_numbers(text) for text in row[1:]))
        for row in connection.execute(of_runs)
    }
    seen = _Seen()
    for run in connection.execute(
        select(window).order_by(window.c.started_at, window.c.number)
    ).all():
        if run.number in outcomes:
            seen.add(run, outcomes[run.number])
    found = seen.flaky()
    unwritten = _passes_unwritten(connection, window, [each.id for each in found])
    return [replace(each, runs=each.runs + unwritten.get(each.id, 0)) for each in found]


def _passes_unwritten(connection: Connection, window: Any, ids: list[int]) -> dict[int, int]:
    """Return how often tests have passed before the first outcome of theirs that is written down.

    A test's passes are written down from its first failure on, with the last one before it. Until
    then it has passed in each run that came to its end, from the one on in which it was first seen.
    """
    found: dict[int, int] = {}
    for some in parts(ids):
        first = (
            select(OUTCOMES.c.test_id, func.min(window.c.started_at).label("at"))
            .join(window, window.c.number == OUTCOMES.c.run_number)
            .where(OUTCOMES.c.test_id.in_(some))
            .group_by(OUTCOMES.c.test_id)
            .subquery()
        )
        passes = (
            select(TESTS.c.id, func.count())
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


def _numbers(text: str | None) -> frozenset[int]:
    return frozenset(map(int, text.split(","))) if text else frozenset()


class _Outcomes(NamedTuple):
    """The tests of one run by how they ended; those that were skipped are left out."""

    failed: frozenset[int]
    passed: frozenset[int]
    reruns: frozenset[int]
    """They passed on a rerun, which is a failure that was seen, too."""


class _Seen:
    """What was seen of tests in runs that come in the order of their times."""

    def __init__(self) -> None:
        self._runs: Counter[int] = Counter()
        self._failures: Counter[int] = Counter()
        self._reruns: Counter[int] = Counter()
        self._changes: Counter[int] = Counter()
        self._passed: set[int] = set()
        self._last_failed: dict[int, datetime] = {}
        self._last_of_branch: dict[str | None, tuple[set[int], set[int]]] = {}
        self._of_commit: dict[str, tuple[set[int], set[int]]] = {}

    def add(self, run: Any, outcomes: _Outcomes) -> None:
        """Add a run, a row of the window, and how its tests ended."""
        failed, passed, reruns = outcomes
        self._runs.update(failed | passed | reruns)
        self._failures.update(failed | reruns)
        self._reruns.update(reruns)
        self._last_failed.update(dict.fromkeys(failed | reruns, run.started_at))
        good = passed | reruns
        self._passed |= good
        failed_last, passed_last = self._last_of_branch.setdefault(run.branch, (set(), set()))
        self._changes.update((failed & passed_last) | (good & failed_last))
        failed_last -= good
        failed_last |= failed
        passed_last -= failed
        passed_last |= good
        if run.commit_id is not None and not run.dirty:
            on_commit = self._of_commit.setdefault(run.commit_id, (set(), set()))
            on_commit[0].update(failed)
            on_commit[1].update(good)

    def flaky(self) -> list[FlakyFacts]:
        """Return the flaky ones."""
        commits: Counter[int] = Counter()
        for failed, passed in self._of_commit.values():
            commits.update(failed & passed)
        return [
            FlakyFacts(
                id=test,
                runs=self._runs[test],
                failures=failures,
                reruns=self._reruns[test],
                commits=commits[test],
                changes=self._changes[test],
                last_failed=self._last_failed[test],
            )
            for test, failures in self._failures.items()
            if test in self._passed
            and (commits[test] or self._reruns[test] or self._changes[test] >= CHANGES_OF_MIND)
        ]
