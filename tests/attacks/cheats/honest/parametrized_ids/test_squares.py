import pytest


def test_square(number, square):
    assert number * number == square


@pytest.mark.parametrize("nothing", [])
def test_empty(nothing):
    assert 0
