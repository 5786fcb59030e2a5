"""Ending interrupt.exit: a test ends the whole run by `pytest.exit`."""

import pytest

from invoicing import Money


def test_before_the_exit() -> None:
    """Pass, before anything happens."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


def test_ends_the_run() -> None:
    """Give up on everything that comes after."""
    pytest.exit("the tax office is closed, no test below can pass", returncode=42)


def test_after_the_exit() -> None:
    """Never run."""
    assert Money.of("3.00") - Money.of("2.00") == Money.of("1.00")
