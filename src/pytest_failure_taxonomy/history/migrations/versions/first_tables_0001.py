"""The first tables.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ft_attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("subtask_id", sa.Text(), nullable=False),
        sa.Column("approach", sa.Text(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failure_type", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("run_id", sa.String(length=32), nullable=True),
        sa.Column("commit_id", sa.String(length=64), nullable=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ft_attempts_by_subtask", "ft_attempts", ["subtask_id", "at"], unique=False)
    op.create_table(
        "ft_projects",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "ft_causes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=16), nullable=True),
        sa.Column("first_seen", sa.DateTime(), nullable=False),
        sa.Column("last_seen", sa.DateTime(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["ft_projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "fingerprint", name="ft_causes_by_fingerprint"),
    )
    op.create_table(
        "ft_runs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("duration_seconds", sa.Float(), nullable=True),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("completeness", sa.String(length=16), nullable=False),
        sa.Column("shard_index", sa.Integer(), nullable=True),
        sa.Column("shard_total", sa.Integer(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("exit_signal", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("nodeid", sa.Text(), nullable=True),
        sa.Column("retryable", sa.Boolean(), nullable=True),
        sa.Column("owner", sa.String(length=16), nullable=True),
        sa.Column("commit_id", sa.String(length=64), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("dirty", sa.Boolean(), nullable=True),
        sa.Column("merge_base", sa.String(length=64), nullable=True),
        sa.Column("ci_provider", sa.String(length=32), nullable=True),
        sa.Column("ci_run_id", sa.Text(), nullable=True),
        sa.Column("ci_job", sa.Text(), nullable=True),
        sa.Column("collected", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("flaky", sa.Integer(), nullable=False),
        sa.Column("not_run", sa.Integer(), nullable=False),
        sa.Column("added_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["ft_projects.id"],
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("ft_runs_by_time", "ft_runs", ["project_id", "started_at"], unique=False)
    op.create_table(
        "ft_tests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("nodeid", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.DateTime(), nullable=False),
        sa.Column("last_seen", sa.DateTime(), nullable=False),
        sa.Column("last_failed", sa.DateTime(), nullable=True),
        sa.Column("last_passed_run", sa.Integer(), nullable=True),
        sa.Column("median_seconds", sa.Float(), nullable=True),
        sa.Column("durations", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["ft_projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "digest", name="ft_tests_by_digest"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # A row is updated by each run, and stays on its page where that has room for a second one.
        op.execute("ALTER TABLE ft_tests SET (fillfactor = 45)")
    op.create_table(
        "ft_bench_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("bench_run_id", sa.Text(), nullable=False),
        sa.Column("task_class", sa.Text(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("scheduled", sa.Integer(), nullable=False),
        sa.Column("graded", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("mean_score", sa.Float(), nullable=True),
        sa.Column("lower_bound_95", sa.Float(), nullable=True),
        sa.Column("total_cost_usd", sa.Float(), nullable=True),
        sa.Column("gate", sa.String(length=16), nullable=True),
        sa.ForeignKeyConstraint(["run_number"], ["ft_runs.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_number", "bench_run_id", name="ft_bench_runs_by_id"),
    )
    op.create_table(
        "ft_failures",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.Integer(), nullable=False),
        sa.Column("cause_id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=8), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cause_id"],
            ["ft_causes.id"],
        ),
        sa.ForeignKeyConstraint(["run_number"], ["ft_runs.number"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["test_id"],
            ["ft_tests.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ft_failures_by_cause", "ft_failures", ["cause_id", "run_number"], unique=False)
    op.create_index("ft_failures_by_run", "ft_failures", ["run_number"], unique=False)
    op.create_index("ft_failures_by_test", "ft_failures", ["test_id", "run_number"], unique=False)
    op.create_table(
        "ft_outcomes",
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("test_id", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_number"], ["ft_runs.number"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["test_id"],
            ["ft_tests.id"],
        ),
        sa.PrimaryKeyConstraint("run_number", "test_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ft_outcomes_by_test", "ft_outcomes", ["test_id", "run_number"], unique=False)
    op.create_table(
        "ft_run_causes",
        sa.Column("run_number", sa.Integer(), nullable=False),
        sa.Column("cause_id", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cause_id"],
            ["ft_causes.id"],
        ),
        sa.ForeignKeyConstraint(["run_number"], ["ft_runs.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_number", "cause_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ft_run_causes_by_cause", "ft_run_causes", ["cause_id", "run_number"], unique=False
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in (
        "ft_run_causes",
        "ft_outcomes",
        "ft_failures",
        "ft_bench_runs",
        "ft_tests",
        "ft_runs",
        "ft_causes",
        "ft_projects",
        "ft_attempts",
    ):
        op.drop_table(name)
