import pytest
from backend import lock


@pytest.mark.optional
def test_lock():
    lock()
