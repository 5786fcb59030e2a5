"""The migrations of the history, run by Alembic when a history is opened."""
