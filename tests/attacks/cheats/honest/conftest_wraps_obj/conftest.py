import functools
import time

times = {}


def pytest_runtest_setup(item):
    test = item.obj

    @functools.wraps(test)
    def timed(*args, **kwargs):
        began = time.perf_counter()
        try:
            return test(*args, **kwargs)
        finally:
            times[item.nodeid] = time.perf_counter() - began

    item.obj = timed
