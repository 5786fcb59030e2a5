import pytest

tries = []


@pytest.mark.unsteady(runs=3)
def test_second_try():
    tries.append(1)
    assert len(tries) == 2
