import pytest


@pytest.mark.xfail(strict=True, reason="ticket 3")
def test_divide():
    assert 4 / 2 == 2
