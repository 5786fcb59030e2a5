"""The story of an order, told by tests that depend on their order."""

from invoicing import Stock


def test_order_is_placed() -> None:
    """A mug is reserved."""
    stock = Stock()
    stock.receive("mug", 1)
    stock.reserve("mug", 1)
    assert stock.available("mug") == 0


def test_order_is_paid() -> None:
    """A paid mug is shipped."""
    stock = Stock()
    stock.receive("mug", 1)
    stock.reserve("mug", 1)
    stock.ship("mug", 1)
    assert stock.reserved("mug") == 0


def test_order_is_cancelled() -> None:
    """A cancelled mug goes back; the conftest was not told about this test."""
    stock = Stock()
    stock.receive("mug", 1)
    stock.reserve("mug", 1)
    stock.release("mug", 1)
    assert stock.available("mug") == 1
