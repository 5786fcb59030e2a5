"""Bound the mean of scores, and the mean of paired differences, by what they prove.

What the bound is, and why it is no bootstrap: docs/decisions/0011-lower-bound.md. What is drawn at
random is a unit: a case, or a cluster of cases that have something in common.
"""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.models import DifferenceInterval, LowerBound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import float64
    from numpy.typing import NDArray

    Floats = NDArray[float64]
    Clusters = Sequence[object]
    """The cluster of each score, `None` for one that stands by itself; empty if all do."""
    Units = Mapping[tuple[float, int], int]
    """How many units have a mean and a size."""

FEWEST_SCORES: Final = 5
"""With fewer there is no bound."""

CLOPPER_PEARSON: Final = "clopper-pearson"
"""For scores that are all 0 or 1: the exact bound of a binomial share."""
GAFFKE: Final = "gaffke"
"""For any scores from 0 to 1: the bound that extends Clopper and Pearson's to them."""
NO_SCIPY: Final = (
    'none: scipy is not installed; pip install "pytest-failure-taxonomy[bench]"'
)
TOO_FEW: Final = f"none: fewer than {FEWEST_SCORES} cases"
TOO_FEW_CLUSTERS: Final = f"none: fewer than {FEWEST_SCORES} clusters"

BY_HAND: Final = "none: cases were picked by hand"
"""What was picked proves nothing about the cases that were not."""
INCOMPLETE: Final = "none: the run is not complete"
"""What a cap, a stop or a crash has left over is no fair sample: often the first, easy cases."""

ALPHA: Final = 0.05
EACH_SIDE: Final = 0.025
"""An interval of 95 % is made of two bounds of 97.5 %."""
_DIGITS: Final = 9
"""Of a score. Beyond these, rounding in the computation could outweigh a change of a score."""

_FIRST_STEP: Final = 1 / 4
_LEAST_STEP: Final = 1 / 2_048
_SMALL: Final = 1e-10
"""A change of the integral after which the next would be of its last digit."""
_NEGLIGIBLE: Final = 1e-18
_FARTHEST: Final = 60.0
_MOST_AT_ONCE: Final = 250_000
"""Complex numbers in memory at a time."""


def lower_bound_95(
    scores: Sequence[float], why_none: str = "", clusters: Clusters = ()
) -> LowerBound:
    """Return the one-sided 95 % lower confidence bound of the mean over all cases.

    The same scores in any order have the same bound. One more score of 0 never raises it, nor
    does a lower score in the place of a higher one.

    Args:
        scores: from 0 to 1, one for each distinct case.
        clusters: of the cases.
        why_none: why the cases are no sample, such as `BY_HAND`; there is no bound then.

    Raises:
        ValueError: for a score outside 0 to 1.
    """
    units, of_clusters = _units(scores, clusters)
    value: float | None = None
    method = why_none
    if not why_none:
        _refuse_outside(scores, 0)
        method = _why_too_few(len(scores), of_clusters)
    if not method:
        try:
            method, value = _bound(units, ALPHA)
        except ImportError:
            method = NO_SCIPY
    return LowerBound(value=value, method=method, n=len(scores), clusters=of_clusters)


