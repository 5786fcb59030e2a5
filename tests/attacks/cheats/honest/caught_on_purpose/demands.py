def demand(condition):
    assert condition, "not met"
