def test_satoshi():
    assert 100_000_000 * 1e-8 == 1
