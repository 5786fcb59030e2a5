"""The exact bounds of a rate, and what they decide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.prove.rates import (
    Count,
    are_apart,
    lower_bound,
    passes_needed,
    upper_bound,
)


@pytest.mark.parametrize(
    ("failed", "runs", "low", "high"),
    [
        (4, 40, 0.0279, 0.2366),  # R: binom.test(4, 40)
        (0, 5, 0.0, 0.5218),
        (5, 5, 0.4782, 1.0),
        (10, 20, 0.2720, 0.7280),
        (1, 20, 0.0013, 0.2487),
        (0, 0, 0.0, 1.0),
        (1990, 2000, 0.9908, 0.9976),
    ],
)
def test_the_interval_is_that_of_clopper_and_pearson(
    failed: int, runs: int, low: float, high: float
) -> None:
    """It is two-sided, at 95 %."""
    assert Count(failed=failed, runs=runs).interval == pytest.approx(
        (low, high), abs=1e-4
    )


@given(
    st.integers(1, 60).flatmap(
        lambda runs: st.tuples(st.integers(0, runs), st.just(runs))
    )
)
def test_the_bounds_agree_with_the_beta_distribution(counts: tuple[int, int]) -> None:
    """They are its quantiles."""
    special = pytest.importorskip("scipy.special")
    failed, runs = counts
    count = Count(failed=failed, runs=runs)
    low = 0.0 if failed == 0 else special.betaincinv(failed, runs - failed + 1, 0.05)
    high = (
        1.0 if failed == runs else special.betaincinv(failed + 1, runs - failed, 0.95)
    )
    assert lower_bound(count) == pytest.approx(low, abs=1e-9)
    assert upper_bound(count) == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize(
    ("effect", "without", "apart"),
    [
        ((5, 5), (0, 5), True),
        ((4, 4), (0, 4), False),
        ((5, 5), (1, 5), False),
        ((4, 5), (0, 5), False),
        ((8, 10), (0, 10), True),
        ((10, 20), (1, 20), True),
        ((10, 20), (5, 20), False),
        ((0, 5), (5, 5), False),
    ],
)
def test_what_is_enough_for_a_proof(
    effect: tuple[int, int], without: tuple[int, int], apart: bool
) -> None:
    """Five of five against none of five is just enough."""
    sides = [Count(failed=failed, runs=runs) for failed, runs in (effect, without)]
    assert are_apart(*sides) is apart


@pytest.mark.parametrize(
    ("rate", "passes"), [(0.05, 59), (0.028, 106), (0.5, 5), (1.0, 1)]
)
def test_how_many_passes_exclude_a_rate(rate: float, passes: int) -> None:
    """So many in a row happen in less than one of twenty cases."""
    assert passes_needed(rate) == passes
    assert (1 - rate) ** passes <= 0.05


def test_runs_that_decide_nothing_are_not_counted() -> None:
    """Only passes and the failure that was asked for are."""
    count = Count()
    for result in ("failed", "passed", "other", "failed"):
        count = count.plus(result)
    assert (count.failed, count.runs, str(count)) == (2, 3, "2 of 3")
