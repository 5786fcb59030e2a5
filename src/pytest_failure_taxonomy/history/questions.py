"""What the history answers: which runs there were, what fails most, what is flaky or new."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import fsum
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    exists,
    func,
    or_,
    select,
    true,
)

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import VERDICT
from pytest_failure_taxonomy.history.branches import (
    BranchState,
    State,
    judge_branches,
    wilson_interval,
)
from pytest_failure_taxonomy.history.companions import comparable_tests, group_by_runs
from pytest_failure_taxonomy.history.database import History
from pytest_failure_taxonomy.history.outcomes import (
    FAILING,
    NEWEST_FIRST,
    OLDEST_FIRST,
    ORDER,
    Ended,
    Renames,
    find_renames,
    is_before,
    is_pass_of_all,
    latest_runs,
    read_outcomes,
    read_rosters,
)
from pytest_failure_taxonomy.history.signals import (
    FEWEST_FAILURES,
    Seen,
    suspicions_of,
)
from pytest_failure_taxonomy.history.tables import (
    ATTEMPT,
    ATTEMPTS,
    CAUSE,
    CAUSES,
    ENVIRONMENT,
    FAILURE,
    FAILURES,
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
    bits_of,
    branch_of,
    clean_text,
    digest_of,
    installed_in,
    project_of,
    remove_runs,
    remove_tests,
    rows_with,
    started_at,
    storm_of,
)
from pytest_failure_taxonomy.history.versions import changed_versions
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
from pytest_failure_taxonomy.taxonomy.words import counted

UNCLASSIFIED: Final = "UNKNOWN"
WINDOW_RUNS: Final = 1_000
"""How many runs, the latest ones, tell which tests are flaky."""
WORTH_QUARANTINE: Final = 0.02
"""The rate of failures from which a flaky test costs more than it tells: one run in fifty."""
_DIGITS: Final = 6
"""Of seconds; what is beyond them depends on the order in which they were added up."""
_ORDER_OF_CAUSES: Final = (CAUSE.fingerprint, CAUSE.project_id)
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
    branches: tuple[str, ...]
    """On which it is flaky."""
    runs: int
    """Runs on these branches in which it passed or failed."""
    failures: int
    rate: float
    low: float
    high: float
    """The bounds of Wilson's interval of 95 % for the rate."""
    commits: int
    """Commits on which it has passed and failed."""
    changes: int
    """Changes between passed and failed on that branch which has most of them, in the order of the
    runs' times."""
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
        .order_by(*NEWEST_FIRST)
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
            .where(_is_named(wanted.nodeid))
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
        .join(CAUSES)
        .where(*causes)
        .group_by(RUN_CAUSE.cause_id, CAUSE.fingerprint, CAUSE.project_id)
        .order_by(times.desc(), failures.desc(), *_ORDER_OF_CAUSES)
        .limit(limit if each else 10 * limit)
    )
    if runs:  # else that would take three times as long
        counts = counts.join(RUNS, RUN.number == RUN_CAUSE.run_number).where(*runs)
    best = counts.subquery()
    query = (
        select(
            PROJECT.name.label("project"),
            *CAUSE[
                "id", "project_id", "fingerprint", "reason", "kind", "title", "owner"
            ],
            *best.c["runs", "failures", "seconds"],
            func.min(RUN.started_at).label("first_seen"),
            func.max(RUN.started_at).label("last_seen"),
        )
        .select_from(best.join(CAUSES, best.c.cause_id == CAUSE.id))
        .join(PROJECTS, PROJECT.id == CAUSE.project_id)
        .join(RUN_CAUSES, RUN_CAUSE.cause_id == CAUSE.id)
        .join(RUNS, RUN.number == RUN_CAUSE.run_number)
        .group_by(CAUSE.id, PROJECT.name, *best.c)
        .order_by(best.c.runs.desc(), best.c.failures.desc(), *_ORDER_OF_CAUSES)
    )
    with history.reading() as connection:
        rows, ids = list[TopRow](), dict[int, int]()
        causes_read = connection.execute(query).mappings().all()
        names = [fields["fingerprint"] for fields in causes_read]
        proofs = read_proofs(connection, names)
        for place, fields in enumerate(causes_read):
            row = dict(fields)
            ids[row.pop("id")] = place
            proof = proofs.get((row.pop("project_id"), row["fingerprint"]))
            row["proof"] = proof and proof.type
            row["seconds"] = round(row["seconds"], _DIGITS)
            rows.append(TopRow(**row))
        if each:
            return rows
        # Sets of runs are whole numbers with one bit a run.
        window = latest_runs([*runs, _NO_STORM], WINDOW_RUNS)
        every_run = bits_of(connection.scalars(select(window.c.number)))
        had = dict.fromkeys(ids.values(), 0)
        is_in_window = window.c.number == RUN_CAUSE.run_number
        of_causes = select(RUN_CAUSES).join(window, is_in_window)
        for run_cause in rows_with(connection, of_causes, RUN_CAUSE.cause_id, ids):
            had[ids[run_cause.cause_id]] |= 1 << run_cause.run_number
    clusters = group_by_runs(had, dict.fromkeys(had, every_run))
    return [
        _join_causes([rows[member] for member in cluster])
        for cluster in clusters[:limit]
    ]


