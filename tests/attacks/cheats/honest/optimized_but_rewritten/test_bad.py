def test_bad():
    assert 1 == 2
