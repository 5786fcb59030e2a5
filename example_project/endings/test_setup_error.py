"""Ending test.setup_error: the file that a fixture reads is missing."""

from pathlib import Path

import pytest

from invoicing import Money


@pytest.fixture
def price_list() -> dict[str, Money]:
    """Read the prices of all articles."""
    text = Path(__file__).with_name("price_list.csv").read_text(encoding="utf-8")
    return {name: Money.of(price) for name, price in (row.split(",") for row in text.split())}


def test_mug_has_a_price(price_list: dict[str, Money]) -> None:
    """The price list knows mugs."""
    assert "mug" in price_list


def test_money_needs_no_price_list() -> None:
    """A test without the fixture is not touched by its error."""
    assert Money.of("4.80").minor_units == 480
