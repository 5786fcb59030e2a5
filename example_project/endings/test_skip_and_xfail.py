"""No failure: a test that is skipped and one that is expected to fail."""

import pytest

from invoicing import REDUCED, Money, tax_on


@pytest.mark.skip(reason="the printer is in another building")
def test_invoice_is_printed() -> None:
    """Compare the printed page with the invoice."""
    raise NotImplementedError


@pytest.mark.xfail(reason="tax_on rounds half to even")
def test_half_a_cent_is_rounded_up() -> None:
    """The bug that `tests/test_tax.py` finds, known and expected."""
    assert str(tax_on(Money.of("2.50"), REDUCED)) == "0.13 EUR"


def test_whole_cents_need_no_rounding() -> None:
    """Five percent of 2.00 are ten cents."""
    assert str(tax_on(Money.of("2.00"), REDUCED)) == "0.10 EUR"
