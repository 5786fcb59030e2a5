"""How the tests of runs ended, in the order of their times, and which were renamed.

Each answer is a function of the runs that are there: nothing depends on when they were
added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise, product
from operator import attrgetter
from operator import or_ as or_bits
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    func,
    or_,
    select,
)

from pytest_failure_taxonomy.history.tables import (
    OUTCOME,
    ROSTER,
    ROSTERS,
    RUN,
    RUNS,
    TEST,
    bits_of,
    numbers_in,
    rows_with,
    started_at,
    tests_of,
)
from pytest_failure_taxonomy.report.model import FailureReport

FAILING: Final = ("failed", "error", "in_flight")
"""Outcomes of tests that failed."""
_ENDS: Final = dict.fromkeys(FAILING, "failed") | {"flaky": "flaky", "passed": "passed"}
NEWEST_FIRST: Final = (RUN.started_at.desc(), RUN.id.desc())
"""The order of runs; ids tell runs apart that began at the same time."""
OLDEST_FIRST: Final = (RUN.started_at, RUN.id)
ORDER: Final = attrgetter("started_at", "id")
"""The same of a run that was read."""


class Ended(NamedTuple):
    """A run, and its tests by how they ended."""

    run: Row[Any]
    failed: set[int]
    rerun: set[int]
    """Those that failed and passed when they were run again."""
    passed: set[int]
    """The others that passed."""


class Renames(NamedTuple):
    """Tests whose files have been renamed, each under the name that it has now."""

    current: Mapping[int, int]
    """The test that goes on, by the one that it was before."""

    def latest(self, test: int) -> int:
        """Return the test that a test is now."""
        return self.current.get(test, test)

    def all_of(self, tests: Iterable[int]) -> list[int]:
        """Return tests with all that they were before, without the others' ids."""
        wanted = {self.latest(test) for test in tests}
        before = {old for old, new in self.current.items() if new in wanted}
        return sorted(wanted | before)


def precede_run(report: FailureReport, project: Any) -> ColumnElement[bool]:
    """Return the condition that a run of a project comes before that of a report."""
    at = started_at(report)
    is_at_the_same_time = and_(RUN.started_at == at, RUN.id < report.run.id)
    is_before = or_(RUN.started_at < at, is_at_the_same_time)
    return and_(RUN.project_id == project, is_before)


def latest_runs(conditions: Iterable[ColumnElement[bool]], runs: int) -> Any:
    """Return the latest runs of those that are meant, as a table expression."""
    latest = select(RUNS).where(*conditions).order_by(*NEWEST_FIRST)
    return latest.limit(runs).cte("recent")


def is_pass_of_all(run: Row[Any], stage: str, collected: int) -> bool:
    """Tell whether a run says that all tests of another one have passed."""
    is_green = run.reason is None and run.failed + run.errors == 0
    is_as_big = run.stage == stage and run.collected >= max(1, collected)
    return is_green and is_as_big and run.completeness == "full"


def read_outcomes(
    connection: Connection,
    window: Any,
    tests: Collection[int] | None,
    renames: Renames,
) -> list[Ended]:
    """Return how tests ended in the runs of a window, the oldest run first.

    A run that succeeded and doesn't name what passed counts as a pass of the tests that
    failed before on its branch, in a run of its stage that was no bigger.

    Args:
        connection: has begun a transaction.
        window: the runs, as `latest_runs` returns them.
        tests: the tests to look at; `None` for those that failed in one of the runs.
        renames: of the tests.
    """
    is_in_window = window.c.number == OUTCOME.run_number
    query = select(*OUTCOME["run_number", "test_id", "outcome"])
    query = query.join(window, is_in_window)
    if tests is None:
        failed = query.with_only_columns(OUTCOME.test_id).distinct()
        failed = failed.where(OUTCOME.outcome.in_((*FAILING, "flaky")))
        tests = connection.scalars(failed).all()
    wanted = renames.all_of(tests)
    outcomes_by_run = defaultdict[int, dict[int, str]](dict)
    for row in rows_with(connection, query, OUTCOME.test_id, wanted):
        outcomes_by_run[row.run_number][row.test_id] = row.outcome
    by_time = select(window).order_by(window.c.started_at, window.c.id)
    runs = connection.execute(by_time).all()
    members = _read_members(connection, runs, wanted)
    # By branch: the last run in which each test failed.
    failures = defaultdict[tuple[int, str | None], dict[int, Any]](dict)
    ends = []
    for run in runs:
        outcomes = outcomes_by_run[run.number]
        tests_by_end = defaultdict[str | None, set[int]](set)
        for test, outcome in outcomes.items():
            tests_by_end[_ENDS.get(outcome)].add(renames.latest(test))
        passed = tests_by_end["passed"]
        # What is on the roster and has no row of its own passed quickly.
        quick = members.get(run.roster_id, set()) - outcomes.keys()
        passed.update(map(renames.latest, quick) if renames.current else quick)
        failed_before = failures[run.project_id, run.branch]
        if run.roster_id is None and run.reason is None:
            for test, past in failed_before.items():
                if is_pass_of_all(run, past.stage, past.collected):
                    passed.add(test)
        failed_before |= dict.fromkeys(tests_by_end["failed"], run)
        ended = Ended(run, tests_by_end["failed"], tests_by_end["flaky"], passed)
        ends.append(ended)
    return ends


