def test_bad():
    assert 0
