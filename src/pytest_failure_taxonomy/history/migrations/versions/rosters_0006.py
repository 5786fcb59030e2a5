"""All passes of all tests, as the sets of tests that runs had; proofs by run.

What was known of a test's last pass becomes a pass of its own.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of rosters, and that of proofs anew."""
    op.create_table(
        "ft_rosters",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(32), nullable=False, unique=True),
        sa.Column("first", sa.Integer, nullable=False),
        sa.Column("tests", sa.LargeBinary, nullable=False),
    )
    op.add_column("ft_runs", sa.Column("roster_id", sa.Integer))
    op.add_column("ft_causes", sa.Column("described_at", sa.DateTime))
    op.add_column("ft_causes", sa.Column("described_by", sa.String(32)))
    op.execute(
        "INSERT INTO ft_outcomes (run_number, test_id, outcome) "
        "SELECT number, ft_tests.id, 'passed' "
        "FROM ft_tests JOIN ft_runs ON number = last_passed_run "
        "WHERE NOT EXISTS (SELECT 1 FROM ft_outcomes "
        "WHERE run_number = number AND test_id = ft_tests.id)"
    )
    for name in ("first_seen", "last_seen", "last_failed", "last_passed_run"):
        op.drop_column("ft_tests", name)
    op.rename_table("ft_proofs", "ft_proofs_0005")
    op.create_table(
        "ft_proofs",
        sa.Column(
            "project_id", sa.Integer, sa.ForeignKey("ft_projects.id"), primary_key=True
        ),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(32), primary_key=True),
        sa.Column("started_at", sa.DateTime, nullable=False),
        sa.Column("proof", sa.Text, nullable=False),
    )
    op.execute(
        "INSERT INTO ft_proofs (project_id, name, run_id, started_at, proof) "
        "SELECT project_id, name, '', known_since, proof FROM ft_proofs_0005"
    )
    op.drop_table("ft_proofs_0005")
