"""Ending warnings.exceeded: every test passes, with more warnings than the run allows."""

import pytest

from invoicing import STANDARD, Invoice, Line, Money


@pytest.mark.parametrize(("quantity", "total"), [(1, "6.00"), (2, "12.00"), (3, "18.00")])
def test_total_by_its_old_name(quantity: int, total: str) -> None:
    """The deprecated method still answers, and warns each time."""
    invoice = Invoice("2024-0019", lines=[Line("mug", Money.of("5.00"), quantity, STANDARD)])
    assert invoice.total() == Money.of(total)
