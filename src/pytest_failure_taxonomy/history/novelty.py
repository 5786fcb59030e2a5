"""Whether a failure is new, has come back or is known, and since when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, func, select, true

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history.questions import (
    WINDOW_RUNS,
    FlakyFacts,
    Wanted,
    flaky_facts,
    matches,
    window_of,
)
from pytest_failure_taxonomy.history.store import History, branch_of, project_of
from pytest_failure_taxonomy.history.tables import (
    CAUSES,
    FAILURES,
    MAX_NODEID,
    OUTCOMES,
    PROJECTS,
    RUN_CAUSES,
    RUNS,
    TESTS,
    as_time,
    clean_text,
    digest_of,
    parts,
    rows_with,
    started_at,
)
from pytest_failure_taxonomy.taxonomy.values import value

_TESTS_OF_A_GROUP: Final = 50
"""How many tests of a group are looked up."""
_TESTS_OF_A_RUN: Final = 500
"""How many tests are looked up of all groups together; one of each group at least."""
_LAST_RUNS: Final = (30, WINDOW_RUNS)
"""How many of a branch's latest runs are searched for the last pass of a test, one after the other.
Nearly all tests have one among the first."""
_TESTS_OF_A_CAUSE: Final = 5
"""How many tests of a cause tell when it was gone."""


@value
class GroupState:
    """What earlier runs say of one group of failures."""

    state: str
    """`new`, `came_back`, `known` or `flaky`."""
    first_seen: datetime | None
    first_commit: str | None
    runs: int
    """Earlier runs that had it."""
    last_passed_commit: str | None
    flaky_failures: int = 0
    """Of the group's flakiest test: runs in which it failed."""
    flaky_runs: int = 0
    """Of the same test: runs of which its outcome is known."""


@value
class Since:
    """When a cause began."""

    nodeid: str | None = None
    """Of the test that was asked for; `None` where it is all tests of the cause."""
    fingerprint: str
    title: str
    reason: str
    kind: str
    runs: int
    branches: tuple[str, ...]
    first_run: str
    first_seen: datetime
    first_commit: str | None
    streak_run: str
    """On the branch of its last run: the first one after which it was never gone there."""
    streak_seen: datetime
    streak_commit: str | None
    last_passed_commit: str | None
    """Of the last run before the streak in which its tests passed."""
    last_passed_at: datetime | None
    last_seen: datetime


def states_of(history: History, report: Mapping[str, Any]) -> dict[str, GroupState]:
    """Return what earlier runs say of each group of a report, by fingerprint.

    Earlier runs are those of the same project that began before this one; the report itself may or
    may not be among the runs of the history.

    A group that no earlier run had is `new`. If it has one whose tests are flaky (see
    `find_flaky`), it is `flaky`. If its tests have passed on this run's branch after the last run
    there that had it, it has come back: `came_back`. All others are `known`. A successful run of
    the same stage and branch that had as many tests counts as a pass of them all.
    """
    groups = {each["fingerprint"]: each for each in report["groups"]}
    with history.reading() as connection:
        earlier = _Earlier(connection, report)
        return earlier.states_of(groups) if groups else {}


def state_of_verdict(history: History, report: Mapping[str, Any]) -> GroupState | None:
    """Return what earlier runs say of a verdict that no group of failures has, such as a death.

    Earlier runs had it if their verdict has the same reason, kind and node id. It has come back if
    a run of the same stage and branch has succeeded since. `None` without such a verdict.
    """
    verdict = report["verdict"]
    codes = verdict and (verdict["reason"], verdict["kind"])
    if codes in (None, *((each["reason"], each["kind"]) for each in report["groups"])):
        return None
    with history.reading() as connection:
        return _Earlier(connection, report).state_of_verdict()


def find_since(history: History, fingerprint: str, *, project: str | None = None) -> Since:
    """Return when a cause began, and the last commit before it.

    Args:
        history: an open history.
        fingerprint: its first characters suffice if no other cause begins with them.
        project: the project's name, if several have this cause.

    Raises:
        HistoryError: there is no such cause, or several begin so.
    """
    with history.reading() as connection:
        query = select(CAUSES, PROJECTS.c.name.label("project")).join(PROJECTS)
        query = query.where(*matches(CAUSES.c.fingerprint, f"{fingerprint}*"))
        if project is not None:
            query = query.where(PROJECTS.c.name == project)
        rows = connection.execute(query.limit(5)).all()
        if not rows:
            raise HistoryError(
                f"{fingerprint}: no failure of that fingerprint is known; "
                "`failure-taxonomy history top` lists those that are"
            )
        if len(rows) > 1:
            names = ", ".join(f"{row.fingerprint} ({row.project})" for row in rows)
            raise HistoryError(
                f"{fingerprint}: several begin so: {names}; give more of it, or --project"
            )
        return _since(connection, rows[0])


