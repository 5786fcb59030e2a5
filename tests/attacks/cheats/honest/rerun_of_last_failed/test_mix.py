def test_good():
    pass


def test_bad():
    assert 0
