import pytest


@pytest.fixture
def file():
    yield "open"
    raise OSError("not closed")


def test_open(file):
    assert file == "open"
