"""The tables of the history, and how runs get into them.

Times are UTC without a zone; texts are capped when they are written.

All names begin with `ft_`, so that the tables can live in a database that has others.
Only `tasks` has the name that another program's format gives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from math import isfinite
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    delete,
    exists,
    insert,
    select,
    update,
)

from pytest_failure_taxonomy.report.model import (
    CODEC,
    CollectionError,
    Failure,
    FailureReport,
)
from pytest_failure_taxonomy.taxonomy.evidence import GitState
from pytest_failure_taxonomy.taxonomy.judgement import Cause
from pytest_failure_taxonomy.text import bench_name

METADATA: Final = MetaData()

# SQLite counts up whole INTEGER keys alone.
_COUNTER = BigInteger().with_variant(Integer, "sqlite")

# The lengths that PostgreSQL holds texts to.
_CODE = String(16)
_WORD = String(32)
_HASH = String(64)


def _columns(kinds: Mapping[str, Any], **options: Any) -> list[Column[Any]]:
    return [Column(name, kind, **options) for name, kind in kinds.items()]


def _key(**kinds: Any) -> list[Column[Any]]:
    return _columns(kinds, primary_key=True)


def _required(**kinds: Any) -> list[Column[Any]]:
    return _columns(kinds, nullable=False)


def _nullable(**kinds: Any) -> list[Column[Any]]:
    return _columns(kinds)


def _refer_to_run() -> ForeignKey:
    return ForeignKey("ft_runs.number", ondelete="CASCADE")


PROJECTS: Final = Table(
    "ft_projects",
    METADATA,
    *_key(id=Integer),
    Column("name", Text, nullable=False, unique=True),
)
"""Whose tests the runs are of: two projects can have tests and commits of the same
names."""
TRIAL: Final = "trial"
"""The source of a run that a harness of agents has left."""

ENVIRONMENTS: Final = Table(
    "ft_environments",
    METADATA,
    *_key(id=Integer),
    Column("digest", _WORD, nullable=False, unique=True),
    *_required(installed=Text),
)
"""What runs had installed, a line for each of `installed_in`. Each list is there
once."""

ROSTERS: Final = Table(
    "ft_rosters",
    METADATA,
    *_key(id=Integer),
    Column("digest", _WORD, nullable=False, unique=True),
    *_required(first=Integer, tests=LargeBinary),
)
"""Which tests runs had, each set once.

Bit n of `tests`, the lowest first, is test `first` + n.
"""

COUNTED: Final = (
    "collected",
    "passed",
    "failed",
    "errors",
    "skipped",
    "flaky",
    "not_run",
)
"""The counts of a report's `summary` that the history records."""
RUNS: Final = Table(
    "ft_runs",
    METADATA,
    *_key(number=Integer),
    Column("id", _WORD, nullable=False, unique=True),
    *_required(
        project_id=ForeignKey("ft_projects.id"),
        source=_CODE,
        started_at=DateTime,
    ),
    *_nullable(duration_seconds=Float),
    *_required(stage=_CODE, completeness=_CODE),
    *_nullable(
        shard_index=Integer,
        shard_total=Integer,
        exit_code=Integer,
        exit_signal=_CODE,
        reason=_WORD,
        kind=Text,
        message=Text,
        nodeid=Text,
        retryable=Boolean,
        owner=_CODE,
        commit_id=_HASH,
        branch=Text,
        dirty=Boolean,
        merge_base=_HASH,
        ci_provider=_WORD,
        ci_run_id=Text,
        ci_job=Text,
    ),
    *_required(**dict.fromkeys(COUNTED, Integer), added_at=DateTime),
    *_nullable(
        environment_id=Integer,
        roster_id=Integer,
        charge_to=_CODE,
        storm=Text,
        storm_tests=Integer,
    ),
    Index("ft_runs_by_time", "project_id", "started_at"),
)
"""One row a run.

`source` is `report`, `junit` or `TRIAL`. `reason` and what follows it are null where
the run succeeded; `charge_to` is null, too, where nobody had asked. `environment_id` is
a row of `ft_environments`; `roster_id` is one of `ft_rosters`, null where the report
names no test that passed. `storm` is the cause of the environment that most tests
failed of, if there is one, and `storm_tests` says how many did.
"""

