"""Ending sandbox.printer: a test that knows better says so, by the fixture of the plugin."""

import os

from pytest_failure_taxonomy.hooks.attribution import FailureTaxonomy


def test_invoice_is_printed(failure_taxonomy: FailureTaxonomy) -> None:
    """Print an invoice, where there is a printer."""
    printer = os.environ.get("INVOICING_PRINTER")
    if printer is None:
        failure_taxonomy.record("SANDBOX_ERROR", "sandbox.printer", "no printer is set up")
    assert printer, "INVOICING_PRINTER names no printer"
