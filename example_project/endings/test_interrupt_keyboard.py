"""Ending interrupt.keyboard: somebody presses Ctrl+C while a test runs.

CAUTION: the second test sends SIGINT to the pytest process that runs it.
"""

import signal

from invoicing import Money


def test_before_the_interrupt() -> None:
    """Pass, before anything happens."""
    assert Money.of("1.00") + Money.of("2.00") == Money.of("3.00")


def test_interrupts_its_own_pytest() -> None:
    """Stop the run as Ctrl+C does."""
    # A background job of a shell ignores SIGINT until a handler is installed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def test_after_the_interrupt() -> None:
    """Never run."""
    assert Money.of("3.00") - Money.of("2.00") == Money.of("1.00")
