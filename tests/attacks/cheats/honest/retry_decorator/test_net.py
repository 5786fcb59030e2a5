from retrying import retry

tries = []


@retry(3)
def test_get():
    tries.append(1)
    if len(tries) < 3:
        raise ConnectionError
    assert len(tries) == 3
