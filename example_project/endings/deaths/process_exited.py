"""Ending process.exited: the process leaves in the middle, and its exit code says success.

CAUTION: the second test ends the process that runs it.
"""

import os

from invoicing import Money


def test_before_the_death() -> None:
    """Pass, before anything happens."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


def test_leaves_the_process() -> None:
    """End as a forked child that was meant to call `os._exit` alone."""
    os._exit(0)


def test_after_the_death() -> None:
    """Never run: a bug that only this test would find stays hidden."""
    assert Money.of("3.00") - Money.of("2.00") == Money.of("1.00")
