"""A history on each of the databases that are supported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_failure_taxonomy.history import History, open_history
from tests.helpers.postgresql import Cluster, started_cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """Start a server for the tests of this process."""
    with started_cluster() as cluster:
        yield cluster


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.room("history")),
    ]
)
def history_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new database, which is empty."""
    if request.param == "sqlite":
        return str(tmp_path / "h.db")
    cluster: Cluster = request.getfixturevalue("postgresql")
    return cluster.new_database()


@pytest.fixture
def history(history_url: str) -> Iterator[History]:
    """Open a new history."""
    with open_history(history_url) as opened:
        yield opened