TESTS: Final = Table(
    "ft_tests",
    METADATA,
    *_key(id=Integer),
    *_required(project_id=ForeignKey("ft_projects.id"), digest=_WORD, nodeid=Text),
    UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
)
"""One row a test.

`digest` is BLAKE2b of the node id, 16 bytes in hexadecimal, because PostgreSQL can't
index long texts.
"""

OUTCOMES: Final = Table(
    "ft_outcomes",
    METADATA,
    *_key(run_number=_refer_to_run(), test_id=ForeignKey("ft_tests.id")),
    *_required(outcome=_CODE),
    *_nullable(seconds=Float),
    Index("ft_outcomes_by_test", "test_id", "run_number"),
    # The key comes with the whole row, so that one search finds all rows of a run.
    sqlite_with_rowid=False,
)
"""How a test ended in a run, unless it passed within `QUICK_SECONDS`.

All other tests of the run's roster have passed.
"""

CAUSES: Final = Table(
    "ft_causes",
    METADATA,
    *_key(id=Integer),
    *_required(
        project_id=ForeignKey("ft_projects.id"),
        fingerprint=_HASH,
        reason=_WORD,
        kind=Text,
        title=Text,
    ),
    *_nullable(owner=_CODE, described_at=DateTime, described_by=_WORD),
    UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
)
"""One row a group of failures of one fingerprint, as the latest run that had it has it.

`described_at` is the start of that run, and `described_by` its id.
"""

RUN_CAUSES: Final = Table(
    "ft_run_causes",
    METADATA,
    *_key(run_number=_refer_to_run(), cause_id=ForeignKey("ft_causes.id")),
    *_required(count=Integer, seconds=Float),
    *_nullable(in_storm=Boolean),
    Index("ft_run_causes_by_cause", "cause_id", "run_number"),
    sqlite_with_rowid=False,
)
"""How many failures a run had of a cause, those that its report doesn't list included.

`seconds` is the time that the listed ones took; `in_storm`, whether they are those of
the run's storm.
"""

FAILURES: Final = Table(
    "ft_failures",
    METADATA,
    *_key(id=_COUNTER),
    *_required(
        run_number=_refer_to_run(),
        test_id=ForeignKey("ft_tests.id"),
        cause_id=ForeignKey("ft_causes.id"),
        phase=String(8),
    ),
    *_nullable(seconds=Float, message=Text),
    Index("ft_failures_by_run", "run_number"),
    Index("ft_failures_by_cause", "cause_id", "run_number"),
    Index("ft_failures_by_test", "test_id", "run_number"),
)
"""One row a failure that a report lists.

`phase` is `collect` for what could not be collected.
"""

PROOFS: Final = Table(
    "ft_proofs",
    METADATA,
    *_key(project_id=ForeignKey("ft_projects.id"), name=_HASH, run_id=_WORD),
    *_required(started_at=DateTime, proof=Text),
)
"""What was proven of a cause in a run, by its key and by each of its fingerprints.

`proof` is `causes[].proof` of the report as JSON; `started_at` is the start of the run.
"""

ATTEMPTS: Final = Table(
    "ft_attempts",
    METADATA,
    *_key(id=_COUNTER),
    *_required(subtask_id=Text, approach=Text, success=Boolean),
    *_nullable(
        error=Text, failure_type=_WORD, reason=_WORD, run_id=_WORD, commit_id=_HASH
    ),
    *_required(at=DateTime),
    Index("ft_attempts_by_subtask", "subtask_id", "at"),
    Index("ft_attempts_by_run", "run_id"),
)
"""One row an attempt at a subtask."""

BENCH_RUNS: Final = Table(
    "ft_bench_runs",
    METADATA,
    *_key(id=Integer),
    *_required(
        run_number=_refer_to_run(),
        bench_run_id=Text,
        task_class=Text,
        complete=Boolean,
        scheduled=Integer,
        graded=Integer,
        passed=Integer,
    ),
    *_nullable(
        mean_score=Float, lower_bound_95=Float, total_cost_usd=Float, gate=_CODE
    ),
    UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
)
"""One row a task class that a run has run."""

