"""Classify one failure: the reason and kind of a test's, or of an error outside of the tests."""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.taxonomy.deaths import is_used_up
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    RunError,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.failure_text import (
    failure_type_at_head,
    failure_type_of,
)
from pytest_failure_taxonomy.taxonomy.kinds import KINDS, PHASE_KINDS, reason_of
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.recovery import FailureType

_LASTING: Final = frozenset({FailureType.VERIFICATION_FAILED, FailureType.BROKEN_BUILD})
"""Types of failures that the same run again does not mend."""

_SERVICES: Final = ("sandbox.", "llm.", "tool.", "git.")
"""How the kinds begin that the exceptions of well-known libraries give."""


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
    """Return what sort of recovery a failed test takes: its exception says, or else its kind."""
    _, kind = classify_test_failure(failure)
    if failure.attributed is not None and kind in KINDS:
        by_kind = _type_of_kind(kind)
        if by_kind is not None:
            return by_kind
    raised = failure.exception
    if raised is not None:
        return failure_type_of(raised.type, raised.module, raised.bases, raised.message)
    if kind == "test.xpass_strict":
        return FailureType.VERIFICATION_FAILED
    if failure.crashed:
        return FailureType.UNKNOWN
    by_kind = FailureType.VERIFICATION_FAILED if kind == "test.failed" else FailureType.UNKNOWN
    return failure_type_at_head(failure.message) or by_kind


def retryable_of_test_failure(failure: TestFailure) -> bool | None:
    """Return whether a failed test could pass if it ran again; `None` where its kind decides.

    A check that failed fails again, and code that does not load does not load again.
    """
    if failure.attributed is not None:
        return failure.attributed.retryable
    _, kind = classify_test_failure(failure)
    if kind not in PHASE_KINDS.values():
        return None
    return False if type_of_test_failure(failure) in _LASTING else None


def type_of_collection_failure(failure: CollectionFailure) -> FailureType:
    """Return what sort of recovery a node takes that could not be collected."""
    raised = failure.exception
    if raised is None:
        return failure_type_at_head(failure.message) or FailureType.BROKEN_BUILD
    return failure_type_of(
        raised.type, raised.module, raised.bases, raised.message, collecting=True
    )


def type_of_run_error(error: RunError) -> FailureType:
    """Return what sort of recovery an error outside of the tests takes.

    A conftest that could not be loaded is broken code. Of anything else the exception alone can say
    so: what pytest refuses is no failed check, whatever words it uses.
    """
    raised = error.exception
    is_conftest = error.origin == "conftest"
    if raised is not None:
        found: FailureType | None = failure_type_of(
            raised.type, raised.module, raised.bases, raised.message, collecting=is_conftest
        )
    else:
        found = failure_type_at_head(error.message)
    if is_conftest:
        return found or FailureType.BROKEN_BUILD
    return found if found is FailureType.BROKEN_BUILD else FailureType.UNKNOWN


def _type_of_kind(kind: str) -> FailureType | None:
    """Return what a kind of ours says that speaks of a library's service, not of the tests."""
    if kind == "llm.context_exceeded":
        return FailureType.CONTEXT_EXHAUSTED
    return FailureType.UNKNOWN if kind.startswith(_SERVICES) else None


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
