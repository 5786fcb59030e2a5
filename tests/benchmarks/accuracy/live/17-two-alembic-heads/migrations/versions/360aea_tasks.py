"""tasks"""

from alembic import op
import sqlalchemy as sa

revision = "360aea89443f"
down_revision = "2f60bb92411f"


def upgrade():
    op.create_table("tasks", sa.Column("id", sa.Integer, primary_key=True))


def downgrade():
    op.drop_table("tasks")
