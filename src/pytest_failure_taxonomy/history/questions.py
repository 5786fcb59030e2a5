"""What the history answers: which runs there were, what fails most, what is flaky."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import fsum
from operator import attrgetter
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
    is_pass_of_all,
    latest_runs,
    precede_run,
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
    project_ids,
    project_of,
    remove_runs,
    remove_tests,
    rows_with,
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
"""A flaky test that fails in one run of fifty costs more than it tells."""
_DIGITS: Final = 6
"""Decimals of a sum of seconds; later ones depend on the order of the summands."""
_ORDER_OF_CAUSES: Final = (CAUSE.fingerprint, CAUSE.project_id)
_NO_STORM: Final = RUN.storm.is_(None)
_TELLS_OF_FLAKINESS: Final = and_(_NO_STORM, RUN.source != TRIAL)
"""Trials have no code in common: a test may rightly fail in one and pass in the next.
"""


@value
class Wanted:
    """Which runs or failures an answer is about; `None` means all.

    `kind`, `nodeid` and `branch` are patterns, in which `*` stands for any text and `?`
    for one character. Times are UTC without a zone, `since` included and `until` not.
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
    """The name of its project; of a trial, the task."""
    fingerprint: str
    reason: str
    kind: str
    title: str
    owner: str | None
    runs: int
    failures: int
    seconds: float
    """The time of the failures that reports list."""
    proof: str | None
    """The type of what is proven of it."""
    first_seen: datetime
    last_seen: datetime
    companions: tuple[str, ...] = ()
    """Fingerprints of causes that runs have together with it.

    Their failures, seconds and times are included in this row.
    """


@value
class FlakyRow:
    """One test that passes and fails, as `history flaky` shows it."""

    nodeid: str
    branches: tuple[str, ...]
    """The branches on which it is flaky."""
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
    """Changes between passed and failed in the order of the runs' times.

    Those of the branch that has most of them.
    """
    last_failed: datetime
    advice: str
    """`quarantine`, `watch` or `keep`."""
    proof: str | None = None
    """The type of the proof of its cause, such as `order.polluted`."""
    type: str | None = None
    """Why it is flaky: what is proven, else what is suspected."""
    status: str | None = None
    """`proven` or `suspected`."""
    evidence: str | None = None
    """The evidence for the type, in a line."""
    companions: tuple[str, ...] = ()
    """Other tests that fail together with it, for which this row stands as well."""
    common: str | None = None
    """The words that most of their failures have in common."""


def list_runs(
    history: History, wanted: Wanted = ALL, *, limit: int = 20, storms: bool = False
) -> list[Row[Any]]:
    """Return the latest runs, the last one first.

    Their columns are those of `history list --format csv`. A filter by node id finds
    the runs in which a test of that name failed; one by reason, kind or owner looks at
    verdicts.

    Args:
        history: an open history.
        wanted: which runs to look at.
        limit: how many runs to return.
        storms: only those in which most tests failed of one cause of the environment.
    """
    conditions = [*match_runs(wanted), *_match_verdicts(wanted)]
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
        each: each cause by itself; else one of those that runs have together stands for
            all.
    """
    runs = match_runs(wanted, nodeid=False)
    # Causes that are joined into one row leave room for others.
    most = limit if each else 10 * limit
    query = _describe_causes(_count_causes(wanted, runs).limit(most).subquery())
    with history.reading() as connection:
        causes = connection.execute(query).mappings().all()
        fingerprints = [cause["fingerprint"] for cause in causes]
        proofs = read_proofs(connection, fingerprints)
        rows = dict[int, TopRow]()
        for cause in causes:
            row = dict(cause)
            cause_id, project = row.pop("id"), row.pop("project_id")
            proof = proofs.get((project, row["fingerprint"]))
            row["proof"] = proof and proof.type
            row["seconds"] = round(row["seconds"], _DIGITS)
            rows[cause_id] = TopRow(**row)
        if each:
            return [*rows.values()]
        # Sets of runs are whole numbers with one bit a run.
        window = latest_runs([*runs, _NO_STORM], WINDOW_RUNS)
        every_run = bits_of(connection.scalars(select(window.c.number)))
        failed_in = dict.fromkeys(rows, 0)
        is_in_window = window.c.number == RUN_CAUSE.run_number
        of_window = select(RUN_CAUSES).join(window, is_in_window)
        for run_cause in rows_with(connection, of_window, RUN_CAUSE.cause_id, rows):
            failed_in[run_cause.cause_id] |= 1 << run_cause.run_number
    clusters = group_by_runs(failed_in, dict.fromkeys(rows, every_run))
    return [
        _join_causes([rows[cause_id] for cause_id in cluster])
        for cluster in clusters[:limit]
    ]


def _count_causes(wanted: Wanted, runs: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Return the query for causes with their counts, those of most runs first."""
    times, failures = func.count().label("runs"), func.sum(RUN_CAUSE.count)
    counts = (
        select(
            RUN_CAUSE.cause_id,
            times,
            failures.label("failures"),
            func.sum(RUN_CAUSE.seconds).label("seconds"),
        )
        .join(CAUSES)
        .where(*_match_verdicts(wanted, CAUSE))
        .group_by(RUN_CAUSE.cause_id, CAUSE.fingerprint, CAUSE.project_id)
        .order_by(times.desc(), failures.desc(), *_ORDER_OF_CAUSES)
    )
    if wanted.nodeid is not None:
        of_tests = select(FAILURE.cause_id).join(TESTS, TEST.id == FAILURE.test_id)
        named = of_tests.where(_is_named(wanted.nodeid))
        counts = counts.where(CAUSE.id.in_(named))
    # Without conditions on runs that join would take two thirds of the time.
    if runs:
        counts = counts.join(RUNS, RUN.number == RUN_CAUSE.run_number).where(*runs)
    return counts


