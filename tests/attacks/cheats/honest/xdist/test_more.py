import pytest


@pytest.mark.parametrize("number", range(6))
def test_below_five(number):
    assert number < 5