def find_since_of_test(
    history: History, nodeid: str, *, project: str | None = None
) -> tuple[Since, ...]:
    """Return when a test began to fail as it did last, and the last commit on which it passed.

    Args:
        history: an open history.
        nodeid: the test's node id; a part of it suffices if no other test that failed has it.
        project: the project's name, if several have this test.

    Raises:
        HistoryError: there is no such test, or several are called so.
    """
    with history.reading() as connection:
        query = select(TESTS.c.id, TESTS.c.nodeid, PROJECTS.c.name.label("project")).join(PROJECTS)
        query = query.where(exists().where(FAILURES.c.test_id == TESTS.c.id))
        if project is not None:
            query = query.where(PROJECTS.c.name == project)
        rows = connection.execute(query.where(TESTS.c.digest == digest_of(nodeid)).limit(5)).all()
        if not rows:
            part = matches(TESTS.c.nodeid, f"*{nodeid}*")
            rows = connection.execute(query.where(*part).order_by(TESTS.c.nodeid).limit(5)).all()
        if not rows:
            raise HistoryError(
                f"{nodeid}: no failure of such a test is known; `failure-taxonomy history list "
                "--nodeid 'PATTERN'` lists the runs in which tests failed"
            )
        if len(rows) > 1:
            names = ", ".join(f"{row.nodeid} ({row.project})" for row in rows)
            raise HistoryError(
                f"{nodeid}: several tests are called so: {names}; give the whole node id, "
                "or --project"
            )
        test = rows[0]
        failures = select(FAILURES.c.cause_id).join(RUNS).where(FAILURES.c.test_id == test.id)
        latest = failures.with_only_columns(RUNS.c.number).order_by(
            RUNS.c.started_at.desc(), RUNS.c.number.desc()
        )
        causes = select(CAUSES).where(
            CAUSES.c.id.in_(failures.where(RUNS.c.number == latest.limit(1).scalar_subquery()))
        )
        found = connection.execute(causes.order_by(CAUSES.c.id)).all()
        return tuple(_since(connection, cause, test) for cause in found)


def _since(connection: Connection, cause: Any, test: Any = None) -> Since:
    """Return when a cause began, or when it began to fail one test."""
    had = RUNS.c.number.in_(
        select(RUN_CAUSES.c.run_number).where(RUN_CAUSES.c.cause_id == cause.id)
        if test is None
        else select(FAILURES.c.run_number).where(
            FAILURES.c.cause_id == cause.id, FAILURES.c.test_id == test.id
        )
    )
    runs = connection.execute(select(RUNS).where(had).order_by(RUNS.c.started_at, RUNS.c.number))
    first, *more = runs.all()
    last = [first, *more][-1]
    here = [each for each in (first, *more) if each.branch == last.branch]
    passed = _last_pass_before(connection, cause, last, test)
    streak = next(each for each in here if passed is None or each.started_at > passed.started_at)
    return Since(
        nodeid=None if test is None else test.nodeid,
        fingerprint=cause.fingerprint,
        title=cause.title,
        reason=cause.reason,
        kind=cause.kind,
        runs=1 + len(more),
        branches=tuple(sorted({each.branch for each in (first, *more) if each.branch})),
        first_run=first.id,
        first_seen=first.started_at,
        first_commit=first.commit_id,
        streak_run=streak.id,
        streak_seen=streak.started_at,
        streak_commit=streak.commit_id,
        last_passed_commit=passed.commit_id if passed else None,
        last_passed_at=passed.started_at if passed else None,
        last_seen=last.started_at,
    )


_NEW: Final = GroupState(
    state="new", first_seen=None, first_commit=None, runs=0, last_passed_commit=None
)