def _join_causes(rows: Sequence[TopRow]) -> TopRow:
    """Return one row for causes that runs have together, the first one's."""
    return replace(
        rows[0],
        failures=sum(row.failures for row in rows),
        seconds=round(sum(row.seconds for row in rows), _DIGITS),
        first_seen=min(row.first_seen for row in rows),
        last_seen=max(row.last_seen for row in rows),
        companions=tuple(row.fingerprint for row in rows[1:]),
    )


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
    failed = [run for run in runs if run.reason is not None]
    seconds = defaultdict[str, list[float]](list)
    for run in failed:
        seconds[run.reason].append(run.duration_seconds or 0.0)
    minutes = {reason: fsum(lost) / 60 for reason, lost in sorted(seconds.items())}
    reasons = {reason: len(lost) for reason, lost in sorted(seconds.items())}
    return Period(
        begins=begins,
        runs=len(runs),
        failed=len(failed),
        unclassified=reasons.get(UNCLASSIFIED, 0),
        minutes_lost=fsum(chain(*seconds.values())) / 60,
        reasons=dict(sorted(reasons.items(), key=itemgetter(1), reverse=True)),
        minutes_by_reason=minutes,
    )


def prune(
    history: History,
    *,
    before: datetime,
    project: str | None = None,
    dry_run: bool = False,
) -> int:
    """Remove the runs that began before a time; return how many.

    Tests that no other run has had go, too, and so does what was proven in these runs. What an
    SQLite database needs on disk shrinks.
    """
    wanted = Wanted(project=project, until=before)
    of_proofs: list[ColumnElement[bool]] = [PROOF.started_at < before]
    if project is not None:
        of_proofs.append(PROOF.project_id.in_(_projects(project)))
    with history.writing() as connection:
        runs = select(RUN.number).where(*of_runs(wanted))
        numbers = connection.scalars(runs).all()
        if dry_run:
            return len(numbers)
        remove_runs(connection, numbers)
        remove_tests(connection, project)
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
        failing = (
            select(OUTCOME.run_number)
            .join(TESTS)
            .where(_is_named(wanted.nodeid), OUTCOME.outcome.in_(FAILING))
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


def _is_named(pattern: str) -> ColumnElement[bool]:
    """Return the condition that a test is called so, or if none is, that it matches a pattern."""
    exact = TESTS.alias().c.digest == digest_of(pattern)
    is_match = and_(true(), *matches(TEST.nodeid, pattern))
    return or_(TEST.digest == digest_of(pattern), ~exists().where(exact) & is_match)


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

    `judge_branches` says which these are. Failures and runs are those of the branches on which a
    test is flaky; where it is broken, or only passes, it tells nothing of how often it fails.

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
    with history.reading() as connection:
        window, renames, ends = _read_window(connection, wanted, runs)
        rows = _flaky_rows(connection, judge_branches(ends))
        # By their places, so that nothing depends on the tests' ids in this database.
        order = sorted(rows, key=lambda test: (-rows[test].failures, rows[test].nodeid))
        clusters: list[tuple[int, ...]] = [(place,) for place in range(len(order))]
        if not each:
            failed, known = _sets_of_runs(order, ends)
            is_telling = len(comparable_tests(failed, known)[0]) > 1
            if not (alone or is_telling) and len(rows) > 1:
                raise HistoryError(
                    f"history: of {len(rows)} flaky tests fewer than two have failed often enough "
                    f"in the latest {counted(len(ends), 'run')} to tell which fail together; add "
                    "more, with all of their tests, by: failure-taxonomy history add REPORT"
                )
            clusters = group_by_runs(failed, known)
        if not alone:
            clusters = [cluster for cluster in clusters if len(cluster) > 1]
        shown = [[order[place] for place in cluster] for cluster in clusters[:limit]]
        firsts = [tests[0] for tests in shown]
        types = _types_of(connection, window, renames, ends, firsts)
        flaky = []
        for tests in shown:
            first, *others = tests
            row = replace(rows[first], **types.get(first, {}))
            if others:
                row = replace(
                    row,
                    companions=tuple(rows[other].nodeid for other in others),
                    common=_in_common(connection, window, renames, tests),
                )
            flaky.append(row)
        return flaky


def _read_window(
    connection: Connection, wanted: Wanted, runs: int
) -> tuple[Any, Renames, list[Ended]]:
    """Return the latest runs that tell of flaky tests, and how the wanted tests ended in them."""
    conditions = [*of_runs(wanted, nodeid=False), _TELLS_OF_FLAKINESS]
    window = latest_runs(conditions, runs)
    renames = find_renames(connection)
    tests = None
    if wanted.nodeid is not None:
        failed = exists().where(FAILURE.test_id == TEST.id)
        named = select(TEST.id).where(_is_named(wanted.nodeid), failed)
        tests = connection.scalars(named).all()
    return window, renames, read_outcomes(connection, window, tests, renames)


def find_states(
    history: History,
    wanted: Wanted = ALL,
    *,
    limit: int = 20,
    runs: int = WINDOW_RUNS,
) -> list[BranchState]:
    """Return how tests that have failed are on each branch: broken ones first, then flaky ones.

    Args:
        history: an open history.
        wanted: which runs and node ids to look at.
        limit: how many rows to return.
        runs: how many of the latest runs to look at.
    """
    with history.reading() as connection:
        _, _, ends = _read_window(connection, wanted, runs)
        states = judge_branches(ends)
        nodeids = _nodeids_of(connection, states)
    rows = [
        replace(on_branch, nodeid=nodeids[test])
        for test, of_test in states.items()
        for on_branch in of_test
        if on_branch.state is not None
    ]
    rows.sort(key=lambda row: (row.nodeid, row.branch or ""))
    rows.sort(key=lambda row: row.last_failed or row.since, reverse=True)
    rows.sort(key=lambda row: _STATES.index(row.state))
    return rows[:limit]


_STATES: Final = ("broken", "flaky", "healthy again")


def _nodeids_of(connection: Connection, tests: Iterable[int]) -> dict[int, str]:
    names = rows_with(connection, select(TEST.id, TEST.nodeid), TEST.id, tests)
    return {row.id: row.nodeid for row in names}


def explain_no_runs(history: History, wanted: Wanted) -> str | None:
    """Return in one sentence that no run matches what is wanted of runs; `None` if one does."""
    filters = {}
    for name in ("project", "stage", "branch", "since", "until"):
        if (text := getattr(wanted, name)) is not None:
            filters[name] = text
    if list_runs(history, Wanted(**filters), limit=1):
        return None
    words = [f"{name} {text}" for name, text in filters.items()]
    sentence = f"no run matches {', '.join(words)}".rstrip()
    for run in list_runs(history, limit=1):
        sentence += f"; the latest of all runs began {run.started_at}"
    return sentence


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
    name = project_of(report)
    project = _projects(name).scalar_subquery()
    earlier = and_(
        RUN.project_id == project, is_before(started_at(report), report.run.id)
    )
    digests = {digest_of(nodeid): nodeid for nodeid in nodeids}
    named = select(TEST.id, TEST.digest).where(TEST.project_id == project)
    of_earlier = select(OUTCOME.test_id).join(RUNS).where(earlier).distinct()
    with history.reading() as connection:
        if connection.scalar(select(RUN.number).where(earlier).limit(1)) is None:
            raise HistoryError(
                f"history: it has no run of {name} before that of the report, so every test would "
                "be new; add earlier ones by: failure-taxonomy history add REPORT"
            )
        had = bits_of(connection.scalars(of_earlier))
        rosters = connection.scalars(select(RUN.roster_id).where(earlier).distinct())
        for roster in read_rosters(connection, rosters).values():
            had |= roster
        rows = rows_with(connection, named, TEST.digest, digests)
        known = {row.digest for row in rows if had >> row.id & 1}
    return [nodeid for digest, nodeid in digests.items() if digest not in known]


def _flaky_rows(
    connection: Connection, states: Mapping[int, Sequence[BranchState]]
) -> dict[int, FlakyRow]:
    """Return the tests that are flaky on a branch, by id."""
    flaky = dict[int, list[BranchState]]()
    for test, of_test in states.items():
        # A branch that tells of a flaky commit by its passes alone counts, too.
        branches = [
            on_branch
            for on_branch in of_test
            if on_branch.state == "flaky"
            or (on_branch.state is None and on_branch.commits)
        ]
        if "flaky" in map(attrgetter("state"), branches):
            flaky[test] = branches
    nodeids = _nodeids_of(connection, flaky)
    rows = {}
    for test, branches in flaky.items():
        failures = sum(on_branch.failures for on_branch in branches)
        runs = sum(on_branch.runs for on_branch in branches)
        low, high = wilson_interval(failures, runs)
        names = {on_branch.branch for on_branch in branches if on_branch.failures}
        rows[test] = FlakyRow(
            nodeid=nodeids[test],
            branches=tuple(sorted(filter(None, names))),
            runs=runs,
            failures=failures,
            rate=failures / runs,
            low=low,
            high=high,
            commits=len({*chain(*map(attrgetter("commits"), branches))}),
            changes=max(on_branch.changes for on_branch in branches),
            last_failed=max(filter(None, map(attrgetter("last_failed"), branches))),
            advice=_advise(low, high),
        )
    return rows


def _advise(low: float, high: float) -> str:
    """Return what to do with a flaky test, by the bounds of its rate of failures."""
    if low >= WORTH_QUARANTINE:
        return "quarantine"
    return "watch" if high >= WORTH_QUARANTINE else "keep"


def _sets_of_runs(
    tests: Sequence[int],
    ends: Iterable[Ended],
) -> tuple[dict[int, int], dict[int, int]]:
    """Return by a test's place the runs in which it failed, and those where it passed or failed.

    A set of runs is a whole number with one bit a run.
    """
    places = {test: place for place, test in enumerate(tests)}
    failed, known = (dict.fromkeys(places.values(), 0) for _ in range(2))
    for number, ended in enumerate(ends):
        bad = ended.failed | ended.rerun
        for test in bad & places.keys():
            failed[places[test]] |= 1 << number
        for test in (bad | ended.passed) & places.keys():
            known[places[test]] |= 1 << number
    return failed, known


def _in_common(
    connection: Connection, window: Any, renames: Renames, tests: Sequence[int]
) -> str | None:
    """Return why most of some tests failed: a failure, else its words or its exception.

    Where each test connects by itself, it has a failure of its own, and the others' words.
    """
    query = (
        select(FAILURE.test_id, FAILURE.message, CAUSE.title, func.count())
        .join(CAUSES, CAUSE.id == FAILURE.cause_id)
        .join(window, window.c.number == FAILURE.run_number)
        .where(FAILURE.test_id.in_(renames.all_of(tests)))
        .group_by(FAILURE.test_id, FAILURE.message, CAUSE.title)
    )
    tests_by_words = defaultdict[tuple[int, str], set[int]](set)
    failures = Counter[tuple[int, str]]()
    for failed, message, title, times in connection.execute(query):
        for words in enumerate((title, message, message.partition(":")[0])):
            tests_by_words[words].add(renames.latest(failed))
            failures[words] += times

    def rank(words: tuple[int, str]) -> tuple[int, int, int, str]:
        level, text = words
        return level, -len(tests_by_words[words]), -failures[words], text

    for words in sorted(tests_by_words, key=rank):
        if words[1] and 2 * len(tests_by_words[words]) > len(tests):
            return words[1]
    return None


def _types_of(
    connection: Connection,
    window: Any,
    renames: Renames,
    ends: Iterable[Ended],
    tests: Sequence[int],
) -> dict[int, dict[str, str]]:
    """Return type, status and evidence of tests of which they are proven or suspected."""
    types = {}
    seen = _read_seen(connection, window, renames, ends, tests)
    for test, outcomes in seen.items():
        for suspicion in suspicions_of(outcomes)[:1]:
            types[test] = {
                "type": suspicion.type,
                "status": "suspected",
                "evidence": suspicion.evidence,
            }
    proofs = read_proofs(connection)
    of_tests = select(FAILURE.test_id, *CAUSE["project_id", "fingerprint"])
    of_tests = of_tests.join(CAUSES).distinct()
    names = sorted({name for _, name in proofs})
    latest = dict[int, Proof]()
    for row in rows_with(connection, of_tests, CAUSE.fingerprint, names):
        if proof := proofs.get((row.project_id, row.fingerprint)):
            test = renames.latest(row.test_id)
            rank = attrgetter("known_since", "type")
            latest[test] = max(latest.get(test, proof), proof, key=rank)
    for test in latest.keys() & seen.keys():
        proof = replace(latest[test], known_since=None)
        types[test] = {
            "type": proof.type,
            "proof": proof.type,
            "status": "proven",
            "evidence": proof_words(proof, None)[0],
        }
    return types


def _read_seen(
    connection: Connection,
    window: Any,
    renames: Renames,
    ends: Iterable[Ended],
    tests: Sequence[int],
) -> dict[int, list[Seen]]:
    """Return the runs in which tests passed or failed, as what makes them flaky is seen from."""
    ids = renames.all_of(tests)

    def read(table: Any, name: str) -> dict[tuple[int, int], Any]:
        columns = table.c
        is_in_window = window.c.number == columns.run_number
        query = select(*columns["test_id", "run_number", name])
        query = query.join(window, is_in_window).order_by(columns[name])
        return {
            (renames.latest(row.test_id), row.run_number): row[-1]
            for row in rows_with(connection, query, columns.test_id, ids)
        }

    messages, seconds = read(FAILURES, "message"), read(OUTCOMES, "seconds")
    seen = defaultdict[int, list[Seen]](list)
    for run, failed, rerun, passed in ends:
        for test in (failed | rerun | passed).intersection(tests):
            outcome = Seen(
                raised=messages.get((test, run.number)) or "",
                at=run.started_at,
                branch=run.branch,
                run_seconds=run.duration_seconds,
                collected=run.collected,
                job=run.ci_job,
                has_failed=test not in passed,
                # How long a quick pass took is not kept.
                seconds=seconds.get((test, run.number), 0.0),
            )
            seen[test].append(outcome)
    return seen


_TESTS_OF_A_GROUP: Final = 50
"""How many tests of a group are looked up."""
_TESTS_OF_A_RUN: Final = 500
"""How many tests are looked up of all groups together; one of each group at least."""
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
    branch: str | None
    """The branch of its last run, which the streak and the last pass are of."""
    state: State | None = None
    """How the test that was asked for is there."""
    state_seen: datetime | None = None
    """Since when it is so."""
    state_run: str | None = None


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
    """Return the known proofs of causes, by their keys and fingerprints."""
    names = [cause.key for cause in report.causes]
    names += [group.fingerprint for group in report.groups]
    of_project = select(PROJECT.id).where(PROJECT.name == project_of(report))
    with history.reading() as connection:
        project = connection.scalar(of_project)
        proofs = read_proofs(connection, names)
    return {name: proof for (of, name), proof in proofs.items() if of == project}


def read_proofs(
    connection: Connection, names: Iterable[str] | None = None
) -> dict[tuple[int, str], Proof]:
    """Return what is proven, by project and name: what the latest run did of those that did.

    It is known since the first run that has proven something of the same type.
    """
    query = select(PROOFS).order_by(PROOF.started_at, PROOF.run_id)
    rows: Iterable[Row[Any]]
    if names is None:
        rows = connection.execute(query)
    else:
        rows = rows_with(connection, query, PROOF.name, dict.fromkeys(names))
    proofs: dict[tuple[int, str], Proof] = {}
    first_known: dict[tuple[int, str, str], str] = {}
    for row in rows:
        # Whichever version has stored it.
        proof = CODEC.decode(Proof, {**NO_PROOF, **json.loads(row.proof)})
        at = f"{row.started_at.isoformat(timespec='seconds')}Z"
        since = first_known.setdefault((row.project_id, row.name, proof.type), at)
        proofs[row.project_id, row.name] = replace(proof, known_since=since)
    return proofs


def find_since(
    history: History,
    fingerprint: str,
    *,
    project: str | None = None,
    branch: str | None = None,
) -> Since:
    """Return when a cause began, and the last commit before it.

    Args:
        history: an open history.
        fingerprint: its first characters suffice if no other cause begins with them.
        project: the project's name, if several have this cause.
        branch: a branch, or a pattern of branches; `None` for all.

    Raises:
        HistoryError: there is no such cause, several begin so, or no run of the branch had it.
    """
    with history.reading() as connection:
        query = _named(CAUSE.fingerprint, project, *CAUSES.c)
        query = query.where(*matches(CAUSE.fingerprint, f"{fingerprint}*"))
        cause = _only_one(
            connection.execute(query).all(),
            fingerprint,
            none="no failure of that fingerprint is known; "
            "`failure-taxonomy history top` lists those that are",
            several="several fingerprints begin like this",
            right="give more of it, or --project",
        )
        return _since(connection, cause, branch)


def find_since_of_test(
    history: History,
    nodeid: str,
    *,
    project: str | None = None,
    branch: str | None = None,
) -> tuple[Since, ...]:
    """Return when a test began to fail as it did last, and the last commit on which it passed.

    Args:
        history: an open history.
        nodeid: the test's node id; if no test is called so, a part of it suffices where no other
            test that failed has it.
        project: the project's name, if several have this test.
        branch: a branch, or a pattern of branches; `None` for all.

    Raises:
        HistoryError: there is no such test, it has not failed, or several are called so.
    """
    with history.reading() as connection:
        renames = find_renames(connection)
        query = _named(TEST.nodeid, project, TEST.id, TEST.project_id)
        part = query.where(*matches(TEST.nodeid, f"*{nodeid}*"))
        questions = (
            query.where(TEST.digest == digest_of(nodeid)),
            part.where(exists().where(FAILURE.test_id == TEST.id)),
            part.limit(1),
        )
        answers = (connection.execute(question).all() for question in questions)
        rows = next(filter(None, answers), [])
        # A test and what it was called before are one.
        current = {renames.latest(row.id) for row in rows}
        if len(current) == 1 and current != {row.id for row in rows}:
            rows = connection.execute(query.where(TEST.id.in_(current))).all()
        test = _only_one(
            rows,
            nodeid,
            none="no failure of such a test is known, and no pass; `failure-taxonomy history list "
            "--nodeid 'PATTERN'` lists the runs in which tests failed",
            several="several tests have this name",
            right="give the whole node id, or --project",
        )
        tests = renames.all_of([test.id])
        failures = select(FAILURE.cause_id).join(RUNS).where(FAILURE.test_id.in_(tests))
        failures = failures.where(*matches(RUN.branch, branch))
        latest = failures.with_only_columns(RUN.number).order_by(*NEWEST_FIRST)
        of_latest = failures.where(RUN.number == latest.limit(1).scalar_subquery())
        causes = select(CAUSES).where(CAUSE.id.in_(of_latest))
        found = connection.execute(causes.order_by(CAUSE.fingerprint)).all()
        if found:
            return tuple(
                _since(connection, cause, branch, test.name, tests) for cause in found
            )
        of_branch = [RUN.project_id == test.project_id, *matches(RUN.branch, branch)]
        window = latest_runs(of_branch, WINDOW_RUNS)
        ends = read_outcomes(connection, window, tests, renames)
    last = "it has no pass either"
    for run in [ended.run for ended in ends if ended.passed][-1:]:
        last = f"{test.name} passed last: {run.started_at:%Y-%m-%d %H:%M}, "
        last += f"commit {run.commit_id or 'not known'}"
    where = "" if branch is None else f" on {branch}"
    raise HistoryError(f"{nodeid}: no failure of such a test is known{where}; {last}")


def _named(
    name: Column[str], project: str | None, *columns: Column[Any]
) -> Select[Any]:
    """Return the question for rows with a `name` and a `project`, of a project if it is given."""
    query = select(*columns, name.label("name"), PROJECT.name.label("project"))
    query = query.select_from(name.table).join(PROJECTS).order_by(name, PROJECT.name)
    return query.where(*_equals(PROJECT.name, project)).limit(5)


def _only_one(
    rows: Sequence[Row[Any]], given: str, *, none: str, several: str, right: str
) -> Row[Any]:
    if not rows:
        raise HistoryError(f"{given}: {none}")
    if len(rows) > 1:
        names = ", ".join(f"{row.name} ({row.project})" for row in rows)
        raise HistoryError(f"{given}: {several}: {names}; {right}")
    return rows[0]


def _since(
    connection: Connection,
    cause: Any,
    branch: str | None,
    nodeid: str | None = None,
    tests: Sequence[int] = (),
) -> Since:
    """Return when a cause began, or when it began to fail one test.

    Args:
        connection: has begun a transaction.
        cause: the row of the cause.
        branch: a pattern of branches.
        nodeid: of the test.
        tests: the test's ids, under all of its names.
    """
    numbers = select(RUN_CAUSE.run_number).where(RUN_CAUSE.cause_id == cause.id)
    if nodeid is not None:
        failed = select(FAILURE.run_number).where(FAILURE.test_id.in_(tests))
        numbers = failed.where(FAILURE.cause_id == cause.id)
    had = select(RUNS).where(RUN.number.in_(numbers)).order_by(*OLDEST_FIRST)
    runs = connection.execute(had.where(*matches(RUN.branch, branch))).all()
    if not runs:
        branches = {run.branch for run in connection.execute(had) if run.branch}
        names = ", ".join(sorted(branches)) or "none that is known"
        raise HistoryError(
            f"{cause.title}: no run on {branch} had it; branches that had it: {names}"
        )
    first, last = runs[0], runs[-1]
    if nodeid is None:
        of_cause = select(FAILURE.test_id).where(FAILURE.cause_id == cause.id)
        named = select(TEST.id).where(TEST.id.in_(of_cause)).order_by(TEST.nodeid)
        tests = connection.scalars(named.limit(_TESTS_OF_A_CAUSE)).all()
    on_branch = RUN.branch.is_not_distinct_from(last.branch)
    there = latest_runs([RUN.project_id == cause.project_id, on_branch], WINDOW_RUNS)
    renames = find_renames(connection, cause.project_id)
    ends = read_outcomes(connection, there, tests, renames)
    passes = [
        ended.run
        for ended in ends
        if ORDER(ended.run) < ORDER(last)
        and (ended.passed or is_pass_of_all(ended.run, last.stage, last.collected))
    ]
    passed = passes[-1] if passes else None
    streak = next(
        run
        for run in runs
        if run.branch == last.branch and (not passed or ORDER(run) > ORDER(passed))
    )
    proofs = read_proofs(connection, [cause.fingerprint])
    proof = proofs.get((cause.project_id, cause.fingerprint))
    states = judge_branches(_telling(ends)).values() if nodeid else ()
    state = next((of_test[0] for of_test in states), None)
    return Since(
        nodeid=nodeid,
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
        proof=None if proof is None else proof.type,
        branch=last.branch,
        state=None if state is None else state.state,
        state_seen=None if state is None else state.since,
        state_run=None if state is None else state.since_run,
    )


def _telling(ends: Iterable[Ended]) -> list[Ended]:
    """Return the runs that tell of flaky tests."""
    return [
        ended for ended in ends if ended.run.storm is None and ended.run.source != TRIAL
    ]


def installed_at_last_pass(
    history: History, report: FailureReport
) -> dict[str, list[str]]:
    """Return what was installed when the tests of each group of a report passed last.

    Returns:
        `name-version` of each distribution, by fingerprint; empty where that is not known.
    """
    groups = {group.fingerprint: group for group in report.groups}
    if not groups:
        return {}
    with history.reading() as connection:
        return _Earlier(connection, report).installed_by_group(groups)


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
            is_before(started_at(report), report.run.id),
        )
        self._renames = find_renames(connection, self._project)

    def states_of(self, groups: Mapping[str, Group]) -> dict[str, GroupHistory]:
        """Return the states of groups by fingerprint."""
        tests = self._find_tests(groups)
        seen = self._runs_by_fingerprint(groups, tests)
        ends = self._read_ends(chain.from_iterable(tests.values()))
        on_branches = judge_branches(_telling(ends))
        flaky = _flaky_rows(self._connection, on_branches)
        for test, of_test in on_branches.items():
            for here in of_test:
                is_broken = here.state == "broken" and here.streak >= FEWEST_FAILURES
                if here.branch == self._branch and is_broken:
                    flaky.pop(test, None)
        return {
            name: self._state(
                seen.get(name, ()), of_group, flaky, self._passes(ends, of_group)
            )
            for name, of_group in tests.items()
        }

    def installed_by_group(self, groups: Mapping[str, Group]) -> dict[str, list[str]]:
        """Return what was installed when the tests of groups passed last."""
        tests = self._find_tests(groups)
        ends = self._read_ends(chain.from_iterable(tests.values()))
        return {
            name: self._installed_in(self._last(self._passes(ends, of_group)))
            for name, of_group in tests.items()
        }

    def _read_ends(self, tests: Iterable[int]) -> list[Ended]:
        window = latest_runs([self._earlier], WINDOW_RUNS)
        return read_outcomes(self._connection, window, [*tests], self._renames)

    def _passes(self, ends: Iterable[Ended], tests: Collection[int]) -> list[Any]:
        """Return the runs in which tests passed, or all tests of as many as the run had."""
        run, summary = self._report.run, self._report.summary
        collected = summary.collected if tests else 1
        return [
            ended.run
            for ended in ends
            if not ended.passed.isdisjoint(tests)
            or is_pass_of_all(ended.run, run.stage, collected)
        ]

    def _on_branch(self, runs: Iterable[Any]) -> list[Any]:
        return [run for run in runs if run.branch == self._branch]

    def _last(self, passed: Sequence[Any]) -> Any:
        """Return the last of some runs, on this run's branch if there is one."""
        return (self._on_branch(passed) or passed or [None])[-1]

    def _runs_by_fingerprint(
        self, groups: Mapping[str, Group], tests: Mapping[str, Sequence[int]]
    ) -> dict[str, list[Any]]:
        """Return the earlier runs of the causes that are known, counted by branch."""
        of_project = select(CAUSE.fingerprint, CAUSE.id).where(
            CAUSE.project_id == self._project
        )
        connection = self._connection
        causes = {}
        for row in rows_with(connection, of_project, CAUSE.fingerprint, groups):
            causes[row.id] = row.fingerprint
        for name in groups.keys() - causes.values():
            for cause in self._before_rename(groups[name], tests[name]):
                causes.setdefault(cause, name)
        had = (
            select(RUN_CAUSE.cause_id, RUN.branch, *_TIMES_OF_RUNS)
            .join(RUNS)
            .where(self._earlier)
            .group_by(RUN_CAUSE.cause_id, RUN.branch)
        )
        # What a storm brought is known to storms alone.
        if storm_of(self._report)[0] is None:
            had = had.where(RUN_CAUSE.in_storm.is_not(true()))
        seen: dict[str, list[Any]] = {name: [] for name in causes.values()}
        for row in rows_with(connection, had, RUN_CAUSE.cause_id, causes):
            seen[causes[row.cause_id]].append(row)
        return seen

    def _before_rename(self, group: Group, tests: Sequence[int]) -> list[int]:
        """Return the causes that a group's renamed tests failed of under their old names.

        The path of a test's file is part of a fingerprint. All else that a title tells is the same.
        """
        before = {
            old: new for old, new in self._renames.current.items() if new in tests
        }
        if not before:
            return []
        names = _nodeids_of(self._connection, [*before, *before.values()])
        files = {test: nodeid.partition("::")[0] for test, nodeid in names.items()}
        wanted = {
            group.title.replace(files[new], files[old]) for old, new in before.items()
        }
        failed = select(FAILURE.cause_id).where(FAILURE.test_id.in_([*before]))
        causes = select(CAUSE.id).where(
            CAUSE.id.in_(failed),
            CAUSE.reason == group.reason,
            CAUSE.kind == group.kind,
            CAUSE.title.in_(wanted),
        )
        return sorted(self._connection.scalars(causes))

    def _find_tests(self, groups: Mapping[str, Group]) -> dict[str, list[int]]:
        """Return the first tests of each group, as far as they are known."""
        most = max(1, min(_TESTS_OF_A_GROUP, _TESTS_OF_A_RUN // len(groups)))
        digests = {}
        for name, group in groups.items():
            digests[name] = [*map(digest_of, group.nodeids[:most])]
        of_project = select(*TEST["digest", "id"]).where(
            TEST.project_id == self._project
        )
        wanted = dict.fromkeys(chain.from_iterable(digests.values()))
        rows = rows_with(self._connection, of_project, TEST.digest, wanted)
        tests = {row.digest: self._renames.latest(row.id) for row in rows}
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
        passed = self._on_branch(self._passes(self._read_ends(()), ()))
        return self._state(rows, (), {}, passed if rows else ())

    def _state(
        self,
        rows: Sequence[Any],
        tests: Sequence[int],
        flaky: Mapping[int, FlakyRow],
        passed: Sequence[Any],
    ) -> GroupHistory:
        last = self._last(passed)
        installed = self._installed_in(last)
        new = replace(
            _NEW,
            last_passed_commit=last and last.commit_id,
            distributions_changed=changed_versions(
                installed, installed_in(self._report)
            ),
        )
        if not rows:
            return new
        first = min(rows, key=lambda row: (row.first, row.branch or ""))
        own = [row.last for row in self._on_branch(rows)]
        flaky_rows = [flaky[test] for test in tests if test in flaky]
        state: Literal["known", "flaky", "came_back"] = "known"
        failures = runs = 0
        if tests and len(flaky_rows) == len(tests):
            state = "flaky"
            worst = max(flaky_rows, key=attrgetter("failures", "runs"))
            failures, runs = worst.failures, worst.runs
        elif own and self._on_branch(passed) and last.started_at > max(own):
            state = "came_back"
        is_first = RUN.started_at == first.first
        on_branch = RUN.branch.is_not_distinct_from(first.branch)
        began = select(RUN.commit_id).where(self._earlier, is_first, on_branch)
        return replace(
            new,
            state=state,
            first_seen=f"{first.first.isoformat()}Z",
            first_commit=self._connection.scalar(began.order_by(RUN.id).limit(1)),
            runs=sum(int(row.times) for row in rows),
            flaky_failures=failures,
            flaky_runs=runs,
        )

    def _installed_in(self, run: Any) -> list[str]:
        """Return what was installed in a run; empty if there is none, or it is not known."""
        number = run and run.number
        query = select(ENVIRONMENT.installed).join(
            RUNS, ENVIRONMENT.id == RUN.environment_id
        )
        installed = self._connection.scalar(query.where(RUN.number == number))
        return (installed or "").splitlines()
