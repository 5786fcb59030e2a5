import pytest

tries = []


@pytest.mark.flaky(reruns=2)
def test_second_try():
    tries.append(1)
    assert len(tries) == 2


def test_wrong():
    assert 1 + 1 == 3
