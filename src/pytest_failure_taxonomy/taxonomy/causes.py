"""Gather what failed by what is to be mended, and say it in one sentence each.

A fingerprint tells which failures are one and the same; several of them can have one cause, such as
a package that is not installed, and a run can have several causes. Every finding of the judge is in
exactly one cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.taxonomy.evidence import CollectionFailure, TestFailure
from pytest_failure_taxonomy.taxonomy.headlines import said_in_one_line
from pytest_failure_taxonomy.taxonomy.judgement import Cause, CauseOwner, Finding, owner_of_most
from pytest_failure_taxonomy.taxonomy.kinds import describe_kind
from pytest_failure_taxonomy.taxonomy.recognition import recognise
from pytest_failure_taxonomy.taxonomy.recovery import (
    FailureType,
    RecoveryAction,
    recovery_of_failure,
)
from pytest_failure_taxonomy.taxonomy.words import counted

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
    from pytest_failure_taxonomy.taxonomy.recognition import Diagnosis

_FIRST: Final = (
    *("collection.", "conftest.", "usage.", "plugin."),
    *("internal.", "process.", "worker."),
)
"""How kinds begin that explain what else failed, or did not run."""

_LEAST_RECOVERABLE: Final = (
    RecoveryAction.ESCALATE,
    RecoveryAction.ROLLBACK,
    RecoveryAction.SKIP,
    RecoveryAction.CONTINUE,
    RecoveryAction.RETRY,
)
"""The order in which one action stands for several."""


def gather_causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Return the causes of what was found: first what explains others, then the biggest.

    Args:
        findings: all of a run, in the order of the evidence. What was only said, as by a marker, is
            a cause where nothing was seen.
    """
    findings = list(findings)
    seen = [each for each in findings if not each.is_hearsay] or findings
    members: dict[str, _Members] = {}
    for found in seen:
        diagnosis = recognise(found)
        key = diagnosis.key if diagnosis is not None else found.fingerprint or _key_of(found)
        members.setdefault(key, _Members(diagnosis)).add(found)
    causes = [each.as_cause(key) for key, each in members.items()]
    return tuple(sorted(causes, key=lambda cause: (not explains_others(cause.kind), -cause.count)))


def explains_others(kind: str) -> bool:
    """Tell whether what is of this kind may be why other things failed or did not run."""
    return kind.startswith(_FIRST)


def action_of(causes: Sequence[Cause]) -> tuple[Cause, RecoveryAction]:
    """Return the cause that is least easily recovered from, and the action that it takes."""
    actions = [
        (cause, recovery_of_failure(cause.failure_type, cause.retryable)) for cause in causes
    ]
    return min(actions, key=lambda each: _LEAST_RECOVERABLE.index(each[1]))


def retryable_of(causes: Sequence[Cause]) -> bool | None:
    """Tell whether the same run again can pass: only where no cause speaks against it."""
    answers = {cause.retryable for cause in causes}
    if answers == {True}:
        return True
    return False if False in answers else None


def headline_of_run(causes: Sequence[Cause], run: RunEvidence) -> str:
    """Return what failed in one line: the one cause there is, or how many there are."""
    tests = len({nodeid for cause in causes if cause.tests for nodeid in cause.nodeids})
    ran = run.counts.collected - len(run.not_run)
    failed = f"{tests:,} of {counted(max(ran, tests), 'test')} failed" if tests else ""
    if len(causes) == 1:
        return f"{failed}: {causes[0].what}" if failed else causes[0].what
    return f"{failed or causes[0].what}, {counted(len(causes), 'cause')}"


class _Members:
    """What was found of one cause."""

    def __init__(self, diagnosis: Diagnosis | None) -> None:
        self._diagnosis = diagnosis
        self._findings: list[Finding] = []

    def add(self, found: Finding) -> None:
        self._findings.append(found)

    def as_cause(self, key: str) -> Cause:
        first, diagnosis = self._findings[0], self._diagnosis
        kind = describe_kind(first.kind, first.reason)
        retryable = kind.retryable if first.retryable is None else first.retryable
        raised = [each.failure.exception for each in self._findings if each.failure is not None]
        owner: CauseOwner | None = owner_of_most(raised)
        fix, what = None, _what_of(first)
        if diagnosis is not None:
            retryable, fix, what = diagnosis.retryable, diagnosis.fix, diagnosis.what
            owner = diagnosis.owner or owner
        nodeids = dict.fromkeys(each.nodeid for each in self._findings if each.nodeid)
        return Cause(
            key=_digest(key),
            what=what,
            fix=fix,
            reason=first.reason,
            kind=first.kind,
            owner=owner,
            retryable=retryable,
            failure_type=first.failure_type or FailureType.UNKNOWN,
            count=len(self._findings),
            nodeids=tuple(nodeids),
            tests=len({each.nodeid for each in self._findings if _is_test(each)}),
            files=sum(isinstance(each.failure, CollectionFailure) for each in self._findings),
            fingerprints=tuple(
                dict.fromkeys(each.fingerprint for each in self._findings if each.fingerprint)
            ),
        )


def _is_test(found: Finding) -> bool:
    return isinstance(found.failure, TestFailure)


def _what_of(found: Finding) -> str:
    """Return what nobody recognises in the words of the exception, or of its kind."""
    failure = found.failure
    if isinstance(failure, TestFailure) and failure.exception is not None:
        raised = failure.exception
        said = said_in_one_line(raised.type, raised.message, is_test=True)
        place = failure.location
        return said if place is None else f"{said}: {failure.nodeid} ({place.path}:{place.line})"
    return found.headline or describe_kind(found.kind, found.reason).phrase(1)


def _key_of(found: Finding) -> str:
    return f"{found.kind} {found.nodeid or ''}"


def _digest(key: str) -> str:
    from hashlib import blake2s

    if len(key) == 16 and set(key) <= set("0123456789abcdef"):
        return key
    return blake2s(key.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
