"""Which cases may start: a cost cap, what cases in flight reserve, a cause that fails all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.models import COST_CAP, BenchCase
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from tests.helpers.bench import make_stub_plan
from tests.helpers.kept_runs import call_of, header_of, score_of


def case_of(case_id: str, max_cost_usd: float | None = None) -> BenchCase:
    """Return a case, with what it can cost at most if that is known."""
    return BenchCase(case_id=case_id, max_cost_usd=max_cost_usd)


def test_a_cap_is_reached_strictly_above() -> None:
    """Three cases of 0.1 have not exceeded 0.3; the fourth does."""
    admission = Admission(make_stub_plan(case_ids=[], max_cost_usd=0.3))
    for name in "abcd":
        assert admission.admit(case_of(name)) == "go"
        admission.settle(name, 0.1, "")
    assert admission.admit(case_of("e")) == "stop"
    assert admission.stop_reason == f"{COST_CAP} ($0.30)"


def test_cases_in_flight_reserve_what_others_have_cost() -> None:
    """A case waits for those in flight, and may start if they cost less than was feared."""
    admission = Admission(make_stub_plan(case_ids=[], max_cost_usd=1.0))
    admission.admit(case_of("a"))
    admission.settle("a", 0.6, "")
    assert admission.admit(case_of("b")) == "go"
    assert admission.admit(case_of("c")) == "wait"
    admission.settle("b", 0.1, "")
    assert admission.admit(case_of("c")) == "go"


def test_what_is_spent_counts_before_a_case_is_done() -> None:
    """So does what a call spends that was given up."""
    admission = Admission(make_stub_plan(case_ids=[], max_cost_usd=1.0))
    admission.admit(case_of("a"))
    admission.spend("a", 1, 0.9)
    admission.admit(case_of("a"), attempt=2)  # the loop of the first call was given up
    admission.spend("a", 1, 0.2)
    assert admission.admit(case_of("b")) == "stop"


@given(
    costs=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    cap=st.integers(1, 300),
    concurrency=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_no_more_is_spent_above_a_cap_than_is_in_flight(
    costs: list[int], cap: int, concurrency: int, seed: int
) -> None:
    """Whatever cases cost and in whichever order they end; and no case waits for nothing."""
    admission = Admission(make_stub_plan(case_ids=[], max_cost_usd=cap / 100))
    order = random.Random(seed)  # noqa: S311 - a test
    waiting = [f"{number}" for number in range(len(costs))]
    running: list[str] = []
    spent = 0
    above = 0
    while waiting or running:
        answer = "wait"
        if waiting and len(running) < concurrency:
            answer = admission.admit(case_of(waiting[0]))
        if answer == "go":
            running.append(waiting.pop(0))
            continue
        if answer == "stop":
            waiting = []
        if not running:
            assert answer == "stop"
            break
        done = running.pop(order.randrange(len(running)))
        cost = costs[int(done)]
        above += cost if spent > cap else 0
        spent += cost
        admission.settle(done, cost / 100, "")
    assert spent - cap <= max(costs) * concurrency


def test_one_cause_in_a_row_stops() -> None:
    """A case that passes, or another cause, begins the count anew."""
    admission = Admission(make_stub_plan(case_ids=[], stop_after_same_failure=3))
    for number, cause in enumerate(["x", "x", "", "x", "x", "y", "x", "x"]):
        assert admission.admit(case_of(str(number))) == "go"
        admission.settle(str(number), 0.0, cause)
    admission.admit(case_of("last"))
    admission.settle("last", 0.0, "x")
    assert admission.admit(case_of("more")) == "stop"
    assert admission.stop_reason == "3 cases in a row failed with the same cause"
    assert admission.stop_cause == "x"


@pytest.mark.posix("without file locks each process counts for itself")
def test_two_processes_share_a_cap(tmp_path: Path) -> None:
    """What one has started and spent, the other knows; so does one that begins later."""
    plan = make_stub_plan(case_ids=["a", "b", "c", "d"], max_cost_usd=0.5)
    path = tmp_path / "run.jsonl"
    files = [
        RunFile(path, (), lambda given: given, worker)
        for worker in ("gw0", "gw1", "gw2")
    ]
    task_class = plan.task_class.model_copy(update={"folder": tmp_path / "bench"})
    files[0].create(header_of(task_class, root=tmp_path))
    first, second = (Admission(plan, file) for file in files[:2])
    score, call = score_of(1.0, cost_usd=0.4), call_of(cost_usd=0.4)
    assert first.admit(case_of("a")) == "go"
    files[0].note_outcome(CaseOutcome(case_id="a", score=score, attempts=(call,)))
    assert second.admit(case_of("b")) == "go"
    assert first.admit(case_of("c")) == "wait"
    files[1].note_spent("b", 1, 0.2)
    assert first.admit(case_of("c")) == "stop"
    third = Admission(plan, files[2])
    assert third.admit(case_of("d")) == "stop"
    assert third.stop_reason == f"{COST_CAP} ($0.50)"


@pytest.mark.posix("without file locks each process counts for itself")
@pytest.mark.parametrize("is_resumed", [True, False])
def test_what_a_lost_call_told_counts_once(tmp_path: Path, *, is_resumed: bool) -> None:
    """The score of the call that takes its place holds it, too."""
    plan = make_stub_plan(case_ids=["a", "b"], max_cost_usd=2.5)
    file = RunFile(tmp_path / "run.jsonl", (), lambda given: given)
    task_class = plan.task_class.model_copy(update={"folder": tmp_path / "bench"})
    file.create(header_of(task_class, root=tmp_path))
    assert Admission(plan, file).admit(case_of("a")) == "go"
    file.note_spent("a", 1, 1.0)
    if is_resumed:
        file.resume("next", None, 2)
    admission = Admission(plan, file)
    assert admission.admit(case_of("a"), 2) == "go"
    file.note_spent("a", 2, 1.0)
    calls = (call_of(1, cost_usd=1.0), call_of(2, cost_usd=1.0))
    outcome = CaseOutcome(
        case_id="a", score=score_of(1.0, cost_usd=2.0), attempts=calls
    )
    file.note_outcome(outcome)
    assert admission.admit(case_of("b")) == "go"  # 2.00 of 2.50 are spent
