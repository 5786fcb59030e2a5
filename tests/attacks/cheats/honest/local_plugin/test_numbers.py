def test_sum(three, four):
    assert three + four == 7
