import contextlib

import pytest


@contextlib.contextmanager
def raises(kind, code):
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.args[0] == code
