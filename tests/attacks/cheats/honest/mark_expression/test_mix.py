import pytest


@pytest.mark.gpu
def test_gpu():
    assert 0


def test_cpu():
    pass
