"""Discounts lower a price, by percentage and by quantity."""

from decimal import Decimal

import pytest

from invoicing import Money, VolumeDiscount, take_percent_off

TIERS = VolumeDiscount({10: Decimal(5), 100: Decimal("12.5")})


def test_percentage_is_taken_off() -> None:
    """Fifteen percent of twenty euros are three."""
    assert take_percent_off(Money.of("20.00"), Decimal(15)) == Money.of("17.00")


@pytest.mark.parametrize("percent", [Decimal(-1), Decimal("100.1")])
def test_impossible_percentage_is_refused(percent: Decimal) -> None:
    """A discount below zero or above the price is an error."""
    with pytest.raises(ValueError, match="between 0 and 100"):
        take_percent_off(Money.of("20.00"), percent)


@pytest.mark.parametrize(
    ("quantity", "percent"), [(1, "0"), (9, "0"), (10, "5"), (99, "5"), (100, "12.5")]
)
def test_quantity_selects_the_tier(quantity: int, percent: str) -> None:
    """A tier starts at its smallest quantity."""
    assert TIERS.percent_for(quantity) == Decimal(percent)


def test_volume_discount_applies_to_the_whole_quantity() -> None:
    """A hundred mugs at 4.80 cost 420.00."""
    assert TIERS.price_of(Money.of("4.80"), 100) == Money.of("420.00")
