from passwords import is_strong


def test_strong():
    assert is_strong("correct horse 4 battery")


def test_short():
    assert not is_strong("a1")
