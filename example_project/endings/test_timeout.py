"""Ending test.timeout: pytest-timeout interrupts one test by a signal, and the run goes on."""

import time

import pytest

from invoicing import Stock


@pytest.mark.timeout(0.5, method="signal")
def test_delivery_arrives() -> None:
    """Wait for mugs that nobody sends."""
    stock = Stock()
    while not stock.available("mug"):
        time.sleep(0.05)


def test_empty_warehouse_has_no_mugs() -> None:
    """The test after the one that hangs still runs."""
    assert Stock().available("mug") == 0
