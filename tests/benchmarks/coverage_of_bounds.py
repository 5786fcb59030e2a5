"""Measure how often lower bounds of a mean hold: the table in docs/bench/scores.md.

Run by hand, it takes minutes: ``python -m tests.benchmarks.coverage_of_bounds > tables.md``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from pytest_failure_taxonomy.bench.bounds import lower_bound_95

Floats: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Floats]
Rule: TypeAlias = Callable[[Floats], float]

SIZES = (5, 10, 20, 50, 100)
RESAMPLES = 2_000

SHARES = (0.05, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Of Bernoulli's distribution, where coverage is a finite sum and needs no sampling."""

DRAWN: dict[str, tuple[float, Draw]] = {
    "uniform": (0.5, lambda rng, n: rng.random(n)),
    "Beta(2, 2)": (0.5, lambda rng, n: rng.beta(2, 2, n)),
    "Beta(8, 2)": (0.8, lambda rng, n: rng.beta(8, 2, n)),
    "Beta(2, 8)": (0.2, lambda rng, n: rng.beta(2, 8, n)),
    "Beta(½, ½)": (0.5, lambda rng, n: rng.beta(0.5, 0.5, n)),
    "0.7 always": (0.7, lambda _rng, n: np.full(n, 0.7)),
    "1 (50 %), ½ (50 %)": (0.75, lambda rng, n: rng.choice(np.array([1.0, 0.5]), n)),
    "1 (90 %), ½ (5 %), 0 (5 %)": (
        0.925,
        lambda rng, n: rng.choice(np.array([1.0, 0.5, 0.0]), n, p=[0.9, 0.05, 0.05]),
    ),
    "Beta(50, 1) (95 %), 0 (5 %)": (
        0.95 * 50 / 51,
        lambda rng, n: rng.beta(50, 1, n) * (rng.random(n) < 0.95),
    ),
    "Beta(8, 2) (90 %), 0 (10 %)": (
        0.72,
        lambda rng, n: rng.beta(8, 2, n) * (rng.random(n) < 0.9),
    ),
    "Beta(8, 2) (60 %), 0 (40 %)": (
        0.48,
        lambda rng, n: rng.beta(8, 2, n) * (rng.random(n) < 0.6),
    ),
}


def ours(scores: Floats) -> float:
    """Return the bound that a report has."""
    value = lower_bound_95(scores.tolist()).value
    assert value is not None
    return value


def bca(scores: Floats, *, expanded: bool = False) -> float:
    """Return the bound of the BCa bootstrap; ours where it is not defined.

    Args:
        scores: at least two.
        expanded: at the level that makes up for a small sample, by the quantile of Student's t.
    """
    n = len(scores)
    mean, deviations = scores.mean(), scores - scores.mean()
    if np.ptp(scores) == 0:
        return ours(scores)
    rng = np.random.default_rng(0)
    means = np.sort(
        np.sort(scores)[rng.integers(0, n, size=(RESAMPLES, n))].mean(axis=1)
    )
    below, not_above = (means < mean - 1e-12).mean(), (means <= mean + 1e-12).mean()
    bias = special.ndtri((below + not_above) / 2)
    acceleration = (deviations**3).sum() / (deviations**2).sum() ** 1.5 / 6
    level = 0.05
    if expanded:
        level = special.ndtr(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.95, n - 1))
    moved = bias + special.ndtri(level)
    quantile = special.ndtr(bias + moved / (1 - acceleration * moved))
    return (
        float(np.quantile(means, quantile)) if np.isfinite(quantile) else ours(scores)
    )


def bca_once_failures_are_seen(scores: Floats) -> float:
    """Return the expanded BCa bound of a sample with two zeros or more, else ours."""
    return bca(scores, expanded=True) if (scores == 0).sum() >= 2 else ours(scores)


RULES: dict[str, Rule] = {
    "The bound of a report": ours,
    "BCa bootstrap": bca,
    "BCa bootstrap at the expanded level": partial(bca, expanded=True),
    "BCa bootstrap at the expanded level where two zeros were seen, else the bound of a report": (
        bca_once_failures_are_seen
    ),
}


def coverage_of_shares(rule: Rule, share: float, n: int) -> float:
    """Return how often a bound is not above the share of ones, by summing over their number."""
    held = [
        stats.binom.pmf(ones, n, share)
        for ones in range(n + 1)
        if rule(np.array([0.0] * (n - ones) + [1.0] * ones)) <= share + 1e-12
    ]
    return math.fsum(held)


def coverage_of_drawn(rule: Rule, name: str, n: int, samples: int) -> float:
    """Return how often a bound was not above the mean of what the samples were drawn from."""
    mean, draw = DRAWN[name]
    rng = np.random.default_rng([n, *name.encode()])
    return sum(rule(draw(rng, n)) <= mean + 1e-12 for _ in range(samples)) / samples


def row(distribution: str, rule_name: str, samples: int) -> str:
    """Return one row of a table, in percent; what is under the rate is bold."""
    rule = RULES[rule_name]
    figures = [
        coverage_of_drawn(rule, distribution, n, samples)
        if distribution in DRAWN
        else coverage_of_shares(rule, float(distribution), n)
        for n in SIZES
    ]
    # Two standard errors of a coverage of 95 %; a sum has none.
    error = 2 * math.sqrt(0.05 * 0.95 / samples) if distribution in DRAWN else 0.0
    cells = [
        f"{figure:.1%}" if figure >= 0.95 - error else f"**{figure:.1%}**"
        for figure in figures
    ]
    name = (
        distribution
        if distribution in DRAWN
        else f"1 ({float(distribution):.0%}), else 0"
    )
    return (
        "| " + " | ".join([name, *cells]).replace("%", " %").replace("  %", " %") + " |"
    )


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000, help="for our own bound")
    parser.add_argument(
        "--others", type=int, default=1_000, help="samples for other bounds"
    )
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    distributions = [*map(str, SHARES), *DRAWN]
    with ProcessPoolExecutor(given.processes) as pool:
        for rule_name, rule in RULES.items():
            samples = given.samples if rule is ours else given.others
            rows = pool.map(
                partial(row, rule_name=rule_name, samples=samples), distributions
            )
            lines = [
                f"{rule_name}:",
                "",
                "| Scores | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
                "|---|" + "---:|" * len(SIZES),
                *rows,
                "",
            ]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
