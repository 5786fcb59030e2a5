"""Add what becomes known later about a run's failures, and draw the conclusions.

The history, experiments and benches propose. Besides the judge, this is the one place
that decides whether a retry helps, who is charged, which cause comes first and what is
recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.causes import choose_action
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judgement import (
    BaseComparison,
    Cause,
    ChargedTo,
    Evidence,
    FailureType,
    GroupHistory,
    KnownFailures,
    Proof,
    RecoveryAction,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value

MAX_NAMED: Final = 3
"""How many failures that are not known are named."""
_SINCE: Final = ("commit", "environment")
_TESTS_FAILED: Final = 1
_RANKS: Final = {"flaky": 0, "reproducible": 0, "commit": 1, "environment": 2}
"""How much a type of proof says, if not that something makes the test fail."""
_ACCEPTED_STATES: Final = ("known", "flaky")


@value
class Amendment:
    """What a neighbour of the core proposes to add to a report."""

    histories: Mapping[str, GroupHistory] = MappingProxyType({})
    """By the fingerprint of a group of failures."""
    of_verdict: GroupHistory | None = None
    """Of a verdict that no group has."""
    proofs: Mapping[str, Proof] = MappingProxyType({})
    """By the key of a cause."""
    bases: Mapping[str, BaseComparison] = MappingProxyType({})
    """By the key of a cause, too. They change neither who is charged nor what is
    advised: a failure that is older than a change may still be one that the change has
    to fix."""
    evidence: tuple[Evidence, ...] = ()
    """What else speaks for the verdict."""
    nodeid: str | None = None
    """The test that was running, if another one stands for it in the verdict."""
    problem: str = ""
    """Why the neighbour has no answer, in words."""
    remedy: tuple[str, ...] = ()
    """The arguments with which our command makes good for that, before the report's
    path."""


@value
class SectionPlace:
    """Where a neighbour keeps its section of the report, outside of pytest."""

    name: str
    """The field, and the neighbour in the table of `options`."""
    folder: str
    session: str
    """How it calls this run there."""


@value
class ReportSection:
    """What a neighbour says of a run in a field of the report that is its own."""

    name: str
    """The field."""
    rows: Sequence[dict[str, object]]
    why_failed: str = ""
    """Why the run fails, whatever its tests say; empty if it does not."""
    place: SectionPlace | None = None
    """`None` if nothing is kept."""


@value
class Recommendation:
    """What to do about a run, and the cause that is least easily recovered from."""

    recovery_action: RecoveryAction
    failure_type: FailureType
    nodeid: str | None


def amend_cause(cause: Cause, amendment: Amendment, verdict_kind: str | None) -> Cause:
    """Return a cause with what an amendment says of it, and what follows from that."""
    histories = [
        amendment.histories[fingerprint]
        for fingerprint in cause.fingerprints
        if fingerprint in amendment.histories
    ]
    history = cause.history
    if histories:
        history = join_histories(histories)
    elif amendment.of_verdict is not None and cause.kind == verdict_kind:
        history = amendment.of_verdict
    proof = cause.proof
    if cause.key in amendment.proofs:
        proof = join_proofs(proof, amendment.proofs[cause.key])
    retryable, charge_to = cause.retryable, cause.charge_to
    if proof is not None and proof.status == "proven":
        row = packaged_table("proofs")[str(proof.type)]
        # Since a commit or a release it may fail now and then.
        is_chance = proof.type in _SINCE and proof.failed < proof.runs
        retryable = is_chance or row.get("retryable")
        charge_to = row.get("charge_to") or charge_to
    elif history is not None and history.state == "flaky":
        # A failed assertion fails again, unless its test is known to pass now and then.
        retryable = True
    return replace(
        cause,
        retryable=retryable,
        charge_to=charge_to,
        history=history,
        proof=proof,
        base=amendment.bases.get(cause.key, cause.base),
    )


def join_histories(histories: Sequence[GroupHistory]) -> GroupHistory:
    """Return the history of a cause: old if one group is, flaky if all groups are."""
    states = {history.state for history in histories}
    state: Literal["new", "came_back", "known", "flaky"] = "new"
    if states == {"flaky"}:
        state = "flaky"
    elif "known" in states:
        state = "known"
    elif "came_back" in states:
        state = "came_back"
    starts = [history.first_seen for history in histories if history.first_seen]
    commits = [history.last_passed_commit for history in histories]
    changes = [history.distributions_changed for history in histories]
    # The first one of which more is known.
    detailed = [
        history for history in histories if history.first_commit or history.flaky_runs
    ]
    first = (detailed or histories)[0]
    return GroupHistory(
        state=state,
        first_seen=None if state == "new" else min(starts, default=None),
        runs=max(history.runs for history in histories),
        last_passed_commit=next(filter(None, commits), None),
        distributions_changed=next(
            (change for change in changes if change is not None), None
        ),
        first_commit=first.first_commit,
        flaky_failures=first.flaky_failures,
        flaky_runs=first.flaky_runs,
    )


def join_proofs(earlier: Proof | None, proof: Proof) -> Proof:
    """Return the best proof for a cause after another experiment.

    A proven result stays until another one is proven. The condition that makes a test
    fail says more than the commit since which it fails, which is kept beside it.
    """
    proven = [
        candidate
        for candidate in (proof, earlier)
        if candidate is not None and candidate.status == "proven"
    ]
    # What makes it fail is needed to repeat it.
    best = max(
        proven, key=lambda candidate: _RANKS.get(str(candidate.type), 3), default=proof
    )
    if best.type == "commit":
        return replace(best, commit=None)
    commits = [
        candidate.state if candidate.type == "commit" else candidate.commit
        for candidate in proven
    ]
    return replace(best, commit=next(filter(None, commits), None))


def charge_verdict(kind: str, causes: Sequence[Cause]) -> ChargedTo | None:
    """Return whom a verdict is charged to: what the first cause of its kind is.

    Args:
        kind: of the verdict.
        causes: at least one.
    """
    charges = (cause.charge_to for cause in causes if cause.kind == kind)
    return next(charges, causes[0].charge_to)


def recommend(
    kind: str, causes: Iterable[Cause], last_good_commit: str | None
) -> Recommendation:
    """Return what is recommended for all causes of a run.

    Args:
        kind: of the verdict.
        causes: at least one.
        last_good_commit: to which one can go back.
    """
    least, action = choose_action(causes, kind, last_good_commit)
    return Recommendation(
        recovery_action=action,
        failure_type=least.failure_type,
        nodeid=next(iter(least.nodeids), None),
    )


def accept_known(
    run: RunEvidence, unlisted: Sequence[str], by: str, notes: Sequence[str] = ()
) -> tuple[RunEvidence, KnownFailures]:
    """Return a run, with exit code 0 if tests failed and all of it is known, and why.

    Args:
        run: its session has ended.
        unlisted: node ids of failures that are not known.
        by: what knows failures.
        notes: about what knows them.
    """
    others = _name_other_failure(run)
    known_failures = KnownFailures(
        by=by,
        accepted=not unlisted and not others,
        failures=len(run.failures),
        unknown=tuple(unlisted[:MAX_NAMED]),
        unknown_count=len(unlisted),
        others=others,
        notes=tuple(notes),
    )
    if known_failures.accepted:
        run = replace(run, exit=replace(run.exit, code=0))
    return run, known_failures


def is_accepted(history: GroupHistory | None) -> bool:
    """Tell whether earlier runs make a failure one that is known."""
    return history is not None and history.state in _ACCEPTED_STATES


def _name_other_failure(run: RunEvidence) -> str:
    """Say what made a session fail besides tests that failed; empty if nothing."""
    has_lost_worker = any(
        worker.ending != "finished" and worker.crashed_on is None
        for worker in run.workers
    )
    is_cut_short = run.interruptions or run.in_flight or run.ended_tests or run.not_run
    has_other_code = run.exit.code != _TESTS_FAILED or not run.failures
    others: tuple[tuple[object, str], ...] = (
        (run.should_fail, run.should_fail),
        (run.coverage, run.coverage),
        (run.gate, run.gate),
        (run.collection_failures, "something could not be collected"),
        (run.errors or run.mismatch, "there were errors outside of tests"),
        (run.unrecorded, "pytest has counted failures that could not be recorded"),
        (has_lost_worker, "a worker died without a test"),
        (run.uncounted, "a plugin counted failures that belong to no test"),
        (is_cut_short, "tests are missing"),
        (run.uncertified, "something else than the tests made results"),
        (has_other_code, f"exit code {run.exit.code}"),
    )
    return next((words for is_so, words in others if is_so), "")