def difference_interval_95(
    differences: Sequence[float], why_none: str = "", clusters: Clusters = ()
) -> DifferenceInterval:
    """Return the two-sided 95 % confidence interval of the mean of paired differences.

    Each end is Gaffke's bound of 97.5 % on the differences, brought from -1..1 to 0..1. For
    differences of -1, 0 and 1 it lies wholly on one side of 0 exactly where McNemar's exact test
    rejects equality at 5 %.

    Args:
        differences: from -1 to 1, one for each distinct case.
        clusters: of the cases.
        why_none: why the cases are no sample; there is no interval then.

    Raises:
        ValueError: for a difference outside -1 to 1.
    """
    _refuse_outside(differences, -1)
    ups, of_clusters = _units([(each + 1) / 2 for each in differences], clusters)
    downs, _ = _units([(1 - each) / 2 for each in differences], clusters)
    low = high = p_value = None
    method = why_none or _why_too_few(len(differences), of_clusters)
    if not method:
        try:
            # Rounded, so that a computed 1e-12 is not taken for a proof of a difference.
            ends = (
                round(2 * _gaffke(each, EACH_SIDE) - 1, _DIGITS)
                for each in (ups, downs)
            )
            low, high, method = next(ends) + 0.0, -next(ends) + 0.0, GAFFKE
            tails = (_share_below(1 / 2, *_spread(each)) for each in (ups, downs))
            p_value = min(1.0, 2 * max(0.0, min(tails)))
        except ImportError:
            method = NO_SCIPY
    return DifferenceInterval(
        low=low,
        high=high,
        method=method,
        n=len(differences),
        clusters=of_clusters,
        p_value=p_value,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values of several tests, adjusted so that all together seldom find nothing true.

    Where at most 5 % of them are taken for a finding, there is a wrong one among them in 5 % of
    cases at most, whatever the tests have to do with each other (Holm 1979).
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, number in enumerate(ranked):
        least = max(least, min(1.0, (len(ranked) - rank) * p_values[number]))
        adjusted[number] = least
    return adjusted


def interval_95(
    scores: Sequence[float], clusters: Clusters = ()
) -> tuple[float, float]:
    """Return the two-sided confidence interval of the mean; for zeros and ones it is exact.

    Args:
        scores: from 0 to 1, at least one.
        clusters: of the scores, where not each is of an independent case.

    Raises:
        ImportError: scipy is not installed.
    """
    (_, low), (_, high) = (
        _bound(_units(each, clusters)[0], EACH_SIDE)
        for each in (scores, [1 - each for each in scores])
    )
    return low, 1 - high


def mcnemar_p_value(worse: int, better: int) -> float:
    """Return the two-sided p value of McNemar's exact test.

    If a change of the system changed nothing, each pair that differs would be as likely to get
    better as to get worse.

    Args:
        worse: how many cases passed before and fail now.
        better: how many failed before and pass now.
    """
    flips, fewer = worse + better, min(worse, better)
    ways, term = 0, 1
    for k in range(fewer + 1):
        ways += term
        term = term * (flips - k) // (k + 1)
    return min(1.0, 2 * ways / (1 << flips))


def _refuse_outside(scores: Sequence[float], least: int) -> None:
    outside = [score for score in scores if not least <= score <= 1]
    if outside:
        what = "a score" if least == 0 else "a difference"
        raise ValueError(f"{what} is from {least} to 1, and {outside[0]!r} is not")


def standard_error(scores: Sequence[float], clusters: Clusters = ()) -> float | None:
    """Return the standard error of the mean; `None` for fewer than two units.

    It is that of a ratio of means: what a unit adds to the sum, less its share of the mean. Where
    each score is a unit, that is the standard deviation over the square root of their number.

    Args:
        scores: of any range.
        clusters: of the scores; those of one cluster need not be independent of each other.
    """
    groups = grouped(scores, clusters)
    if len(groups) < 2:
        return None
    mean = fmean(scores)
    squares = math.fsum((math.fsum(group) - mean * len(group)) ** 2 for group in groups)
    return math.sqrt(squares * len(groups) / (len(groups) - 1)) / len(scores)


def grouped(scores: Sequence[float], clusters: Clusters) -> list[list[float]]:
    """Return the scores of each unit: those of a cluster, or one that stands by itself."""
    groups: dict[object, list[float]] = {}
    for unit, score in zip(
        units_of(clusters or [None] * len(scores)), scores, strict=True
    ):
        groups.setdefault(unit, []).append(score)
    return list(groups.values())


def units_of(clusters: Clusters) -> list[object]:
    """Return the unit of each case: its cluster, or its number where it stands by itself."""
    return [number if name is None else name for number, name in enumerate(clusters)]


def _units(
    scores: Sequence[float], clusters: Clusters
) -> tuple[Counter[tuple[float, int]], int | None]:
    """Return the units that scores are of; and how many, where some are clusters."""
    groups = grouped(scores, clusters)
    units = sorted((round(fmean(group), _DIGITS), len(group)) for group in groups)
    return Counter(units), len(units) if any(
        name is not None for name in clusters
    ) else None


def _why_too_few(cases: int, clusters: int | None) -> str:
    if clusters is not None and clusters < FEWEST_SCORES <= cases:
        return TOO_FEW_CLUSTERS
    return TOO_FEW if cases < FEWEST_SCORES else ""


def _bound(units: Counter[tuple[float, int]], alpha: float) -> tuple[str, float]:
    """Return the lower bound of units, and how it was computed.

    Of zeros and ones that is the least share that gives so many ones, or more, in as few samples as
    `alpha` says.
    """
    size, *others = {size for _, size in units}
    if others or not {mean for mean, _ in units} <= {0.0, 1.0}:
        return GAFFKE, _gaffke(units, alpha)
    ones, n = units[1.0, size], units.total()
    if ones in (0, n):  # in closed form; most runs that a gate lets through
        return CLOPPER_PEARSON, float(alpha ** (1 / n)) if ones else 0.0
    from scipy.special import betaincinv

    return CLOPPER_PEARSON, float(betaincinv(ones, n - ones + 1, alpha))


def _gaffke(units: Units, alpha: float) -> float:
    """Return a quantile of the mean under uniformly random weights.

    The weights, of Dirichlet's distribution with all parameters 1, are spread over the units and
    one that was not seen: of the greatest size, with nothing but zeros. For zeros and ones this is
    Clopper and Pearson's bound. A unit counts by its weight times its size, so that the mean stays
    that over all cases, whether large clusters are harder or not.

    Args:
        units: from 0 to 1 each.
        alpha: which quantile; below 1/e.
    """
    import numpy as np
    from scipy.optimize import brentq

    # In multiples of the greatest mean, so that small ones lose no digit.
    greatest, _ = max(units)
    if not greatest:
        return 0.0
    values, sizes, weights = _spread(
        {(mean / greatest, size): k for (mean, size), k in units.items()}
    )

    def excess(bound: float) -> float:
        return (
            _share_below(bound, values, sizes, weights) if bound > 0 else 0.0
        ) - alpha

    # At its expectation what is weighted has at least 1/e of its distribution below it, because
    # the distribution is log-concave (Grünbaum's inequality).
    expectation = float(np.average(values, weights=sizes * weights))
    root: float = brentq(excess, 0.0, expectation, xtol=1e-15, rtol=1e-14)
    return root * greatest


def _spread(units: Units) -> tuple[Floats, Floats, Floats]:
    """Return mean, size and number of the units, those of the unseen one first."""
    import numpy as np

    largest = max(size for _, size in units)
    return (
        np.array([0.0, *(mean for mean, _ in units)]),
        np.array([1.0, *(size / largest for _, size in units)]),
        np.array([1.0, *units.values()]),
    )


def proves(counts: Counter[float], least: float, alpha: float = ALPHA) -> bool:
    """Return whether the lower bound of scores, from 0 to 1, is at least a value.

    It costs one integral, where finding the bound costs twenty.

    Args:
        counts: how often each score occurs.
        least: the value.
        alpha: how often the bound may be too high; below 1/e.
    """
    values, sizes, weights = _spread({(score, 1): k for score, k in counts.items()})
    if least >= (values @ weights) / weights.sum():
        return least <= 0
    return least <= 0 or _share_below(least, values, sizes, weights) <= alpha


def _share_below(bound: float, values: Floats, sizes: Floats, weights: Floats) -> float:
    """Return the probability that the randomly weighted mean of values is below a bound.

    Weights of Dirichlet's distribution are exponential variables over their sum, so this is the
    probability that the sum of exponentials, each times its size and its value's distance from the
    bound, is negative: an integral of the sum's transform along a line in the complex plane. Half
    of the line is enough. The trapezoidal rule of such an integrand doubles its right digits with
    each halving of its step.
    """
    import numpy as np

    distances = sizes * (values - bound)
    centre = _saddle(distances, weights, -1 / bound)

    def integrand(at: Floats) -> Floats:
        points = centre * (1 - 1j * np.sinh(at))
        blocks = np.array_split(points, -(-at.size * values.size // _MOST_AT_ONCE))
        # Without BLAS, as `@` has it: its threads cost ten times what they save at these sizes.
        logs = [
            np.einsum("ij,j->i", np.log1p(-np.outer(block, distances)), weights)
            for block in blocks
        ]
        slopes: Floats = (np.exp(-np.concatenate(logs)) / points).real * np.cosh(at)
        return slopes

    step, end = _FIRST_STEP, _FIRST_STEP
    while abs(integrand(np.array([end]))[0]) > _NEGLIGIBLE and end < _FARTHEST:
        end += 1
    heights = integrand(np.arange(0, end, step))
    area = step * (float(heights.sum()) - heights[0] / 2)
    change = math.inf
    while abs(change) > _SMALL and step > _LEAST_STEP:
        between = step * float(integrand(np.arange(step / 2, end, step)).sum())
        change = (between - area) / 2
        area, step = area + change, step / 2
    return float(area * centre / math.pi)


def _saddle(distances: Floats, weights: Floats, pole: float) -> float:
    """Return where on the real axis, between a pole and 0, the integrand is least."""
    low, high = pole, 0.0
    # Any place between gives the same integral; a near one is good enough.
    for _ in range(30):
        middle = (low + high) / 2
        slope = (
            float((weights * distances / (1 - middle * distances)).sum()) - 1 / middle
        )
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (low + high) / 2
