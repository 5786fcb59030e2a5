"""The report of a run: what is in which figure, whatever broke."""

from __future__ import annotations

import math
import random
import re
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.aggregation import aggregate
from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.models import BenchScore, GateSettings
from tests.helpers.bench_scores import make_plan, make_run, make_score

SCORES = st.lists(
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
    """A started case without a score is a 0 in mean, deviation and bound; no score is made up."""
    report = make_run([make_score(1.0)] * 5, lost=1)
    assert report.mean_score == pytest.approx(5 / 6)
    assert report.score_stddev == pytest.approx(statistics.stdev([1] * 5 + [0]))
    assert report.lower_bound_95 == lower_bound_95([1.0] * 5 + [0.0])
    assert len(report.per_case) == 5
    assert not report.complete
    assert report.counts.model_dump() == {
        "scheduled": 6,
        "started": 6,
        "graded": 5,
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


@given(SCORES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_the_order_of_scores_moves_no_digit(scores: list[BenchScore], rng: random.Random) -> None:
    """The same scores in any order make the same report, to the last digit."""
    case_ids = [f"c{i}" for i in range(len(scores))]
    pairs = list(zip(case_ids, scores, strict=True))
    first = aggregate(make_plan(case_ids), pairs, run_id="run")
    rng.shuffle(pairs)
    assert aggregate(make_plan(case_ids), pairs, run_id="run") == first


@given(SCORES)
@settings(deadline=None, max_examples=60)
def test_no_figure_is_better_than_its_cases(scores: list[BenchScore]) -> None:
    """The mean is the plain one over all cases, failed ones as 0, and the bound is below it."""
    report = make_run(scores)
    counted = [score.score if score.passed else 0.0 for score in scores]
    if not scores:
        return
    assert report.mean_score == pytest.approx(math.fsum(counted) / len(counted))
    assert report.passed_count == sum(score.passed for score in scores)
    assert report.total_cost_usd == pytest.approx(sum(score.cost_usd for score in scores))
    bound = report.lower_bound_95.value
    assert bound is None or bound <= math.fsum(counted) / len(counted) + 1e-9


def test_repetitions_of_a_case_are_one_case_for_the_bound() -> None:
    """Six cases run three times prove what six cases prove; the mean is over all runs."""
    case_ids = [f"case-{name}#{i}" for name in "abcdef" for i in (1, 2, 3)]
    scores = [(case_id, make_score(0.0 if case_id == "case-a#2" else 1.0)) for case_id in case_ids]
    report = aggregate(make_plan(case_ids), scores)
    assert report.mean_score == pytest.approx(17 / 18)
    assert report.lower_bound_95 == lower_bound_95([1.0] * 5 + [2 / 3])


def test_a_case_whose_own_id_ends_like_a_repetition_is_its_own() -> None:
    """Ids such as ``x#1`` of cases that are not repeated are left alone."""
    ids = ["a#1", "b#1", "c#1", "d#1", "e#1"]
    assert aggregate(make_plan(ids), [(i, make_score()) for i in ids]).lower_bound_95.n == 5


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
