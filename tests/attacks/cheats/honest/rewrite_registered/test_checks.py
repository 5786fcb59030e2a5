from checks import check
from plain import positive


def test_check():
    check(positive(1))
