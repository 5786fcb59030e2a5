"""Fixtures that several test modules share."""

import pytest

from invoicing import Stock


@pytest.fixture
def stock() -> Stock:
    """Return a warehouse with ten mugs."""
    stock = Stock()
    stock.receive("mug", 10)
    return stock
