"""Ending tests.none_collected: no name in this module starts with `test`."""

from invoicing import REDUCED, Money, tax_on


def check_that_books_are_taxed_less() -> None:
    """Look like a test, and never run as one."""
    assert tax_on(Money.of("10.00"), REDUCED) == Money.of("0.50")
