from prices import with_tax


def test_no_tax():
    assert with_tax(100, 0) == 100


def test_tax():
    assert with_tax(100, 0.2) == 120
