"""A polluter: it leaves another tax rate behind than it has found."""

import prices


def test_a_reduced_rate() -> None:
    """Books have a reduced rate."""
    prices.RATE = 0.07
    assert prices.with_tax(100) == 107
