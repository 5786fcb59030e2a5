from snapshots import snapshot


def test_answer():
    assert 6 * 7 == snapshot()
