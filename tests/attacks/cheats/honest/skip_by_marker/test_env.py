import pytest


@pytest.mark.env("stage2")
def test_stage():
    assert 0


def test_anywhere():
    pass
