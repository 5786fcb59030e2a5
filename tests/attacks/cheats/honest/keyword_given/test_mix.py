def test_one():
    pass


def test_other():
    assert 0


def test_one_more():
    assert 0