TASKS: Final = Table(
    "tasks",
    MetaData(),
    *_key(id=String(200)),
    *_required(status=_WORD),
    *_nullable(failure_reason=Text, based_on=String(200)),
    *_required(created_at=DateTime, updated_at=DateTime),
)
"""The table of tasks in a database that had none of another program."""

# The columns, by which nearly all statements are made.
RUN: Final = RUNS.c
TEST: Final = TESTS.c
OUTCOME: Final = OUTCOMES.c
CAUSE: Final = CAUSES.c
FAILURE: Final = FAILURES.c
PROJECT: Final = PROJECTS.c
ATTEMPT: Final = ATTEMPTS.c
RUN_CAUSE: Final = RUN_CAUSES.c
PROOF: Final = PROOFS.c
ENVIRONMENT: Final = ENVIRONMENTS.c
ROSTER: Final = ROSTERS.c

MAX_TEXT: Final = 2_000
"""Characters of a message that are recorded."""
MAX_NODEID: Final = 10_000
_MAX_PROJECT: Final = 500
"""Characters of a project's name: PostgreSQL can't index long ones."""
MAX_INSTALLED: Final = 100_000
"""Characters of a list of what is installed."""
_MAX_TEST: Final = 100_000_000
"""The greatest id in a roster: a hostile one would make a whole number of any size."""
AT_ONCE: Final = 500
"""Values that one query looks for."""


def clean_text(text: Any, limit: int = MAX_TEXT) -> Any:
    """Return a text that any database can hold.

    It is capped, and has neither nulls nor lone surrogates.
    """
    if not isinstance(text, str):
        return None
    # PostgreSQL refuses nulls, and no driver can encode half of a surrogate pair.
    without_nulls = text[:limit].replace("\0", "\ufffd")
    return without_nulls.encode("utf-8", "replace").decode("utf-8")


def digest_of(nodeid: str) -> str:
    """Return the digest by which a test, or another long text, is found."""
    return blake2b(nodeid.encode("utf-8", "replace"), digest_size=16).hexdigest()


def started_at(report: FailureReport) -> datetime:
    """Return when a run started, in UTC and without a zone, as the tables have it."""
    at = datetime.fromisoformat(report.run.started_at)
    return at.astimezone(UTC).replace(tzinfo=None)


def parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the items in parts, each of which fits in one statement."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def rows_with(
    connection: Connection,
    query: Select[Any],
    column: Any,
    values: Iterable[Any],
    **parameters: Any,
) -> Iterator[Row[Any]]:
    """Yield the rows of a query in which a column has one of any number of values."""
    for part in parts([*values]):
        yield from connection.execute(query.where(column.in_(part)), parameters).all()


QUICK_SECONDS: Final = 0.5
"""A pass within this time has no row of its own, so its time isn't recorded."""
_FAILED: Final = frozenset({"failed", "error", "flaky", "in_flight"})
"""Outcomes of a test that has failed at least once."""
_OF_BENCH: Final = ("complete", "mean_score", "total_cost_usd")
_BENCH_COUNTS: Final = ("scheduled", "graded", "passed")
_COMPLETENESS: Final = ("running", "reconstructed", "full")


def add_run(
    connection: Connection,
    report: FailureReport,
    source: str,
) -> bool:
    """Add a run, unless one as complete is there already; tell whether it was added."""
    recorded_runs = select(RUN.number, RUN.completeness).where(RUN.id == report.run.id)
    recorded = connection.execute(recorded_runs).first()
    # A watcher or `finalize` may have completed a report after it was added.
    if recorded is not None:
        rank = _COMPLETENESS.index
        if rank(report.completeness) <= rank(recorded.completeness):
            return False
        remove_runs(connection, [recorded.number])
    _Addition(connection, report, source).add()
    return True


