import functools


def retry(times):
    def decorate(test):
        @functools.wraps(test)
        def wrapped(*args, **kwargs):
            for left in reversed(range(times)):
                try:
                    return test(*args, **kwargs)
                except ConnectionError:
                    if not left:
                        raise

        return wrapped

    return decorate
