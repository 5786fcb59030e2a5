"""What a rule of the judge concludes from one piece of evidence."""

from __future__ import annotations

from typing import Literal

from pytest_failure_taxonomy.taxonomy.failure_types import FailureType
from pytest_failure_taxonomy.taxonomy.kinds import KINDS
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.values import value

Confidence = Literal["certain", "likely"]


@value
class Finding:
    """One rule's conclusion from one piece of evidence."""

    reason: FailureReason
    kind: str
    source: str
    detail: str
    nodeid: str | None = None
    count: int = 1
    """How often that was seen, where nothing more is known of each time."""
    confidence: Confidence = "certain"
    ambiguous: tuple[str, ...] = ()
    """Kinds that it could be, where the evidence can't tell."""
    headline: str | None = None
    """What the verdict says in place of the kind's own words, where it is found on one test."""
    is_subtest: bool = False
    """What it was found on is a subtest of its test."""
    retryable: bool | None = None
    """What a rule says of it; `None` where the kind decides."""
    failure_type: FailureType | None = None
    """`None` where nothing is known of the code that failed."""
    words: tuple[str, ...] = ()
    """What names the thing that it is about, each in one line for the verdict's message."""
    is_hearsay: bool = False
    """Somebody has said so and nothing was seen; it is never the verdict where anything was."""


def reason_of(kind: str) -> FailureReason:
    """Return the reason that a kind of ours refines.

    Raises:
        ValueError: it has none of its own; the exit table or the stage decides.
    """
    reason = KINDS[kind].reason
    if reason is None:
        raise ValueError(f"the kind {kind} has no reason of its own")
    return reason


def find_marked(name: str, reason: FailureReason, nodeid: str | None = None) -> Finding:
    """Return the finding that a marker is: what somebody said, not what was seen."""
    return find(
        f"marker.{name.lower()}",
        "marker",
        f"[GZA_FAILURE:{name}]",
        nodeid=nodeid,
        reason=reason,
        is_hearsay=True,
    )


def find(
    kind: str,
    source: str,
    detail: str,
    *,
    nodeid: str | None = None,
    reason: FailureReason | None = None,
    count: int = 1,
    confidence: Confidence = "certain",
    ambiguous: tuple[str, ...] = (),
    retryable: bool | None = None,
    failure_type: FailureType | None = None,
    words: tuple[str, ...] = (),
    is_hearsay: bool = False,
    headline: str | None = None,
    is_subtest: bool = False,
) -> Finding:
    """Return a finding of one kind, with the kind's own reason unless another one is given."""
    return Finding(
        reason=reason or reason_of(kind),
        kind=kind,
        source=source,
        detail=detail,
        nodeid=nodeid,
        count=count,
        confidence=confidence,
        ambiguous=ambiguous,
        retryable=retryable,
        failure_type=failure_type,
        words=words,
        is_hearsay=is_hearsay,
        headline=headline,
        is_subtest=is_subtest,
    )