def record_proofs(connection: Connection, report: FailureReport) -> None:
    """Record what experiments have proven of a run's causes.

    Of two proofs from one run the one with more runs stays, whichever comes first.
    """
    texts = dict[str, str]()
    for cause in report.causes:
        proof = cause.proof
        # One that is known since an earlier run is recorded under that run.
        if proof and proof.status == "proven" and proof.known_since is None:
            text = json.dumps(CODEC.encode(proof))
            texts |= dict.fromkeys((cause.key, *cause.fingerprints), text)
    if not texts:
        return
    project = _find_or_add_project(connection, report)
    of_run = and_(PROOF.project_id == project, PROOF.run_id == report.run.id)
    earlier = select(PROOFS).where(of_run)
    for row in rows_with(connection, earlier, PROOF.name, texts):
        texts[row.name] = max(row.proof, texts[row.name], key=_rank_proof)
    for name, text in texts.items():
        row_of_proof = insert(PROOFS).values(
            project_id=project,
            name=name,
            run_id=report.run.id,
            started_at=started_at(report),
            proof=text,
        )
        # In two steps, because each database has its own statement for both.
        connection.execute(delete(PROOFS).where(of_run, PROOF.name == name))
        connection.execute(row_of_proof)


def _rank_proof(text: str) -> tuple[int, str]:
    return json.loads(text)["runs"], text


FEWEST_IN_STORM: Final = 10
"""Fewer may be all tests of one file, run alone, that needs what was missing."""


def storm_of(report: FailureReport) -> tuple[Cause | None, int]:
    """Return the storm of a run, and how many tests failed of it.

    That is a cause of the environment that most of the run's tests failed of, if any.
    """
    causes = [cause for cause in report.causes if cause.charge_to == "environment"]
    if not causes:
        return None, 0
    biggest = max(causes, key=attrgetter("count"))
    summary = report.summary
    failed = summary.failed + summary.errors
    tests = min(biggest.count, failed)
    # More than half of the tests that ran.
    is_storm = tests >= FEWEST_IN_STORM and 2 * tests > summary.passed + failed
    return (biggest, tests) if is_storm else (None, 0)


def _find_or_add_project(connection: Connection, report: FailureReport) -> int:
    return _find_or_insert(connection, PROJECT.name, project_of(report))


def _find_or_insert(
    connection: Connection, unique: Column[Any], key: str, **values: Any
) -> int:
    """Return the id of the row with a key in a unique column; insert a missing row."""
    table = unique.table
    row_id: int | None = connection.scalar(select(table.c.id).where(unique == key))
    return row_id or _insert_row(connection, table, **{unique.name: key}, **values)


def _insert_row(connection: Connection, table: Any, **values: Any) -> int:
    """Insert a row, and return its key."""
    done = connection.execute(insert(table), values)
    (key,) = done.inserted_primary_key or (0,)
    return int(key)


def project_ids(name: str) -> Select[Any]:
    """Return the query for the id of the project with a name."""
    return select(PROJECT.id).where(PROJECT.name == name)


def project_of(report: FailureReport) -> str:
    """Return the name of the project that a report is of.

    That is the repository's name where the report has it, else the name of the root
    directory. A trial of a harness is of its task: tests and failures of two tasks have
    nothing in common, even where they are called the same.
    """
    rootdir = report.run.invocation.rootdir.replace("\\", "/")
    name = rootdir.rstrip("/").rpartition("/")[2]
    if report.trial is not None and report.trial.task:
        name = report.trial.task
    elif report.repository is not None and report.repository.name:
        name = report.repository.name
    return str(clean_text(name or "unknown", _MAX_PROJECT))


def branch_of(report: FailureReport) -> str | None:
    """Return the branch that was tested, as git or the CI system has it."""
    git, ci = report.environment.git, report.environment.ci
    if git is not None and git.branch:
        return git.branch
    # CI systems often check a commit out, and no branch.
    if ci is not None and ci.ref:
        return ci.ref.removeprefix("refs/heads/")
    return None


def installed_in(report: FailureReport) -> list[str]:
    """Return `name-version` of what was installed, Python too; empty if not known."""
    environment = report.environment
    if environment.distributions is None:
        return []
    return sorted([f"python-{environment.python}", *environment.distributions])


