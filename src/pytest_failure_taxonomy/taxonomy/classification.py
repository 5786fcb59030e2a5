"""Classify one failure: the reason and kind of a test's, or of an error outside of the tests."""

from __future__ import annotations

from pytest_failure_taxonomy.taxonomy.deaths import is_used_up
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    RaisedException,
    RunError,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.failure_text import failure_type_of
from pytest_failure_taxonomy.taxonomy.failure_types import FailureType
from pytest_failure_taxonomy.taxonomy.findings import reason_of
from pytest_failure_taxonomy.taxonomy.kinds import PHASE_KINDS
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason


def classify_test_failure(failure: TestFailure) -> tuple[FailureReason, str]:
    """Return reason and kind of one failed test."""
    if failure.attributed is not None:
        return failure.attributed.reason, failure.attributed.kind
    if is_timeout(failure):
        kind = "test.timeout"
    elif failure.crashed:
        kind = "test.crashed" if failure.forked else "worker.crashed"
    elif is_strict_xpass(failure):
        kind = "test.xpass_strict"
    else:
        kind = PHASE_KINDS[failure.phase]
    return reason_of(kind), kind


def type_of_test_failure(failure: TestFailure) -> FailureType:
    """Return what sort of recovery a failed test takes."""
    return _type_of(failure.exception, failure.message, collecting=False)


def type_of_collection_failure(failure: CollectionFailure) -> FailureType:
    """Return what sort of recovery a node takes that could not be collected."""
    return _type_of(failure.exception, failure.message, collecting=True)


def type_of_run_error(error: RunError) -> FailureType:
    """Return what sort of recovery an error outside of the tests takes."""
    return failure_type_of(None, None, (), error.message, collecting=error.origin == "conftest")


def _type_of(raised: RaisedException | None, message: str, *, collecting: bool) -> FailureType:
    if raised is None:
        return failure_type_of(None, None, (), message, collecting=collecting)
    return failure_type_of(
        raised.type, raised.module, raised.bases, raised.message, collecting=collecting
    )


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
