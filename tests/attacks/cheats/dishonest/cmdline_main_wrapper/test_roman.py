from roman import to_roman


def test_seven():
    assert to_roman(7) == "VII"


def test_four():
    assert to_roman(4) == "IV"
