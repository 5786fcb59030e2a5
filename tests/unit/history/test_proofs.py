"""What was proven of a cause stays known, on each database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pytest_failure_taxonomy.history import History, open_history
from pytest_failure_taxonomy.history.questions import (
    find_flaky,
    find_since,
    find_top,
    proofs_of,
    prune,
)
from pytest_failure_taxonomy.history.recording import ask_history
from pytest_failure_taxonomy.prove.rates import Count, make_proof
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.judgement import ProofType
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import TEST, a_report

A = f"{TEST}test_a"


def proven(
    report: FailureReport, type_: ProofType, status: Any = "proven"
) -> FailureReport:
    """Return a report of whose only cause something was said by an experiment."""
    runs = Count(failed=5, runs=5)
    proof = make_proof(type_, status, runs, state="\0 ö")
    return amend(report, Amendment(proofs={report.causes[0].key: proof}))


def test_a_proof_stays_known(history: History) -> None:
    """A later run of the same project that has the cause finds it, with its date."""
    first = a_report(2, failing=(A,))
    assert history.add(first)
    assert proofs_of(history, first) == {}
    told = proven(first, "order.polluted")
    assert not history.add(told)  # the run is there; what is proven is new
    later = a_report(30, failing=(A,))
    found = proofs_of(history, later)
    key, fingerprint = later.causes[0].key, later.groups[0].fingerprint
    assert found.keys() == {key, fingerprint}
    proof = told.causes[0].proof
    assert found[key] == replace(proof, known_since="2026-11-01T02:00:00Z")
    assert proofs_of(history, a_report(30, failing=(A,), project="farm")) == {}


def test_what_takes_its_place(history: History) -> None:
    """Another proof does; what is not proven, or comes from the history itself, does not."""
    runs = [a_report(number, failing=(A,)) for number in (1, 2, 3, 4)]
    key = runs[0].causes[0].key

    def known() -> tuple[str, str]:
        proof = proofs_of(history, runs[-1])[key]
        return proof.type, str(proof.known_since)[11:13]

    history.add(proven(runs[1], "flaky"))
    history.add(proven(runs[2], "order.polluted", "suspected"))
    assert known() == ("flaky", "02")
    history.add(proven(runs[3], "flaky"))
    assert known() == ("flaky", "02")
    history.add(proven(runs[3], "order.brittle"))
    assert known() == ("order.brittle", "04")
    earlier = Amendment(proofs=proofs_of(history, runs[0]))
    history.add(amend(runs[0], earlier))
    assert known() == ("order.brittle", "04")


def test_where_causes_are_listed(history: History) -> None:
    """They have the type of what is proven of them; it goes with the runs of its time."""
    for number in range(1, 6):
        history.add(a_report(number, test_a="passed" if number % 2 else "failed"))
    told = a_report(6, failing=(A,))
    history.add(proven(told, "order.polluted"))
    assert [row.proof for row in find_top(history)] == ["order.polluted"]
    assert [row.proof for row in find_flaky(history)] == ["order.polluted"]
    assert find_since(history, told.groups[0].fingerprint).proof == "order.polluted"
    prune(history, before=datetime(2026, 11, 1, 5), project="farm")  # noqa: DTZ001 - as the tables
    prune(history, before=datetime(2026, 11, 1, 6))  # noqa: DTZ001 - as the tables
    assert [row.proof for row in find_top(history)] == ["order.polluted"]
    prune(history, before=datetime(2026, 11, 2))  # noqa: DTZ001 - as the tables
    assert proofs_of(history, told) == {}


def test_a_run_that_asks(history_url: str) -> None:
    """At its end its report has what is proven, which decides whether a retry helps."""
    with open_history(history_url) as history:
        history.add(proven(a_report(1, failing=(A,)), "flaky"))
    later = a_report(2, failing=(A,))
    later = amend(later, ask_history(later, history_url))
    proof, verdict = later.causes[0].proof, later.verdict
    assert proof is not None
    assert proof.known_since == "2026-11-01T01:00:00Z"
    assert verdict is not None
    assert (verdict.retryable, verdict.recovery_action) == (True, "retry")
    own = proven(a_report(3, failing=(A,)), "reproducible")
    own = amend(own, ask_history(own, history_url))
    assert own.causes[0].proof is not None
    assert own.causes[0].proof.type == "reproducible"
