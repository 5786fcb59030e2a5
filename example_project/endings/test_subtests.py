"""Ending test.failed, several times in one test: two of its three subtests fail."""

from decimal import Decimal

import pytest

from invoicing import Money, TaxRate, tax_on


def test_half_a_cent_is_rounded_up_at_every_rate(subtests: pytest.Subtests) -> None:
    """The bug that `tests/test_tax.py` finds, seen at three amounts."""
    for net, tax in [("0.10", "0.01"), ("0.30", "0.02"), ("0.50", "0.03")]:
        with subtests.test(net=net):
            assert str(tax_on(Money.of(net), TaxRate("low", Decimal(5)))) == f"{tax} EUR"