def _read_members(
    connection: Connection, runs: Iterable[Any], wanted: Iterable[int]
) -> dict[int, set[int]]:
    """Return which of the wanted tests are on each roster.

    Many runs have the same roster, so each is unpacked once, and only for these tests.
    """
    mask = bits_of(wanted)
    rosters = read_rosters(connection, {run.roster_id for run in runs})
    return {name: {*numbers_in(bits & mask)} for name, bits in rosters.items()}


def read_rosters(connection: Connection, ids: Iterable[int | None]) -> dict[int, int]:
    """Return rosters by their ids, each as a whole number with one bit a test."""
    wanted = sorted(roster for roster in ids if roster is not None)
    rows = rows_with(connection, select(ROSTERS), ROSTER.id, wanted)
    return {row.id: tests_of(row) for row in rows}


def find_renames(connection: Connection, project: int | None = None) -> Renames:
    """Return the tests whose files were renamed, which is seen from the runs.

    A test goes on under a new name if on a branch it is in no run from the first one
    with the new name on, and in the one right before it; if the new name is all new on
    the branch and differs by its file alone; if no test of the old file is left then,
    and none of the new one was there before. Where two tests could be the same one,
    neither is. Runs that name no test that passed don't count.

    Args:
        connection: has begun a transaction.
        project: the id of the only project that is looked at; `None` for all.
    """
    has_changed = func.count(RUN.roster_id.distinct()) > 1
    changing = select(RUN.project_id).group_by(RUN.project_id).having(has_changed)
    if project is not None:
        changing = changing.where(RUN.project_id == project)
    query = (
        select(RUN.project_id, RUN.branch, RUN.roster_id)
        .where(RUN.roster_id.is_not(None), RUN.project_id.in_(changing))
        .order_by(RUN.project_id, RUN.branch, *OLDEST_FIRST)
    )
    runs = connection.execute(query).all()
    rosters = read_rosters(connection, {run.roster_id for run in runs})
    changes = []
    for _, of_branch in groupby(runs, attrgetter("project_id", "branch")):
        sets = [rosters[run.roster_id] for run in of_branch]
        # Of equal neighbours one is enough.
        changes += _find_changes([roster for roster, _ in groupby(sets)])
    if not changes:
        return Renames({})
    tests = select(TEST.id, TEST.nodeid).where(TEST.project_id.in_(changing))
    paths = dict[int, tuple[str, str]]()
    for test, nodeid in connection.execute(tests):
        paths[test] = nodeid.partition("::")[::2]
    pairs = set[tuple[int, int]]()
    for change in changes:
        olds = _find_names(paths, change.gone, change.after)
        news = _find_names(paths, change.new, change.before)
        for name in olds.keys() & news.keys():
            pairs |= {*product(olds[name], news[name])}
    olds_of = Counter(old for old, _ in pairs)
    news_of = Counter(new for _, new in pairs)
    single = {old: new for old, new in pairs if olds_of[old] == news_of[new] == 1}
    current = {}
    # A file may have been renamed several times, and at last back again.
    for old, new in single.items():
        current[old] = new
        while current[old] in single and current[old] != old:
            current[old] = single[current[old]]
    return Renames(current)


class _Change(NamedTuple):
    """Where tests left a branch for good and others came."""

    before: int
    after: int
    gone: int
    new: int


def _find_changes(sets: Sequence[int]) -> list[_Change]:
    """Return the changes of a branch, by the sets of tests of its runs."""
    # Up to each run, and from each run on: the tests that any run had.
    earlier = [*accumulate(sets, or_bits)]
    later = [*accumulate(reversed(sets), or_bits)][::-1]
    changes = []
    for place, (before, after) in enumerate(pairwise(sets)):
        gone = before & ~later[place + 1]
        new = after & ~earlier[place]
        if gone and new:
            changes.append(_Change(before, after, gone, new))
    return changes


def _find_names(
    paths: Mapping[int, tuple[str, str]], tests: int, others: int
) -> dict[str, list[int]]:
    """Return tests by their names within their files, unless others have the file."""
    files = {paths[test][0] for test in numbers_in(others) if test in paths}
    names = defaultdict[str, list[int]](list)
    for test in numbers_in(tests):
        file, name = paths.get(test, ("", ""))
        if name and file not in files:
            names[name].append(test)
    return names
