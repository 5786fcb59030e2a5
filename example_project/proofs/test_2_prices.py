"""A victim: it passes alone, and fails after `test_a_reduced_rate`."""

import prices


def test_the_tax() -> None:
    """The ordinary rate is 20 %."""
    assert prices.with_tax(10) == 12
