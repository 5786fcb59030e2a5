import pytest

from heat import to_celsius


def test_boiling():
    assert to_celsius(212) == pytest.approx(100)
