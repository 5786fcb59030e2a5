import time

import pytest


@pytest.mark.parametrize("number", range(4))
def test_put_and_get(cache, number):
    time.sleep(0.2)
    cache.put(f"file{number}", f"hash{number}")
    assert cache.get(f"file{number}") == f"hash{number}"
