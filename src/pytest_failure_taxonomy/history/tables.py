"""The tables of the history, and how values get into them.

Times are UTC without a zone; what is capped is capped on the way in.

All names but that of `tasks`, which the format of another program gives, begin with `ft_`, so that
the tables can live in a database that has others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import (
    DDL,
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
    event,
)

METADATA: Final = MetaData()

_Key = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up whole INTEGER keys alone

PROJECTS: Final = Table(
    "ft_projects",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)
"""Whose tests the runs are of: two projects can have tests and commits of the same names."""

RUNS: Final = Table(
    "ft_runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("source", String(16), nullable=False),
    Column("started_at", DateTime, nullable=False),
    Column("duration_seconds", Float),
    Column("stage", String(16), nullable=False),
    Column("completeness", String(16), nullable=False),
    Column("shard_index", Integer),
    Column("shard_total", Integer),
    Column("exit_code", Integer),
    Column("exit_signal", String(16)),
    Column("reason", String(32)),
    Column("kind", Text),
    Column("message", Text),
    Column("nodeid", Text),
    Column("retryable", Boolean),
    Column("owner", String(16)),
    Column("commit_id", String(64)),
    Column("branch", Text),
    Column("dirty", Boolean),
    Column("merge_base", String(64)),
    Column("ci_provider", String(32)),
    Column("ci_run_id", Text),
    Column("ci_job", Text),
    Column("collected", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("flaky", Integer, nullable=False),
    Column("not_run", Integer, nullable=False),
    Column("added_at", DateTime, nullable=False),
    Index("ft_runs_by_time", "project_id", "started_at"),
)
"""One row a run; `reason` and what follows it are null where it succeeded. `source` is `report` or
`junit`."""

TESTS: Final = Table(
    "ft_tests",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("digest", String(32), nullable=False),
    Column("nodeid", Text, nullable=False),
    Column("first_seen", DateTime, nullable=False),
    Column("last_seen", DateTime, nullable=False),
    Column("last_failed", DateTime),
    Column("last_passed_run", Integer),
    Column("median_seconds", Float),
    Column("durations", LargeBinary),
    UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
)
"""One row a test, updated in place. `digest` is BLAKE2b of the node id, 16 bytes in hexadecimal,
because PostgreSQL can't index long texts."""
# Room to update a row beside its old version. (`postgresql_with` is new in SQLAlchemy 2.1.)
event.listen(
    TESTS,
    "after_create",
    DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy's
        "ALTER TABLE ft_tests SET (fillfactor = 45)"
    ).execute_if(dialect="postgresql"),
)

OUTCOMES: Final = Table(
    "ft_outcomes",
    METADATA,
    Column("run_number", ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True),
    Column("test_id", ForeignKey(TESTS.c.id), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("seconds", Float),
    Index("ft_outcomes_by_test", "test_id", "run_number"),
    sqlite_with_rowid=False,  # the key has all of a row, so that one search finds a run's
)
"""How a test ended in a run, where that was no plain pass; and passes of tests that have failed."""

CAUSES: Final = Table(
    "ft_causes",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("project_id", ForeignKey(PROJECTS.c.id), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("owner", String(16)),
    Column("first_seen", DateTime, nullable=False),
    Column("last_seen", DateTime, nullable=False),
    Column("runs", Integer, nullable=False),
    UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
)
"""One row a group of failures of one fingerprint, with the times of the runs that had it."""

RUN_CAUSES: Final = Table(
    "ft_run_causes",
    METADATA,
    Column("run_number", ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True),
    Column("cause_id", ForeignKey(CAUSES.c.id), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Index("ft_run_causes_by_cause", "cause_id", "run_number"),
    sqlite_with_rowid=False,
)
"""How many failures a run had of a cause, those that its report doesn't list included, and the
seconds that the listed ones took."""

FAILURES: Final = Table(
    "ft_failures",
    METADATA,
    Column("id", _Key, primary_key=True),
    Column("run_number", ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False),
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

ATTEMPTS: Final = Table(
    "ft_attempts",
    METADATA,
    Column("id", _Key, primary_key=True),
    Column("subtask_id", Text, nullable=False),
    Column("approach", Text, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("error", Text),
    Column("failure_type", String(32)),
    Column("reason", String(32)),
    Column("run_id", String(32)),
    Column("commit_id", String(64)),
    Column("at", DateTime, nullable=False),
    Index("ft_attempts_by_subtask", "subtask_id", "at"),
)
"""One row an attempt at a subtask."""

BENCH_RUNS: Final = Table(
    "ft_bench_runs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run_number", ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False),
    Column("bench_run_id", Text, nullable=False),
    Column("task_class", Text, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("scheduled", Integer, nullable=False),
    Column("graded", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("mean_score", Float),
    Column("lower_bound_95", Float),
    Column("total_cost_usd", Float),
    Column("gate", String(16)),
    UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
)
"""One row a task class that a run has run."""

TASKS: Final = Table(
    "tasks",
    MetaData(),
    Column("id", String(200), primary_key=True),
    Column("status", String(32), nullable=False),
    Column("failure_reason", Text),
    Column("based_on", String(200)),
    Column("created_at", DateTime, nullable=False),
    Column("updated_at", DateTime, nullable=False),
)
"""The table of tasks in a database that had none of another program."""

MAX_TEXT: Final = 2_000
"""Characters of a message that are kept."""
MAX_NODEID: Final = 10_000
AT_ONCE: Final = 500
"""Values that one query looks for."""


def clean_text(text: Any, limit: int = MAX_TEXT) -> Any:
    """Return a text that any database can hold: capped, without nulls and lone surrogates."""
    if not isinstance(text, str):
        return None
    return text[:limit].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def digest_of(nodeid: str) -> str:
    """Return the digest by which a test is found."""
    return blake2b(nodeid.encode("utf-8", "replace"), digest_size=16).hexdigest()


def started_at(report: Mapping[str, Any]) -> datetime:
    """Return when a run started, in UTC and without a zone, as the tables have it."""
    at = datetime.fromisoformat(report["run"]["started_at"])
    return at.astimezone(UTC).replace(tzinfo=None)


def as_time(found: Any) -> datetime:
    """Return a time; SQLite gives the text of one that an expression has made."""
    return found if isinstance(found, datetime) else datetime.fromisoformat(str(found))


def parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the items in parts that a database takes in one statement."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def rows_with(
    connection: Connection, query: Select[Any], column: Any, values: Sequence[Any]
) -> Iterator[Row[Any]]:
    """Yield the rows of a query in which a column has one of the values, however many these are."""
    for some in parts(values):
        yield from connection.execute(query.where(column.in_(some))).all()
