import sys

import pytest

from jobs import Jobs


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")
def test_order():
    jobs = Jobs()
    jobs.put("wash")
    jobs.put("dry")
    assert jobs.take() == "wash"
