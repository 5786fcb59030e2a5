import pytest


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    return waits
