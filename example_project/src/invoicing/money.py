"""Amounts of money, held as whole minor units (cents, pence, yen)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum


class CurrencyMismatchError(ValueError):
    """Two amounts of different currencies met in one operation."""


class Currency(StrEnum):
    """A currency that invoices can be written in."""

    EUR = "EUR"
    GBP = "GBP"
    JPY = "JPY"

    @property
    def minor_digits(self) -> int:
        """Return how many decimal places an amount of this currency has."""
        return 0 if self is Currency.JPY else 2


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount of one currency."""

    minor_units: int
    currency: Currency = Currency.EUR

    @classmethod
    def of(cls, amount: str, currency: Currency = Currency.EUR) -> Money:
        """Read an amount in major units.

        Args:
            amount: A decimal number, such as `"12.50"`.
            currency: The currency of the amount.

        Returns:
            The exact amount.

        Raises:
            ValueError: The amount has more decimal places than the currency.
        """
        minor_units = Decimal(amount).scaleb(currency.minor_digits)
        if minor_units != minor_units.to_integral_value():
            raise ValueError(f"{amount} {currency}: too many decimal places")
        return cls(int(minor_units), currency)

    def __add__(self, other: Money) -> Money:
        self._require_same_currency(other)
        return Money(self.minor_units + other.minor_units, self.currency)

    def __sub__(self, other: Money) -> Money:
        self._require_same_currency(other)
        return Money(self.minor_units - other.minor_units, self.currency)

    def __mul__(self, quantity: int) -> Money:
        return Money(self.minor_units * quantity, self.currency)

    def __str__(self) -> str:
        amount = Decimal(self.minor_units).scaleb(-self.currency.minor_digits)
        return f"{amount:.{self.currency.minor_digits}f} {self.currency}"

    def scaled(self, factor: Decimal) -> Money:
        """Multiply by a factor; round half a minor unit away from zero."""
        exact = Decimal(self.minor_units) * factor
        return Money(int(exact.to_integral_value(rounding=ROUND_HALF_UP)), self.currency)

    def allocate(self, weights: Sequence[int]) -> list[Money]:
        """Split the amount by weights and lose no minor unit.

        Args:
            weights: One whole number a share, not all of them zero.

        Returns:
            One amount a share; what does not divide goes to the first shares.
        """
        total = sum(weights)
        shares = [self.minor_units * weight // total for weight in weights]
        for index in range(self.minor_units - sum(shares)):
            shares[index] += 1
        return [Money(share, self.currency) for share in shares]

    def _require_same_currency(self, other: Money) -> None:
        if other.currency is not self.currency:
            raise CurrencyMismatchError(f"{self.currency} and {other.currency} do not mix")
