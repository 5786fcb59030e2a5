import pytest

turbo = pytest.importorskip("turbo_sums_that_nobody_has")


def test_turbo():
    assert turbo.add(1, 2) == 3
