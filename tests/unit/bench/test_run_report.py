"""The report of a run, its gate and its lines on a terminal."""

from __future__ import annotations

import math
import random
import re
import statistics
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import INCOMPLETE, lower_bound_95
from pytest_failure_taxonomy.bench.models import BenchScore, GateSettings, LowerBound
from pytest_failure_taxonomy.bench.report import (
    aggregate,
    cut_share,
    evaluate_gate,
    mean_words,
    summary_lines,
    table_of_systems,
)
from tests.helpers.bench_scores import make_plan, make_run, make_score

ANY_SCORES = st.lists(
    st.builds(
        make_score,
        st.floats(min_value=0, max_value=1),
        passed=st.booleans(),
        cost_usd=st.floats(min_value=0, max_value=100),
    ),
    max_size=12,
)


def test_a_case_that_failed_counts_as_0_in_every_figure() -> None:
    """A failed case is in the denominators with a score of 0, whatever the rubric gave it."""
    report = make_run([make_score(1.0)] * 4 + [make_score(0.9, passed=False)])
    assert report.mean_score == 0.8
    assert report.score_stddev == pytest.approx(statistics.stdev([1, 1, 1, 1, 0]))
    assert report.lower_bound_95 == lower_bound_95([1.0, 1.0, 1.0, 1.0, 0.0])
    assert report.passed_count == 4
    assert report.complete


def test_a_case_that_was_lost_counts_as_0_and_leaves_the_run_incomplete() -> None:
    """A started case without a score is a 0 in mean and deviation; there is no bound."""
    report = make_run([make_score(1.0)] * 5, lost=1)
    assert report.mean_score == pytest.approx(5 / 6)
    assert report.score_stddev == pytest.approx(statistics.stdev([1] * 5 + [0]))
    assert report.lower_bound_95 == LowerBound(value=None, method=INCOMPLETE, n=6)
    assert len(report.per_case) == 5
    assert not report.complete
    assert report.counts.model_dump() == {
        "scheduled": 6,
        "started": 6,
        "graded": 5,
        "lost": 1,
        "passed": 5,
        "not_run": 0,
    }


def test_a_case_with_a_score_was_started() -> None:
    """A score counts although the list of the started cases lacks its case."""
    report = aggregate(make_plan(["a", "b"]), [("a", make_score(1.0))], started=["b"])
    assert report.mean_score == 0.5
    assert (report.counts.started, report.counts.graded) == (2, 1)


def test_a_case_that_was_not_run_is_in_no_figure() -> None:
    """A case that was never started changes no mean, and the report says so."""
    report = make_run([make_score(0.8)] * 5, not_run=3)
    assert report.mean_score == 0.8
    assert report.score_stddev == 0
    assert report.lower_bound_95.n == 5
    assert not report.complete
    assert report.counts.not_run == 3


def test_a_run_without_cases_has_no_mean() -> None:
    """Nothing run: no mean, no deviation, no bound, and nothing missing."""
    report = aggregate(make_plan([]), [])
    assert (report.mean_score, report.score_stddev) == (None, None)
    assert report.lower_bound_95.value is None
    assert report.complete
    assert report.per_case == ()


def test_one_case_has_no_deviation() -> None:
    """A sample of one has a mean and no standard deviation."""
    report = make_run([make_score(0.5)])
    assert (report.mean_score, report.score_stddev) == (0.5, None)


def test_cases_stand_in_the_order_of_their_ids() -> None:
    """The order in which cases finished is not the order of the report."""
    scores = [("b", make_score(0.2)), ("c", make_score(0.3)), ("a", make_score(0.1))]
    report = aggregate(make_plan(["c", "a", "b"]), scores)
    assert [case_id for case_id, _ in report.per_case] == ["a", "b", "c"]


