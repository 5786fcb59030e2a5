import pytest


@pytest.mark.slow
def test_all():
    assert sum(range(1000)) == 499500
