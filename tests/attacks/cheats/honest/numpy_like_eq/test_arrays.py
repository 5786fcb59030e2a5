import pytest

from arrays import Array


def test_equal():
    assert (Array(1, 2) == Array(1, 2)).all()


def test_ambiguous():
    with pytest.raises(ValueError):
        assert Array(1) == Array(1)
