import pytest

done = []


@pytest.mark.order(2)
def test_second():
    assert done == ["first"]


@pytest.mark.order(1)
def test_first():
    done.append("first")
