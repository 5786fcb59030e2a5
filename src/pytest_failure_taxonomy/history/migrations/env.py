"""Run by Alembic, with the connection that `database` has begun a transaction on."""

from __future__ import annotations

from alembic import context

from pytest_failure_taxonomy.history.database import VERSION_TABLE
from pytest_failure_taxonomy.history.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the transaction is that of whoever opens the history
)
context.run_migrations()