def remove_runs(connection: Connection, numbers: Sequence[int]) -> None:
    """Remove runs with all that refers to them, and what no other run refers to."""
    for part in parts(numbers):
        for table in (OUTCOMES, FAILURES, RUN_CAUSES, BENCH_RUNS):
            connection.execute(delete(table).where(table.c.run_number.in_(part)))
        connection.execute(delete(RUNS).where(RUN.number.in_(part)))
    used_by = (
        (CAUSES, RUN_CAUSE.cause_id),
        (ENVIRONMENTS, RUN.environment_id),
        (ROSTERS, RUN.roster_id),
    )
    for table, key in used_by:
        is_used = exists().where(key == table.c.id)
        connection.execute(delete(table).where(~is_used))


def remove_tests(connection: Connection, project: str | None) -> None:
    """Remove the tests that no run has had."""
    rostered = 0
    for roster in connection.execute(select(ROSTERS)):
        rostered |= tests_of(roster)
    tests = select(TEST.id).where(~exists().where(OUTCOME.test_id == TEST.id))
    if project is not None:
        tests = tests.where(TEST.project_id.in_(project_ids(project)))
    gone = set(connection.scalars(tests)).difference(numbers_in(rostered))
    for part in parts(sorted(gone)):
        connection.execute(delete(TESTS).where(TEST.id.in_(part)))


def tests_of(roster: Row[Any]) -> int:
    """Return the tests of a roster as a whole number, with one bit a test."""
    if not 0 <= roster.first <= _MAX_TEST:
        raise ValueError(f"{roster.first} is no number of a test")
    return int.from_bytes(roster.tests, "little") << int(roster.first)


