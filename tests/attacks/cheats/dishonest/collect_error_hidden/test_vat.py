from vat import rate


def test_rate():
    assert rate("fr") == 0.2
