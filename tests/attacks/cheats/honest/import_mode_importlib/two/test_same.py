def test_two():
    assert 2
