"""Ending session.timeout: every test passes, and all of them together take too long."""

import time

import pytest

from invoicing import STANDARD, Money, tax_on


@pytest.mark.parametrize("euros", range(40))
def test_slow_tax_office(euros: int) -> None:
    """Ask for the tax on a whole amount, which takes a moment."""
    time.sleep(0.1)
    assert tax_on(Money.of(f"{euros}"), STANDARD) == Money(euros * 20)
