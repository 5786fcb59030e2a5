"""Bound the mean of scores, and the mean of paired differences, by what they prove.

What the bound is, and why it is no bootstrap: docs/decisions/0011-lower-bound.md.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.models import DifferenceInterval, LowerBound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import float64
    from numpy.typing import NDArray

    Floats = NDArray[float64]

FEWEST_SCORES: Final = 5
"""With fewer there is no bound."""

CLOPPER_PEARSON: Final = "clopper-pearson"
"""For scores that are all 0 or 1: the exact bound of a binomial share."""
GAFFKE: Final = "gaffke"
"""For any scores from 0 to 1: the bound that extends Clopper and Pearson's to them."""
NO_SCIPY: Final = 'none: scipy is not installed; pip install "pytest-failure-taxonomy[bench]"'
TOO_FEW: Final = f"none: fewer than {FEWEST_SCORES} cases"

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


def lower_bound_95(scores: Sequence[float], why_none: str = "") -> LowerBound:
    """Return the one-sided 95 % lower confidence bound of the mean.

    The same scores in any order have the same bound. One more score of 0 never raises it, nor
    does a lower score in the place of a higher one.

    Args:
        scores: from 0 to 1, one for each independent case.
        why_none: why the cases are no sample, such as `BY_HAND`; there is no bound then.

    Raises:
        ValueError: for a score outside 0 to 1.
    """
    n = len(scores)
    if why_none:
        return LowerBound(value=None, method=why_none, n=n)
    _refuse_outside(scores, 0)
    if n < FEWEST_SCORES:
        return LowerBound(value=None, method=TOO_FEW, n=n)
    counts = _counted(scores)
    method = CLOPPER_PEARSON if counts.keys() <= {0.0, 1.0} else GAFFKE
    try:
        value = _clopper_pearson(counts[1.0], n) if method == CLOPPER_PEARSON else _gaffke(counts)
    except ImportError:
        return LowerBound(value=None, method=NO_SCIPY, n=n)
    return LowerBound(value=value, method=method, n=n)


def difference_interval_95(differences: Sequence[float]) -> DifferenceInterval:
    """Return the two-sided 95 % confidence interval of the mean of paired differences.

    Each end is Gaffke's bound of 97.5 % on the differences, brought from -1..1 to 0..1. For
    differences of -1, 0 and 1 it lies wholly on one side of 0 exactly where McNemar's exact test
    rejects equality at 5 %.

    Args:
        differences: from -1 to 1, one for each independent case.

    Raises:
        ValueError: for a difference outside -1 to 1.
    """
    _refuse_outside(differences, -1)
    n = len(differences)
    if n < FEWEST_SCORES:
        return DifferenceInterval(low=None, high=None, method=TOO_FEW, n=n)
    try:
        low, high = _end(differences), -_end([-each for each in differences])
    except ImportError:
        return DifferenceInterval(low=None, high=None, method=NO_SCIPY, n=n)
    return DifferenceInterval(low=low, high=high, method=GAFFKE, n=n)


def _end(differences: Sequence[float]) -> float:
    """Return the lower end of the interval."""
    counts = _counted([(each + 1) / 2 for each in differences])
    bound = _gaffke(counts, EACH_SIDE) if max(counts) > 0 else 0.0
    # Rounded, so that a computed 1e-12 is not taken for a proof of a difference.
    return round(2 * bound - 1, _DIGITS) + 0.0


def interval_95(scores: Sequence[float], each_side: float = EACH_SIDE) -> tuple[float, float]:
    """Return the two-sided confidence interval of the mean; for zeros and ones it is exact.

    Args:
        scores: from 0 to 1, one for each independent case, at least one.
        each_side: how often each end may be beyond the mean.

    Raises:
        ImportError: scipy is not installed.
    """
    low, high = (
        _clopper_pearson(counts[1.0], len(scores), each_side)
        if counts.keys() <= {0.0, 1.0}
        else _gaffke(counts, each_side)
        for counts in (_counted(scores), _counted([1 - score for score in scores]))
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


def _counted(scores: Sequence[float]) -> Counter[float]:
    return Counter(sorted(round(score, _DIGITS) for score in scores))


def _clopper_pearson(ones: int, n: int, alpha: float = ALPHA) -> float:
    """Return the least share that gives so many ones, or more, in 5 % of all samples."""
    if ones in (0, n):  # in closed form; most runs that a gate lets through
        return float(alpha ** (1 / n)) if ones else 0.0
    from scipy.special import betaincinv

    return float(betaincinv(ones, n - ones + 1, alpha))


def _gaffke(counts: Counter[float], alpha: float = ALPHA) -> float:
    """Return a quantile, of 5 % by default, of the mean under uniformly random weights.

    The weights, of Dirichlet's distribution with all parameters 1, are spread over the scores
    and one 0 that was not seen. For zeros and ones this is Clopper and Pearson's bound.

    Args:
        counts: how often each score occurs; at least one is above 0.
        alpha: which quantile; below 1/e.
    """
    import numpy as np
    from scipy.optimize import brentq

    # In units of the greatest score, so that small ones lose no digit.
    greatest = max(counts)
    values = np.array([0.0, *(score / greatest for score in counts)])
    weights = np.array([1.0, *counts.values()])

    def excess(bound: float) -> float:
        return (_share_below(bound, values, weights) if bound > 0 else 0.0) - alpha

    # At its expectation a weighted mean has at least 1/e of its distribution below it.
    expectation = math.fsum(values * weights) / math.fsum(weights)
    root: float = brentq(excess, 0.0, expectation, xtol=1e-15, rtol=1e-14)
    return root * greatest


def proves(counts: Counter[float], least: float, alpha: float = ALPHA) -> bool:
    """Return whether the lower bound of scores, from 0 to 1, is at least a value.

    It costs one integral, where finding the bound costs twenty.

    Args:
        counts: how often each score occurs.
        least: the value.
        alpha: how often the bound may be too high; below 1/e.
    """
    import numpy as np

    values = np.array([0.0, *counts])
    weights = np.array([1.0, *counts.values()])
    if least >= (values @ weights) / weights.sum():
        return least <= 0
    return least <= 0 or _share_below(least, values, weights) <= alpha


def _share_below(bound: float, values: Floats, weights: Floats) -> float:
    """Return the probability that the randomly weighted mean of values is below a bound.

    Weights of Dirichlet's distribution are exponential variables over their sum, so this is the
    probability that the sum of exponentials, each times its value's distance from the bound, is
    negative: an integral of the sum's transform along a line in the complex plane. Half of the
    line is enough. The trapezoidal rule of such an integrand doubles its right digits with each
    halving of its step.
    """
    import numpy as np

    distances = values - bound
    centre = _saddle(distances, weights, -1 / bound)

    def integrand(at: Floats) -> Floats:
        points = centre * (1 - 1j * np.sinh(at))
        blocks = np.array_split(points, -(-at.size * values.size // _MOST_AT_ONCE))
        # Without BLAS, as `@` has it: its threads cost ten times what they save at these sizes.
        logs = [
            np.einsum("ij,j->i", np.log1p(-np.outer(block, distances)), weights) for block in blocks
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
        slope = float((weights * distances / (1 - middle * distances)).sum()) - 1 / middle
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (low + high) / 2
