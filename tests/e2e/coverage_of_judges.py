"""Compute how often the interval of a corrected pass rate holds: the table of judges.md.

``python -m tests.e2e.coverage_of_judges`` takes a minute. What people say and what the rubric says
are binomial, so the figures are sums over all samples; those with a chance of less than 10⁻⁸ are
left out.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from scipy import stats

from pytest_failure_taxonomy.bench.models import MeasuredRate, RubricAgreement
from pytest_failure_taxonomy.bench.oracle import corrected_pass_rate

LABELS = (10, 20, 50, 200)
"""Outputs that people pass, and as many that they fail."""
CASES = 100
RATES = ((0.9, 0.8), (0.97, 0.9), (0.99, 0.99), (0.6, 0.6))
"""True positive and true negative rates of the rubric."""
TRUTHS = (0.5, 0.8, 0.95)
NEGLIGIBLE = 1e-8


def outcomes_of(n: int, share: float) -> list[tuple[int, float]]:
    """Return each number of n that is not negligible, with its chance."""
    chances = stats.binom.pmf(np.arange(n + 1), n, share).tolist()
    return [(k, chance) for k, chance in enumerate(chances) if chance > NEGLIGIBLE]


def figures_of(labels: int, truth: float, rates: tuple[float, float]) -> tuple[float, float]:
    """Return how often the interval holds, and its mean width; without one, it is 0 to 1."""
    passed = truth * rates[0] + (1 - truth) * (1 - rates[1])
    held = width = 0.0
    for (right, of_right), (wrong, of_wrong), (passes, of_passes) in itertools.product(
        outcomes_of(labels, rates[0]), outcomes_of(labels, rates[1]), outcomes_of(CASES, passed)
    ):
        chance = of_right * of_wrong * of_passes
        if chance < NEGLIGIBLE:
            continue
        positive, negative = (
            MeasuredRate(value=k / labels, low=0.0, high=1.0, n=labels) for k in (right, wrong)
        )
        found = RubricAgreement.model_construct(
            true_positive_rate=positive, true_negative_rate=negative
        )
        corrected = corrected_pass_rate(found, passes / CASES, CASES)
        _, low, high = (0.0, 0.0, 1.0) if isinstance(corrected, str) else corrected
        held += chance * (low - 1e-9 <= truth <= high + 1e-9)
        width += chance * (high - low)
    return held, width


def main() -> None:
    """Print the table in Markdown."""
    heads = [f"{2 * labels} labels" for labels in LABELS]
    sys.stdout.write(f"| true rate; rates of the rubric | {' | '.join(heads)} |\n")
    sys.stdout.write(f"|---|{'---:|' * len(LABELS)}\n")
    for rates, truth in itertools.product(RATES, TRUTHS):
        figures = (figures_of(labels, truth, rates) for labels in LABELS)
        cells = " | ".join(f"{held:.1%}, ±{width / 2:.2f}" for held, width in figures)
        name = f"{truth:g}; {rates[0]:g} and {rates[1]:g}"
        sys.stdout.write(f"| {name} | {cells.replace('%', ' %')} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
