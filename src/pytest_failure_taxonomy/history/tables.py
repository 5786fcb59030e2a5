"""The tables of the history, and how runs get into them.

Times are UTC without a zone; what is capped is capped on the way in.

All names but that of `tasks`, which the format of another program gives, begin with `ft_`, so that
the tables can live in a database that has others.
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
from pytest_failure_taxonomy.taxonomy.judgement import Cause, Proof
from pytest_failure_taxonomy.text import bench_name

METADATA: Final = MetaData()

# SQLite counts up whole INTEGER keys alone.
_Key = BigInteger().with_variant(Integer, "sqlite")

# The lengths that PostgreSQL holds texts to.
_CODE = String(16)
_WORD = String(32)
_HASH = String(64)


def _columns(kind: Any, *names: str, nullable: bool = True) -> list[Column[Any]]:
    return [Column(name, kind, nullable=nullable) for name in names]


def _id(kind: Any = Integer) -> Column[Any]:
    return Column("id", kind, primary_key=True)


PROJECTS: Final = Table(
    "ft_projects",
    METADATA,
    _id(),
    Column("name", Text, nullable=False, unique=True),
)
"""Whose tests the runs are of: two projects can have tests and commits of the same names."""
TRIAL: Final = "trial"
"""The source of a run that a harness of agents has left."""

ENVIRONMENTS: Final = Table(
    "ft_environments",
    METADATA,
    _id(),
    Column("digest", _WORD, nullable=False, unique=True),
    Column("installed", Text, nullable=False),
)
"""What runs had installed, as `installed_in` tells it, one a line. Each list is there once."""

ROSTERS: Final = Table(
    "ft_rosters",
    METADATA,
    _id(),
    Column("digest", _WORD, nullable=False, unique=True),
    Column("first", Integer, nullable=False),
    Column("tests", LargeBinary, nullable=False),
)
"""Which tests runs had, each set once: bit n of `tests`, the lowest first, is test `first` + n."""

COUNTED: Final = (
    "collected",
    "passed",
    "failed",
    "errors",
    "skipped",
    "flaky",
    "not_run",
)
"""Of a report's `summary`, what the history keeps."""
RUNS: Final = Table(
    "ft_runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", _WORD, nullable=False, unique=True),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("source", _CODE, nullable=False),
    Column("started_at", DateTime, nullable=False),
    Column("duration_seconds", Float),
    *_columns(_CODE, "stage", "completeness", nullable=False),
    *_columns(Integer, "shard_index", "shard_total", "exit_code"),
    Column("exit_signal", _CODE),
    Column("reason", _WORD),
    *_columns(Text, "kind", "message", "nodeid"),
    Column("retryable", Boolean),
    Column("owner", _CODE),
    Column("commit_id", _HASH),
    Column("branch", Text),
    Column("dirty", Boolean),
    Column("merge_base", _HASH),
    Column("ci_provider", _WORD),
    *_columns(Text, "ci_run_id", "ci_job"),
    *_columns(Integer, *COUNTED, nullable=False),
    Column("added_at", DateTime, nullable=False),
    Column("environment_id", Integer),
    Column("roster_id", Integer),
    Column("charge_to", _CODE),
    Column("storm", Text),
    Column("storm_tests", Integer),
    Index("ft_runs_by_time", "project_id", "started_at"),
)
"""One row a run; `reason` and what follows it are null where it succeeded. `source` is `report`,
`junit` or `TRIAL`; `environment_id` is that of a row of `ft_environments`, and `roster_id` of one
of `ft_rosters`, null where the report names no test that passed; `charge_to` is null, too, where
nobody had asked; `storm` is what of the environment most tests failed of, and
`storm_tests` how many, where there is such a cause."""


def _number_of_run(**options: Any) -> Column[Any]:
    run = ForeignKey(RUNS.c.number, ondelete="CASCADE")
    return Column("run_number", run, **options)


