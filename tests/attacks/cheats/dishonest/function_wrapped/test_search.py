from search import find


def test_absent():
    assert find([1, 3, 5], 4) is None


def test_first():
    assert find([1, 3, 5, 7], 3) == 1
