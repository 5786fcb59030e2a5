"""What runs had installed.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of environments, and let runs refer to it."""
    op.create_table(
        "ft_environments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(32), nullable=False, unique=True),
        sa.Column("installed", sa.Text, nullable=False),
    )
    op.add_column("ft_runs", sa.Column("environment_id", sa.Integer))
