import pytest

from sums import add


def test_add():
    assert add(1, 2) == 3


def test_checked():
    with pytest.raises(AssertionError, match="no int"):
        add("a", "b")