def bits_of(numbers: Iterable[int]) -> int:
    """Return the whole number in which the bits of these numbers are set."""
    places = [*numbers]
    # Not `sum(1 << place ...)`: each step of that would copy a long whole number.
    packed = bytearray(max(places, default=0) // 8 + 1)
    for place in places:
        packed[place // 8] |= 1 << place % 8
    return int.from_bytes(packed, "little")


def numbers_in(bits: int) -> list[int]:
    """Return which bits of a whole number are set, the lowest first."""
    digits = reversed(f"{bits:b}")
    return [place for place, digit in enumerate(digits) if digit == "1"]


class _End(NamedTuple):
    """How a test ended in one run."""

    outcome: str
    seconds: float | None


class _Addition:
    """One run on its way into the tables."""

    def __init__(
        self,
        connection: Connection,
        report: FailureReport,
        source: str,
    ) -> None:
        self._connection = connection
        self._report = report
        self._source = source if report.trial is None else TRIAL
        self._at = started_at(report)
        self._project = _find_or_add_project(connection, report)
        self._storm, self._storm_tests = storm_of(report)
        self._number = 0
        # A cause's owner has to fix it; that of a group or a verdict only raised it.
        # From the last to the first, so that a kind has the owner of its first cause.
        self._owners: dict[str, str | None] = {}
        for cause in reversed(report.causes):
            names = (cause.kind, *cause.fingerprints)
            self._owners.update(dict.fromkeys(names, cause.owner))

    def add(self) -> None:
        """Write all rows."""
        ends = self._read_ends()
        # Rows that others refer to come first: a server checks each reference at once.
        tests = self._find_tests(ends)
        self._number = self._insert_run(self._insert_roster(ends, tests))
        self._insert_failures(tests, self._insert_causes())
        rows = []
        for nodeid, end in ends.items():
            seconds = end.seconds if isfinite(end.seconds or 0.0) else None
            # The run's roster has them, in one bit each.
            if end.outcome == "passed" and (seconds or 0.0) <= QUICK_SECONDS:
                continue
            row = {
                "run_number": self._number,
                "test_id": tests[nodeid],
                "outcome": end.outcome,
                "seconds": seconds,
            }
            rows.append(row)
        self._insert_all(OUTCOMES, rows)
        self._insert_benches()

    def _insert_all(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)

    def _insert_run(self, roster: int | None) -> int:
        report = self._report
        run, verdict, ci = report.run, report.verdict, report.environment.ci
        git = report.environment.git or GitState()
        values = {name: getattr(report.summary, name) for name in COUNTED}
        if verdict is not None:
            values.update(
                reason=verdict.reason,
                kind=verdict.kind,
                retryable=verdict.retryable,
                charge_to=verdict.charge_to,
                message=clean_text(verdict.message),
                nodeid=clean_text(verdict.nodeid, MAX_NODEID),
                owner=self._owners.get(verdict.kind, verdict.owner),
            )
        if run.shard is not None:
            values.update(shard_index=run.shard.index, shard_total=run.shard.total)
        commit = git.commit
        if ci is not None:
            commit = commit or ci.commit
            values.update(
                ci_provider=clean_text(ci.provider, 32),
                ci_run_id=clean_text(ci.run_id),
                ci_job=clean_text(ci.job),
            )
        if report.repository is not None:
            values["merge_base"] = clean_text(report.repository.merge_base, 64)
        if self._storm is not None:
            values["storm"] = clean_text(self._storm.what)
            values["storm_tests"] = self._storm_tests
        return _insert_row(
            self._connection,
            RUNS,
            id=run.id,
            project_id=self._project,
            source=self._source,
            started_at=self._at,
            duration_seconds=run.duration_seconds,
            stage=run.stage,
            completeness=report.completeness,
            exit_code=report.exit.code,
            exit_signal=report.exit.signal,
            commit_id=clean_text(commit, 64),
            branch=clean_text(branch_of(report)),
            dirty=git.dirty,
            added_at=datetime.now(UTC).replace(tzinfo=None),
            environment_id=self._insert_environment(),
            roster_id=roster,
            **values,
        )

    def _insert_environment(self) -> int | None:
        installed = clean_text("\n".join(installed_in(self._report)), MAX_INSTALLED)
        if not installed:
            return None
        return self._find_or_insert(ENVIRONMENT.digest, installed, installed=installed)

    def _insert_roster(
        self, ends: Mapping[str, _End], tests: Mapping[str, int]
    ) -> int | None:
        """Return the id of the set of the run's tests, if any has passed."""
        if not any(end.outcome == "passed" for end in ends.values()):
            return None
        # Counted from the first test on, so that it stays short in a big database.
        first = min(tests.values())
        bits = bits_of(test - first for test in tests.values())
        packed = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        text = f"{first} {packed.hex()}"
        return self._find_or_insert(ROSTER.digest, text, first=first, tests=packed)

    def _find_or_insert(self, digest: Column[Any], text: str, **values: Any) -> int:
        return _find_or_insert(self._connection, digest, digest_of(text), **values)

    def _read_ends(self) -> dict[str, _End]:
        """Return how tests ended, by node id.

        A report without `tests` names only those that failed.
        """
        report = self._report
        ends: dict[str, _End] = {}
        for test in report.tests or ():
            ends[_clean_nodeid(test.nodeid)] = _End(test.outcome, test.duration_seconds)
        for failure in report.failures:
            nodeid = _clean_nodeid(failure.nodeid)
            if nodeid not in ends or ends[nodeid].outcome not in _FAILED:
                outcome = "failed" if failure.phase == "call" else "error"
                ends[nodeid] = _End(outcome, failure.duration_seconds)
        for error in report.collection_errors:
            ends.setdefault(_clean_nodeid(error.nodeid), _End("error", None))
        for running in report.in_flight:
            nodeid = _clean_nodeid(running.nodeid)
            ends[nodeid] = _End("in_flight", running.elapsed_seconds)
        return ends

    def _find_tests(self, nodeids: Iterable[str]) -> dict[str, int]:
        """Return the ids of tests by their node ids; new tests get one."""
        digests = {digest_of(nodeid): nodeid for nodeid in nodeids}
        ids = self._ids_by_nodeid(digests)
        rows = [
            {"project_id": self._project, "digest": digest, "nodeid": nodeid}
            for digest, nodeid in digests.items()
            if nodeid not in ids
        ]
        self._insert_all(TESTS, rows)
        return self._ids_by_nodeid(digests) if rows else ids

    def _ids_by_nodeid(self, digests: Mapping[str, str]) -> dict[str, int]:
        tests = select(TEST.digest, TEST.id).where(TEST.project_id == self._project)
        rows = rows_with(self._connection, tests, TEST.digest, digests)
        return {digests[row.digest]: row.id for row in rows}

    def _insert_causes(self) -> dict[str, int]:
        """Add the causes that are new; return the ids of all by fingerprint."""
        groups = {group.fingerprint: group for group in self._report.groups}
        of_project = select(CAUSES).where(CAUSE.project_id == self._project)
        rows = rows_with(self._connection, of_project, CAUSE.fingerprint, groups)
        recorded = {row.fingerprint: row for row in rows}
        ids = {}
        for fingerprint, group in groups.items():
            description = {
                "reason": group.reason,
                "kind": group.kind,
                "title": clean_text(group.title),
                "owner": self._owners.get(fingerprint, group.owner),
                "described_at": self._at,
                "described_by": self._report.run.id,
            }
            row = recorded.get(fingerprint)
            if row is None:
                ids[fingerprint] = _insert_row(
                    self._connection,
                    CAUSES,
                    project_id=self._project,
                    fingerprint=fingerprint,
                    **description,
                )
                continue
            ids[fingerprint] = row.id
            # Runs may be added in any order: the latest one describes the cause.
            at = row.described_at or datetime.min  # noqa: DTZ901 - no zone in tables
            described = at, row.described_by or ""
            if described <= (self._at, self._report.run.id):
                this = update(CAUSES).where(CAUSE.id == row.id)
                self._connection.execute(this, description)
        return ids

    def _insert_failures(
        self,
        tests: Mapping[str, int],
        causes: Mapping[str, int],
    ) -> None:
        report = self._report
        by_node = dict[str, str]()
        for group in report.groups:
            by_node |= dict.fromkeys(group.nodeids, group.fingerprint)
        rows = []
        seconds_by_cause = dict.fromkeys(causes, 0.0)
        failures: list[Failure | CollectionError]
        failures = [*report.failures, *report.collection_errors]
        for failure in failures:
            fingerprint, phase, seconds = by_node.get(failure.nodeid), "collect", None
            if isinstance(failure, Failure):
                fingerprint, phase = failure.fingerprint, failure.phase
                seconds = failure.duration_seconds
            # Groups are capped as well.
            if fingerprint is None or fingerprint not in causes:
                continue
            seconds_by_cause[fingerprint] += seconds or 0.0
            row = {
                "run_number": self._number,
                "test_id": tests[_clean_nodeid(failure.nodeid)],
                "cause_id": causes[fingerprint],
                "phase": phase,
                "seconds": seconds,
                "message": clean_text(_message_of(failure)),
            }
            rows.append(row)
        self._insert_all(FAILURES, rows)
        storm = self._storm
        rows = [
            {
                "run_number": self._number,
                "cause_id": causes[group.fingerprint],
                "count": group.count,
                "seconds": seconds_by_cause[group.fingerprint],
                "in_storm": storm and group.fingerprint in storm.fingerprints,
            }
            for group in report.groups
        ]
        self._insert_all(RUN_CAUSES, rows)

    def _insert_benches(self) -> None:
        for bench in self._report.bench:
            gate = bench.get("gate") or {}
            bound = bench.get("lower_bound_95") or {}
            _insert_row(
                self._connection,
                BENCH_RUNS,
                run_number=self._number,
                bench_run_id=clean_text(bench["run_id"]),
                task_class=clean_text(bench_name(bench)),
                lower_bound_95=bound.get("value"),
                gate=clean_text(gate.get("verdict"), 16),
                **{name: bench[name] for name in _OF_BENCH},
                **{name: bench["counts"][name] for name in _BENCH_COUNTS},
            )


def _message_of(failure: Failure | CollectionError) -> str:
    raised = failure.exception
    message = "" if raised is None else raised.message
    if not message and isinstance(failure, CollectionError):
        message = failure.message
    return message if raised is None else f"{raised.type}: {message}"


def _clean_nodeid(nodeid: str) -> str:
    return clean_text(nodeid, MAX_NODEID) or ""
