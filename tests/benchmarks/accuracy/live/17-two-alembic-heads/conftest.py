from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config


@pytest.fixture(scope="session", autouse=True)
def migrated():
    command.upgrade(Config(Path(__file__).parent / "alembic.ini"), "head")
