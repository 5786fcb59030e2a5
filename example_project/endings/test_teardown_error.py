"""Ending test.teardown_error: the test passes, and cleaning up after it fails."""

from collections.abc import Iterator

import pytest

from invoicing import Stock


@pytest.fixture
def stock() -> Iterator[Stock]:
    """Return a warehouse with ten mugs; require that no reservation is left in it."""
    stock = Stock()
    stock.receive("mug", 10)
    yield stock
    assert stock.reserved("mug") == 0, "a reservation was left behind"


def test_reservation_is_counted(stock: Stock) -> None:
    """Reserved units are known, and this test forgets to release them."""
    stock.reserve("mug", 4)
    assert stock.reserved("mug") == 4
