"""Clusters of cases are the units of bounds, intervals and standard errors."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import (
    difference_interval_95,
    lower_bound_95,
    standard_error,
)
from pytest_failure_taxonomy.bench.comparing import compare_runs, compared_run
from pytest_failure_taxonomy.bench.load.cases import likely_cluster
from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan, TaskClass
from pytest_failure_taxonomy.bench.report import aggregate
from tests.benchmarks.error_rates import of_bounds, of_pairs, of_systems
from tests.helpers.bench_scores import make_score

CLUSTERED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1), st.sampled_from("abcdefg")
    ),
    min_size=8,
    max_size=20,
).filter(lambda given: len({name for _, name in given}) >= 5)


def bound_of(cases: list[tuple[float, str]]) -> float:
    """Return the bound of scores that come with their clusters."""
    value = lower_bound_95(
        [score for score, _ in cases], "", [name for _, name in cases]
    ).value
    assert value is not None
    return value


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize(
    "means", [[0.2, 0.4, 0.8, 1.0, 1.0, 0.0], [1.0] * 6, [1.0] * 4 + [0.0]]
)
def test_clusters_of_one_size_are_bounded_like_their_means(
    means: list[float], size: int
) -> None:
    """Five cases that always end alike prove what one of them does."""
    scores = [mean for mean in means for _ in range(size)]
    clusters = [f"c{number}" for number in range(len(means)) for _ in range(size)]
    bound, alone = lower_bound_95(scores, "", clusters), lower_bound_95(means)
    assert bound.value == pytest.approx(alone.value)
    assert (bound.method, bound.n, bound.clusters) == (
        alone.method,
        len(scores),
        len(means),
    )


def test_a_case_without_a_cluster_is_one_by_itself() -> None:
    """And where no case has one, there are no clusters to speak of."""
    scores = [1.0, 1.0, 0.0, 1.0, 1.0, 0.5]
    assert lower_bound_95(scores, "", [None] * 6) == lower_bound_95(scores)
    some = lower_bound_95(scores, "", ["a", "a", None, None, None, None])
    assert (some.clusters, some.n) == (5, 6)


def test_fewer_than_five_clusters_have_no_bound() -> None:
    """However many cases they have; the reason stands in its place."""
    clusters = [name for name in "abcd" for _ in range(20)]
    bound = lower_bound_95([1.0] * 80, "", clusters)
    assert (bound.value, bound.method) == (None, "none: fewer than 5 clusters")
    interval = difference_interval_95([1.0] * 80, "", clusters)
    assert (interval.low, interval.method) == (None, "none: fewer than 5 clusters")


def test_the_bound_is_a_quantile_of_what_is_weighted_by_size() -> None:
    """Random weights times sizes, with one cluster of the greatest size that was not seen."""
    sizes, means = (
        np.array([1, 2, 3, 4, 9, 20]),
        np.array([1.0, 0.5, 1.0, 0.75, 1 / 3, 0.9]),
    )
    scores = [
        mean for mean, size in zip(means, sizes, strict=True) for _ in range(size)
    ]
    clusters = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
    weights = np.random.default_rng(0).dirichlet(np.ones(7), 200_000) * np.append(
        sizes, 20
    )
    drawn = weights @ np.append(means, 0.0) / weights.sum(axis=1)
    assert bound_of(list(zip(scores, clusters, strict=True))) == pytest.approx(
        float(np.quantile(drawn, 0.05)), abs=0.003
    )


@pytest.mark.slow
@given(CLUSTERED, st.data())
@settings(deadline=None, max_examples=40)
def test_no_failure_raises_the_bound(
    cases: list[tuple[float, str]], data: st.DataObject
) -> None:
    """Neither one more, in whatever cluster, nor one in the place of a score."""
    place = data.draw(st.integers(0, len(cases) - 1))
    name = data.draw(st.sampled_from([*{name for _, name in cases}, "new"]))
    worse = [*cases[:place], (0.0, cases[place][1]), *cases[place + 1 :]]
    assert bound_of([*cases, (0.0, name)]) <= bound_of(cases) + 1e-9
    assert bound_of(worse) <= bound_of(cases) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["20 of 5, alike by 0.5", "5 of 20, alike by 0.9"])
def test_bounds_hold_for_cases_that_are_alike(shape: str) -> None:
    """In 95 % of samples, where those that take each case for itself hold far less often.

    The samples have a fixed seed; the benchmarks draw more of them.
    """
    rates = of_bounds(shape, 60, graded=False)
    assert min(rates[:4]) >= 0.95
    assert min(rates[4:]) < 0.85


@pytest.mark.slow
def test_equal_systems_seldom_seem_to_differ() -> None:
    """In 5 % of samples at most: by clusters where cases are alike, by Holm's method in pairs."""
    by_cluster = of_pairs("5 of 20, alike by 0.9", 12)
    assert max(by_cluster[:4]) <= 0.05
    assert max(by_cluster[4:]) > 0.3
    alone, together, _ = of_systems(5, 200)
    assert together <= 0.05 < 0.15 < alone


