"""What follows from what else becomes known of failures."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_failure_taxonomy.taxonomy.amendments import (
    Amendment,
    accept_known,
    amend_cause,
    charge_verdict,
)
from pytest_failure_taxonomy.taxonomy.evidence import WorkerEnd
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import GroupHistory, Proof
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_run


def history_of(state: Any) -> GroupHistory:
    """Return what earlier runs say of a failure."""
    return GroupHistory(
        state=state,
        first_seen=None,
        runs=1,
        last_passed_commit=None,
        distributions_changed=None,
    )


def proof_of(type_: Any, status: Any = "proven", failed: int = 5) -> Proof:
    """Return what an experiment of five runs says of a cause."""
    return Proof(
        type=type_,
        status=status,
        nodeids=(),
        state=None,
        runs=5,
        failed=failed,
        without=None,
        interval=None,
        command=None,
        suspicions=(),
        commit=None,
        known_since=None,
    )


@pytest.mark.parametrize(
    ("state", "proof", "retryable", "charge_to"),
    [
        pytest.param("known", None, False, "subject", id="known"),
        pytest.param("flaky", None, True, "subject", id="flaky"),
        pytest.param(
            "flaky",
            proof_of("reproducible"),
            False,
            "subject",
            id="a-proof-is-stronger",
        ),
        pytest.param(
            "flaky",
            proof_of("reproducible", "suspected"),
            True,
            "subject",
            id="a-suspicion-is-none",
        ),
        pytest.param("new", proof_of("order.polluted"), False, "verifier", id="order"),
        pytest.param("new", proof_of("flaky"), True, "ambiguous", id="proven-flaky"),
        pytest.param(
            "new", proof_of("commit", failed=3), True, "subject", id="commit-by-chance"
        ),
    ],
)
def test_what_a_retry_does_and_who_is_charged(
    state: str, proof: Proof | None, retryable: bool | None, charge_to: str
) -> None:
    """What is proven decides, then what earlier runs say."""
    (cause,) = judge(make_run(failures=(make_failure(),))).causes
    (fingerprint,) = cause.fingerprints
    amendment = Amendment(
        histories={fingerprint: history_of(state)},
        proofs={} if proof is None else {cause.key: proof},
    )
    amended = amend_cause(cause, amendment, None)
    assert (amended.retryable, amended.charge_to) == (retryable, charge_to)


def test_a_verdict_is_charged_as_the_first_cause_of_its_kind() -> None:
    """Where no cause has its kind, as the first of all."""
    (cause,) = judge(make_run(failures=(make_failure(),))).causes
    causes = [
        replace(cause, kind="a", charge_to="subject"),
        replace(cause, kind="b", charge_to="verifier"),
        replace(cause, kind="b", charge_to="environment"),
    ]
    assert charge_verdict("b", causes) == "verifier"
    assert charge_verdict("c", causes) == "subject"


@pytest.mark.parametrize(
    ("seen", "unlisted", "others"),
    [
        pytest.param({}, [], "", id="all-known"),
        pytest.param({}, ["t.py::test_a"], "", id="one-unknown"),
        pytest.param({"gate": "too few"}, [], "too few", id="a-gate"),
        pytest.param(
            {"workers": (WorkerEnd(id="gw0", tests=1, ending="died"),)},
            [],
            "a worker died without a test",
            id="a-worker",
        ),
    ],
)
def test_what_is_accepted(
    seen: dict[str, Any], unlisted: list[str], others: str
) -> None:
    """A run whose tests failed ends with exit code 0 if all is known and there was no more."""
    run = make_run(failures=(make_failure(),), **seen)
    accepted, known = accept_known(run, unlisted, "known.txt")
    assert known.others == others
    assert known.accepted is (not unlisted and not others)
    assert accepted.exit.code == (0 if known.accepted else run.exit.code)
