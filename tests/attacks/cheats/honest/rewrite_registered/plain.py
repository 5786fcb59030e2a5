"""PYTEST_DONT_REWRITE"""


def positive(number):
    assert number > 0
    return number
