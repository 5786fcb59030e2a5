"""The gate: what fails it, in which words, and that failures and losses never help to pass it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.aggregation import aggregate
from pytest_failure_taxonomy.bench.gate import cut_share, evaluate_gate
from pytest_failure_taxonomy.bench.models import BenchScore, GateSettings
from tests.helpers.bench_scores import make_plan, make_run, make_score

PASSED = make_score(1.0)
FAILED = make_score(0.0)
TIMED_OUT = make_score(0.0, codes={"sut.timeout": "block"})

GATES = st.builds(
    GateSettings,
    lower_bound_95=st.none() | st.floats(min_value=0, max_value=1),
    min_cases=st.none() | st.integers(min_value=1, max_value=12),
)
SCORES = st.lists(
    st.builds(make_score, st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.0]) | st.floats(0, 1)),
    max_size=12,
)
FAILURES = st.builds(
    make_score,
    st.floats(0, 1),
    passed=st.just(False),
    codes=st.sampled_from([None, {"sut.timeout": "block"}, {"poor": "warn"}]),
)


@pytest.mark.parametrize(
    ("run", "gate", "verdict", "reasons"),
    [
        pytest.param(
            {"scores": [PASSED] * 20},
            {"lower_bound_95": 0.8, "min_cases": 20},
            "PASS",
            (),
            id="enough",
        ),
        pytest.param(
            {"scores": [PASSED] * 58 + [TIMED_OUT] * 2},
            {},
            "FAIL",
            ("2 of 60 cases ended with a failure mode of severity block: sut.timeout (2)",),
            id="blocked",
        ),
        pytest.param(
            {"scores": [PASSED] * 58},
            {"lower_bound_95": 0.95},
            "FAIL",
            ("the lower bound 0.949 is below 0.95",),
            id="fifty-eight of fifty-eight",
        ),
        pytest.param(
            {"scores": [PASSED] * 8},
            {"min_cases": 10},
            "FAIL",
            ("8 cases passed; at least 10 are needed",),
            id="too few",
        ),
        pytest.param(
            {"scores": [PASSED] * 8 + [FAILED] * 2},
            {"min_cases": 10},
            "FAIL",
            ("8 cases passed; at least 10 are needed",),
            id="failed ones do not fill up the cases",
        ),
        pytest.param(
            {"scores": [PASSED] * 4},
            {"lower_bound_95": 0.1},
            "FAIL",
            (
                "there is no lower bound to compare with 0.1: fewer than 5 cases",
                "4 cases passed; at least 5 are needed",
            ),
            id="no bound",
        ),
        pytest.param(
            {"scores": []},
            {},
            "FAIL",
            ("no case passed",),
            id="nothing",
        ),
        pytest.param(
            {"scores": [PASSED] * 57, "not_run": 3},
            {"lower_bound_95": 0.7},
            "INCOMPLETE",
            ("3 of 60 cases were not run",),
            id="not run",
        ),
        pytest.param(
            {"scores": [PASSED] * 57, "not_run": 3, "run_id": "partial:1"},
            {},
            "INCOMPLETE",
            ("3 of 60 cases were not run: the cost cap was reached",),
            id="cost cap",
        ),
        pytest.param(
            {"scores": [PASSED] * 58, "lost": 1, "not_run": 1},
            {},
            "INCOMPLETE",
            ("1 of 60 cases started and left no score", "1 of 60 cases was not run"),
            id="lost",
        ),
        pytest.param(
            {"scores": [PASSED] * 10 + [TIMED_OUT], "not_run": 1},
            {"lower_bound_95": 0.99, "min_cases": 11},
            "FAIL",
            (
                "1 of 12 cases ended with a failure mode of severity block: sut.timeout (1)",
                "the lower bound 0.635 is below 0.99",
                "10 cases passed; at least 11 are needed",
                "1 of 12 cases was not run",
            ),
            id="failing wins over missing",
        ),
    ],
)
def test_verdicts_and_their_reasons(
    run: dict[str, Any], gate: dict[str, Any], verdict: str, reasons: tuple[str, ...]
) -> None:
    """Each verdict says why, the weightiest reason first."""
    result = evaluate_gate(make_run(**run), GateSettings(**gate))
    assert (result.verdict, result.reasons) == (verdict, reasons)


def test_warnings_and_information_block_nothing() -> None:
    """Only severity block fails a gate."""
    codes = make_score(1.0, codes={"slow": "warn", "note": "info"})
    assert evaluate_gate(make_run([codes])).verdict == "PASS"


def test_codes_are_counted_by_case_the_most_frequent_first() -> None:
    """A code that a case gives twice counts once; a case with two codes is one case."""
    both = make_score(0.0, codes={"a.rare": "block", "sut.timeout": "block"})
    result = evaluate_gate(make_run([both, TIMED_OUT, PASSED]))
    assert result.reasons == (
        "2 of 3 cases ended with a failure mode of severity block: sut.timeout (2), a.rare (1)",
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0.000"), (0.3, "0.300"), (0.94966, "0.949"), (0.9999, "0.999"), (1.0, "1.000")],
)
def test_a_share_is_never_shown_higher_than_it_is(share: float, words: str) -> None:
    """A bound that missed what was asked for does not read as if it had reached it."""
    assert cut_share(share) == words


def test_a_bound_that_is_reached_exactly_passes() -> None:
    """The bound is compared with all its digits."""
    report = make_run([PASSED] * 58)
    bound = report.lower_bound_95.value
    assert bound is not None
    assert passes([PASSED] * 58, GateSettings(lower_bound_95=bound))
    assert not passes([PASSED] * 58, GateSettings(lower_bound_95=bound + 1e-12))


def test_a_selection_neither_passes_nor_fails() -> None:
    """Chosen cases leave the gate undecided, and what would fail it is still said."""
    good = evaluate_gate(make_run([PASSED] * 60), is_selection=True)
    assert good.verdict == "INCOMPLETE"
    assert good.reasons == ("the user chose these cases; a gate needs all of the class",)
    bad = evaluate_gate(make_run([TIMED_OUT]), is_selection=True)
    assert bad.verdict == "INCOMPLETE"
    assert "sut.timeout (1)" in bad.reasons[1]


def test_repetitions_fill_up_no_cases() -> None:
    """Three cases run four times are three cases."""
    case_ids = [f"{name}#{i}" for name in "abc" for i in (1, 2, 3, 4)]
    report = aggregate(make_plan(case_ids), [(case_id, PASSED) for case_id in case_ids])
    assert evaluate_gate(report, GateSettings(min_cases=3)).verdict == "PASS"
    result = evaluate_gate(report, GateSettings(min_cases=4))
    assert result.reasons == ("3 cases passed; at least 4 are needed",)


def passes(scores: list[BenchScore], gate: GateSettings, **missing: Any) -> bool:
    """Say whether a run of these scores passes a gate."""
    return evaluate_gate(make_run(scores, **missing), gate).verdict == "PASS"


@given(SCORES, GATES, FAILURES)
@settings(deadline=None, max_examples=150)
def test_a_failure_more_never_turns_fail_into_pass(
    scores: list[BenchScore], gate: GateSettings, failure: BenchScore
) -> None:
    """What did not pass does not pass with one more failing case."""
    assert passes(scores, gate) or not passes([*scores, failure], gate)


@given(SCORES.filter(bool), GATES, FAILURES, st.data())
@settings(deadline=None, max_examples=150)
def test_a_failure_in_the_place_of_a_pass_never_turns_fail_into_pass(
    scores: list[BenchScore], gate: GateSettings, failure: BenchScore, data: st.DataObject
) -> None:
    """What did not pass does not pass once one of its cases fails."""
    place = data.draw(st.integers(min_value=0, max_value=len(scores) - 1))
    worse = [*scores[:place], failure, *scores[place + 1 :]]
    assert passes(scores, gate) or not passes(worse, gate)


@given(SCORES.filter(bool), GATES, st.sampled_from(["lost", "not_run"]))
@settings(deadline=None, max_examples=60)
def test_a_run_that_misses_a_case_never_passes(
    scores: list[BenchScore], gate: GateSettings, how: str
) -> None:
    """A case without a score, however it came about, leaves nothing to pass."""
    assert not passes(scores[1:], gate, **{how: 1})


@given(SCORES, GATES, FAILURES, st.integers(min_value=1, max_value=3))
@settings(deadline=None, max_examples=60)
def test_a_repeated_failure_more_never_turns_fail_into_pass(
    scores: list[BenchScore], gate: GateSettings, failure: BenchScore, times: int
) -> None:
    """Cases that run several times give no way around it: neither a new case nor another run."""
    pairs = [(f"c{i}#{turn}", score) for i, score in enumerate(scores) for turn in (1, 2)]
    more = [(f"new#{turn}", failure) for turn in range(1, times + 1)]
    again = [("c0#3", failure)] if scores else more
    before = aggregate(make_plan(dict(pairs)), pairs)
    for added in (more, again):
        after = aggregate(make_plan(dict(pairs + added)), pairs + added)
        failed_before = evaluate_gate(before, gate).verdict == "FAIL"
        assert not (failed_before and evaluate_gate(after, gate).verdict == "PASS")
