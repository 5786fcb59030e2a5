"""koji"""

from alembic import op
import sqlalchemy as sa

revision = "ae776dc8160b"
down_revision = "2f60bb92411f"


def upgrade():
    op.create_table("koji", sa.Column("id", sa.Integer, primary_key=True))


def downgrade():
    op.drop_table("koji")
