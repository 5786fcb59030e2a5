"""What the judge concludes: findings, the reasons that they add up to, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pytest_failure_taxonomy.taxonomy.evidence import CodeOwner
from pytest_failure_taxonomy.taxonomy.reasons import (
    FailureReason,
    FailureType,
    RecoveryAction,
    reason_of,
)
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.evidence import (
        CollectionFailure,
        OutputLine,
        RunError,
        TestFailure,
    )

Confidence = Literal["certain", "likely"]

MAX_EVIDENCE: Final = 10
"""How many pieces of evidence a verdict quotes; all of them stand in the rest of the report."""
MAX_LINES: Final = 20
"""How many lines of a log are quoted."""


@value
class FailureJudgement:
    """What one failure is: of a test, of a collector, or outside of both."""

    reason: FailureReason
    kind: str
    failure_type: FailureType
    retryable: bool | None = None
    """Whether it could pass if it ran again; `None` where its kind decides."""
    rule: str | None = None
    """The rule that matched it."""
    timed_out: bool = False
    """A time limit of the test's own ended it, whatever its kind is."""
    fingerprint: str = ""
    """Equal for failures that are one and the same; empty for an error outside of the tests."""


@value
class Group:
    """Failures that are one and the same, as far as that can be told."""

    fingerprint: str
    reason: FailureReason
    """Of most of them, like the kind."""
    kind: str
    title: str
    """One line, of the first of them."""
    count: int
    """Failures; a test can fail twice, in call and teardown or in subtests."""
    nodeids: tuple[str, ...]
    """Each once, in the order of the failures."""
    owner: CodeOwner | None = None
    """Of most of them; `None` where that is not known."""


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
    retryable: bool | None = None
    """What a rule says of it; `None` where the kind decides."""
    failure_type: FailureType | None = None
    """`None` where nothing is known of the code that failed."""
    words: tuple[str, ...] = ()
    """What names the thing that it is about, each in one line for the verdict's message."""
    is_hearsay: bool = False
    """It was only said, as by a marker; it is not the verdict where anything was seen."""
    failure: TestFailure | CollectionFailure | RunError | None = None
    """What it was found on, where that has a place and an exception."""
    fingerprint: str = ""
    """Of that failure."""
    explains: tuple[str, ...] = ()
    """Fingerprints of failures that it is the end of, and that are no findings of their own."""


def finding(
    kind: str, source: str, detail: str, *, reason: FailureReason | None = None, **fields: Any
) -> Finding:
    """Return a finding of one kind.

    Args:
        kind: one of `known_kinds`.
        source: where it was seen.
        detail: what was seen.
        reason: needed where the kind has none of its own.
        **fields: further ones of `Finding`.
    """
    return Finding(
        reason=reason or reason_of(kind), kind=kind, source=source, detail=detail, **fields
    )


def marked_finding(name: str, reason: FailureReason, nodeid: str | None = None) -> Finding:
    """Return the finding that a marker is: what somebody said, not what was seen."""
    return Finding(
        reason=reason,
        kind=f"marker.{name.lower()}",
        source="marker",
        detail=f"[GZA_FAILURE:{name}]",
        nodeid=nodeid,
        is_hearsay=True,
    )


@value
class Evidence:
    """Quote one thing that was seen, and where."""

    source: str
    detail: str


@value
class HeldReason:
    """A reason that holds, with all findings of one kind."""

    reason: FailureReason
    kind: str
    findings: tuple[Finding, ...]
    """In the order of the evidence."""

    @property
    def count(self) -> int:
        """On how many tests it was found, each counted once; what is of no test counts by itself.

        A test fails once, however many of its subtests do. But two workers can die on one test.
        """
        if self.kind == "worker.crashed":
            return len(self.findings)
        nowhere = (finding.count for finding in self.findings if finding.nodeid is None)
        return len(self.nodeids) + sum(nowhere)

    @property
    def nodeids(self) -> tuple[str, ...]:
        """Node ids that it was found on, each once, in the order of the evidence."""
        named = (finding.nodeid for finding in self.findings if finding.nodeid is not None)
        return tuple(dict.fromkeys(named))


CauseOwner = Literal[CodeOwner, "environment"]
"""Who has to mend a cause: whose code raised it, or who runs the machine and its services."""


@value
class Cause:
    """Failures and endings that are mended by one and the same change."""

    key: str
    """16 hexadecimal digits, the same in any run that has this cause."""
    what: str
    """One line: what is wrong, and with what."""
    fix: str | None
    """A command or an edit; `None` where none is known for sure."""
    reason: FailureReason
    """Of most of them, like the kind."""
    kind: str
    owner: CauseOwner | None
    retryable: bool | None
    failure_type: FailureType
    count: int
    """Failures, files that could not be collected and endings of the run, together."""
    nodeids: tuple[str, ...]
    """Each once, in the order of the evidence."""
    tests: tuple[str, ...]
    """Those of tests that failed."""
    files: tuple[str, ...]
    """Those of what could not be collected, empty ones of what has none."""
    fingerprints: tuple[str, ...]
    """Of its failures, each once."""
    unnamed: int = 0
    """How many more tests failed whose node ids are not known."""


@value
class Verdict:
    """The primary reason of a run, with what speaks for it."""

    reason: FailureReason
    kind: str
    confidence: Confidence
    failure_type: FailureType
    recovery_action: RecoveryAction
    retryable: bool | None
    message: str
    nodeid: str | None
    evidence: tuple[Evidence, ...]
    ambiguous: tuple[str, ...] = ()
    owner: CodeOwner | None = None
    """Whose code most of its failures were raised in."""


@value
class Judgement:
    """What the evidence of a run comes to."""

    exit_reason: FailureReason | None
    """What the exit code alone says, by the stage's table."""
    verdict: Verdict | None = None
    """`None` for success."""
    reasons: tuple[HeldReason, ...] = ()
    """All that hold, primary first."""
    failures: tuple[FailureJudgement, ...] = ()
    """One for each of the evidence's `failures`, in their order; so are the next two."""
    collection_failures: tuple[FailureJudgement, ...] = ()
    errors: tuple[FailureJudgement, ...] = ()
    causes: tuple[Cause, ...] = ()
    """Of all that failed: what explains others first, then by count."""
    groups: tuple[Group, ...] = ()
    """Of test failures and collection failures: biggest first, then by their first failure."""
    lines: tuple[OutputLine, ...] = ()
    """The lines of a log that speak for the reasons, by number."""
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """What contradicts itself in the evidence, in words: a fault of the recorder's."""


def owner_of_most(
    failures: Iterable[TestFailure | CollectionFailure | RunError | None],
) -> CodeOwner | None:
    """Return whose code most failures were raised in, or `None` if that is known of none.

    Of owners with as many failures it is the first in the order of `CodeOwner`.
    """
    raised = [each.exception for each in failures if each is not None]
    owners = [each.frame.owner for each in raised if each is not None and each.frame is not None]
    if not owners or owners.count(owners[0]) == len(owners):
        return owners[0] if owners else None
    order = get_args(CodeOwner)
    return min(set(owners), key=lambda each: (-owners.count(each), order.index(each)))