@pytest.mark.slow
@given(ANY_SCORES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_the_order_of_scores_moves_no_digit(
    scores: list[BenchScore], rng: random.Random
) -> None:
    """The same scores in any order make the same report, to the last digit."""
    case_ids = [f"c{i}" for i in range(len(scores))]
    pairs = list(zip(case_ids, scores, strict=True))
    first = aggregate(make_plan(case_ids), pairs, run_id="run")
    rng.shuffle(pairs)
    assert aggregate(make_plan(case_ids), pairs, run_id="run") == first


@given(ANY_SCORES)
@settings(deadline=None, max_examples=60)
def test_no_figure_is_better_than_its_cases(scores: list[BenchScore]) -> None:
    """The mean is the plain one over all cases, failed ones as 0, and the bound is below it."""
    report = make_run(scores)
    counted = [score.score if score.passed else 0.0 for score in scores]
    if not scores:
        return
    assert report.mean_score == pytest.approx(math.fsum(counted) / len(counted))
    assert report.passed_count == sum(score.passed for score in scores)
    assert report.total_cost_usd == pytest.approx(
        sum(score.cost_usd for score in scores)
    )
    bound = report.lower_bound_95.value
    assert bound is None or bound <= math.fsum(counted) / len(counted) + 1e-9


def test_repetitions_of_a_case_are_one_case_for_the_bound() -> None:
    """Six cases run three times prove what six cases prove; the mean is over all runs."""
    case_ids = [f"case-{name}#{i}" for name in "abcdef" for i in (1, 2, 3)]
    scores = [
        (case_id, make_score(0.0 if case_id == "case-a#2" else 1.0))
        for case_id in case_ids
    ]
    report = aggregate(make_plan(case_ids), scores)
    assert report.mean_score == pytest.approx(17 / 18)
    assert report.lower_bound_95 == lower_bound_95([1.0] * 5 + [2 / 3])


def test_a_case_whose_own_id_ends_like_a_repetition_is_its_own() -> None:
    """Ids such as ``x#1`` of cases that are not repeated are left alone."""
    ids = ["a#1", "b#1", "c#1", "d#1", "e#1"]
    assert (
        aggregate(make_plan(ids), [(i, make_score()) for i in ids]).lower_bound_95.n
        == 5
    )


def test_only_codes_of_severity_block_are_listed_each_once_and_sorted() -> None:
    """The list of blocking codes has no duplicate and nothing of a lower severity."""
    report = make_run(
        [
            make_score(0, codes={"sut.timeout": "block", "slow": "warn"}),
            make_score(0, codes={"a.bad": "block", "sut.timeout": "block"}),
            make_score(1, codes={"note": "info"}),
        ]
    )
    assert report.block_severity_failure_modes == ("a.bad", "sut.timeout")


def test_the_cost_is_that_of_all_graded_cases() -> None:
    """Costs are added without rounding errors, those of failed cases too."""
    report = make_run([make_score(i % 2, cost_usd=0.1) for i in range(10)])
    assert report.total_cost_usd == 1.0


@pytest.mark.parametrize(
    ("scored", "started", "words"),
    [
        (["a", "x", "w"], None, "no case of the plan has the id 'w', 'x'"),
        (["a", "a"], None, "two scores for the case 'a'; a case has one"),
        (["a"], ["b", "y"], "no case of the plan has the id 'y'"),
    ],
)
def test_scores_that_fit_no_case_are_refused(
    scored: list[str], started: list[str] | None, words: str
) -> None:
    """A score of an unknown case, a second score, and a start of an unknown case are errors."""
    scores = [(case_id, make_score()) for case_id in scored]
    with pytest.raises(ValueError, match=re.escape(words)):
        aggregate(make_plan(["a", "b"]), scores, started=started)


def test_each_run_has_its_own_id_unless_one_is_given() -> None:
    """A run's id is 32 random hexadecimal digits, or what the caller says."""
    first, second = (aggregate(make_plan([]), []).run_id for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second
    assert aggregate(make_plan([]), [], run_id="partial:1").run_id == "partial:1"


def test_a_gate_is_evaluated_where_the_plan_has_one() -> None:
    """A plan without a gate has no result; one with a gate has; a selection decides nothing."""
    scores = [make_score()] * 6
    strict = GateSettings(lower_bound_95=0.9)
    assert make_run(scores).gate is None
    failed = make_run(scores, gate=strict).gate
    assert failed is not None
    assert failed.verdict == "FAIL"
    chosen = make_run(scores, gate=strict, is_selection=True).gate
    assert chosen is not None
    assert chosen.verdict == "INCOMPLETE"


PASSED = make_score(1.0)
FAILED = make_score(0.0)
TIMED_OUT = make_score(0.0, codes={"sut.timeout": "block"})

GATES = st.builds(
    GateSettings,
    lower_bound_95=st.none() | st.floats(min_value=0, max_value=1),
    min_passed_cases=st.none() | st.integers(min_value=1, max_value=12),
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
            {"lower_bound_95": 0.8, "min_passed_cases": 20},
            "PASS",
            (),
            id="enough",
        ),
        pytest.param(
            {"scores": [PASSED] * 58 + [TIMED_OUT] * 2},
            {},
            "FAIL",
            (
                "2 of 60 cases ended with a failure mode of severity block: sut.timeout (2)",
            ),
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
            {"min_passed_cases": 10},
            "FAIL",
            ("8 cases passed; at least 10 are needed",),
            id="too few",
        ),
        pytest.param(
            {"scores": [PASSED] * 8 + [FAILED] * 2},
            {"min_passed_cases": 10},
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
            {"lower_bound_95": 0.99, "min_passed_cases": 11},
            "FAIL",
            (
                "1 of 12 cases ended with a failure mode of severity block: sut.timeout (1)",
                "10 cases passed; at least 11 are needed",
                "1 of 12 cases was not run",
            ),
            id="a code that blocks wins over missing cases",
        ),
        pytest.param(
            {"scores": [PASSED] * 9 + [FAILED] * 9, "not_run": 1},
            {"lower_bound_95": 0.99, "min_passed_cases": 10},
            "INCOMPLETE",
            ("1 of 19 cases was not run", "9 cases passed; at least 10 are needed"),
            id="what more cases could fix",
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
    [
        (0.0, "0.000"),
        (0.3, "0.300"),
        (0.94966, "0.949"),
        (0.9999, "0.999"),
        (1.0, "1.000"),
    ],
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
    settings = GateSettings(min_passed_cases=61)
    good = evaluate_gate(make_run([PASSED] * 60), settings, is_selection=True)
    assert good.verdict == "INCOMPLETE"
    assert good.reasons == (
        "not all cases of the class were selected; a gate needs them all",
    )
    bad = evaluate_gate(make_run([TIMED_OUT]), is_selection=True)
    assert bad.verdict == "INCOMPLETE"
    assert "sut.timeout (1)" in bad.reasons[1]


def test_repetitions_fill_up_no_cases() -> None:
    """Three cases run four times are three cases."""
    case_ids = [f"{name}#{i}" for name in "abc" for i in (1, 2, 3, 4)]
    report = aggregate(make_plan(case_ids), [(case_id, PASSED) for case_id in case_ids])
    assert evaluate_gate(report, GateSettings(min_passed_cases=3)).verdict == "PASS"
    result = evaluate_gate(report, GateSettings(min_passed_cases=4))
    assert result.reasons == ("3 distinct cases passed; at least 4 are needed",)


def passes(scores: list[BenchScore], gate: GateSettings, **missing: Any) -> bool:
    """Say whether a run of these scores passes a gate."""
    return evaluate_gate(make_run(scores, **missing), gate).verdict == "PASS"


@pytest.mark.slow
@given(SCORES, GATES, FAILURES)
@settings(deadline=None, max_examples=150)
def test_a_failure_more_never_turns_fail_into_pass(
    scores: list[BenchScore], gate: GateSettings, failure: BenchScore
) -> None:
    """What did not pass does not pass with one more failing case."""
    assert passes(scores, gate) or not passes([*scores, failure], gate)


@pytest.mark.slow
@given(SCORES.filter(bool), GATES, FAILURES, st.data())
@settings(deadline=None, max_examples=150)
def test_a_failure_in_the_place_of_a_pass_never_turns_fail_into_pass(
    scores: list[BenchScore],
    gate: GateSettings,
    failure: BenchScore,
    data: st.DataObject,
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


@pytest.mark.slow
@given(SCORES, GATES, FAILURES, st.integers(min_value=1, max_value=3))
@settings(deadline=None, max_examples=60)
def test_a_repeated_failure_more_never_turns_fail_into_pass(
    scores: list[BenchScore], gate: GateSettings, failure: BenchScore, times: int
) -> None:
    """Cases that run several times give no way around it: neither a new case nor another run."""
    pairs = [
        (f"c{i}#{turn}", score) for i, score in enumerate(scores) for turn in (1, 2)
    ]
    more = [(f"new#{turn}", failure) for turn in range(1, times + 1)]
    again = [("c0#3", failure)] if scores else more
    before = aggregate(make_plan(dict(pairs)), pairs)
    for added in (more, again):
        after = aggregate(make_plan(dict(pairs + added)), pairs + added)
        failed_before = evaluate_gate(before, gate).verdict == "FAIL"
        assert not (failed_before and evaluate_gate(after, gate).verdict == "PASS")


@pytest.mark.parametrize(
    ("scores", "slowest"),
    [
        # The last one waited for its rubric alone.
        (
            [
                make_score(system_ms=40.0, wall_clock_ms=60.0),
                make_score(system_ms=90.0, wall_clock_ms=100.0),
                make_score(system_ms=20.0, wall_clock_ms=5_000.0),
            ],
            ["slowest: c001 90 ms, c000 40 ms, c002 20 ms"],
        ),
        # Of a run of an earlier version it is not known how long the system took.
        ([make_score(wall_clock_ms=5_000.0)], []),
    ],
)
def test_the_slowest_cases_are_those_whose_system_took_longest(
    scores: list[BenchScore], slowest: list[str]
) -> None:
    """The queue of the grader is nobody's time."""
    lines = [line.strip() for line in summary_lines(make_run(scores))]
    assert [line for line in lines if line.startswith("slowest")] == slowest
    table = "\n".join(table_of_systems([make_run(scores)]))
    assert ("time of a case" in table) == ("50 ms" in table) == bool(slowest)


def test_a_run_with_everything_fits_in_a_few_lines() -> None:
    """Outcome, blocking codes, slowest cases, cost and gate, in this order."""
    report = make_run(
        [make_score(1.0, cost_usd=0.02, system_ms=100.0 * i) for i in range(57)]
        + [
            make_score(
                0, codes={"sut.timeout": "block", "slow": "warn"}, system_ms=300_000.0
            )
        ]
        * 2
        + [make_score(0, codes={"validator.tests_failed": "block", "note": "info"})],
        gate=GateSettings(lower_bound_95=0.9),
    )
    assert summary_lines(report) == [
        (
            "bench vuln: 57 of 60 passed; mean 0.950 ± 0.028; "
            "at least 0.875 (95 %, clopper-pearson, n=60)"
        ),
        "  block: sut.timeout (2), validator.tests_failed (1)",
        "  slowest: c057 5 min, c058 5 min, c056 5.6 s",
        "  cost: $1.14",
        (
            "  gate: FAIL: 3 of 60 cases ended with a failure mode of severity block: "
            "sut.timeout (2), validator.tests_failed (1); the lower bound 0.875 is below 0.9"
        ),
    ]
    detailed = summary_lines(report, detail=True)
    assert detailed[1:5] == [
        "  block: sut.timeout (2), validator.tests_failed (1)",
        "  warn: slow (2)",
        "  info: note (1)",
        "  slowest: c057 5 min, c058 5 min, c056 5.6 s",
    ]


def test_a_run_without_trouble_is_one_line() -> None:
    """No line stands there to say nothing."""
    lines = summary_lines(make_run([make_score(0.5)] * 6))
    assert lines == [
        "bench vuln: 6 of 6 passed; mean 0.500; at least 0.303 (95 %, gaffke, n=6)"
    ]


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (
            {"scores": [PASSED] * 57, "not_run": 3},
            (
                "57 of 60 passed, 3 not run; mean 1.000 of the 57 that were started; "
                "no lower bound: the run is not complete"
            ),
        ),
        (
            {"scores": [PASSED] * 3, "lost": 1, "not_run": 2},
            (
                "3 of 6 passed, 1 lost, 2 not run; mean 0.750 of the 4 that were started; "
                "no lower bound: the run is not complete"
            ),
        ),
        ({"scores": [], "not_run": 2}, "0 of 2 passed, 2 not run"),
        ({"scores": []}, "0 of 0 passed"),
    ],
)
def test_what_is_missing_stands_in_the_first_line(
    run: dict[str, Any], first: str
) -> None:
    """Cases that were lost or not run are said where the passed ones are counted."""
    assert summary_lines(make_run(**run))[0] == f"bench vuln: {first}"


def test_lost_partial_credit_is_said() -> None:
    """A failed case with a score above 0 counts 0, and a line says how many there are."""
    failed = [make_score(0.5, passed=False), make_score(0.25, passed=False)]
    lines = summary_lines(make_run([make_score(1.0), *failed, make_score(0.0)]))
    assert "  partial credit: 2 failed cases scored above 0; each counts 0" in lines


def test_a_gate_that_passes_says_so() -> None:
    """A passed gate has no reasons and no colon."""
    lines = summary_lines(make_run([PASSED] * 6, gate=GateSettings(lower_bound_95=0.5)))
    assert lines[-1] == "  gate: PASS"


def test_a_mean_is_rounded_and_never_to_what_it_has_not_reached() -> None:
    """A mean of 0.9996 has not reached 1.000, 8 of 9 are 0.889, and 0.3 is not 0.299."""
    assert mean_words(8 / 9, 0.10476) == "0.889 ± 0.105"
    assert [mean_words(each) for each in (0, 0.0001, 1)] == ["0.000", "0.001", "1.000"]
    assert (
        "mean 0.999;" in summary_lines(make_run([PASSED] * 4 + [make_score(0.998)]))[0]
    )
    assert "mean 0.300;" in summary_lines(make_run([make_score(0.3)] * 5))[0]


@pytest.mark.parametrize(
    ("cost_usd", "words"),
    [
        (0.00001, "<$0.0001"),
        (0.0123, "$0.0123"),
        (1.234, "$1.23"),
        (1234.5, "$1,234.50"),
    ],
)
def test_costs_have_the_digits_that_count(cost_usd: float, words: str) -> None:
    """Small costs keep four digits, large ones cents; none has no line."""
    assert (
        summary_lines(make_run([make_score(cost_usd=cost_usd)]))[-1]
        == f"  cost: {words}"
    )
    assert not any("cost" in line for line in summary_lines(make_run([PASSED])))


def test_the_public_name_is_the_function() -> None:
    """`aggregate` of the package is the function, whichever of its modules was imported before."""
    program = "from pytest_failure_taxonomy.bench import Runner, aggregate; print(callable(aggregate))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "True\n"
