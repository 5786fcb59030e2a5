"""users"""

from alembic import op
import sqlalchemy as sa

revision = "2f60bb92411f"
down_revision = None


def upgrade():
    op.create_table("users", sa.Column("id", sa.Integer, primary_key=True))


def downgrade():
    op.drop_table("users")
