"""The lower bound of a mean: what it is, that it holds, and that failures never raise it."""

from __future__ import annotations

import builtins
import math
import random
from collections.abc import Callable
from fractions import Fraction
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.report import cut_share

PAGE = Path(__file__).parents[3] / "docs" / "bench" / "scores.md"

ANY_SCORES = st.lists(
    st.one_of(
        st.sampled_from([0.0, 0.5, 0.7, 1.0, 1e-9, 0.999]),
        st.floats(min_value=0, max_value=1, allow_nan=False),
    ),
    min_size=5,
    max_size=14,
)


def bound_of(scores: list[float]) -> float:
    """Return the bound of scores that have one."""
    value = lower_bound_95(scores).value
    assert value is not None
    return value


def clopper_pearson_by_bisection(ones: int, n: int) -> float:
    """Solve P(at least this many ones) = 5 % for the share, with whole numbers' binomials."""
    low, high = 0.0, 1.0
    for _ in range(100):
        share = (low + high) / 2
        tail = math.fsum(
            math.comb(n, k) * share**k * (1 - share) ** (n - k)
            for k in range(ones, n + 1)
        )
        low, high = (share, high) if tail < 0.05 else (low, share)
    return low


def share_below_by_fractions(bound: float, scores: list[float]) -> Fraction:
    """Return the probability of a mean below a bound under uniform weights on scores and a 0.

    By the formula of divided differences, for scores that all differ; exact.
    """
    knots = [Fraction(0), *map(Fraction, scores)]
    at = Fraction(bound)
    above = sum(
        (knot - at) ** (len(knots) - 1)
        / math.prod(knot - other for other in knots if other != knot)
        for knot in knots
        if knot > at
    )
    return 1 - Fraction(above)


@pytest.mark.parametrize("n", [5, 6, 20, 58, 100])
def test_zeros_and_ones_have_the_exact_binomial_bound(n: int) -> None:
    """The bound of zeros and ones solves the binomial tail, and the report names its method."""
    for ones in {0, 1, n // 2, n - 1, n}:
        bound = lower_bound_95([1.0] * ones + [0.0] * (n - ones))
        assert bound.method == "clopper-pearson"
        assert bound.n == n
        expected = clopper_pearson_by_bisection(ones, n) if ones else 0.0
        assert bound.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("ones", "n"),
    [(1, 5), (5, 5), (1, 10_000), (3, 10_000), (9_000, 10_000), (10_000, 10_000)],
)
def test_halves_have_half_the_bound_of_ones(ones: int, n: int) -> None:
    """The computation for any scores agrees with the binomial one to nine digits and more."""
    halves = lower_bound_95([0.5] * ones + [0.0] * (n - ones))
    assert halves.method == "gaffke"
    expected = bound_of([1.0] * ones + [0.0] * (n - ones)) / 2
    assert halves.value == pytest.approx(expected, rel=1e-10)


def test_fifty_eight_of_fifty_eight_do_not_prove_95_percent() -> None:
    """58 passes of 58 stay below 0.95; 59 of 59 reach it."""
    assert bound_of([1.0] * 58) == pytest.approx(0.94966, abs=1e-5)
    assert bound_of([1.0] * 58) < 0.95 <= bound_of([1.0] * 59)


def test_the_page_says_what_passes_prove() -> None:
    """The table of the documentation has the bounds that are computed."""
    rows = {
        cells[1]: cells[2:-1]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if len(cells := [cell.strip() for cell in line.split("|")]) > 2
    }
    assert len(rows["cases"]) > 5
    expected = [cut_share(bound_of([1.0] * int(cases))) for cases in rows["cases"]]
    assert rows["bound"] == expected


@given(
    st.lists(
        st.integers(min_value=1, max_value=10**6), min_size=5, max_size=12, unique=True
    )
)
@settings(deadline=None, max_examples=40)
def test_any_scores_have_the_quantile_of_their_randomly_weighted_mean(
    millionths: list[int],
) -> None:
    """Exact arithmetic finds 5 % of the weighted means below the bound."""
    scores = [number / 10**6 for number in millionths]
    bound = lower_bound_95(scores)
    assert bound.method == "gaffke"
    assert bound.value is not None
    assert float(share_below_by_fractions(bound.value, scores)) == pytest.approx(
        0.05, abs=1e-9
    )


def test_the_quantile_is_that_of_a_simulation() -> None:
    """Random weights in plain Python, with equal scores and zeros among them, agree."""
    scores = [0.0, 0.0, 0.3, 0.3, 0.5, 0.9, 0.9, 1.0]
    rng = random.Random(4)  # noqa: S311 - a simulation
    means = []
    for _ in range(40_000):
        weights = [rng.expovariate(1) for _ in range(len(scores) + 1)]
        means.append(sum(map(mul, scores, weights[1:])) / sum(weights))
    assert bound_of(scores) == pytest.approx(sorted(means)[2_000], abs=0.005)


