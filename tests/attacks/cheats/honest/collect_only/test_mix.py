def test_one():
    assert 0
