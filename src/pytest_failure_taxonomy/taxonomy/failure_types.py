"""The vocabularies of recovery: what sort of failure, and what to do next."""

from __future__ import annotations

from enum import StrEnum


class FailureType(StrEnum):
    """Sort a failure by what recovering from it takes."""

    BROKEN_BUILD = "BROKEN_BUILD"
    VERIFICATION_FAILED = "VERIFICATION_FAILED"
    CIRCULAR_FIX = "CIRCULAR_FIX"
    CONTEXT_EXHAUSTED = "CONTEXT_EXHAUSTED"
    UNKNOWN = "UNKNOWN"


class RecoveryAction(StrEnum):
    """Recommend the next step after a failure; nothing here is ever done by the product itself."""

    ROLLBACK = "rollback"
    RETRY = "retry"
    SKIP = "skip"
    CONTINUE = "continue"
    ESCALATE = "escalate"
