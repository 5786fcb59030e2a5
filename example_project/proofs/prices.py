"""Prices, with a rate that tests can change for all others: it belongs to the module."""

from __future__ import annotations

RATE = 0.2


def with_tax(net: float) -> float:
    """Return a price with the tax on it, in whole cents."""
    return round(net * (1 + RATE), 2)
