"""The form of a judgement: findings grouped to reasons, and the first of them pronounced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.failure_types import FailureType, RecoveryAction
from pytest_failure_taxonomy.taxonomy.findings import Confidence, Finding
from pytest_failure_taxonomy.taxonomy.kinds import describe_kind
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.recovery import recommend_recovery
from pytest_failure_taxonomy.taxonomy.values import value

MAX_EVIDENCE: Final = 10
"""How many pieces of evidence a verdict quotes; all of them stand in the rest of the report."""


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
    """In order of occurrence."""

    @property
    def count(self) -> int:
        """How often it was found."""
        return sum(finding.count for finding in self.findings)

    @property
    def nodeids(self) -> tuple[str, ...]:
        """Node ids that it was found on, each once, in order of occurrence."""
        named = (finding.nodeid for finding in self.findings if finding.nodeid is not None)
        return tuple(dict.fromkeys(named))


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


@value
class Judgement:
    """What the evidence of a run comes to."""

    exit_reason: FailureReason | None
    """What the exit code alone says, by the stage's table."""
    verdict: Verdict | None
    """`None` for success."""
    reasons: tuple[HeldReason, ...]
    """All that hold, primary first."""
    notes: tuple[str, ...] = ()


def group_findings(findings: list[Finding]) -> tuple[HeldReason, ...]:
    """Gather findings by reason and kind: by precedence, then the most frequent, then the first."""
    grouped: dict[tuple[FailureReason, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.reason, finding.kind), []).append(finding)
    held = (
        HeldReason(reason=reason, kind=kind, findings=tuple(found))
        for (reason, kind), found in grouped.items()
    )
    return tuple(sorted(held, key=lambda each: (each.reason.precedence, -each.count)))


def primary_of(held: tuple[HeldReason, ...]) -> HeldReason:
    """Return the reason that is the verdict: the first one that was seen, not only told."""
    return next((each for each in held if not each.findings[0].is_hearsay), held[0])


def pronounce(primary: HeldReason, run: RunEvidence) -> Verdict:
    """Return the verdict that the primary reason comes to."""
    kind = describe_kind(primary.kind, primary.reason)
    first = primary.findings[0]
    failure_type = first.failure_type or FailureType.UNKNOWN
    return Verdict(
        reason=primary.reason,
        kind=primary.kind,
        confidence="likely" if run.unrecorded else first.confidence,
        failure_type=failure_type,
        recovery_action=recommend_recovery(failure_type, attempt_count=1),
        retryable=kind.retryable if first.retryable is None else first.retryable,
        message=kind.phrase(primary.count),
        nodeid=next(iter(primary.nodeids), None),
        evidence=(
            *(
                Evidence(source=finding.source, detail=_evidence_words(finding))
                for finding in primary.findings[:MAX_EVIDENCE]
            ),
            *_stacks(run, first),
        ),
        ambiguous=first.ambiguous,
    )


def _stacks(run: RunEvidence, first: Finding) -> Iterator[Evidence]:
    """Yield what the threads were at, where the end of the process is the verdict."""
    if run.exit.stacks and first.kind.startswith("process."):
        yield Evidence(source="stacks at SIGTERM", detail=run.exit.stacks)


def _evidence_words(finding: Finding) -> str:
    if finding.nodeid is None or finding.nodeid in finding.detail:
        return finding.detail
    return f"{finding.nodeid}: {finding.detail}"
