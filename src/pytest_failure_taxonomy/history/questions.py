"""What the history answers: which runs there were, what fails most, what is flaky or new."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import sqrt
from operator import attrgetter
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    select,
    true,
)

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import VERDICT
from pytest_failure_taxonomy.history.companions import comparable_tests, find_clusters
from pytest_failure_taxonomy.history.database import History
from pytest_failure_taxonomy.history.signals import Seen, suspicions_of
from pytest_failure_taxonomy.history.tables import (
    ATTEMPT,
    ATTEMPTS,
    CAUSE,
    CAUSES,
    ENVIRONMENT,
    ENVIRONMENTS,
    FAILURE,
    MAX_NODEID,
    OUTCOME,
    OUTCOMES,
    PROJECT,
    PROJECTS,
    PROOF,
    PROOFS,
    RUN,
    RUN_CAUSE,
    RUN_CAUSES,
    RUNS,
    TEST,
    TESTS,
    TRIAL,
    WATCHED_RUNS,
    branch_of,
    clean_text,
    digest_of,
    installed_in,
    parts,
    project_of,
    remove_runs,
    rows_with,
    started_at,
    storm_of,
)
from pytest_failure_taxonomy.report.build import NO_PROOF
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.report.summary import proof_words
from pytest_failure_taxonomy.taxonomy.judgement import (
    Group,
    GroupHistory,
    Proof,
    Verdict,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import and_more, counted

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
MAX_CHANGES: Final = 4
"""Distributions that are named of those that have changed."""
_PROVEN: Final = (PROOF.project_id == CAUSE.project_id) & (
    PROOF.name == CAUSE.fingerprint
)
"""Joins causes with what is proven of them."""

_NO_STORM: Final = RUN.storm.is_(None)
_TELLS_OF_FLAKINESS: Final = and_(_NO_STORM, RUN.source != TRIAL)
"""Trials have no code in common: what fails in one and passes in the next may be as it should."""


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
class TopRow:
    """One cause of failures, as `history top` shows it."""

    project: str
    """Where it is from: of a trial the task."""
    fingerprint: str
    reason: str
    kind: str
    title: str
    owner: str | None
    runs: int
    failures: int
    seconds: float
    """That the failures took which reports list."""
    proof: str | None
    """The type of what is proven of it."""
    first_seen: datetime
    last_seen: datetime
    companions: tuple[str, ...] = ()
    """Fingerprints of other causes that runs have together with it, and whose failures, seconds and
    times are among its own."""


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
    proof: str | None = None
    """The type of what is proven of a cause that it failed of, such as `order.polluted`."""
    type: str | None = None
    """Why it is flaky: what is proven, else what is suspected."""
    status: str | None = None
    """`proven` or `suspected`."""
    evidence: str | None = None
    """What speaks for it, in a line."""
    companions: tuple[str, ...] = ()
    """Other tests that fail together with it, for which this row stands as well."""
    common: str | None = None
    """What most of them fail of."""


def list_runs(
    history: History, wanted: Wanted = ALL, *, limit: int = 20, storms: bool = False
) -> list[Row[Any]]:
    """Return the latest runs, the last one first, with the columns of `history list --format csv`.

    A filter by node id finds the runs in which a test of that name failed; one by reason, kind or
    owner looks at verdicts.

    Args:
        history: an open history.
        wanted: which runs to look at.
        limit: how many runs to return.
        storms: only those in which most tests failed of one cause of the environment.
    """
    conditions = [*of_runs(wanted), *_of_verdicts(wanted)]
    if storms:
        conditions.append(~_NO_STORM)
    query = (
        select(
            RUN.id,
            PROJECT.name.label("project"),
            *RUN["started_at", "duration_seconds", "stage", "reason", "kind", "owner"],
            *RUN["nodeid", "message"],
            RUN.commit_id.label("commit"),
            *RUN["branch", "passed", "failed", "errors", "completeness"],
            *RUN["storm", "storm_tests"],
            ATTEMPT.subtask_id.label("task"),
            ATTEMPT.approach.label("system"),
        )
        .join(PROJECTS)
        .outerjoin(ATTEMPTS, ATTEMPT.run_id == RUN.id)
        .where(*conditions)
        .order_by(RUN.started_at.desc(), RUN.number.desc())
        .limit(limit)
    )
    with history.reading() as connection:
        return [*connection.execute(query)]


def find_top(
    history: History, wanted: Wanted = ALL, *, limit: int = 20, each: bool = True
) -> list[TopRow]:
    """Return the causes that most runs had, with the time that their failures took.

    Args:
        history: an open history.
        wanted: which runs and causes to look at.
        limit: how many causes to return.
        each: each cause by itself; else one of those that runs have together stands for all.
    """
    runs, causes = of_runs(wanted, nodeid=False), _of_verdicts(wanted, CAUSE)
    if wanted.nodeid is not None:
        of_tests = (
            select(FAILURE.cause_id)
            .join(TESTS, TEST.id == FAILURE.test_id)
            .where(*matches(TEST.nodeid, wanted.nodeid))
        )
        causes.append(CAUSE.id.in_(of_tests))
    times = func.count().label("runs")
    failures = func.sum(RUN_CAUSE.count).label("failures")
    counts = (
        select(
            RUN_CAUSE.cause_id,
            times,
            failures,
            func.sum(RUN_CAUSE.seconds).label("seconds"),
        )
        .group_by(RUN_CAUSE.cause_id)
        .order_by(times.desc(), failures.desc(), RUN_CAUSE.cause_id)
        .limit(limit if each else 10 * limit)
    )
    if runs:
        counts = counts.join(RUNS).where(*runs)
    if causes:
        counts = counts.where(RUN_CAUSE.cause_id.in_(select(CAUSE.id).where(*causes)))
    best = counts.subquery()
    query = (
        select(
            PROJECT.name.label("project"),
            *CAUSE["id", "fingerprint", "reason", "kind", "title", "owner"],
            *best.c["runs", "failures", "seconds"],
            PROOF.type.label("proof"),
            func.min(RUN.started_at).label("first_seen"),
            func.max(RUN.started_at).label("last_seen"),
        )
        .select_from(best.join(CAUSES, best.c.cause_id == CAUSE.id))
        .join(PROJECTS, PROJECT.id == CAUSE.project_id)
        .join(RUN_CAUSES, RUN_CAUSE.cause_id == CAUSE.id)
        .join(RUNS, RUN.number == RUN_CAUSE.run_number)
        .outerjoin(PROOFS, _PROVEN)
        .group_by(CAUSE.id, PROJECT.name, *best.c, PROOF.type)
        .order_by(best.c.runs.desc(), best.c.failures.desc(), CAUSE.id)
    )
    with history.reading() as connection:
        rows = {}
        for fields in connection.execute(query).mappings():
            cause, row = fields["id"], dict(fields)
            del row["id"]
            rows[cause] = TopRow(**row)
        if each:
            return [*rows.values()]
        # Sets of runs are whole numbers with one bit a run.
        window = _window([*runs, _NO_STORM], WINDOW_RUNS)
        every_run = 0
        for number in connection.scalars(select(window.c.number)):
            every_run |= 1 << number
        had = dict.fromkeys(rows, 0)
        is_in_window = window.c.number == RUN_CAUSE.run_number
        of_causes = select(RUN_CAUSES).join(window, is_in_window)
        for run_cause in rows_with(connection, of_causes, RUN_CAUSE.cause_id, rows):
            had[run_cause.cause_id] |= 1 << run_cause.run_number
    for cluster in find_clusters(had, dict.fromkeys(had, every_run)):
        first, *others = [cause for cause in rows if cause in cluster]
        companions = [rows.pop(cause) for cause in others]
        joined = [rows[first], *companions]
        rows[first] = replace(
            rows[first],
            failures=sum(row.failures for row in joined),
            seconds=sum(row.seconds for row in joined),
            first_seen=min(row.first_seen for row in joined),
            last_seen=max(row.last_seen for row in joined),
            companions=tuple(row.fingerprint for row in companions),
        )
    return [*rows.values()][:limit]


def count_periods(
    history: History, wanted: Wanted = ALL, *, by: str = "week"
) -> list[Period]:
    """Return the runs of each day, week (it begins on Monday) or month, the earliest first."""
    query = select(RUN.started_at, RUN.reason, RUN.duration_seconds).where(
        *of_runs(wanted), *_of_verdicts(wanted)
    )
    by_period: dict[str, list[Any]] = {}
    with history.reading() as connection:
        for run in connection.execute(query):
            day = run.started_at
            if by == "week":
                day -= timedelta(days=day.weekday())
            begins = day.strftime("%Y-%m" if by == "month" else "%Y-%m-%d")
            by_period.setdefault(begins, []).append(run)
    return [_count_period(begins, runs) for begins, runs in sorted(by_period.items())]


def _count_period(begins: str, runs: Sequence[Any]) -> Period:
    reasons = Counter[str]()
    seconds: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        if run.reason is not None:
            reasons[run.reason] += 1
            seconds[run.reason] += run.duration_seconds or 0.0
    return Period(
        begins=begins,
        runs=len(runs),
        failed=reasons.total(),
        unclassified=reasons[UNCLASSIFIED],
        minutes_lost=sum(seconds.values()) / 60,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        minutes_by_reason={
            reason: lost / 60 for reason, lost in sorted(seconds.items())
        },
    )


def prune(
    history: History,
    *,
    before: datetime,
    project: str | None = None,
    dry_run: bool = False,
) -> int:
    """Remove the runs that began before a time; return how many.

    Tests that no run has had since then go, too, and so does what was proven before. What an SQLite
    database needs on disk shrinks.
    """
    wanted = Wanted(project=project, until=before)
    of_tests: list[ColumnElement[bool]] = [TEST.last_seen < before]
    of_proofs: list[ColumnElement[bool]] = [PROOF.known_since < before]
    if project is not None:
        of_tests.append(TEST.project_id.in_(_projects(project)))
        of_proofs.append(PROOF.project_id.in_(_projects(project)))
    has_outcome = select(OUTCOME.test_id).where(OUTCOME.test_id == TEST.id).exists()
    with history.writing() as connection:
        runs = select(RUN.number).where(*of_runs(wanted))
        numbers = connection.scalars(runs).all()
        if dry_run:
            return len(numbers)
        remove_runs(connection, numbers)
        connection.execute(TESTS.delete().where(*of_tests, ~has_outcome))
        connection.execute(PROOFS.delete().where(*of_proofs))
    if numbers and history.is_sqlite:
        history.shrink()
    return len(numbers)


def _projects(name: str) -> Select[tuple[int]]:
    return select(PROJECT.id).where(PROJECT.name == name)


def of_runs(wanted: Wanted, *, nodeid: bool = True) -> list[ColumnElement[bool]]:
    """Return the conditions on runs, whatever their verdict is."""
    conditions = [
        *matches(RUN.branch, wanted.branch),
        *_equals(RUN.stage, wanted.stage),
    ]
    if wanted.project is not None:
        conditions.append(RUN.project_id.in_(_projects(wanted.project)))
    if wanted.since is not None:
        conditions.append(RUN.started_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(RUN.started_at < wanted.until)
    if nodeid and wanted.nodeid is not None:
        is_wanted = matches(TEST.nodeid, wanted.nodeid)
        failing = (
            select(OUTCOME.run_number)
            .join(TESTS)
            .where(*is_wanted, OUTCOME.outcome.in_(FAILING))
        )
        conditions.append(RUN.number.in_(failing))
    return conditions


def _of_verdicts(wanted: Wanted, columns: Any = RUN) -> list[ColumnElement[bool]]:
    """Return the conditions on what runs, or causes, are found to have."""
    return [
        *matches(columns.kind, wanted.kind),
        *_equals(columns.reason, wanted.reason),
        *_equals(columns.owner, wanted.owner),
    ]


def _equals(column: Any, wanted: str | None) -> list[ColumnElement[bool]]:
    return [] if wanted is None else [column == wanted]


def matches(column: Any, pattern: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a text matches a pattern with `*` and `?`, if there is one."""
    if pattern is None:
        return []
    if not set(pattern) & set("*?"):
        return [column == pattern]
    for special in "\\%_":
        pattern = pattern.replace(special, f"\\{special}")
    return [column.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")]


def find_flaky(
    history: History,
    wanted: Wanted = ALL,
    *,
    limit: int = 20,
    runs: int = WINDOW_RUNS,
    each: bool = True,
    alone: bool = True,
) -> list[FlakyRow]:
    """Return the flaky tests among the latest runs, the most failures first.

    A test is flaky if it has passed and failed on one clean commit, if it passed on a rerun, or if
    it has changed between passed and failed on one branch `CHANGES_OF_MIND` times.

    Args:
        history: an open history.
        wanted: which runs and node ids to look at.
        limit: how many tests to return.
        runs: how many of the latest runs to look at.
        each: each test by itself; else one of those that fail together stands for all.
        alone: also tests that fail together with no other one.

    Raises:
        HistoryError: only tests that fail together are wanted, and it has too few runs to tell.
    """
    conditions = [*of_runs(wanted, nodeid=False), _TELLS_OF_FLAKINESS]
    with history.reading() as connection:
        window = _window(conditions, runs)
        of_names = None
        if wanted.nodeid is not None:
            of_names = select(TEST.id).where(*matches(TEST.nodeid, wanted.nodeid))
        rows, ends = _flaky_rows(connection, window, of_names)
        shown = sorted(rows, key=lambda test: (-rows[test].failures, test))
        companions: dict[int, list[int]] = {}
        if not each:
            failed, known = _sets_of_runs(rows, ends)
            is_telling = len(comparable_tests(failed, known)[0]) > 1
            if not (alone or is_telling) and len(rows) > 1:
                raise HistoryError(
                    f"history: of {len(rows)} flaky tests fewer than two have failed often enough "
                    f"in the latest {counted(len(ends), 'run')} to tell which fail together; add "
                    "more, with all of their tests, by: failure-taxonomy history add REPORT"
                )
            for cluster in find_clusters(failed, known):
                first, *others = [test for test in shown if test in cluster]
                companions[first] = others
                shown = [test for test in shown if test not in others]
        if not alone:
            shown = [test for test in shown if test in companions]
        types = _types_of(connection, window, shown[:limit])
        flaky = []
        for test in shown[:limit]:
            row = replace(rows[test], **types.get(test, {}))
            if others := companions.get(test, []):
                row = replace(
                    row,
                    companions=tuple(rows[other].nodeid for other in others),
                    common=_in_common(connection, window, [test, *others]),
                )
            flaky.append(row)
        return flaky


def count_trials(history: History, wanted: Wanted = ALL) -> int:
    """Return how many runs are trials of a harness, which say nothing of flaky tests."""
    conditions = of_runs(wanted, nodeid=False)
    trials = select(func.count(RUN.number)).where(RUN.source == TRIAL, *conditions)
    with history.reading() as connection:
        return connection.scalar(trials) or 0


def find_new_tests(
    history: History, report: FailureReport, nodeids: Sequence[str]
) -> list[str]:
    """Return those of some tests that no run before that of a report has had, in their order.

    Raises:
        HistoryError: there is no earlier run of the project.
    """
    at, name = started_at(report), project_of(report)
    digests = {digest_of(nodeid): nodeid for nodeid in nodeids}
    project = _projects(name).scalar_subquery()
    earlier = select(RUN.number).where(RUN.project_id == project, RUN.started_at < at)
    seen = select(TEST.digest).where(TEST.project_id == project, TEST.first_seen < at)
    with history.reading() as connection:
        if connection.scalar(earlier.limit(1)) is None:
            raise HistoryError(
                f"history: it has no run of {name} before that of the report, so every test would "
                "be new; add earlier ones by: failure-taxonomy history add REPORT"
            )
        for row in rows_with(connection, seen, TEST.digest, [*digests]):
            del digests[row.digest]
    return [*digests.values()]


def wilson_interval(failures: int, runs: int) -> tuple[float, float]:
    """Return Wilson's score interval of 95 % for a rate (Wilson, JASA 22, 1927, 209-212)."""
    if not runs:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    rate, share = failures / runs, z * z / runs
    middle = (rate + share / 2) / (1 + share)
    half = z / (1 + share) * sqrt(rate * (1 - rate) / runs + share / (4 * runs))
    return max(0.0, middle - half), min(1.0, middle + half)


def _window(conditions: Iterable[ColumnElement[bool]], runs: int) -> Any:
    """Return the latest runs of those that are meant, as a table expression."""
    return (
        select(*RUN["number", "started_at", "commit_id", "branch", "dirty"])
        .where(*conditions)
        .order_by(RUN.started_at.desc())
        .limit(runs)
        .cte("recent")
    )


class _Ended(NamedTuple):
    """The tests of a run by their ids; what passed on a rerun is among both."""

    failed: set[int]
    passed: set[int]


class _Sides:
    """The tests that failed and those that passed: last on a branch, or ever on a commit."""

    def __init__(self) -> None:
        self.failed: set[int] = set()
        self.passed: set[int] = set()


def _flaky_rows(
    connection: Connection,
    window: Any,
    ids: Any,
) -> tuple[dict[int, FlakyRow], list[_Ended]]:
    """Return the flaky tests within a window of runs, by id, and how the tests of each run ended.

    Args:
        connection: has begun a transaction.
        window: the runs, as `_window` returns them.
        ids: the tests to look at, as a list or a query; `None` for all.
    """
    outcomes = _outcomes_by_run(connection, window, ids)
    runs, failures, reruns, commits, changes = (Counter[int]() for _ in range(5))
    last_failed: dict[int, datetime] = {}
    by_branch: defaultdict[str | None, _Sides] = defaultdict(_Sides)
    by_commit: defaultdict[str, _Sides] = defaultdict(_Sides)
    have_passed: set[int] = set()
    ends = []
    by_time = select(window).order_by(window.c.started_at, window.c.number)
    for run in connection.execute(by_time).all():
        if run.number not in outcomes:
            continue
        failed, passed, rerun = outcomes[run.number]
        # What passed on a rerun has failed, too.
        ended = _Ended(failed=failed | rerun, passed=passed | rerun)
        ends.append(ended)
        runs.update(ended.failed | ended.passed)
        failures.update(ended.failed)
        reruns.update(rerun)
        last_failed.update(dict.fromkeys(ended.failed, run.started_at))
        have_passed |= ended.passed
        last = by_branch[run.branch]
        changes.update((failed & last.passed) | (ended.passed & last.failed))
        last.failed -= ended.passed
        last.failed |= failed
        last.passed -= failed
        last.passed |= ended.passed
        if run.commit_id is not None and not run.dirty:
            commit = by_commit[run.commit_id]
            commit.failed |= failed
            commit.passed |= ended.passed
    for commit in by_commit.values():
        commits.update(commit.failed & commit.passed)
    flaky = []
    for test in failures:
        goes_both_ways = commits[test] or reruns[test]
        if test in have_passed and (goes_both_ways or changes[test] >= CHANGES_OF_MIND):
            flaky.append(test)
    unwritten = _passes_unwritten(connection, window, flaky)
    names = rows_with(connection, select(TEST.id, TEST.nodeid), TEST.id, flaky)
    nodeids = {row.id: row.nodeid for row in names}
    rows = {}
    for test in flaky:
        times = failures[test]
        known = runs[test] + unwritten.get(test, 0)
        low, high = wilson_interval(times, known)
        rows[test] = FlakyRow(
            nodeid=nodeids[test],
            runs=known,
            failures=times,
            rate=times / known,
            low=low,
            high=high,
            commits=commits[test],
            changes=changes[test],
            last_failed=last_failed[test],
            advice=_advise(low, high),
        )
    return rows, ends


def _outcomes_by_run(
    connection: Connection,
    window: Any,
    ids: Any,
) -> dict[int, list[set[int]]]:
    """Return the tests of each run that failed, passed, and passed on a rerun.

    The database gives one row a run, with the tests of each outcome as one text: a thousand runs of
    five hundred tests come in a third of the time that grouping them by test takes.
    """
    conditions = [] if ids is None else [OUTCOME.test_id.in_(ids)]
    test_id = cast(OUTCOME.test_id, Text)

    def join_tests(*outcomes: str) -> Any:
        return func.aggregate_strings(
            case((OUTCOME.outcome.in_(outcomes), test_id)), ","
        )

    of_runs = (
        select(
            OUTCOME.run_number,
            join_tests(*FAILING),
            join_tests("passed"),
            join_tests("flaky"),
        )
        .select_from(OUTCOMES.join(window, window.c.number == OUTCOME.run_number))
        .where(*conditions)
        .group_by(OUTCOME.run_number)
    )
    outcomes = {}
    for number, *texts in connection.execute(of_runs):
        outcomes[number] = [
            {*map(int, text.split(","))} if text else set() for text in texts
        ]
    return outcomes


def _advise(low: float, high: float) -> str:
    """Return what to do with a flaky test, by the bounds of its rate of failures."""
    if low >= WORTH_QUARANTINE:
        return "quarantine"
    return "watch" if high >= WORTH_QUARANTINE else "keep"


def _sets_of_runs(
    tests: Collection[int],
    ends: Iterable[_Ended],
) -> tuple[dict[int, int], dict[int, int]]:
    """Return by test the runs in which it failed, and those in which it passed or failed.

    A set of runs is a whole number with one bit a run.
    """
    failed, known = dict.fromkeys(tests, 0), dict.fromkeys(tests, 0)
    for place, ended in enumerate(ends):
        for test in ended.failed & failed.keys():
            failed[test] |= 1 << place
        for test in (ended.failed | ended.passed) & known.keys():
            known[test] |= 1 << place
    return failed, known


def _in_common(connection: Connection, window: Any, tests: Sequence[int]) -> str | None:
    """Return what most of some tests have failed of: a failure, else its words or its exception.

    Where each test connects by itself, it has a failure of its own, and the others' words.
    """
    query = (
        select(FAILURE.test_id, FAILURE.message, CAUSE.title, func.count())
        .join(CAUSES, CAUSE.id == FAILURE.cause_id)
        .join(window, window.c.number == FAILURE.run_number)
        .where(FAILURE.test_id.in_(tests))
        .group_by(FAILURE.test_id, FAILURE.message, CAUSE.title)
    )
    levels = [(defaultdict[str, set[int]](set), Counter[str]()) for _ in range(3)]
    for test, message, title, times in connection.execute(query):
        texts = (title, message, message.partition(":")[0])
        for (tests_by_text, failures), text in zip(levels, texts, strict=True):
            tests_by_text[text].add(test)
            failures[text] += times
    for tests_by_text, failures in levels:
        most = max(
            tests_by_text,
            key=lambda text: (len(tests_by_text[text]), failures[text]),
            default="",
        )
        if most and 2 * len(tests_by_text[most]) > len(tests):
            return most
    return None


def _types_of(
    connection: Connection, window: Any, tests: Sequence[int]
) -> dict[int, dict[str, str]]:
    """Return type, status and evidence of tests of which they are proven or suspected."""
    is_in_window = window.c.number == FAILURE.run_number
    columns = FAILURE["test_id", "run_number", "message"]
    failures = select(*columns).join(window, is_in_window)
    messages = {}
    for row in rows_with(connection, failures, FAILURE.test_id, tests):
        messages[row.test_id, row.run_number] = row.message or ""
    outcomes = (
        select(
            *OUTCOME["test_id", "run_number"],
            *RUN["started_at", "branch", "duration_seconds", "collected", "ci_job"],
            OUTCOME.outcome != "passed",
            OUTCOME.seconds,
        )
        .select_from(OUTCOMES.join(RUNS).join(window, window.c.number == RUN.number))
        .where(OUTCOME.outcome.in_((*FAILING, "passed", "flaky")))
        .order_by(RUN.started_at, RUN.number)
    )
    seen = defaultdict[int, list[Seen]](list)
    for row in rows_with(connection, outcomes, OUTCOME.test_id, tests):
        test, run, *fields = tuple(row)
        seen[test].append(Seen(messages.get((test, run), ""), *fields))
    types = {}
    for test, runs in seen.items():
        for suspicion in suspicions_of(runs)[:1]:
            types[test] = {
                "type": suspicion.type,
                "status": "suspected",
                "evidence": suspicion.evidence,
            }
    # The few causes first: tests may have very many failures.
    proofs = connection.execute(select(CAUSE.id, PROOF.proof).join(PROOFS, _PROVEN))
    proven = {row.id: row.proof for row in proofs}
    failed_of = select(*FAILURE["test_id", "cause_id"]).distinct()
    for row in rows_with(connection, failed_of, FAILURE.cause_id, proven):
        if row.test_id in seen:
            proof = _stored_proof(proven[row.cause_id])
            types[row.test_id] = {
                "type": proof.type,
                "proof": proof.type,
                "status": "proven",
                "evidence": proof_words(proof, None)[0],
            }
    return types


def _passes_unwritten(
    connection: Connection, window: Any, ids: list[int]
) -> dict[int, int]:
    """Return how often tests have passed before the first outcome of theirs that is written down.

    A test's passes are written down from its first failure on, with the last one before it. Until
    then it has passed in each run that came to its end, from the one on in which it was first seen.
    """
    unwritten: dict[int, int] = {}
    for some in parts(ids):
        first = (
            select(OUTCOME.test_id, func.min(window.c.started_at).label("at"))
            .join(window, window.c.number == OUTCOME.run_number)
            .where(OUTCOME.test_id.in_(some))
            .group_by(OUTCOME.test_id)
            .subquery()
        )
        passes = (
            select(TEST.id, func.count())
            .select_from(TESTS)
            .join(first, first.c.test_id == TEST.id)
            .join(RUNS, RUN.project_id == TEST.project_id)
            .join(window, window.c.number == RUN.number)
            .where(
                TEST.first_seen <= RUN.started_at,
                RUN.started_at < first.c.at,
                RUN.completeness == "full",
                RUN.not_run == 0,
            )
            .group_by(TEST.id)
        )
        unwritten.update(map(tuple, connection.execute(passes)))
    return unwritten


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
    last_passed_run: str | None
    last_passed_at: datetime | None
    last_seen: datetime
    proof: str | None
    """The type of what is proven of it."""


def states_of(history: History, report: FailureReport) -> dict[str, GroupHistory]:
    """Return what earlier runs say of each group of a report, by fingerprint.

    Earlier runs are those of the same project that began before this one; the report itself may or
    may not be among the runs of the history.

    A group that no earlier run had is `new`. If it has one whose tests are flaky (see
    `find_flaky`), it is `flaky`. If its tests have passed on this run's branch after the last run
    there that had it, it has come back: `came_back`. All others are `known`. A successful run of
    the same stage and branch that had as many tests counts as a pass of them all.

    A verdict that no group has, such as a death, has its state under `VERDICT`. Earlier runs had it
    if theirs has the same reason, kind and node id. It has come back if a run of the same stage and
    branch has succeeded since.
    """
    groups = {group.fingerprint: group for group in report.groups}
    verdict = report.verdict
    with history.reading() as connection:
        earlier = _Earlier(connection, report)
        states = earlier.states_of(groups) if groups else {}
        if verdict is not None:
            codes = [(group.reason, group.kind) for group in report.groups]
            if (verdict.reason, verdict.kind) not in codes:
                states[VERDICT] = earlier.state_of(verdict)
    return states


def proofs_of(history: History, report: FailureReport) -> dict[str, Proof]:
    """Return what is known to be proven of causes, by their keys and fingerprints."""
    names = [cause.key for cause in report.causes]
    names += [group.fingerprint for group in report.groups]
    query = select(PROOFS).where(PROOF.project_id.in_(_projects(project_of(report))))
    proofs = {}
    with history.reading() as connection:
        for row in rows_with(connection, query, PROOF.name, names):
            since = f"{row.known_since.isoformat(timespec='seconds')}Z"
            proof = _stored_proof(row.proof)
            proofs[row.name] = replace(proof, known_since=since)
    return proofs


def _stored_proof(text: str) -> Proof:
    stored = {**NO_PROOF, **json.loads(text)}  # whichever version has stored it
    return CODEC.decode(Proof, stored)


def find_since(
    history: History, fingerprint: str, *, project: str | None = None
) -> Since:
    """Return when a cause began, and the last commit before it.

    Args:
        history: an open history.
        fingerprint: its first characters suffice if no other cause begins with them.
        project: the project's name, if several have this cause.

    Raises:
        HistoryError: there is no such cause, or several begin so.
    """
    with history.reading() as connection:
        query = _named(CAUSE.fingerprint, project, *CAUSES.c)
        query = query.where(*matches(CAUSE.fingerprint, f"{fingerprint}*"))
        cause = _only_one(
            [*connection.execute(query)],
            fingerprint,
            none="no failure of that fingerprint is known; "
            "`failure-taxonomy history top` lists those that are",
            several="several begin so",
            right="give more of it, or --project",
        )
        return _since(connection, cause)


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
        query = _named(TEST.nodeid, project, TEST.id)
        failed = query.where(exists().where(FAILURE.test_id == TEST.id))
        rows = [*connection.execute(failed.where(TEST.digest == digest_of(nodeid)))]
        part = matches(TEST.nodeid, f"*{nodeid}*")
        if not rows:
            rows = [*connection.execute(failed.where(*part).order_by(TEST.nodeid))]
        if not rows:
            passed = query.add_columns(*RUN["started_at", "commit_id"]).where(*part)
            passed = passed.join(RUNS, RUN.number == TEST.last_passed_run)
            if last := connection.execute(
                passed.order_by(RUN.started_at.desc())
            ).first():
                raise HistoryError(
                    f"{nodeid}: no failure of such a test is known; {last.name} passed last: "
                    f"{last.started_at:%Y-%m-%d %H:%M}, commit {last.commit_id or 'not known'}"
                )
        test = _only_one(
            rows,
            nodeid,
            none="no failure of such a test is known, and no pass; `failure-taxonomy history list "
            "--nodeid 'PATTERN'` lists the runs in which tests failed",
            several="several tests are called so",
            right="give the whole node id, or --project",
        )
        failures = select(FAILURE.cause_id).join(RUNS).where(FAILURE.test_id == test.id)
        latest = failures.with_only_columns(RUN.number).order_by(
            RUN.started_at.desc(), RUN.number.desc()
        )
        causes = select(CAUSES).where(
            CAUSE.id.in_(
                failures.where(RUN.number == latest.limit(1).scalar_subquery())
            )
        )
        found = connection.execute(causes.order_by(CAUSE.id)).all()
        return tuple(_since(connection, cause, test) for cause in found)


def _named(
    name: Column[str], project: str | None, *columns: Column[Any]
) -> Select[Any]:
    """Return the question for rows with a `name` and a `project`, of a project if it is given."""
    query = select(*columns, name.label("name"), PROJECT.name.label("project"))
    query = query.select_from(name.table).join(PROJECTS)
    return query.where(*_equals(PROJECT.name, project)).limit(5)


def _only_one(
    rows: list[Row[Any]], given: str, *, none: str, several: str, right: str
) -> Row[Any]:
    if not rows:
        raise HistoryError(f"{given}: {none}")
    if len(rows) > 1:
        names = ", ".join(f"{row.name} ({row.project})" for row in rows)
        raise HistoryError(f"{given}: {several}: {names}; {right}")
    return rows[0]


def _since(connection: Connection, cause: Any, test: Any = None) -> Since:
    """Return when a cause began, or when it began to fail one test."""
    if test is None:
        numbers = select(RUN_CAUSE.run_number).where(RUN_CAUSE.cause_id == cause.id)
    else:
        is_of_both = (FAILURE.cause_id == cause.id) & (FAILURE.test_id == test.id)
        numbers = select(FAILURE.run_number).where(is_of_both)
    had = select(RUNS).where(RUN.number.in_(numbers))
    runs = connection.execute(had.order_by(RUN.started_at, RUN.number)).all()
    first, last = runs[0], runs[-1]
    streaks = [run for run in runs if run.branch == last.branch]
    passed = _last_pass_before(connection, cause, last, test)
    if passed is not None:
        streaks = [run for run in streaks if run.started_at > passed.started_at]
    streak = streaks[0]
    proof = select(PROOF.type).join(CAUSES, _PROVEN).where(CAUSE.id == cause.id)
    return Since(
        nodeid=None if test is None else test.name,
        fingerprint=cause.fingerprint,
        title=cause.title,
        reason=cause.reason,
        kind=cause.kind,
        runs=len(runs),
        branches=tuple(sorted({run.branch for run in runs if run.branch})),
        first_run=first.id,
        first_seen=first.started_at,
        first_commit=first.commit_id,
        streak_run=streak.id,
        streak_seen=streak.started_at,
        streak_commit=streak.commit_id,
        last_passed_commit=passed and passed.commit_id,
        last_passed_run=passed and passed.id,
        last_passed_at=passed and passed.started_at,
        last_seen=last.started_at,
        proof=connection.scalar(proof),
    )


_TIMES_OF_RUNS: Final = (
    func.count().label("times"),
    func.min(RUN.started_at).label("first"),
    func.max(RUN.started_at).label("last"),
)
_NEW: Final = GroupHistory(
    state="new", first_seen=None, first_commit=None, runs=0, last_passed_commit=None
)


class _Earlier:
    """What the runs before one run say of its failures."""

    def __init__(self, connection: Connection, report: FailureReport) -> None:
        self._connection = connection
        self._report = report
        self._project = connection.scalar(
            select(PROJECT.id).where(PROJECT.name == project_of(report))
        )
        self._branch = branch_of(report)
        self._earlier = and_(
            RUN.project_id == self._project,
            RUN.id != report.run.id,
            RUN.started_at <= started_at(report),
        )

    def states_of(self, groups: Mapping[str, Group]) -> dict[str, GroupHistory]:
        """Return the states of groups by fingerprint."""
        seen = self._runs_by_fingerprint(groups)
        most = max(1, min(_TESTS_OF_A_GROUP, _TESTS_OF_A_RUN // len(groups)))
        tests = self._find_tests(groups, most)
        old: set[int] = set()
        for name in seen:
            old.update(row.id for row in tests[name])
        window = _window([self._earlier, _TELLS_OF_FLAKINESS], WINDOW_RUNS)
        flaky: dict[int, FlakyRow] = {}
        for part in parts(sorted(old)):
            flaky |= _flaky_rows(self._connection, window, part)[0]
        passes = self._passes(sorted(old), self._report.summary.collected)
        states = {}
        for name, rows in tests.items():
            if seen.get(name):
                ids = [row.id for row in rows]
                states[name] = self._state(seen[name], ids, flaky, passes)
                continue
            # Passes of tests that have never failed are not kept, each by itself.
            last = max((row.last_passed_run or 0 for row in rows), default=0)
            passed = self._run(RUN.number == last) or self._last_pass([], passes)
            states[name] = replace(
                _NEW,
                last_passed_commit=passed and passed.commit_id,
                distributions_changed=self._changed_since(passed),
            )
        return states

    def _runs_by_fingerprint(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """Return the earlier runs of the causes that are known, counted by branch."""
        of_project = select(CAUSE.fingerprint, CAUSE.id).where(
            CAUSE.project_id == self._project
        )
        had = (
            select(RUN_CAUSE.cause_id, RUN.branch, *_TIMES_OF_RUNS)
            .join(RUNS)
            .where(self._earlier)
            .group_by(RUN_CAUSE.cause_id, RUN.branch)
        )
        # What a storm brought is known to storms alone.
        if storm_of(self._report)[0] is None:
            had = had.where(RUN_CAUSE.in_storm.is_not(true()))
        connection = self._connection
        causes = {}
        for row in rows_with(connection, of_project, CAUSE.fingerprint, names):
            causes[row.id] = row.fingerprint
        seen: dict[str, list[Any]] = {name: [] for name in causes.values()}
        for row in rows_with(connection, had, RUN_CAUSE.cause_id, causes):
            seen[causes[row.cause_id]].append(row)
        return seen

    def _find_tests(
        self,
        groups: Mapping[str, Group],
        most: int,
    ) -> dict[str, list[Any]]:
        """Return the rows of the first tests of each group, as far as they are known."""
        digests = {}
        for name, group in groups.items():
            digests[name] = [*map(digest_of, group.nodeids[:most])]
        of_project = select(*TEST["digest", "id", "last_passed_run"]).where(
            TEST.project_id == self._project
        )
        wanted = dict.fromkeys(chain.from_iterable(digests.values()))
        rows = rows_with(self._connection, of_project, TEST.digest, wanted)
        tests = {row.digest: row for row in rows}
        return {
            name: [tests[digest] for digest in of_group if digest in tests]
            for name, of_group in digests.items()
        }

    def state_of(self, verdict: Verdict) -> GroupHistory:
        """Return the state of a verdict that no group has."""
        nodeid = clean_text(verdict.nodeid, MAX_NODEID)
        query = (
            select(RUN.branch, *_TIMES_OF_RUNS)
            .where(
                self._earlier,
                RUN.reason == verdict.reason,
                RUN.kind == verdict.kind,
                RUN.nodeid.is_not_distinct_from(nodeid),
            )
            .group_by(RUN.branch)
        )
        rows = self._connection.execute(query).all()
        if not rows:
            return _NEW
        passes = [
            (test, row)
            for test, row in self._passes([], 1)
            if row.branch == self._branch
        ]
        return self._state(rows, [], {}, passes)

    def _state(
        self,
        rows: Sequence[Any],
        tests: list[int],
        flaky: Mapping[int, FlakyRow],
        passes: Sequence[tuple[int | None, Any]],
    ) -> GroupHistory:
        first = min(rows, key=attrgetter("first"))
        own = [row.last for row in rows if row.branch == self._branch]
        passes_here = [
            row for row in _passes_of(tests, passes) if row.branch == self._branch
        ]
        flaky_rows = [flaky[test] for test in tests if test in flaky]
        state: Literal["known", "flaky", "came_back"] = "known"
        failures = runs = 0
        if tests and len(flaky_rows) == len(tests):
            state = "flaky"
            worst = max(flaky_rows, key=attrgetter("failures"))
            failures, runs = worst.failures, worst.runs
        elif own and any(row.last > max(own) for row in passes_here):
            state = "came_back"
        began = self._run(*_run_at(first.first, first.branch))
        passed = self._last_pass(tests, passes)
        return GroupHistory(
            state=state,
            first_seen=f"{first.first.isoformat()}Z",
            first_commit=began and began.commit_id,
            runs=sum(int(row.times) for row in rows),
            last_passed_commit=passed and passed.commit_id,
            distributions_changed=self._changed_since(passed),
            flaky_failures=failures,
            flaky_runs=runs,
        )

    def _last_pass(
        self, tests: list[int], passes: Sequence[tuple[int | None, Any]]
    ) -> Any:
        """Return the run in which tests passed last, on this run's branch if there is one."""
        own = _passes_of(tests, passes)
        here = [row for row in own if row.branch == self._branch]
        last = max(here or own, key=attrgetter("last"), default=None)
        return last and self._run(*_run_at(last.last, last.branch))

    def _changed_since(self, passed: Any) -> tuple[str, ...] | None:
        """Return which distributions are others than in a run; `None` if there is none."""
        if passed is None:
            return None
        before = (passed.installed or "").splitlines()
        return changed_versions(before, installed_in(self._report))

    def _run(self, *where: ColumnElement[bool]) -> Any:
        """Return commit and distributions of an earlier run."""
        columns = RUN.commit_id, ENVIRONMENT.installed
        both = RUNS.outerjoin(ENVIRONMENTS, ENVIRONMENT.id == RUN.environment_id)
        wanted = select(*columns).select_from(both).where(self._earlier, *where)
        return self._connection.execute(wanted.limit(1)).first()

    def _passes(
        self, tests: Sequence[int], collected: int
    ) -> list[tuple[int | None, Any]]:
        """Return the last passes of tests, and of runs that succeeded with so many, by branch.

        The passes of a test are looked for on this run's branch first. A run in which all tests
        passed has `None` for the test.
        """
        found: list[tuple[int | None, Any]] = []
        left = set(tests)
        here = RUN.branch.is_not_distinct_from(self._branch)
        for where, runs in (
            *((here, runs) for runs in _LAST_RUNS),
            (true(), WINDOW_RUNS),
        ):
            window = _window([self._earlier, where], runs)
            query = (
                select(
                    OUTCOME.test_id,
                    window.c.branch,
                    func.max(window.c.started_at).label("last"),
                )
                .select_from(window)
                .join(OUTCOMES, OUTCOME.run_number == window.c.number)
                .where(OUTCOME.outcome == "passed")
                .group_by(OUTCOME.test_id, window.c.branch)
            )
            for row in rows_with(
                self._connection, query, OUTCOME.test_id, sorted(left)
            ):
                found.append((row.test_id, row))
                left.discard(row.test_id)
        whole = select(RUN.branch, *_TIMES_OF_RUNS).where(
            self._earlier, *_succeeded(self._report.run.stage, collected)
        )
        found += [
            (None, row) for row in self._connection.execute(whole.group_by(RUN.branch))
        ]
        return found


def _passes_of(
    tests: Sequence[int],
    passes: Sequence[tuple[int | None, Any]],
) -> list[Any]:
    """Return the passes of some tests, and of whole runs."""
    return [row for test, row in passes if test is None or test in tests]


def _run_at(at: datetime, branch: str | None) -> tuple[ColumnElement[bool], ...]:
    return RUN.started_at == at, RUN.branch.is_not_distinct_from(branch)


def changed_versions(
    before: Sequence[str], now: Sequence[str]
) -> tuple[str, ...] | None:
    """Return how what is installed has changed: `numpy 2.3.1 -> 2.4.0`, `+ new 1.0`, `- old 1.0`.

    Args:
        before: `name-version` of each distribution; empty where that is not known.
        now: likewise.
    """
    if not before or not now:
        return None
    old, new = (
        dict(each.rpartition("-")[::2] for each in listed) for listed in (before, now)
    )
    both = sorted(old.keys() & new.keys())
    changed = [
        f"{name} {old[name]} -> {new[name]}" for name in both if old[name] != new[name]
    ]
    changed += [f"+ {name} {new[name]}" for name in sorted(new.keys() - old.keys())]
    changed += [f"- {name} {old[name]}" for name in sorted(old.keys() - new.keys())]
    more = and_more(len(changed) - MAX_CHANGES).strip()
    return (*changed[:MAX_CHANGES], *filter(None, [more]))


def _succeeded(stage: str, collected: int) -> list[ColumnElement[bool]]:
    """Return the conditions under which a run says that all tests of another one have passed."""
    return [
        RUN.reason.is_(None),
        RUN.failed + RUN.errors == 0,
        RUN.completeness == "full",
        RUN.stage == stage,
        RUN.collected >= max(1, collected),
    ]


def _last_pass_before(connection: Connection, cause: Any, last: Any, test: Any) -> Any:
    """Return the latest run before a cause's last one, on its branch, in which its tests passed."""
    query = select(FAILURE.test_id).where(FAILURE.cause_id == cause.id).distinct()
    tests = (
        [test.id] if test else list(connection.scalars(query.limit(_TESTS_OF_A_CAUSE)))
    )
    branch = RUN.branch.is_not_distinct_from(last.branch)
    earlier = (
        select(*RUN["id", "started_at", "commit_id"])
        .where(
            RUN.project_id == cause.project_id,
            branch,
            RUN.started_at < last.started_at,
        )
        .order_by(RUN.started_at.desc())
        .limit(1)
    )
    passes = exists().where(
        OUTCOME.run_number == RUN.number,
        OUTCOME.test_id.in_(tests),
        OUTCOME.outcome == "passed",
    )
    found = [
        connection.execute(earlier.where(passes)).one_or_none(),
        connection.execute(
            earlier.where(*_succeeded(last.stage, last.collected))
        ).one_or_none(),
    ]
    return max(
        (each for each in found if each is not None),
        key=lambda each: each.started_at,
        default=None,
    )
