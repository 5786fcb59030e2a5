from money import Money


def test_sum():
    assert Money(100) + Money(50) == Money(150)
