"""Ending collection.error: a test module imports what the package does not have."""

from invoicing import Money
from invoicing.refunds import refund  # type: ignore[import-not-found]  # the point of this file


def test_refund_is_negative() -> None:
    """A refund takes money back."""
    assert refund(Money.of("4.80")) == Money.of("-4.80")
