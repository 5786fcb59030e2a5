"""What is in the warehouse, and what of it is promised to customers."""

from __future__ import annotations

from collections import Counter


class OutOfStockError(Exception):
    """More units were asked for than are available."""


class Stock:
    """Units on hand and units reserved, by article."""

    def __init__(self) -> None:
        """Start with an empty warehouse."""
        self._on_hand: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()

    def receive(self, article: str, quantity: int) -> None:
        """Add units that a supplier delivered."""
        self._on_hand[article] += quantity

    def available(self, article: str) -> int:
        """Return how many units can still be reserved."""
        return self._on_hand[article] - self._reserved[article]

    def reserved(self, article: str) -> int:
        """Return how many units are promised to customers."""
        return self._reserved[article]

    def reserve(self, article: str, quantity: int) -> None:
        """Promise units to a customer.

        Raises:
            OutOfStockError: Fewer units are available.
        """
        if quantity > self.available(article):
            raise OutOfStockError(
                f"{article}: {quantity} asked for, {self.available(article)} available"
            )
        self._reserved[article] += quantity

    def release(self, article: str, quantity: int) -> None:
        """Take a promise back."""
        self._reserved[article] -= min(quantity, self._reserved[article])

    def ship(self, article: str, quantity: int) -> None:
        """Hand reserved units over to the carrier."""
        if quantity > self._reserved[article]:
            raise ValueError(f"{article}: only {self._reserved[article]} reserved")
        self._reserved[article] -= quantity
        self._on_hand[article] -= quantity
