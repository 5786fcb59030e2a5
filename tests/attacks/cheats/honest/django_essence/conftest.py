import db
import pytest


def blocked(row):
    raise RuntimeError("Database access not allowed, use the db mark")


def pytest_configure(config):
    config.addinivalue_line("markers", "db: may use the database")


@pytest.fixture(autouse=True)
def _database(request, monkeypatch):
    if request.node.get_closest_marker("db") is None:
        monkeypatch.setattr(db, "insert", blocked)
    yield
    db.rows.clear()
