from money import Money


def test_equal():
    assert Money(100) == Money(150)
