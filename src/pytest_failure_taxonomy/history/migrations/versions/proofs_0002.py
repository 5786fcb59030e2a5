"""What experiments have proven of causes.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of proofs."""
    op.create_table(
        "ft_proofs",
        sa.Column(
            "project_id", sa.Integer, sa.ForeignKey("ft_projects.id"), primary_key=True
        ),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("proof", sa.Text, nullable=False),
        sa.Column("known_since", sa.DateTime, nullable=False),
    )
