import time


def retry(call):
    for wait in (1, 2, 4):
        try:
            return call()
        except OSError:
            time.sleep(wait)
    raise TimeoutError