def _describe_causes(counts: Any) -> Select[Any]:
    """Return the query for what counted causes are, and when any run had them."""
    counted_columns = counts.c["runs", "failures", "seconds"]
    return (
        select(
            PROJECT.name.label("project"),
            *CAUSE[
                "id", "project_id", "fingerprint", "reason", "kind", "title", "owner"
            ],
            *counted_columns,
            func.min(RUN.started_at).label("first_seen"),
            func.max(RUN.started_at).label("last_seen"),
        )
        .select_from(counts.join(CAUSES, counts.c.cause_id == CAUSE.id))
        .join(PROJECTS, PROJECT.id == CAUSE.project_id)
        .join(RUN_CAUSES, RUN_CAUSE.cause_id == CAUSE.id)
        .join(RUNS, RUN.number == RUN_CAUSE.run_number)
        .group_by(CAUSE.id, PROJECT.name, *counted_columns)
        .order_by(counts.c.runs.desc(), counts.c.failures.desc(), *_ORDER_OF_CAUSES)
    )


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
    """Return the runs of each day, week (from Monday on) or month, in their order."""
    query = select(RUN.started_at, RUN.reason, RUN.duration_seconds).where(
        *match_runs(wanted), *_match_verdicts(wanted)
    )
    runs_by_period = defaultdict[str, list[Any]](list)
    with history.reading() as connection:
        for run in connection.execute(query):
            day = run.started_at
            if by == "week":
                day -= timedelta(days=day.weekday())
            begins = day.strftime("%Y-%m" if by == "month" else "%Y-%m-%d")
            runs_by_period[begins].append(run)
    return [_count_period(*period) for period in sorted(runs_by_period.items())]


def _count_period(begins: str, runs: Sequence[Any]) -> Period:
    seconds_by_reason = defaultdict[str, list[float]](list)
    for run in runs:
        if run.reason is not None:
            seconds_by_reason[run.reason].append(run.duration_seconds or 0.0)
    by_name = sorted(seconds_by_reason.items())
    # The most frequent one first, of equally frequent ones by name.
    counts = Counter({reason: len(seconds) for reason, seconds in by_name})
    return Period(
        begins=begins,
        runs=len(runs),
        failed=counts.total(),
        unclassified=counts[UNCLASSIFIED],
        minutes_lost=fsum(chain(*seconds_by_reason.values())) / 60,
        reasons=dict(counts.most_common()),
        minutes_by_reason={reason: fsum(seconds) / 60 for reason, seconds in by_name},
    )


def prune(
    history: History,
    *,
    before: datetime,
    project: str | None = None,
    dry_run: bool = False,
) -> int:
    """Remove the runs that began before a time; return how many.

    Tests that no other run has had go, too, and so does what was proven in these runs.
    An SQLite database gives the space back to the disk.
    """
    proofs = PROOFS.delete().where(PROOF.started_at < before)
    if project is not None:
        proofs = proofs.where(PROOF.project_id.in_(project_ids(project)))
    old = match_runs(Wanted(project=project, until=before))
    with history.writing() as connection:
        numbers = connection.scalars(select(RUN.number).where(*old)).all()
        if dry_run:
            return len(numbers)
        remove_runs(connection, numbers)
        remove_tests(connection, project)
        connection.execute(proofs)
    if numbers and history.is_sqlite:
        history.shrink()
    return len(numbers)


def match_runs(wanted: Wanted, *, nodeid: bool = True) -> list[ColumnElement[bool]]:
    """Return the conditions on runs, whatever their verdict is."""
    conditions = [
        *match_pattern(RUN.branch, wanted.branch),
        *_match_value(RUN.stage, wanted.stage),
    ]
    if wanted.project is not None:
        conditions.append(RUN.project_id.in_(project_ids(wanted.project)))
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


def _match_verdicts(wanted: Wanted, columns: Any = RUN) -> list[ColumnElement[bool]]:
    """Return the conditions on the verdicts of runs, or on causes."""
    return [
        *match_pattern(columns.kind, wanted.kind),
        *_match_value(columns.reason, wanted.reason),
        *_match_value(columns.owner, wanted.owner),
    ]


def _match_value(column: Any, wanted: str | None) -> list[ColumnElement[bool]]:
    return [] if wanted is None else [column == wanted]


