import sys

import pytest


@pytest.mark.broken_on(sys.platform, "ticket 12")
def test_long_path():
    assert len("x" * 300) < 256
