import pytest


@pytest.mark.xfail(strict=True, reason="issue 3")
def test_divide():
    assert 4 / 2 == 2
