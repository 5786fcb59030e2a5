import functools
import shutil

import pytest


def needs(program):
    def decorate(test):
        @functools.wraps(test)
        def wrapped(*args, **kwargs):
            if shutil.which(program) is None:
                pytest.skip(f"needs {program}")
            return test(*args, **kwargs)

        return wrapped

    return decorate
