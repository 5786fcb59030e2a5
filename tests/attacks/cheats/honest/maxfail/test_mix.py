def test_one():
    assert 0


def test_two():
    pass
