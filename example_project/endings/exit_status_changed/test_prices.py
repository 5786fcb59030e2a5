"""Healthy tests that leave one currency out."""

from collections.abc import Callable

import pytest

from invoicing import Currency, Money


@pytest.mark.parametrize("currency", [Currency.EUR, Currency.GBP])
def test_price_has_two_decimal_places(
    price: Callable[[str, Currency], Money], currency: Currency
) -> None:
    """Cents and pence are hundredths."""
    assert price("4.80", currency).minor_units == 480
