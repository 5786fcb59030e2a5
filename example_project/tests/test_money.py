"""Money is exact, and its currencies do not mix."""

from decimal import Decimal

import pytest

from invoicing import Currency, CurrencyMismatchError, Money


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("12.5", Currency.EUR, "12.50 EUR"),
        ("-0.01", Currency.GBP, "-0.01 GBP"),
        ("1200", Currency.JPY, "1200 JPY"),
    ],
)
def test_text_shows_every_minor_digit(amount: str, currency: Currency, text: str) -> None:
    """An amount is shown with the decimal places of its currency."""
    assert str(Money.of(amount, currency)) == text


def test_too_many_decimal_places_are_refused() -> None:
    """An amount that the currency can't hold is an error, not rounded."""
    with pytest.raises(ValueError, match="too many decimal places"):
        Money.of("0.5", Currency.JPY)


def test_sum_and_difference_are_exact() -> None:
    """Three times ten cents less thirty cents is nothing."""
    ten_cents = Money.of("0.10")
    assert ten_cents + ten_cents + ten_cents - Money.of("0.30") == Money(0)


def test_currencies_do_not_mix() -> None:
    """Euros and pounds can't be added."""
    with pytest.raises(CurrencyMismatchError, match="EUR and GBP"):
        Money.of("1") + Money.of("1", Currency.GBP)


def test_scaling_rounds_half_up() -> None:
    """Half a cent becomes a whole one."""
    assert Money.of("0.25").scaled(Decimal("0.5")) == Money.of("0.13")


@pytest.mark.parametrize(
    ("weights", "shares"),
    [((1, 1, 1), (34, 33, 33)), ((3, 1), (75, 25)), ((0, 1), (0, 100))],
)
def test_allocation_loses_nothing(weights: tuple[int, ...], shares: tuple[int, ...]) -> None:
    """The shares of an amount add up to it."""
    assert Money.of("1.00").allocate(weights) == [Money(share) for share in shares]
