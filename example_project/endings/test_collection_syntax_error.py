"""Ending collection.error: a test module that Python can't parse."""

from invoicing import Money


def test_sum_is_exact() -> None
    """The line above has lost its colon."""
    assert Money.of("0.10") + Money.of("0.20") == Money.of("0.30")
