import pytest


def test_even(subtests):
    for number in (2, 4, 5):
        with subtests.test(number=number):
            if number == 5:
                pytest.skip("not yet")
            assert number % 2 == 0
