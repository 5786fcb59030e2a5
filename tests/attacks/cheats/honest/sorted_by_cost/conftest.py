import pytest


@pytest.fixture(scope="session")
def db():
    return {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = sorted(items, key=lambda item: "db" in item.fixturenames)
