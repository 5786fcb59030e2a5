from poll import wait_for


def test_ready():
    assert wait_for(lambda: True)


def test_gives_up_soon():
    assert not wait_for(lambda: False)
