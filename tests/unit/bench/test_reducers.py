"""Reducers of repeated cases, against what all subsets of the runs say."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import BY_HAND, TOO_FEW, lower_bound_95
from pytest_failure_taxonomy.bench.report import (
    DistinctCase,
    needed_runs,
    reduce_case,
    reduce_runs,
)
from tests.helpers.bench_scores import make_score

RUNS = st.lists(
    st.tuples(st.floats(min_value=0, max_value=1), st.booleans()),
    min_size=1,
    max_size=7,
)


def runs_of(*scores: float) -> DistinctCase:
    """Return a run for each score, passed where it is above 0."""
    return DistinctCase(runs=[make_score(score) for score in scores])


@pytest.mark.parametrize(
    ("name", "scores", "expected"),
    [
        ("mean", [1, 0.5, 0], 0.5),
        ("majority", [1, 1, 0], 1),
        ("majority", [1, 0], 0),
        ("majority", [1], 1),
        ("pass@1", [1, 0, 0, 0], 1 / 4),
        ("pass@2", [1, 0, 0, 0], 1 / 2),
        ("pass@3", [1, 0, 0, 0], 3 / 4),
        ("pass@4", [1, 0, 0, 0], 1),
        ("pass@2", [0, 0], 0),
        ("pass^1", [1, 1, 1, 0], 3 / 4),
        ("pass^2", [1, 1, 1, 0], 1 / 2),
        ("pass^4", [1, 1, 1, 0], 0),
        ("pass^2", [1, 1], 1),
        ("best@1", [0.2, 0.4, 0.9], 0.5),
        ("best@2", [0.2, 0.4, 0.9], (0.4 + 0.9 + 0.9) / 3),
        ("best@3", [0.2, 0.4, 0.9], 0.9),
    ],
)
def test_a_reducer_of_one_case(name: str, scores: list[float], expected: float) -> None:
    """Each has the value that can be counted by hand."""
    assert reduce_case(name, runs_of(*scores).runs) == pytest.approx(expected)


@given(RUNS, st.data())
def test_estimators_are_means_over_all_subsets(
    given_runs: list[tuple[float, bool]], data: st.DataObject
) -> None:
    """pass@k, pass^k and best@k are what a random choice of k of the runs has on average."""
    runs = [make_score(score, passed=passed) for score, passed in given_runs]
    k = data.draw(st.integers(min_value=1, max_value=len(runs)))
    subsets = list(combinations(runs, k))
    for name, figure in (
        ("pass@", lambda chosen: any(run.passed for run in chosen)),
        ("pass^", lambda chosen: all(run.passed for run in chosen)),
        ("best@", lambda chosen: max(run.counted_score for run in chosen)),
    ):
        expected = sum(map(figure, subsets)) / len(subsets)
        assert reduce_case(f"{name}{k}", runs) == pytest.approx(expected)
        assert 0 <= reduce_case(f"{name}{k}", runs) <= 1


@pytest.mark.parametrize(
    "name",
    ["", "pass", "pass@", "pass@0", "pass@-1", "pass@01", "pass^x", "worst@2", "Mean"],
)
def test_other_names_are_no_reducers(name: str) -> None:
    """Only the listed words are reducers, with a k from 1."""
    with pytest.raises(ValueError, match="there is no reducer"):
        needed_runs(name)


def test_a_bound_counts_each_distinct_case_once() -> None:
    """Three runs of six cases prove what six numbers prove, not eighteen."""
    cases = [runs_of(1, 1, 0)] * 5 + [runs_of(0, 0, 0)]
    (reduced,) = reduce_runs(["pass@2"], cases)
    assert reduced.value == pytest.approx(5 / 6)
    assert reduced.lower_bound_95 == lower_bound_95([1.0] * 5 + [0.0])
    assert reduced.lower_bound_95.n == 6


def test_no_bound_for_few_or_picked_cases() -> None:
    """The value stays, and the bound says why there is none."""
    (few,) = reduce_runs(["mean"], [runs_of(1, 0)] * 4)
    (picked,) = reduce_runs(["mean"], [runs_of(1, 0)] * 9, BY_HAND)
    assert (few.value, few.lower_bound_95.method) == (0.5, TOO_FEW)
    assert (picked.value, picked.lower_bound_95.method) == (0.5, BY_HAND)


def test_no_value_where_a_case_has_too_few_runs() -> None:
    """A cap that left a case with fewer runs leaves the reducer without a value."""
    cases = [runs_of(1, 1, 1)] * 5 + [runs_of(1)]
    pass_2, mean = reduce_runs(["pass@2", "mean"], cases)
    assert pass_2.value is None
    assert pass_2.lower_bound_95.method == "none: 1 of 6 cases ran fewer than 2 times"
    assert mean.value == 1.0
    (none,) = reduce_runs(["mean"], [])
    assert (none.value, none.lower_bound_95.method) == (None, "none: no case ran")
