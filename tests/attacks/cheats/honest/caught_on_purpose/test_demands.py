import pytest

from demands import demand


def test_not_met():
    with pytest.raises(AssertionError, match="not met"):
        demand(False)


def test_caught():
    try:
        demand(False)
    except AssertionError as error:
        assert str(error) == "not met"