def test_a_standard_error_by_hand() -> None:
    """Without clusters the usual one; clusters that end alike count as one score each."""
    scores = [1.0, 0.0, 0.5, 1.0]
    usual = statistics.stdev(scores) / 2
    assert standard_error(scores) == pytest.approx(usual)
    names = [name for name in "abcd" for _ in range(3)]
    assert standard_error(
        [each for each in scores for _ in range(3)], names
    ) == pytest.approx(usual)
    # Sums of 3 and 0 in clusters of 3 and 1, at a mean of 3/4: 3 - 9/4 and 0 - 3/4.
    assert standard_error([1.0, 1.0, 1.0, 0.0], list("aaab")) == pytest.approx(
        math.sqrt(2 * 2 * 0.75**2) / 4
    )
    assert standard_error([1.0, 0.0], ["a", "a"]) is None


def test_a_report_and_a_comparison_take_the_clusters_of_the_cases() -> None:
    """Bound, error, reducers, tags and the interval; six flips of one cluster are one flip."""
    cases = tuple(
        BenchCase(case_id=f"{name}{number}", tags=("all",), cluster=name)
        for name in "abcdef"
        for number in range(6)
    )
    task_class = TaskClass(
        name="vuln", breakdown_keys=frozenset(), failure_mode_taxonomy={}, cases=cases
    )
    plan = RunPlan.of(task_class)
    old = aggregate(plan, [(each.case_id, make_score()) for each in cases])
    failed = aggregate(
        plan, [(each.case_id, make_score(float(each.cluster != "a"))) for each in cases]
    )
    assert old.clusters == {each.case_id: each.cluster for each in cases}
    assert (old.lower_bound_95.n, old.lower_bound_95.clusters) == (36, 6)
    assert failed.lower_bound_95 == failed.by_tag[0].lower_bound_95
    assert failed.standard_error == pytest.approx(1 / 6)
    found = compare_runs(compared_run(old, "old"), compared_run(failed, "new"))
    assert (found.interval_95.clusters, found.finding, found.mcnemar_p) == (
        6,
        "undecided",
        1.0,
    )


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ([{"repo": f"r{number // 2}"} for number in range(12)], "repo"),
        ([{"Author": number % 3} for number in range(12)], "Author"),
        ([{"repo": f"r{number}"} for number in range(12)], ""),
        ([{"repo": "the only one"} for number in range(12)], ""),
        ([{"repo": ["a"]} for number in range(12)], ""),
        ([{"topic": f"t{number // 2}"} for number in range(12)], ""),
        ([{"repo": "a"}] * 2 + [{"repo": "b"}] * 2, ""),
        ([{"repo": "a"}] * 5 + [{}] * 5, ""),
    ],
)
def test_what_looks_like_a_cluster(fields: list[dict[str, Any]], found: str) -> None:
    """A field with a telling name that all cases have, and whose values repeat."""
    cases = [
        BenchCase(case_id=f"c{number}", **each) for number, each in enumerate(fields)
    ]
    assert likely_cluster(cases) == found
