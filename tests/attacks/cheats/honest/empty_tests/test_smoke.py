import sums


def test_imports():
    pass


def test_call():
    sums.add(1, 2)


def test_documented():
    """Only a docstring."""
