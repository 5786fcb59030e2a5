"""Endings test.timeout and process.timeout: a test hangs until something ends the process.

CAUTION: run it only under a limit, by one of the commands in the README.
"""

import time

from invoicing import Stock


def test_before_the_hang() -> None:
    """Pass, before anything happens."""
    assert Stock().available("mug") == 0


def test_waits_for_a_delivery() -> None:
    """Wait half a minute for mugs that nobody sends."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.05)


def test_after_the_hang() -> None:
    """Run only where nothing has set a limit."""
    assert Stock().reserved("mug") == 0