class _Earlier:
    """What the runs before one run say of its failures."""

    def __init__(self, connection: Connection, report: Mapping[str, Any]) -> None:
        self._connection = connection
        self._report = report
        self._project = connection.scalar(
            select(PROJECTS.c.id).where(PROJECTS.c.name == project_of(report))
        )
        self._branch = branch_of(report)
        self._earlier = and_(
            RUNS.c.project_id == self._project,
            RUNS.c.id != report["run"]["id"],
            RUNS.c.started_at <= started_at(report),
        )

    def states_of(self, groups: Mapping[str, Mapping[str, Any]]) -> dict[str, GroupState]:
        """Return the states of groups by fingerprint."""
        of_project = select(CAUSES.c.fingerprint, CAUSES.c.id).where(
            CAUSES.c.project_id == self._project
        )
        rows = rows_with(self._connection, of_project, CAUSES.c.fingerprint, list(groups))
        causes = {row.fingerprint: row.id for row in rows}
        had = (
            select(
                RUN_CAUSES.c.cause_id,
                RUNS.c.branch,
                func.count().label("times"),
                func.min(RUNS.c.started_at).label("first"),
                func.max(RUNS.c.started_at).label("last"),
            )
            .join(RUNS)
            .where(self._earlier)
            .group_by(RUN_CAUSES.c.cause_id, RUNS.c.branch)
        )
        seen: dict[int, list[Any]] = {}
        for row in rows_with(self._connection, had, RUN_CAUSES.c.cause_id, list(causes.values())):
            seen.setdefault(row.cause_id, []).append(row)
        looked_at = max(1, min(_TESTS_OF_A_GROUP, _TESTS_OF_A_RUN // max(1, len(causes))))
        named = {name: groups[name]["nodeids"][:looked_at] for name in causes}
        digests = {digest_of(nodeid): nodeid for nodeids in named.values() for nodeid in nodeids}
        known = select(TESTS.c.digest, TESTS.c.id).where(TESTS.c.project_id == self._project)
        rows = rows_with(self._connection, known, TESTS.c.digest, list(digests))
        tests = {digests[row.digest]: row.id for row in rows}
        until = started_at(self._report) + timedelta(microseconds=1)
        wanted = Wanted(project=project_of(self._report), until=until)
        window = window_of(wanted, WINDOW_RUNS, without=self._report["run"]["id"])
        flaky: dict[int, FlakyFacts] = {}
        for some in parts(list(tests.values())):
            flaky |= {each.id: each for each in flaky_facts(self._connection, window, some)}
        passes = self._passes(list(tests.values()))
        found = dict.fromkeys(groups, _NEW)
        for name, cause in causes.items():
            if cause in seen:
                ids = [tests[each] for each in named[name] if each in tests]
                found[name] = self._state(seen[cause], ids, flaky, passes)
        return found

    def state_of_verdict(self) -> GroupState:
        """Return the state of the verdict."""
        verdict, stage = self._report["verdict"], self._report["run"]["stage"]
        had = and_(
            self._earlier,
            RUNS.c.reason == verdict["reason"],
            RUNS.c.kind == verdict["kind"],
            RUNS.c.nodeid.is_not_distinct_from(clean_text(verdict["nodeid"], MAX_NODEID)),
        )
        first, runs = self._connection.execute(
            select(func.min(RUNS.c.started_at), func.count()).where(had)
        ).one()
        if not runs:
            return _NEW
        here = RUNS.c.branch.is_not_distinct_from(self._branch)
        last = self._connection.scalar(select(func.max(RUNS.c.started_at)).where(had, here))
        passed = self._connection.execute(
            select(RUNS.c.started_at, RUNS.c.commit_id)
            .where(self._earlier, here, *_succeeded(stage, 1))
            .order_by(RUNS.c.started_at.desc())
            .limit(1)
        ).one_or_none()
        is_back = last is not None and passed is not None and passed.started_at > as_time(last)
        return GroupState(
            state="came_back" if is_back else "known",
            first_seen=as_time(first),
            first_commit=self._commit_at(as_time(first)),
            runs=int(runs),
            last_passed_commit=passed.commit_id if passed else None,
        )

    def _state(
        self,
        rows: Sequence[Any],
        tests: list[int],
        flaky: Mapping[int, FlakyFacts],
        passes: Sequence[_Pass],
    ) -> GroupState:
        first = min(as_time(row.first) for row in rows)
        own = [as_time(row.last) for row in rows if row.branch == self._branch]
        mine = [each for each in passes if each.test in (None, *tests)]
        here = [each for each in mine if each.branch == self._branch]
        last = max(here or mine, key=lambda each: each.started_at, default=None)
        state = "known"
        facts = [flaky[each] for each in tests if each in flaky]
        if tests and len(facts) == len(tests):
            state = "flaky"
        elif own and any(each.started_at > max(own) for each in here):
            state = "came_back"
        worst = max(facts, key=lambda each: each.failures, default=None)
        return GroupState(
            state=state,
            first_seen=first,
            first_commit=self._commit_at(first),
            runs=sum(int(row.times) for row in rows),
            last_passed_commit=last.commit_id if last else None,
            flaky_failures=worst.failures if worst and state == "flaky" else 0,
            flaky_runs=worst.runs if worst and state == "flaky" else 0,
        )

    def _commit_at(self, at: datetime) -> str | None:
        wanted = select(RUNS.c.commit_id).where(
            RUNS.c.project_id == self._project, RUNS.c.started_at == at
        )
        found = self._connection.scalar(wanted.limit(1))
        return None if found is None else str(found)

    def _passes(self, tests: Sequence[int]) -> list[_Pass]:
        """Return the last passes of tests, and of runs that succeeded as a whole, by branch.

        The passes of a test are looked for on this run's branch first.
        """
        latest = func.max(RUNS.c.started_at).label("last")
        found: list[tuple[int | None, Any]] = []
        left = set(tests)
        here = RUNS.c.branch.is_not_distinct_from(self._branch)
        for where, runs in (*((here, runs) for runs in _LAST_RUNS), (true(), WINDOW_RUNS)):
            window = select(RUNS.c.number).where(self._earlier, where)
            numbers = window.order_by(RUNS.c.started_at.desc()).limit(runs).cte("recent")
            query = (
                select(OUTCOMES.c.test_id, RUNS.c.branch, latest)
                .select_from(numbers)
                .join(RUNS, RUNS.c.number == numbers.c.number)
                .join(OUTCOMES, OUTCOMES.c.run_number == RUNS.c.number)
                .where(OUTCOMES.c.outcome == "passed")
                .group_by(OUTCOMES.c.test_id, RUNS.c.branch)
            )
            for row in rows_with(self._connection, query, OUTCOMES.c.test_id, sorted(left)):
                found.append((row.test_id, row))
                left.discard(row.test_id)
        whole = select(RUNS.c.branch, latest).where(
            self._earlier,
            *_succeeded(self._report["run"]["stage"], self._report["summary"]["collected"]),
        )
        found += [(None, row) for row in self._connection.execute(whole.group_by(RUNS.c.branch))]
        known = [(test, row.branch, as_time(row.last)) for test, row in found]
        query = select(RUNS.c.started_at, RUNS.c.branch, RUNS.c.commit_id).where(
            RUNS.c.project_id == self._project
        )
        times = sorted({at for _, _, at in known})
        rows = rows_with(self._connection, query, RUNS.c.started_at, times)
        commits = {(row.started_at, row.branch): row.commit_id for row in rows}
        return [
            _Pass(test=test, started_at=at, branch=branch, commit_id=commits.get((at, branch)))
            for test, branch, at in known
        ]


@value
class _Pass:
    """A run in which a test passed; all of its tests where `test` is `None`."""

    test: int | None
    started_at: datetime
    branch: str | None
    commit_id: str | None


def _succeeded(stage: str, collected: int) -> list[ColumnElement[bool]]:
    """Return the conditions under which a run says that all tests of another one have passed."""
    return [
        RUNS.c.reason.is_(None),
        RUNS.c.failed + RUNS.c.errors == 0,
        RUNS.c.completeness == "full",
        RUNS.c.stage == stage,
        RUNS.c.collected >= max(1, collected),
    ]


def _last_pass_before(connection: Connection, cause: Any, last: Any, test: Any) -> Any:
    """Return the latest run before a cause's last one, on its branch, in which its tests passed."""
    query = select(FAILURES.c.test_id).where(FAILURES.c.cause_id == cause.id).distinct()
    tests = [test.id] if test else list(connection.scalars(query.limit(_TESTS_OF_A_CAUSE)))
    branch = RUNS.c.branch.is_not_distinct_from(last.branch)
    earlier = (
        select(RUNS.c.started_at, RUNS.c.commit_id)
        .where(RUNS.c.project_id == cause.project_id, branch, RUNS.c.started_at < last.started_at)
        .order_by(RUNS.c.started_at.desc())
        .limit(1)
    )
    passes = exists().where(
        OUTCOMES.c.run_number == RUNS.c.number,
        OUTCOMES.c.test_id.in_(tests),
        OUTCOMES.c.outcome == "passed",
    )
    found = [
        connection.execute(earlier.where(passes)).one_or_none(),
        connection.execute(earlier.where(*_succeeded(last.stage, last.collected))).one_or_none(),
    ]
    return max(
        (each for each in found if each is not None), key=lambda each: each.started_at, default=None
    )
