"""Value-added tax on a net amount."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from invoicing.money import Money


@dataclass(frozen=True, slots=True)
class TaxRate:
    """A named rate of value-added tax."""

    name: str
    percent: Decimal


STANDARD = TaxRate("standard", Decimal(20))
REDUCED = TaxRate("reduced", Decimal(5))
ZERO = TaxRate("zero", Decimal(0))


def tax_on(net: Money, rate: TaxRate) -> Money:
    """Return the tax that is due on a net amount, to the nearest minor unit."""
    exact = Decimal(net.minor_units) * rate.percent / 100
    return Money(round(exact), net.currency)
