import pytest


@pytest.mark.xfail(strict=True, raises=ZeroDivisionError, reason="ticket 3")
def test_divide():
    assert 1 / 0


@pytest.mark.xfail(reason="sometimes")
def test_lenient():
    assert 1
