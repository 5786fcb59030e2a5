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

import sqlalchemy as sa

METADATA: Final = sa.MetaData()

# SQLite counts up whole INTEGER keys alone.
_Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

PROJECTS: Final = sa.Table(
    "ft_projects",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)
"""Whose tests the runs are of: two projects can have tests and commits of the same names."""

COUNTED: Final = ("collected", "passed", "failed", "errors", "skipped", "flaky", "not_run")
"""Of a report's `summary`, what the history keeps."""
RUNS: Final = sa.Table(
    "ft_runs",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(32), nullable=False, unique=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("source", sa.String(16), nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("duration_seconds", sa.Float),
    sa.Column("stage", sa.String(16), nullable=False),
    sa.Column("completeness", sa.String(16), nullable=False),
    sa.Column("shard_index", sa.Integer),
    sa.Column("shard_total", sa.Integer),
    sa.Column("exit_code", sa.Integer),
    sa.Column("exit_signal", sa.String(16)),
    sa.Column("reason", sa.String(32)),
    sa.Column("kind", sa.Text),
    sa.Column("message", sa.Text),
    sa.Column("nodeid", sa.Text),
    sa.Column("retryable", sa.Boolean),
    sa.Column("owner", sa.String(16)),
    sa.Column("commit_id", sa.String(64)),
    sa.Column("branch", sa.Text),
    sa.Column("dirty", sa.Boolean),
    sa.Column("merge_base", sa.String(64)),
    sa.Column("ci_provider", sa.String(32)),
    sa.Column("ci_run_id", sa.Text),
    sa.Column("ci_job", sa.Text),
    *(sa.Column(name, sa.Integer, nullable=False) for name in COUNTED),
    sa.Column("added_at", sa.DateTime, nullable=False),
    sa.Index("ft_runs_by_time", "project_id", "started_at"),
)
"""One row a run; `reason` and what follows it are null where it succeeded. `source` is `report` or
`junit`."""

TESTS: Final = sa.Table(
    "ft_tests",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("digest", sa.String(32), nullable=False),
    sa.Column("nodeid", sa.Text, nullable=False),
    sa.Column("first_seen", sa.DateTime, nullable=False),
    sa.Column("last_seen", sa.DateTime, nullable=False),
    sa.Column("last_failed", sa.DateTime),
    sa.Column("last_passed_run", sa.Integer),
    sa.Column("median_seconds", sa.Float),
    sa.Column("durations", sa.LargeBinary),
    sa.UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
)
"""One row a test, updated in place. `digest` is BLAKE2b of the node id, 16 bytes in hexadecimal,
because PostgreSQL can't index long texts."""
# Room to update a row beside its old version. (`postgresql_with` is new in SQLAlchemy 2.1.)
sa.event.listen(
    TESTS,
    "after_create",
    sa.DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy's
        "ALTER TABLE ft_tests SET (fillfactor = 45)"
    ).execute_if(dialect="postgresql"),
)

OUTCOMES: Final = sa.Table(
    "ft_outcomes",
    METADATA,
    sa.Column("run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True),
    sa.Column("test_id", sa.ForeignKey(TESTS.c.id), primary_key=True),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Index("ft_outcomes_by_test", "test_id", "run_number"),
    sqlite_with_rowid=False,  # the key has all of a row, so that one search finds a run's
)
"""How a test ended in a run, where that was no plain pass; and passes of tests that have failed."""

CAUSES: Final = sa.Table(
    "ft_causes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project_id", sa.ForeignKey(PROJECTS.c.id), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("reason", sa.String(32), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("owner", sa.String(16)),
    sa.Column("first_seen", sa.DateTime, nullable=False),
    sa.Column("last_seen", sa.DateTime, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
)
"""One row a group of failures of one fingerprint, with the times of the runs that had it."""

RUN_CAUSES: Final = sa.Table(
    "ft_run_causes",
    METADATA,
    sa.Column("run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), primary_key=True),
    sa.Column("cause_id", sa.ForeignKey(CAUSES.c.id), primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Index("ft_run_causes_by_cause", "cause_id", "run_number"),
    sqlite_with_rowid=False,
)
"""How many failures a run had of a cause, those that its report doesn't list included, and the
seconds that the listed ones took."""

FAILURES: Final = sa.Table(
    "ft_failures",
    METADATA,
    sa.Column("id", _Key, primary_key=True),
    sa.Column("run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False),
    sa.Column("test_id", sa.ForeignKey(TESTS.c.id), nullable=False),
    sa.Column("cause_id", sa.ForeignKey(CAUSES.c.id), nullable=False),
    sa.Column("phase", sa.String(8), nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Column("message", sa.Text),
    sa.Index("ft_failures_by_run", "run_number"),
    sa.Index("ft_failures_by_cause", "cause_id", "run_number"),
    sa.Index("ft_failures_by_test", "test_id", "run_number"),
)
"""One row a failure that a report lists; `phase` is `collect` for what could not be collected."""

ATTEMPTS: Final = sa.Table(
    "ft_attempts",
    METADATA,
    sa.Column("id", _Key, primary_key=True),
    sa.Column("subtask_id", sa.Text, nullable=False),
    sa.Column("approach", sa.Text, nullable=False),
    sa.Column("success", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("failure_type", sa.String(32)),
    sa.Column("reason", sa.String(32)),
    sa.Column("run_id", sa.String(32)),
    sa.Column("commit_id", sa.String(64)),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Index("ft_attempts_by_subtask", "subtask_id", "at"),
)
"""One row an attempt at a subtask."""

BENCH_RUNS: Final = sa.Table(
    "ft_bench_runs",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_number", sa.ForeignKey(RUNS.c.number, ondelete="CASCADE"), nullable=False),
    sa.Column("bench_run_id", sa.Text, nullable=False),
    sa.Column("task_class", sa.Text, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("scheduled", sa.Integer, nullable=False),
    sa.Column("graded", sa.Integer, nullable=False),
    sa.Column("passed", sa.Integer, nullable=False),
    sa.Column("mean_score", sa.Float),
    sa.Column("lower_bound_95", sa.Float),
    sa.Column("total_cost_usd", sa.Float),
    sa.Column("gate", sa.String(16)),
    sa.UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
)
"""One row a task class that a run has run."""

TASKS: Final = sa.Table(
    "tasks",
    sa.MetaData(),
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("failure_reason", sa.Text),
    sa.Column("based_on", sa.String(200)),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("updated_at", sa.DateTime, nullable=False),
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
    connection: sa.Connection, query: sa.Select[Any], column: Any, values: Sequence[Any]
) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query in which a column has one of the values, however many these are."""
    for some in parts(values):
        yield from connection.execute(query.where(column.in_(some))).all()
