"""Tax is due to the nearest cent."""

import pytest

from invoicing import REDUCED, STANDARD, ZERO, Currency, Money, TaxRate, tax_on


@pytest.mark.parametrize(
    ("net", "rate", "tax"),
    [
        ("100.00", STANDARD, "20.00"),
        ("9.99", STANDARD, "2.00"),
        ("9.99", REDUCED, "0.50"),
        ("9.99", ZERO, "0.00"),
    ],
)
def test_rate_is_applied(net: str, rate: TaxRate, tax: str) -> None:
    """Each rate takes its percentage of the net amount."""
    assert tax_on(Money.of(net), rate) == Money.of(tax)


def test_tax_keeps_the_currency() -> None:
    """Tax on yen is due in whole yen."""
    assert tax_on(Money.of("1234", Currency.JPY), STANDARD) == Money.of("247", Currency.JPY)


def test_half_a_cent_is_rounded_up() -> None:
    """Five percent of 2.50 are 12.5 cents, and 13 cents are due."""
    assert str(tax_on(Money.of("2.50"), REDUCED)) == "0.13 EUR"