@pytest.mark.parametrize("n", [5, 30])
def test_near_ones_are_bounded_like_ones(n: int) -> None:
    """Nothing jumps where scores of 0 and 1 become scores of almost 0 and 1."""
    near = [1 - 1e-8] * n + [1e-8] * 2
    exact = [1.0] * n + [0.0] * 2
    assert lower_bound_95(near).method == "gaffke"
    assert bound_of(near) == pytest.approx(bound_of(exact), abs=1e-7)


def test_what_was_never_seen_still_counts() -> None:
    """Nineteen ones and a half do not prove that nothing is ever worse than a half."""
    assert bound_of([1.0] * 19 + [0.5]) < bound_of([1.0] * 20) < 0.87


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_bound_holds_in_95_percent_of_samples(n: int) -> None:
    """Whatever the shares of ones and halves, 95 % of samples have a bound below the mean."""
    bounds = {
        (ones, halves): bound_of(
            [1.0] * ones + [0.5] * halves + [0.0] * (n - ones - halves)
        )
        for ones in range(n + 1)
        for halves in range(n + 1 - ones)
    }
    for one, half in [
        (0.5, 0.5),
        (0.9, 0.05),
        (0.3, 0.3),
        (0.05, 0.05),
        (0.99, 0.0),
        (0.2, 0.8),
    ]:
        held = math.fsum(
            math.comb(n, ones)
            * math.comb(n - ones, halves)
            * one**ones
            * half**halves
            * max(1 - one - half, 0.0) ** (n - ones - halves)
            for (ones, halves), bound in bounds.items()
            if bound <= one + half / 2 + 1e-12
        )
        assert held >= 0.95


@pytest.mark.slow
@given(ANY_SCORES)
@settings(deadline=None, max_examples=150)
def test_one_more_failure_never_raises_the_bound(scores: list[float]) -> None:
    """A score of 0 added to any scores leaves the bound where it is or lowers it."""
    assert bound_of([*scores, 0.0]) <= bound_of(scores)


@pytest.mark.slow
@given(ANY_SCORES, st.data())
@settings(deadline=None, max_examples=150)
def test_a_lower_score_never_raises_the_bound(
    scores: list[float], data: st.DataObject
) -> None:
    """A score replaced by a lower one leaves the bound where it is or lowers it."""
    place = data.draw(st.integers(min_value=0, max_value=len(scores) - 1))
    lower = data.draw(st.floats(min_value=0, max_value=scores[place], allow_nan=False))
    worse = [*scores[:place], lower, *scores[place + 1 :]]
    assert bound_of(worse) <= bound_of(scores)


@pytest.mark.slow
@given(ANY_SCORES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_the_order_of_scores_moves_no_digit(
    scores: list[float], rng: random.Random
) -> None:
    """The bound is the same to its last digit in any order, and lies from 0 to the mean."""
    shuffled = list(scores)
    rng.shuffle(shuffled)
    assert bound_of(shuffled) == bound_of(scores)
    assert 0 <= bound_of(scores) <= math.fsum(scores) / len(scores) + 1e-9


def test_ten_thousand_scores_have_a_bound_close_to_the_normal_one() -> None:
    """With many scores the bound is that of the normal distribution, to three digits."""
    rng = random.Random(1)  # noqa: S311 - a simulation
    scores = [rng.random() for _ in range(10_000)]
    mean = math.fsum(scores) / len(scores)
    normal = mean - 1.645 * math.sqrt(1 / 12 / len(scores))
    assert bound_of(scores) == pytest.approx(normal, abs=1e-3)


@pytest.mark.parametrize("n", range(5))
def test_fewer_than_five_scores_have_no_bound(n: int) -> None:
    """There is no bound, and the reason stands in its place."""
    bound = lower_bound_95([1.0] * n)
    assert (bound.value, bound.method, bound.n) == (None, "none: fewer than 5 cases", n)


@pytest.mark.parametrize("scores", [[1.0, 1.0, 1.0, 1.0, 0.0], [0.5] * 5])
def test_without_scipy_there_is_no_bound(
    scores: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing scipy is a reason with the remedy, not an error."""
    monkeypatch.setattr(builtins, "__import__", refusing_scipy(builtins.__import__))
    bound = lower_bound_95(scores)
    assert bound.value is None
    assert bound.n == 5
    assert bound.method == (
        'none: scipy is not installed; pip install "pytest-failure-taxonomy[bench]"'
    )


def refusing_scipy(importer: Callable[..., Any]) -> Callable[..., Any]:
    """Return an ``__import__`` that finds no scipy."""

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(name)
        return importer(name, *args, **kwargs)

    return refuse


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf])
def test_a_score_outside_0_to_1_is_refused(score: float) -> None:
    """The bound is for scores from 0 to 1; the message shows the one that is not."""
    with pytest.raises(
        ValueError, match=f"a score is from 0 to 1, and {score!r} is not"
    ):
        lower_bound_95([score, 1, 1, 1, 1])
