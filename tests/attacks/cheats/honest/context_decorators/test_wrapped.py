import contextlib


@contextlib.contextmanager
def transaction():
    yield


def logged(test):
    def test_logged():
        print("begin")
        test()

    return test_logged


@transaction()
def test_in_transaction():
    assert 1


@logged
def test_is_logged():
    assert 1