TESTS: Final = Table(
    "ft_tests",
    METADATA,
    _id(),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("digest", _WORD, nullable=False),
    Column("nodeid", Text, nullable=False),
    UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
)
"""One row a test. `digest` is BLAKE2b of the node id, 16 bytes in hexadecimal, because PostgreSQL
can't index long texts."""

OUTCOMES: Final = Table(
    "ft_outcomes",
    METADATA,
    _number_of_run(primary_key=True),
    Column("test_id", ForeignKey(TESTS.c.id), primary_key=True),
    Column("outcome", _CODE, nullable=False),
    Column("seconds", Float),
    Index("ft_outcomes_by_test", "test_id", "run_number"),
    sqlite_with_rowid=False,  # the key has all of a row, so that one search finds a run's
)
"""How a test ended in a run, where that was no pass of at most `QUICK_SECONDS`. All other tests of
the run's roster have passed."""

CAUSES: Final = Table(
    "ft_causes",
    METADATA,
    _id(),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("fingerprint", _HASH, nullable=False),
    Column("reason", _WORD, nullable=False),
    *_columns(Text, "kind", "title", nullable=False),
    Column("owner", _CODE),
    Column("described_at", DateTime),
    Column("described_by", _WORD),
    UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
)
"""One row a group of failures of one fingerprint, as the latest run that had it describes it;
`described_at` is the start of that run, and `described_by` its id."""

