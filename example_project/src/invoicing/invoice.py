"""Invoices and their totals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from invoicing.money import Currency, Money
from invoicing.tax import STANDARD, TaxRate, tax_on


@dataclass(frozen=True, slots=True)
class Line:
    """One position of an invoice."""

    description: str
    unit_price: Money
    quantity: int = 1
    tax_rate: TaxRate = STANDARD

    @property
    def net(self) -> Money:
        """Return the amount before tax."""
        return self.unit_price * self.quantity


@dataclass(slots=True)
class Invoice:
    """A list of lines in one currency."""

    number: str
    currency: Currency = Currency.EUR
    lines: list[Line] = field(default_factory=list)

    @property
    def net(self) -> Money:
        """Return the sum of all lines before tax."""
        return sum((line.net for line in self.lines), start=Money(0, self.currency))

    def tax_by_rate(self) -> dict[TaxRate, Money]:
        """Return the tax that is due for each rate, in the order the rates first appear."""
        net_by_rate: dict[TaxRate, Money] = {}
        for line in self.lines:
            net = net_by_rate.get(line.tax_rate, Money(0, self.currency))
            net_by_rate[line.tax_rate] = net + line.net
        return {rate: tax_on(net, rate) for rate, net in net_by_rate.items()}

    @property
    def gross(self) -> Money:
        """Return the amount to pay, tax included."""
        return sum(self.tax_by_rate().values(), start=self.net)

    def total(self) -> Money:
        """Return `gross` under its old name."""
        warnings.warn(
            "Invoice.total() goes in 2.0; use Invoice.gross", DeprecationWarning, stacklevel=2
        )
        return self.gross
