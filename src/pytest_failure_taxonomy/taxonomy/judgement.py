"""What the judge concludes: findings, the reasons that they add up to, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pytest_failure_taxonomy.taxonomy.evidence import CodeOwner
from pytest_failure_taxonomy.taxonomy.reasons import (
    FailureReason,
    FailureType,
    RecoveryAction,
    rank_of,
    reason_of,
)
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import first_lines

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.evidence import (
        CollectionFailure,
        Output,
        OutputLine,
        RaisedException,
        RunError,
        RunEvidence,
        TestFailure,
    )

_LIMITS_OF_STAGES: Final = frozenset({"stage.setup_timeout", "stage.timeout"})
"""Kinds of a process that its stage's time limit has ended."""

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
        kind: one of `KINDS`.
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


def group_findings(findings: Iterable[Finding]) -> tuple[HeldReason, ...]:
    """Gather findings by reason and kind, in an order that doesn't depend on who came first.

    That is by precedence, then by how many tests it was found on, then by the table of kinds.
    """
    grouped: dict[tuple[FailureReason, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.reason, finding.kind), []).append(finding)
    held = (
        HeldReason(reason=reason, kind=kind, findings=tuple(found))
        for (reason, kind), found in grouped.items()
    )
    return tuple(
        sorted(held, key=lambda each: (each.reason.precedence, -each.count, rank_of(each.kind)))
    )


def primary_of(held: Sequence[HeldReason]) -> HeldReason:
    """Return the reason that is the verdict: the first one that was seen, not only told."""
    return next((each for each in held if not each.findings[0].is_hearsay), held[0])


def deciding_lines(
    output: Output, kinds: Iterable[str], *, is_cut_off: bool
) -> tuple[OutputLine, ...]:
    """Return the lines of a log that speak for the reasons that hold, sorted by number.

    Args:
        output: the lines to choose from.
        kinds: of those reasons, the verdict's first; its lines are the last to be left out.
        is_cut_off: the log ends before its program did, so its last line says where.
    """
    kinds = tuple(kinds)
    chosen: dict[int, OutputLine] = {}
    for kind in kinds:
        for line in output.lines_about(kind):
            if len(chosen) < MAX_LINES - 1:  # room for the summary
                chosen.setdefault(line.number, line)
    if output.summary is not None:
        chosen[output.summary.number] = output.summary
    elif output.last is not None and kinds and (is_cut_off or not chosen):
        chosen[output.last.number] = output.last
    return tuple(chosen[number] for number in sorted(chosen))


def owner_of_most(raised: Iterable[RaisedException | None]) -> CodeOwner | None:
    """Return whose code most exceptions were raised in, or `None` if that is known of none.

    Of owners with as many exceptions it is the first in the order of `CodeOwner`.
    """
    owners = [each.frame.owner for each in raised if each is not None and each.frame is not None]
    if not owners or owners.count(owners[0]) == len(owners):
        return owners[0] if owners else None
    order = get_args(CodeOwner)
    return min(set(owners), key=lambda each: (-owners.count(each), order.index(each)))


def stacks_of(run: RunEvidence, first: Finding) -> Iterator[Evidence]:
    """Yield what the threads were at, where the end of the process is the verdict."""
    is_death = first.kind.startswith("process.") or first.kind in _LIMITS_OF_STAGES
    if run.exit.stacks and is_death:
        yield Evidence(source="stacks at SIGTERM", detail=run.exit.stacks)
    if run.traces is not None and run.traces.stack and first.kind.startswith("process."):
        yield Evidence(source="stack of the crash", detail=first_lines(run.traces.stack))


def words_of_evidence(finding: Finding) -> str:
    """Return what a finding says, and the node that it says it of."""
    if finding.nodeid is None or finding.nodeid in finding.detail:
        return finding.detail
    return f"{finding.nodeid}: {finding.detail}"