RUN_CAUSES: Final = Table(
    "ft_run_causes",
    METADATA,
    _number_of_run(primary_key=True),
    Column("cause_id", ForeignKey(CAUSES.c.id), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("in_storm", Boolean),
    Index("ft_run_causes_by_cause", "cause_id", "run_number"),
    sqlite_with_rowid=False,
)
"""How many failures a run had of a cause, those that its report doesn't list included, the seconds
that the listed ones took, and whether they are those of the run's storm."""

FAILURES: Final = Table(
    "ft_failures",
    METADATA,
    _id(_Key),
    _number_of_run(nullable=False),
    Column("test_id", ForeignKey(TESTS.c.id), nullable=False),
    Column("cause_id", ForeignKey(CAUSES.c.id), nullable=False),
    Column("phase", String(8), nullable=False),
    Column("seconds", Float),
    Column("message", Text),
    Index("ft_failures_by_run", "run_number"),
    Index("ft_failures_by_cause", "cause_id", "run_number"),
    Index("ft_failures_by_test", "test_id", "run_number"),
)
"""One row a failure that a report lists; `phase` is `collect` for what could not be collected."""

PROOFS: Final = Table(
    "ft_proofs",
    METADATA,
    Column("project_id", ForeignKey(PROJECTS.c.id), primary_key=True),
    Column("name", _HASH, primary_key=True),
    Column("run_id", _WORD, primary_key=True),
    Column("started_at", DateTime, nullable=False),
    Column("proof", Text, nullable=False),
)
"""What was proven of a cause in a run, by its key and by each of its fingerprints: `causes[].proof`
of the report as JSON, and the start of the run."""

ATTEMPTS: Final = Table(
    "ft_attempts",
    METADATA,
    _id(_Key),
    *_columns(Text, "subtask_id", "approach", nullable=False),
    Column("success", Boolean, nullable=False),
    Column("error", Text),
    *_columns(_WORD, "failure_type", "reason"),
    Column("run_id", _WORD),
    Column("commit_id", _HASH),
    Column("at", DateTime, nullable=False),
    Index("ft_attempts_by_subtask", "subtask_id", "at"),
    Index("ft_attempts_by_run", "run_id"),
)
"""One row an attempt at a subtask."""

BENCH_RUNS: Final = Table(
    "ft_bench_runs",
    METADATA,
    _id(),
    _number_of_run(nullable=False),
    *_columns(Text, "bench_run_id", "task_class", nullable=False),
    Column("complete", Boolean, nullable=False),
    *_columns(Integer, "scheduled", "graded", "passed", nullable=False),
    *_columns(Float, "mean_score", "lower_bound_95", "total_cost_usd"),
    Column("gate", _CODE),
    UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
)
"""One row a task class that a run has run."""

TASKS: Final = Table(
    "tasks",
    MetaData(),
    Column("id", String(200), primary_key=True),
    Column("status", _WORD, nullable=False),
    Column("failure_reason", Text),
    Column("based_on", String(200)),
    *_columns(DateTime, "created_at", "updated_at", nullable=False),
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
"""Characters of a message that are kept."""
MAX_NODEID: Final = 10_000
_MAX_PROJECT: Final = 500
"""Characters of a project's name: PostgreSQL can't index long ones."""
MAX_INSTALLED: Final = 100_000
"""Characters of a list of what is installed."""
_MAX_TEST: Final = 100_000_000
"""This program has written no greater id into a roster."""
AT_ONCE: Final = 500
"""Values that one query looks for."""


def clean_text(text: Any, limit: int = MAX_TEXT) -> Any:
    """Return a text that any database can hold: capped, without nulls and lone surrogates."""
    if not isinstance(text, str):
        return None
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
    """Yield the items in parts that a database takes in one statement."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def rows_with(
    connection: Connection,
    query: Select[Any],
    column: Any,
    values: Iterable[Any],
    **parameters: Any,
) -> Iterator[Row[Any]]:
    """Yield the rows of a query in which a column has one of the values, however many these are."""
    for part in parts([*values]):
        yield from connection.execute(query.where(column.in_(part)), parameters).all()


QUICK_SECONDS: Final = 0.5
"""How long a pass takes of which the history doesn't keep how long it took."""
_FAILED: Final = frozenset({"failed", "error", "flaky", "in_flight"})
"""Outcomes after which a test counts as one that has failed."""
_OF_VERDICT: Final = ("reason", "kind", "retryable", "charge_to")
_OF_BENCH: Final = ("complete", "mean_score", "total_cost_usd")
_BENCH_COUNTS: Final = ("scheduled", "graded", "passed")
_COMPLETENESS: Final = ("running", "reconstructed", "full")


def add_run(
    connection: Connection,
    report: FailureReport,
    source: str,
) -> bool:
    """Add a run, unless it is there already and as complete; tell which of the two."""
    columns = select(RUN.number, RUN.completeness)
    by_id = columns.where(RUN.id == report.run.id)
    known = connection.execute(by_id).first()
    if known is not None:
        rank = _COMPLETENESS.index
        if rank(report.completeness) <= rank(known.completeness):
            return False
        remove_runs(connection, [known.number])
    _Addition(connection, report, source).add()
    return True


def keep_proofs(connection: Connection, report: FailureReport) -> None:
    """Keep what experiments have proven of a run's causes.

    Of two proofs from one run the one with more runs stays, whichever comes first.
    """
    proven: dict[str, Proof] = {}
    for cause in report.causes:
        proof = cause.proof
        if proof and proof.status == "proven" and proof.known_since is None:
            names = (cause.key, *cause.fingerprints)
            proven |= dict.fromkeys(names, proof)
    if not proven:
        return
    project = _id_of_project(connection, report)
    of_run = and_(PROOF.project_id == project, PROOF.run_id == report.run.id)
    texts = {name: json.dumps(CODEC.encode(proof)) for name, proof in proven.items()}
    earlier = select(PROOFS).where(of_run)
    for row in rows_with(connection, earlier, PROOF.name, proven):
        texts[row.name] = max(row.proof, texts[row.name], key=_rank_of_proof)
    for name, text in texts.items():
        values = {
            "project_id": project,
            "name": name,
            "run_id": report.run.id,
            "started_at": started_at(report),
            "proof": text,
        }
        connection.execute(delete(PROOFS).where(of_run, PROOF.name == name))
        connection.execute(insert(PROOFS), values)


def _rank_of_proof(text: str) -> tuple[int, str]:
    return json.loads(text)["runs"], text


FEWEST_IN_STORM: Final = 10
"""Fewer may be a file whose tests need what was missing, and that somebody has run by itself."""


def storm_of(report: FailureReport) -> tuple[Cause | None, int]:
    """Return the cause of the environment that most tests failed of, and how many did."""
    causes = [cause for cause in report.causes if cause.charge_to == "environment"]
    if not causes:
        return None, 0
    biggest = max(causes, key=attrgetter("count"))
    summary = report.summary
    failed = summary.failed + summary.errors
    tests = min(biggest.count, failed)
    is_storm = tests >= FEWEST_IN_STORM and 2 * tests > summary.passed + failed
    return (biggest, tests) if is_storm else (None, 0)


def _id_of_project(connection: Connection, report: FailureReport) -> int:
    """Return the id of a report's project, which gets one if it has none."""
    name = project_of(report)
    project: int | None = connection.scalar(
        select(PROJECT.id).where(PROJECT.name == name)
    )
    return project or _insert_row(connection, PROJECTS, name=name)


def _insert_row(connection: Connection, table: Table, **values: Any) -> int:
    """Insert a row, and return its key."""
    done = connection.execute(insert(table), values)
    (key,) = done.inserted_primary_key or (0,)
    return int(key)


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
    """Remove runs with all that is known of them, and the causes that no other run had."""
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
    there = 0
    for row in connection.execute(select(ROSTERS)):
        there |= tests_of(row)
    tests = select(TEST.id).where(~exists().where(OUTCOME.test_id == TEST.id))
    if project is not None:
        of_project = select(PROJECT.id).where(PROJECT.name == project)
        tests = tests.where(TEST.project_id.in_(of_project))
    gone = set(connection.scalars(tests)).difference(numbers_in(there))
    for part in parts(sorted(gone)):
        connection.execute(delete(TESTS).where(TEST.id.in_(part)))


def tests_of(roster: Row[Any]) -> int:
    """Return the tests of a roster as a whole number, with one bit a test."""
    if not 0 <= roster.first <= _MAX_TEST:
        raise ValueError(f"{roster.first} is no number of a test")
    return int.from_bytes(roster.tests, "little") << int(roster.first)


def bits_of(numbers: Iterable[int]) -> int:
    """Return the whole number of which the bits with some numbers are set."""
    places = [*numbers]
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
        self._project = _id_of_project(connection, report)
        self._number = 0
        # Who has to fix a cause, rather than whose code has raised it.
        self._owners: dict[str, str | None] = {}
        for cause in reversed(report.causes):
            names = (cause.kind, *cause.fingerprints)
            self._owners.update(dict.fromkeys(names, cause.owner))

    def add(self) -> None:
        """Write all rows."""
        ends = self._read_ends()
        tests = self._find_tests(ends)
        self._number = self._insert_run(self._insert_roster(ends, tests))
        self._insert_failures(tests, self._insert_causes())
        rows = []
        for nodeid, end in ends.items():
            seconds = end.seconds if isfinite(end.seconds or 0.0) else None
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

    def _insert(self, table: Table, **values: Any) -> int:
        return _insert_row(self._connection, table, **values)

    def _insert_all(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)

    def _insert_run(self, roster: int | None) -> int:
        report = self._report
        run, verdict, ci = report.run, report.verdict, report.environment.ci
        git = report.environment.git or GitState()
        values = {name: getattr(report.summary, name) for name in COUNTED}
        if verdict is not None:
            values |= {name: getattr(verdict, name) for name in _OF_VERDICT}
            values["message"] = clean_text(verdict.message)
            values["nodeid"] = clean_text(verdict.nodeid, MAX_NODEID)
            values["owner"] = self._owners.get(verdict.kind, verdict.owner)
        if run.shard is not None:
            values["shard_index"] = run.shard.index
            values["shard_total"] = run.shard.total
        commit = git.commit
        if ci is not None:
            commit = commit or ci.commit
            values["ci_provider"] = clean_text(ci.provider, 32)
            values["ci_run_id"] = clean_text(ci.run_id)
            values["ci_job"] = clean_text(ci.job)
        if report.repository is not None:
            values["merge_base"] = clean_text(report.repository.merge_base, 64)
        storm, tests = storm_of(report)
        if storm is not None:
            values["storm"] = clean_text(storm.what)
            values["storm_tests"] = tests
        return self._insert(
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
        """Return the id of what the run had installed, which is added if it is new."""
        installed = clean_text("\n".join(installed_in(self._report)), MAX_INSTALLED)
        if not installed:
            return None
        return self._insert_once(ENVIRONMENTS, installed, installed=installed)

    def _insert_roster(
        self, ends: Mapping[str, _End], tests: Mapping[str, int]
    ) -> int | None:
        """Return the id of the tests that the run had, where some have passed."""
        if not any(end.outcome == "passed" for end in ends.values()):
            return None
        first = min(tests.values())
        bits = bits_of(test - first for test in tests.values())
        packed = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        name = f"{first} {packed.hex()}"
        return self._insert_once(ROSTERS, name, first=first, tests=packed)

    def _insert_once(self, table: Table, text: str, **values: Any) -> int:
        """Return the id of a row that is found by the digest of a text; add it if it is new."""
        digest = digest_of(text)
        by_digest = select(table.c.id).where(table.c.digest == digest)
        known: int | None = self._connection.scalar(by_digest)
        return known or self._insert(table, digest=digest, **values)

    def _read_ends(self) -> dict[str, _End]:
        """Return how each test ended, by its node id; without `tests`, of those that failed."""
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
        """Return the ids of tests by their node ids; those that are new get one."""
        digests = {digest_of(nodeid): nodeid for nodeid in nodeids}
        known = self._ids_by_nodeid(digests)
        rows = [
            {"project_id": self._project, "digest": digest, "nodeid": nodeid}
            for digest, nodeid in digests.items()
            if nodeid not in known
        ]
        self._insert_all(TESTS, rows)
        return self._ids_by_nodeid(digests) if rows else known

    def _ids_by_nodeid(self, digests: Mapping[str, str]) -> dict[str, int]:
        tests = select(TEST.digest, TEST.id).where(TEST.project_id == self._project)
        rows = rows_with(self._connection, tests, TEST.digest, digests)
        return {digests[row.digest]: row.id for row in rows}

    def _insert_causes(self) -> dict[str, int]:
        """Add the causes that are new; return the ids of all by fingerprint."""
        groups = {group.fingerprint: group for group in self._report.groups}
        of_project = select(CAUSES).where(CAUSE.project_id == self._project)
        rows = rows_with(self._connection, of_project, CAUSE.fingerprint, groups)
        known = {row.fingerprint: row for row in rows}
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
            row = known.get(fingerprint)
            if row is None:
                ids[fingerprint] = self._insert(
                    CAUSES,
                    project_id=self._project,
                    fingerprint=fingerprint,
                    **description,
                )
                continue
            ids[fingerprint] = row.id
            described = row.described_at or datetime.min, row.described_by or ""  # noqa: DTZ901 - as the tables have it, in UTC
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
        by_node = {}
        for group in report.groups:
            by_node.update(dict.fromkeys(group.nodeids, group.fingerprint))
        failures: list[tuple[Failure | CollectionError, str, str | None]] = [
            (failure, failure.phase, failure.fingerprint) for failure in report.failures
        ]
        failures += [
            (error, "collect", by_node.get(error.nodeid))
            for error in report.collection_errors
        ]
        rows = []
        seconds_by_cause = dict.fromkeys(causes, 0.0)
        for failure, phase, fingerprint in failures:
            # Groups are capped as well.
            if fingerprint is None or fingerprint not in causes:
                continue
            seconds = getattr(failure, "duration_seconds", None)
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
        storm, _ = storm_of(report)
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
            self._insert(
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
