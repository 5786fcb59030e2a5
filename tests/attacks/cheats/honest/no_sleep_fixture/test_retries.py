import pytest

from retries import retry


def fail():
    raise OSError


def test_waits(waits):
    with pytest.raises(TimeoutError):
        retry(fail)
    assert waits == [1, 2, 4]
