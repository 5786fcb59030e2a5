"""Nothing is promised twice, and nothing is shipped that was not promised."""

import pytest

from invoicing import OutOfStockError, Stock


def test_reservation_lowers_what_is_available(stock: Stock) -> None:
    """Reserved units can't be reserved again."""
    stock.reserve("mug", 4)
    assert stock.available("mug") == 6


def test_reserving_too_much_is_refused(stock: Stock) -> None:
    """The eleventh mug can't be promised."""
    with pytest.raises(OutOfStockError, match="mug: 11 asked for, 10 available"):
        stock.reserve("mug", 11)


def test_release_makes_units_available_again(stock: Stock) -> None:
    """A cancelled order gives its units back."""
    stock.reserve("mug", 4)
    stock.release("mug", 4)
    assert stock.available("mug") == 10


def test_shipping_uses_the_reservation_up(stock: Stock) -> None:
    """Shipped units are neither reserved nor available."""
    stock.reserve("mug", 4)
    stock.ship("mug", 4)
    assert (stock.reserved("mug"), stock.available("mug")) == (0, 6)


def test_only_reserved_units_are_shipped(stock: Stock) -> None:
    """What was not promised stays in the warehouse."""
    with pytest.raises(ValueError, match="only 0 reserved"):
        stock.ship("mug", 1)


def test_unknown_article_is_out_of_stock(stock: Stock) -> None:
    """An article that was never received has no units."""
    assert stock.available("teapot") == 0
