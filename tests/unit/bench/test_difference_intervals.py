"""The interval of paired differences, and McNemar's exact test."""

from __future__ import annotations

import itertools
import sys
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import (
    NO_SCIPY,
    TOO_FEW,
    difference_interval_95,
    holm,
    mcnemar_p_value,
)

DIFFERENCES = st.lists(st.floats(min_value=-1, max_value=1), min_size=5, max_size=12)


def ends(differences: list[float]) -> tuple[float, float]:
    """Return both ends of an interval."""
    found = difference_interval_95(differences)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def flips(worse: int, better: int, same: int) -> list[float]:
    """Return the differences of cases that got worse, better, and stayed."""
    return [-1.0] * worse + [1.0] * better + [0.0] * same


@pytest.mark.slow
@pytest.mark.parametrize("same", [0, 7])
def test_it_excludes_0_exactly_where_mcnemar_rejects(same: int) -> None:
    """The interval and McNemar's exact test at 5 % never say different things of 0/1 scores."""
    for worse, better in itertools.product(range(13), range(13)):
        if worse + better + same < 5:
            continue
        low, high = ends(flips(worse, better, same))
        rejects = mcnemar_p_value(worse, better) <= 0.05
        assert (high < 0 or low > 0) == rejects, (worse, better)


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(min_value=0, max_value=300), st.integers(min_value=0, max_value=300))
def test_the_p_value_is_scipys(worse: int, better: int) -> None:
    """It is the two-sided binomial test of the flips, computed in whole numbers."""
    from scipy.stats import binomtest  # takes a second

    expected = binomtest(worse, worse + better).pvalue if worse + better else 1.0
    assert mcnemar_p_value(worse, better) == pytest.approx(expected)


@pytest.mark.parametrize(("worse", "better"), [(6, 0), (5, 1), (2, 9), (4, 4), (0, 0)])
def test_its_p_value_is_mcnemars_for_scores_of_0_and_1(worse: int, better: int) -> None:
    """And below 5 % where it excludes 0."""
    found = difference_interval_95(flips(worse, better, 5))
    assert found.p_value == pytest.approx(mcnemar_p_value(worse, better), abs=1e-9)
    assert found.low is not None
    assert found.high is not None
    assert (found.p_value or 0.0) < 0.05 or found.low <= 0 <= found.high


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
    ],
)
def test_p_values_of_several_tests(
    p_values: list[float], adjusted: list[float]
) -> None:
    """The least is multiplied by their number, the next by one less; none is below one before."""
    assert holm(p_values) == pytest.approx(adjusted)


def test_the_p_value_by_hand() -> None:
    """Of ten flips, one to the better: 2 · (1 + 10) / 1024."""
    assert mcnemar_p_value(9, 1) == 2 * (comb(10, 0) + comb(10, 1)) / 2**10
    assert mcnemar_p_value(0, 0) == 1.0
    assert mcnemar_p_value(4_000, 0) == 0.0


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(DIFFERENCES)
def test_the_mean_is_within_and_both_sides_are_alike(differences: list[float]) -> None:
    """The interval holds the sample's own mean; swapping the runs mirrors it."""
    low, high = ends(differences)
    mean = sum(differences) / len(differences)
    assert -1 <= low <= mean + 1e-6
    assert mean - 1e-6 <= high <= 1
    assert ends([-each for each in reversed(differences)]) == pytest.approx(
        (-high, -low), abs=1e-8
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(DIFFERENCES, st.data())
def test_a_loss_never_raises_either_end(
    differences: list[float], data: st.DataObject
) -> None:
    """A lower difference in the place of a higher one moves no end up."""
    index = data.draw(st.integers(min_value=0, max_value=len(differences) - 1))
    lower = data.draw(st.floats(min_value=-1, max_value=differences[index]))
    changed = [*differences[:index], lower, *differences[index + 1 :]]
    before, after = ends(differences), ends(changed)
    assert after[0] <= before[0] + 1e-8
    assert after[1] <= before[1] + 1e-8


def test_no_change_proves_little() -> None:
    """That 60 cases stayed the same leaves a difference of 0.06 to either side possible."""
    low, high = ends([0.0] * 60)
    assert (low, high) == pytest.approx(
        (0.025 ** (1 / 60) - 1, 1 - 0.025 ** (1 / 60)), abs=1e-8
    )


def test_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than five pairs, or no scipy: null, with the reason."""
    few = difference_interval_95([0.0] * 4)
    assert (few.low, few.high, few.method, few.n) == (None, None, TOO_FEW, 4)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    none = difference_interval_95([0.5] * 9)
    assert (none.low, none.high, none.method) == (None, None, NO_SCIPY)
    with pytest.raises(ValueError, match="a difference is from -1 to 1"):
        difference_interval_95([1.5] * 9)
