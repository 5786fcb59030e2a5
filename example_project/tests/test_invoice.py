"""The totals of an invoice follow from its lines."""

import pytest

from invoicing import REDUCED, STANDARD, Invoice, Line, Money


@pytest.fixture
def invoice() -> Invoice:
    """Return an invoice for four mugs and two books."""
    return Invoice(
        "2024-0017",
        lines=[
            Line("mug", Money.of("4.80"), quantity=4),
            Line("book", Money.of("12.00"), quantity=2, tax_rate=REDUCED),
        ],
    )


def test_net_is_the_sum_of_the_lines(invoice: Invoice) -> None:
    """Four mugs and two books cost 43.20 before tax."""
    assert invoice.net == Money.of("43.20")


def test_tax_is_listed_by_rate(invoice: Invoice) -> None:
    """Mugs are taxed at the standard rate and books at the reduced one."""
    assert invoice.tax_by_rate() == {STANDARD: Money.of("3.84"), REDUCED: Money.of("1.20")}


def test_gross_includes_the_tax(invoice: Invoice) -> None:
    """The customer pays net and tax."""
    assert invoice.gross == Money.of("48.24")


def test_empty_invoice_is_free() -> None:
    """An invoice without lines has a total of zero."""
    assert Invoice("2024-0018").gross == Money(0)
