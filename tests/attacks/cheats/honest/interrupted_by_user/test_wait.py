import signal


def test_ready():
    pass


def test_waits():
    signal.raise_signal(signal.SIGINT)


def test_later():
    pass
