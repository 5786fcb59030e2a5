from initials import initials


def test_two():
    assert initials("Ada Lovelace") == "AL"


def test_trailing_blank():
    assert initials("Ada Lovelace ") == "AL"
