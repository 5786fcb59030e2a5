"""Discounts on a price."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from invoicing.money import Money


def take_percent_off(price: Money, percent: Decimal) -> Money:
    """Return the price less a percentage of it.

    Args:
        price: The price before the discount.
        percent: The discount, from 0 to 100.

    Returns:
        The price to pay, rounded half up to a minor unit.

    Raises:
        ValueError: The percentage is not between 0 and 100.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} %: a discount is between 0 and 100 %")
    return price.scaled(1 - percent / 100)


@dataclass(frozen=True, slots=True)
class VolumeDiscount:
    """A discount that grows with the quantity."""

    percent_by_quantity: dict[int, Decimal]
    """The smallest quantity of each tier and the tier's discount in percent."""

    def percent_for(self, quantity: int) -> Decimal:
        """Return the discount of the highest tier that the quantity reaches."""
        reached = [least for least in self.percent_by_quantity if least <= quantity]
        return self.percent_by_quantity[max(reached)] if reached else Decimal(0)

    def price_of(self, unit_price: Money, quantity: int) -> Money:
        """Return what so many units cost together."""
        return take_percent_off(unit_price * quantity, self.percent_for(quantity))
