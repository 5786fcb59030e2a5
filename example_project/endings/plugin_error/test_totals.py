"""A healthy test, whose run fails all the same."""

from invoicing import Invoice, Line, Money


def test_gross_includes_the_tax() -> None:
    """Twenty percent are added."""
    assert Invoice("2024-0020", lines=[Line("mug", Money.of("5.00"))]).gross == Money.of("6.00")