def match_pattern(column: Any, pattern: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a text matches a pattern with `*` and `?`, if any."""
    if pattern is None or not set(pattern) & set("*?"):
        return _match_value(column, pattern)
    # These have a meaning of their own in LIKE, the backslash first.
    for special in "\\%_":
        pattern = pattern.replace(special, f"\\{special}")
    like = pattern.replace("*", "%").replace("?", "_")
    return [column.like(like, escape="\\")]


def _is_named(pattern: str) -> ColumnElement[bool]:
    """Return the condition that a test is called so, else that it matches a pattern.

    Node ids of parametrised tests may hold `*` and `?` themselves.
    """
    exact = TESTS.alias().c.digest == digest_of(pattern)
    is_match = and_(true(), *match_pattern(TEST.nodeid, pattern))
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

    `judge_branches` says which these are. Failures and runs are those of the branches
    on which a test is flaky; where it is broken, or only passes, it tells nothing of
    how often it fails.

    Args:
        history: an open history.
        wanted: which runs and node ids to look at.
        limit: how many tests to return.
        runs: how many of the latest runs to look at.
        each: each test by itself; else one of those that fail together stands for all.
        alone: also tests that fail together with no other one.

    Raises:
        HistoryError: only tests that fail together are wanted, and there are too few
            runs.
    """
    with history.reading() as connection:
        window, renames, ends = _read_window(connection, wanted, runs)
        rows = _describe_flaky(connection, judge_branches(ends))
        # Not by their ids, which depend on when runs were added to this database.
        tests = sorted(rows, key=lambda test: (-rows[test].failures, rows[test].nodeid))
        clusters: list[tuple[int, ...]] = [(test,) for test in tests]
        if not each:
            clusters = _group_flaky(tests, ends, alone=alone)
        del clusters[limit:]
        firsts = [cluster[0] for cluster in clusters]
        types = _find_types(connection, window, renames, ends, firsts)
        flaky = []
        for cluster in clusters:
            first, *others = cluster
            changes = types.get(first, {})
            if others:
                changes["companions"] = tuple(rows[other].nodeid for other in others)
                words = _find_common_words(connection, window, renames, cluster)
                changes["common"] = words
            flaky.append(replace(rows[first], **changes))
        return flaky


def _group_flaky(
    tests: Sequence[int], ends: Sequence[Ended], *, alone: bool
) -> list[tuple[int, ...]]:
    """Return clusters of flaky tests that fail together.

    Args:
        tests: the flaky tests.
        ends: how tests ended.
        alone: also clusters of one test; without them, there is an error to raise.

    Raises:
        HistoryError: too few tests have failed often enough to be compared.
    """
    failed, ran = _collect_sets_of_runs(tests, ends)
    clusters = group_by_runs(failed, ran)
    if alone:
        return clusters
    comparable, _ = comparable_tests(failed, ran)
    if len(tests) > 1 >= len(comparable):
        raise HistoryError(
            f"history: of {len(tests)} flaky tests fewer than two have failed often "
            f"enough in the latest {counted(len(ends), 'run')} to tell which fail "
            "together; add more, with all of their tests, by: "
            "failure-taxonomy history add REPORT"
        )
    return [cluster for cluster in clusters if len(cluster) > 1]


def _read_window(
    connection: Connection, wanted: Wanted, runs: int
) -> tuple[Any, Renames, list[Ended]]:
    """Return the latest runs that tell of flaky tests, and how tests ended in them."""
    conditions = [*match_runs(wanted, nodeid=False), _TELLS_OF_FLAKINESS]
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
    """Return how tests that have failed are on each branch: first the broken ones.

    Args:
        history: an open history.
        wanted: which runs and node ids to look at.
        limit: how many rows to return.
        runs: how many of the latest runs to look at.
    """
    with history.reading() as connection:
        _, _, ends = _read_window(connection, wanted, runs)
        states = judge_branches(ends)
        nodeids = _read_nodeids(connection, states)
    rows = [
        replace(on_branch, nodeid=nodeids[test])
        for test, of_test in states.items()
        for on_branch in of_test
        if on_branch.state is not None
    ]
    # From the least to the most important order: each sort keeps that of equal rows.
    rows.sort(key=lambda row: (row.nodeid, row.branch or ""))
    rows.sort(key=lambda row: row.last_failed or row.since, reverse=True)
    rows.sort(key=lambda row: _STATES.index(row.state))
    return rows[:limit]


_STATES: Final = ("broken", "flaky", "healthy again")


def _read_nodeids(connection: Connection, tests: Iterable[int]) -> dict[int, str]:
    rows = rows_with(connection, select(TEST.id, TEST.nodeid), TEST.id, tests)
    return {row.id: row.nodeid for row in rows}


def explain_no_runs(history: History, wanted: Wanted) -> str | None:
    """Return a sentence that no run matches the wanted ones; `None` if one does."""
    filters = {}
    for name in ("project", "stage", "branch", "since", "until"):
        if (text := getattr(wanted, name)) is not None:
            filters[name] = text
    if list_runs(history, Wanted(**filters), limit=1):
        return None
    words = ", ".join(f"{name} {text}" for name, text in filters.items())
    sentence = f"no run matches {words}".rstrip()
    for run in list_runs(history, limit=1):
        sentence += f"; the latest of all runs began {run.started_at}"
    return sentence


def count_trials(history: History, wanted: Wanted = ALL) -> int:
    """Return how many runs are trials of a harness: these tell of no flaky tests."""
    conditions = match_runs(wanted, nodeid=False)
    trials = select(func.count(RUN.number)).where(RUN.source == TRIAL, *conditions)
    with history.reading() as connection:
        return connection.scalar(trials) or 0


def find_new_tests(
    history: History, report: FailureReport, nodeids: Sequence[str]
) -> list[str]:
    """Return those of some tests that no run before that of a report has had.

    Raises:
        HistoryError: there is no earlier run of the project.
    """
    name = project_of(report)
    project = project_ids(name).scalar_subquery()
    earlier = precede_run(report, project)
    digests = {digest_of(nodeid): nodeid for nodeid in nodeids}
    named = select(TEST.id, TEST.digest).where(TEST.project_id == project)
    failed = select(OUTCOME.test_id).join(RUNS).where(earlier).distinct()
    with history.reading() as connection:
        if connection.scalar(select(RUN.number).where(earlier).limit(1)) is None:
            raise HistoryError(
                f"history: it has no run of {name} before that of the report, so every "
                "test would be new; add earlier ones by: "
                "failure-taxonomy history add REPORT"
            )
        # Most tests that passed are on a roster alone.
        earlier_tests = bits_of(connection.scalars(failed))
        rosters = connection.scalars(select(RUN.roster_id).where(earlier).distinct())
        for roster in read_rosters(connection, rosters).values():
            earlier_tests |= roster
        for row in rows_with(connection, named, TEST.digest, [*digests]):
            if earlier_tests >> row.id & 1:
                del digests[row.digest]
    return [*digests.values()]


def _describe_flaky(
    connection: Connection, states: Mapping[int, Sequence[BranchState]]
) -> dict[int, FlakyRow]:
    """Return the tests that are flaky on a branch, by id."""
    flaky = dict[int, list[BranchState]]()
    for test, of_test in states.items():
        if any(on_branch.state == "flaky" for on_branch in of_test):
            # A branch that only passed, on a commit that failed elsewhere, counts too.
            flaky[test] = [
                on_branch
                for on_branch in of_test
                if on_branch.state == "flaky"
                or (on_branch.state is None and on_branch.commits)
            ]
    nodeids = _read_nodeids(connection, flaky)
    rows = {}
    for test, branches in flaky.items():
        failures = sum(on_branch.failures for on_branch in branches)
        runs = sum(on_branch.runs for on_branch in branches)
        low, high = wilson_interval(failures, runs)
        failed_on = [on_branch for on_branch in branches if on_branch.failures]
        names = {on_branch.branch for on_branch in failed_on if on_branch.branch}
        commits = {commit for on_branch in branches for commit in on_branch.commits}
        advice = "watch" if high >= WORTH_QUARANTINE else "keep"
        rows[test] = FlakyRow(
            nodeid=nodeids[test],
            branches=tuple(sorted(names)),
            runs=runs,
            failures=failures,
            rate=failures / runs,
            low=low,
            high=high,
            commits=len(commits),
            changes=max(on_branch.changes for on_branch in branches),
            last_failed=max(map(attrgetter("last_failed"), failed_on)),
            advice="quarantine" if low >= WORTH_QUARANTINE else advice,
        )
    return rows


def _collect_sets_of_runs(
    tests: Sequence[int], ends: Iterable[Ended]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return by test the runs in which it failed, and those where it passed or failed.

    A set of runs is a whole number with one bit a run.
    """
    failed, ran = dict.fromkeys(tests, 0), dict.fromkeys(tests, 0)
    for number, ended in enumerate(ends):
        bad = ended.failed | ended.rerun
        for test in bad & failed.keys():
            failed[test] |= 1 << number
        for test in (bad | ended.passed) & ran.keys():
            ran[test] |= 1 << number
    return failed, ran


def _find_common_words(
    connection: Connection, window: Any, renames: Renames, tests: Sequence[int]
) -> str | None:
    """Return why most of some tests failed: a failure, else its words or its exception.

    Tests that connect to one dead server, for example, have a failure each and the
    words in common.
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
        # The level tells from the same words at another one, and ranks before all else.
        for words in enumerate((title, message, message.partition(":")[0])):
            tests_by_words[words].add(renames.latest(failed))
            failures[words] += times
    shared = [
        (level, -len(members), -failures[level, text], text)
        for (level, text), members in tests_by_words.items()
        if text and 2 * len(members) > len(tests)
    ]
    return min(shared)[-1] if shared else None


def _find_types(
    connection: Connection,
    window: Any,
    renames: Renames,
    ends: Iterable[Ended],
    tests: Sequence[int],
) -> dict[int, dict[str, Any]]:
    """Return fields of `FlakyRow`: what is proven of tests, else what is suspected."""
    types = {}
    runs_by_test = _read_seen(connection, window, renames, ends, tests)
    for test, runs in runs_by_test.items():
        for suspicion in suspicions_of(runs)[:1]:
            types[test] = {
                "type": suspicion.type,
                "status": "suspected",
                "evidence": suspicion.evidence,
            }
    proofs = read_proofs(connection)
    causes = select(FAILURE.test_id, *CAUSE["project_id", "fingerprint"])
    causes = causes.join(CAUSES).distinct()
    names = sorted({name for _, name in proofs})
    latest = dict[int, Proof]()
    rank = attrgetter("known_since", "type")
    for row in rows_with(connection, causes, CAUSE.fingerprint, names):
        # A proof of the same name may be of another project.
        if proof := proofs.get((row.project_id, row.fingerprint)):
            test = renames.latest(row.test_id)
            latest[test] = max(latest.get(test, proof), proof, key=rank)
    for test in latest.keys() & runs_by_test.keys():
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
    """Return the runs in which tests passed or failed, as signals look at them."""
    ids = renames.all_of(tests)

    def read(table: Any, name: str) -> dict[tuple[int, int], Any]:
        columns = table.c
        is_in_window = window.c.number == columns.run_number
        query = select(*columns["test_id", "run_number", name])
        # The greatest of several in one run is the last, and stays in the dictionary.
        query = query.join(window, is_in_window).order_by(columns[name])
        return {
            (renames.latest(row.test_id), row.run_number): row[-1]
            for row in rows_with(connection, query, columns.test_id, ids)
        }

    messages, seconds = read(FAILURES, "message"), read(OUTCOMES, "seconds")
    runs_by_test = defaultdict[int, list[Seen]](list)
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
                # The time of a quick pass isn't recorded.
                seconds=seconds.get((test, run.number), 0.0),
            )
            runs_by_test[test].append(outcome)
    return runs_by_test


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
    """On the branch of its last run: the first one after which it was never gone
    there."""
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

    Earlier runs are those of the same project that began before this one; the report
    itself may or may not be among the runs of the history.

    A group that no earlier run had is `new`. If it has one whose tests are flaky (see
    `find_flaky`), it is `flaky`. If its tests have passed on this run's branch after
    the last run there that had it, it has come back: `came_back`. All others are
    `known`. A successful run of the same stage and branch that had as many tests counts
    as a pass of them all.

    A verdict that no group has, such as a death, has its state under `VERDICT`. Earlier
    runs had it if theirs has the same reason, kind and node id. It has come back if a
    run of the same stage and branch has succeeded since.
    """
    groups = {group.fingerprint: group for group in report.groups}
    verdict = report.verdict
    with history.reading() as connection:
        earlier = _EarlierRuns(connection, report)
        states = earlier.judge_groups(groups) if groups else {}
        if verdict is not None:
            codes = [(group.reason, group.kind) for group in report.groups]
            if (verdict.reason, verdict.kind) not in codes:
                states[VERDICT] = earlier.judge_verdict(verdict)
    return states


def proofs_of(history: History, report: FailureReport) -> dict[str, Proof]:
    """Return the known proofs of causes, by their keys and fingerprints."""
    names = [cause.key for cause in report.causes]
    names += [group.fingerprint for group in report.groups]
    with history.reading() as connection:
        project = connection.scalar(project_ids(project_of(report)))
        proofs = read_proofs(connection, names)
    return {name: proof for (owner, name), proof in proofs.items() if owner == project}


def read_proofs(
    connection: Connection, names: Iterable[str] | None = None
) -> dict[tuple[int, str], Proof]:
    """Return what the latest run with a proof has proven, by project and name.

    It is known since the first run that has proven something of the same type.
    """
    query = select(PROOFS).order_by(PROOF.started_at, PROOF.run_id)
    rows: Iterable[Row[Any]]
    if names is None:
        rows = connection.execute(query)
    else:
        # Without duplicates, which two parts of the query could find twice.
        rows = rows_with(connection, query, PROOF.name, dict.fromkeys(names))
    proofs: dict[tuple[int, str], Proof] = {}
    first_proven: dict[tuple[int, str, str], str] = {}
    for row in rows:
        # An older version may have recorded fewer fields.
        proof = CODEC.decode(Proof, {**NO_PROOF, **json.loads(row.proof)})
        at = f"{row.started_at.isoformat(timespec='seconds')}Z"
        since = first_proven.setdefault((row.project_id, row.name, proof.type), at)
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
        HistoryError: there is no such cause, several begin so, or no run of the branch
            had it.
    """
    with history.reading() as connection:
        query = _select_named(CAUSE.fingerprint, project, *CAUSES.c)
        query = query.where(*match_pattern(CAUSE.fingerprint, f"{fingerprint}*"))
        cause = _expect_one(
            connection.execute(query).all(),
            fingerprint,
            none="no failure of that fingerprint is known; "
            "`failure-taxonomy history top` lists those that are",
            several="several fingerprints begin like this",
            right="give more of it, or --project",
        )
        renames = find_renames(connection, cause.project_id)
        return _trace_cause(connection, cause, branch, renames)


def find_since_of_test(
    history: History,
    nodeid: str,
    *,
    project: str | None = None,
    branch: str | None = None,
) -> tuple[Since, ...]:
    """Return when a test began to fail as it did last, and when it had passed.

    Args:
        history: an open history.
        nodeid: the test's node id; if no test is called so, a part of it suffices where
            no other test that failed has it.
        project: the project's name, if several have this test.
        branch: a branch, or a pattern of branches; `None` for all.

    Raises:
        HistoryError: there is no such test, it has not failed, or several are called
            so.
    """
    with history.reading() as connection:
        renames = find_renames(connection)
        test = _find_test(connection, nodeid, project, renames)
        tests = renames.all_of([test.id])
        # All causes that the test had in the latest run in which it failed.
        failures = select(FAILURE.cause_id).join(RUNS).where(FAILURE.test_id.in_(tests))
        failures = failures.where(*match_pattern(RUN.branch, branch))
        latest = failures.with_only_columns(RUN.number).order_by(*NEWEST_FIRST)
        of_latest = failures.where(RUN.number == latest.limit(1).scalar_subquery())
        query = select(CAUSES).where(CAUSE.id.in_(of_latest))
        causes = connection.execute(query.order_by(CAUSE.fingerprint)).all()
        if causes:
            return tuple(
                _trace_cause(connection, cause, branch, renames, test.name, tests)
                for cause in causes
            )
        conditions = match_pattern(RUN.branch, branch)
        conditions.append(RUN.project_id == test.project_id)
        window = latest_runs(conditions, WINDOW_RUNS)
        ends = read_outcomes(connection, window, tests, renames)
    last = "it has no pass either"
    for ended in ends:
        if ended.passed:
            run = ended.run
            last = f"{test.name} passed last: {run.started_at:%Y-%m-%d %H:%M}, "
            last += f"commit {run.commit_id or 'not known'}"
    where = "" if branch is None else f" on {branch}"
    raise HistoryError(f"{nodeid}: no failure of such a test is known{where}; {last}")


def _find_test(
    connection: Connection, nodeid: str, project: str | None, renames: Renames
) -> Row[Any]:
    """Return the row of the test that a node id, or a part of one, stands for."""
    query = _select_named(TEST.nodeid, project, TEST.id, TEST.project_id)
    part = query.where(*match_pattern(TEST.nodeid, f"*{nodeid}*"))
    # Exactly this test, else tests that failed, else any: the first answer counts.
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
    return _expect_one(
        rows,
        nodeid,
        none="no failure of such a test is known, and no pass; `failure-taxonomy "
        "history list --nodeid 'PATTERN'` lists the runs in which tests failed",
        several="several tests have this name",
        right="give the whole node id, or --project",
    )


def _select_named(
    name: Column[str], project: str | None, *columns: Column[Any]
) -> Select[Any]:
    """Return the query for rows with a `name` and a `project`."""
    query = select(*columns, name.label("name"), PROJECT.name.label("project"))
    query = query.select_from(name.table).join(PROJECTS).order_by(name, PROJECT.name)
    return query.where(*_match_value(PROJECT.name, project)).limit(5)


def _expect_one(
    rows: Sequence[Row[Any]], text: str, *, none: str, several: str, right: str
) -> Row[Any]:
    if not rows:
        raise HistoryError(f"{text}: {none}")
    if len(rows) > 1:
        names = ", ".join(f"{row.name} ({row.project})" for row in rows)
        raise HistoryError(f"{text}: {several}: {names}; {right}")
    return rows[0]


def _trace_cause(
    connection: Connection,
    cause: Any,
    branch: str | None,
    renames: Renames,
    nodeid: str | None = None,
    tests: Sequence[int] = (),
) -> Since:
    """Return when a cause began, or when it began to fail one test.

    Args:
        connection: has begun a transaction.
        cause: the row of the cause.
        branch: a pattern of branches.
        renames: of the cause's project.
        nodeid: of the test.
        tests: the test's ids, under all of its names.
    """
    runs = _read_runs_of_cause(connection, cause, branch, tests)
    first, last = runs[0], runs[-1]
    if nodeid is None:
        failed = select(FAILURE.test_id).where(FAILURE.cause_id == cause.id)
        named = select(TEST.id).where(TEST.id.in_(failed)).order_by(TEST.nodeid)
        tests = connection.scalars(named.limit(_TESTS_OF_A_CAUSE)).all()
    # The streak and the pass before it are those of the branch of the last run.
    on_branch = RUN.branch.is_not_distinct_from(last.branch)
    window = latest_runs([RUN.project_id == cause.project_id, on_branch], WINDOW_RUNS)
    ends = read_outcomes(connection, window, tests, renames)
    passed = None
    for ended in ends:
        is_pass = ended.passed or is_pass_of_all(ended.run, last.stage, last.collected)
        if is_pass and ORDER(ended.run) < ORDER(last):
            passed = ended.run
    # There always is one, because the pass is older than the last run.
    streak = next(
        run
        for run in runs
        if run.branch == last.branch and (not passed or ORDER(run) > ORDER(passed))
    )
    proofs = read_proofs(connection, [cause.fingerprint])
    proof: Any = proofs.get((cause.project_id, cause.fingerprint))
    states = judge_branches(_drop_untelling(ends)).values() if nodeid else ()
    state: Any = next((of_test[0] for of_test in states), None)
    return Since(
        nodeid=nodeid,
        fingerprint=cause.fingerprint,
        title=cause.title,
        reason=cause.reason,
        kind=cause.kind,
        runs=len(runs),
        branches=tuple(_list_branches(runs)),
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
        proof=proof and proof.type,
        branch=last.branch,
        state=state and state.state,
        state_seen=state and state.since,
        state_run=state and state.since_run,
    )


def _read_runs_of_cause(
    connection: Connection, cause: Any, branch: str | None, tests: Sequence[int]
) -> Sequence[Any]:
    """Return the runs that had a cause, or in which it failed some tests, in order.

    Raises:
        HistoryError: no run of the branch had it.
    """
    numbers = select(RUN_CAUSE.run_number).where(RUN_CAUSE.cause_id == cause.id)
    if tests:
        is_failure = and_(FAILURE.test_id.in_(tests), FAILURE.cause_id == cause.id)
        numbers = select(FAILURE.run_number).where(is_failure)
    query = select(RUNS).where(RUN.number.in_(numbers)).order_by(*OLDEST_FIRST)
    runs = connection.execute(query.where(*match_pattern(RUN.branch, branch))).all()
    if not runs:
        names = _list_branches(connection.execute(query)) or ["none that is known"]
        raise HistoryError(
            f"{cause.title}: no run on {branch} had it; branches that had it: "
            f"{', '.join(names)}"
        )
    return runs


def _list_branches(runs: Iterable[Any]) -> list[str]:
    return sorted({run.branch for run in runs if run.branch})


def _drop_untelling(ends: Iterable[Ended]) -> list[Ended]:
    """Return the runs that tell of flaky tests: those of `_TELLS_OF_FLAKINESS`."""
    return [
        ended for ended in ends if ended.run.storm is None and ended.run.source != TRIAL
    ]


def installed_at_last_pass(
    history: History, report: FailureReport
) -> dict[str, list[str]]:
    """Return what was installed when the tests of each group of a report passed last.

    Returns:
        `name-version` of each distribution, by fingerprint; empty where that is not
        known.
    """
    groups = {group.fingerprint: group for group in report.groups}
    if not groups:
        return {}
    with history.reading() as connection:
        return _EarlierRuns(connection, report).read_installed(groups)


_TIMES_OF_RUNS: Final = (
    func.count().label("times"),
    func.min(RUN.started_at).label("first"),
    func.max(RUN.started_at).label("last"),
)
_NEW: Final = GroupHistory(
    state="new", first_seen=None, first_commit=None, runs=0, last_passed_commit=None
)


class _EarlierRuns:
    """What the runs before one run say of its failures."""

    def __init__(self, connection: Connection, report: FailureReport) -> None:
        self._connection = connection
        self._report = report
        self._project = connection.scalar(project_ids(project_of(report)))
        self._branch = branch_of(report)
        self._earlier = precede_run(report, self._project)
        self._renames = find_renames(connection, self._project)

    def judge_groups(self, groups: Mapping[str, Group]) -> dict[str, GroupHistory]:
        """Return the states of groups by fingerprint."""
        tests_by_group, ends = self._read_groups(groups)
        counts = self._count_runs(groups, tests_by_group)
        states = judge_branches(_drop_untelling(ends))
        flaky = _describe_flaky(self._connection, states)
        for test, on_branches in states.items():
            for here in on_branches:
                is_broken = here.state == "broken" and here.streak >= FEWEST_FAILURES
                # Flaky elsewhere, but it no longer comes and goes here.
                if here.branch == self._branch and is_broken:
                    flaky.pop(test, None)
        return {
            name: self._judge(
                counts.get(name, ()), tests, flaky, self._find_passes(ends, tests)
            )
            for name, tests in tests_by_group.items()
        }

    def read_installed(self, groups: Mapping[str, Group]) -> dict[str, list[str]]:
        """Return what was installed when the tests of groups passed last."""
        tests_by_group, ends = self._read_groups(groups)
        installed = {}
        for name, tests in tests_by_group.items():
            last = self._choose_latest(self._find_passes(ends, tests))
            installed[name] = self._read_distributions(last)
        return installed

    def _read_groups(
        self, groups: Mapping[str, Group]
    ) -> tuple[dict[str, list[int]], list[Ended]]:
        """Return the tests of groups, and how these ended in earlier runs."""
        tests_by_group = self._find_tests(groups)
        tests = chain.from_iterable(tests_by_group.values())
        return tests_by_group, self._read_ends(tests)

    def _read_ends(self, tests: Iterable[int]) -> list[Ended]:
        window = latest_runs([self._earlier], WINDOW_RUNS)
        return read_outcomes(self._connection, window, [*tests], self._renames)

    def _find_passes(self, ends: Iterable[Ended], tests: Collection[int]) -> list[Any]:
        """Return the runs in which a test passed, or all of as many as the run had."""
        run, summary = self._report.run, self._report.summary
        collected = summary.collected if tests else 1
        return [
            ended.run
            for ended in ends
            if not ended.passed.isdisjoint(tests)
            or is_pass_of_all(ended.run, run.stage, collected)
        ]

    def _filter_branch(self, runs: Iterable[Any]) -> list[Any]:
        return [run for run in runs if run.branch == self._branch]

    def _choose_latest(self, passes: Sequence[Any]) -> Any:
        """Return the last of some runs, on this run's branch if there is one."""
        return (self._filter_branch(passes) or passes or [None])[-1]

    def _count_runs(
        self, groups: Mapping[str, Group], tests: Mapping[str, Sequence[int]]
    ) -> dict[str, list[Any]]:
        """Return a row for each branch whose runs had a group, by fingerprint."""
        connection = self._connection
        of_project = select(CAUSE.fingerprint, CAUSE.id).where(
            CAUSE.project_id == self._project
        )
        rows = rows_with(connection, of_project, CAUSE.fingerprint, groups)
        names = {row.id: row.fingerprint for row in rows}
        for name in groups.keys() - names.values():
            for cause in self._find_former_causes(groups[name], tests[name]):
                names.setdefault(cause, name)
        query = (
            select(RUN_CAUSE.cause_id, RUN.branch, *_TIMES_OF_RUNS)
            .join(RUNS)
            .where(self._earlier)
            .group_by(RUN_CAUSE.cause_id, RUN.branch)
        )
        # In a storm a test says nothing of itself: another storm alone knows its
        # failure.
        if storm_of(self._report)[0] is None:
            query = query.where(RUN_CAUSE.in_storm.is_not(true()))
        counts = defaultdict[str, list[Any]](list)
        for row in rows_with(connection, query, RUN_CAUSE.cause_id, names):
            counts[names[row.cause_id]].append(row)
        return counts

    def _find_former_causes(self, group: Group, tests: Sequence[int]) -> list[int]:
        """Return the causes that a group's renamed tests had under their old names.

        The path of a test's file is part of a fingerprint. All else that a title tells
        is the same.
        """
        before = {
            old: new for old, new in self._renames.current.items() if new in tests
        }
        if not before:
            return []
        nodeids = _read_nodeids(self._connection, [*before, *before.values()])
        titles = set()
        for old, new in before.items():
            old_file = nodeids[old].partition("::")[0]
            new_file = nodeids[new].partition("::")[0]
            titles.add(group.title.replace(new_file, old_file))
        failed = select(FAILURE.cause_id).where(FAILURE.test_id.in_([*before]))
        causes = select(CAUSE.id).where(
            CAUSE.id.in_(failed),
            CAUSE.reason == group.reason,
            CAUSE.kind == group.kind,
            CAUSE.title.in_(titles),
        )
        return sorted(self._connection.scalars(causes))

    def _find_tests(self, groups: Mapping[str, Group]) -> dict[str, list[int]]:
        """Return the ids of the first tests of each group that the history has."""
        # The run waits for the answer, so big and many groups share a limit.
        most = max(1, min(_TESTS_OF_A_GROUP, _TESTS_OF_A_RUN // len(groups)))
        digests = {}
        for name, group in groups.items():
            digests[name] = [*map(digest_of, group.nodeids[:most])]
        of_project = select(TEST.digest, TEST.id).where(
            TEST.project_id == self._project
        )
        wanted = dict.fromkeys(chain.from_iterable(digests.values()))
        rows = rows_with(self._connection, of_project, TEST.digest, wanted)
        tests = {row.digest: self._renames.latest(row.id) for row in rows}
        return {
            name: [tests[digest] for digest in of_group if digest in tests]
            for name, of_group in digests.items()
        }

    def judge_verdict(self, verdict: Verdict) -> GroupHistory:
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
        counts = self._connection.execute(query).all()
        passes = self._filter_branch(self._find_passes(self._read_ends(()), ()))
        return self._judge(counts, (), {}, passes if counts else ())

    def _judge(
        self,
        counts: Sequence[Any],
        tests: Sequence[int],
        flaky: Mapping[int, FlakyRow],
        passes: Sequence[Any],
    ) -> GroupHistory:
        """Return the state of a group.

        Args:
            counts: the earlier runs that had it, a row for each branch.
            tests: its tests.
            flaky: flaky tests by id.
            passes: the earlier runs in which its tests passed, the oldest first.
        """
        last = self._choose_latest(passes)
        installed = self._read_distributions(last)
        new = replace(
            _NEW,
            last_passed_commit=last and last.commit_id,
            distributions_changed=changed_versions(
                installed, installed_in(self._report)
            ),
        )
        if not counts:
            return new
        first = min(counts, key=lambda count: (count.first, count.branch or ""))
        own = [count.last for count in self._filter_branch(counts)]
        flaky_rows = [flaky[test] for test in tests if test in flaky]
        state: Literal["known", "flaky", "came_back"] = "known"
        failures = runs = 0
        if tests and len(flaky_rows) == len(tests):
            state = "flaky"
            worst = max(flaky_rows, key=attrgetter("failures", "runs"))
            failures, runs = worst.failures, worst.runs
        elif own and self._filter_branch(passes) and last.started_at > max(own):
            state = "came_back"
        is_first = RUN.started_at == first.first
        on_branch = RUN.branch.is_not_distinct_from(first.branch)
        began = select(RUN.commit_id).where(self._earlier, is_first, on_branch)
        return replace(
            new,
            state=state,
            first_seen=f"{first.first.isoformat()}Z",
            first_commit=self._connection.scalar(began.order_by(RUN.id).limit(1)),
            runs=sum(int(count.times) for count in counts),
            flaky_failures=failures,
            flaky_runs=runs,
        )

    def _read_distributions(self, run: Any) -> list[str]:
        """Return what was installed in a run; empty if that is not known."""
        if run is None:
            return []
        is_environment = ENVIRONMENT.id == run.environment_id
        query = select(ENVIRONMENT.installed).where(is_environment)
        return (self._connection.scalar(query) or "").splitlines()
