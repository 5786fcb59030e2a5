"""Classify one failure: the reason and kind of a test's, or of an error outside of the tests."""

from __future__ import annotations

from pytest_failure_taxonomy.taxonomy.deaths import is_used_up
from pytest_failure_taxonomy.taxonomy.evidence import RunError, TestFailure
from pytest_failure_taxonomy.taxonomy.findings import reason_of
from pytest_failure_taxonomy.taxonomy.kinds import PHASE_KINDS
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason


def classify_test_failure(failure: TestFailure) -> tuple[FailureReason, str]:
    """Return reason and kind of one failed test."""
    if failure.attributed is not None:
        return failure.attributed
    if failure.crashed:
        kind = "worker.crashed"
        if is_used_up(failure.limit):
            return FailureReason.TIMEOUT, kind
    elif is_timeout(failure):
        kind = "test.timeout"
    elif is_strict_xpass(failure):
        kind = "test.xpass_strict"
    else:
        kind = PHASE_KINDS[failure.phase]
    return reason_of(kind), kind


def is_timeout(failure: TestFailure) -> bool:
    """Tell whether pytest-timeout ended this test.

    By its thread method it ends the process, too, and says nothing; the limit was used up then. By
    its signal method it calls `pytest.fail` from its own module. The wording can't be relied on: it
    changed in pytest-timeout 2.4.
    """
    if failure.crashed:
        return is_used_up(failure.limit)
    raised = failure.exception
    return raised is not None and (raised.type, raised.raised_in) == ("Failed", "pytest_timeout")


def is_strict_xpass(failure: TestFailure) -> bool:
    """Tell whether the test failed by passing: no exception, and pytest's own wording."""
    return failure.exception is None and failure.message.startswith("[XPASS(strict)]")


def classify_run_error(error: RunError) -> tuple[FailureReason, str]:
    """Return reason and kind of an error outside of the tests."""
    kind = f"{error.origin}.error"
    return reason_of(kind), kind
