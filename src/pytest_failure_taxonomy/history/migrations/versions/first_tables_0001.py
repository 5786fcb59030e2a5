"""The first tables, where the migrations begin.

A new database is made of `tables` as they are now, so nothing is done here.

Revision ID: 0001
"""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing."""
