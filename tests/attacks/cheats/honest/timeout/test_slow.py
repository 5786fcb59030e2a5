import time

import pytest


@pytest.mark.timeout(5)
def test_slow():
    time.sleep(0.4)
