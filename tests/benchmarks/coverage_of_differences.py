"""Measure how often the interval of a paired difference holds: docs/bench/compare-runs.md.

Run by hand, it takes minutes: ``OPENBLAS_NUM_THREADS=1 python -m
tests.benchmarks.coverage_of_differences > tables.md``. (Without the variable, the two processes and
the threads of each would wait for one another.)
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

from pytest_failure_taxonomy.bench.bounds import difference_interval_95

Floats: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], Floats]
Interval: TypeAlias = Callable[[Floats], tuple[float, float]]

SIZES = (5, 10, 20, 50, 100)
GRID_STEP = 0.02

FLIPS = (
    (0.01, 0.0),
    (0.05, 0.0),
    (0.2, 0.0),
    (0.05, 0.05),
    (0.2, 0.1),
    (0.2, 0.2),
    (0.5, 0.5),
)
"""Shares of cases that get worse and better; coverage is a finite sum and needs no sampling."""


def _repeated(rng: np.random.Generator, n: int) -> Floats:
    """Return differences of cases that pass in 4 of 5 runs, by three runs each before and now."""
    old, new = rng.binomial(3, 0.8, (2, n)) / 3
    difference: Floats = new - old
    return difference


DRAWN: dict[str, tuple[float, Draw]] = {
    "both uniform": (0.0, lambda rng, n: rng.random(n) - rng.random(n)),
    "both Beta(8, 2)": (0.0, lambda rng, n: rng.beta(8, 2, n) - rng.beta(8, 2, n)),
    "Beta(2, 8), now Beta(8, 2)": (
        0.6,
        lambda rng, n: rng.beta(8, 2, n) - rng.beta(2, 8, n),
    ),
    "changes by up to 0.1": (0.0, lambda rng, n: rng.uniform(-0.1, 0.1, n)),
    "0.9, now 0 in 5 %": (
        -0.045,
        lambda rng, n: rng.choice(np.array([0.0, -0.9]), n, p=[0.95, 0.05]),
    ),
    "changes by up to 0.1, and by -0.8 in 5 %": (
        -0.04,
        lambda rng, n: rng.uniform(-0.1, 0.1, n) - 0.8 * (rng.random(n) < 0.05),
    ),
    "1, now Beta(50, 1) (95 %), 0 (5 %)": (
        0.95 * 50 / 51 - 1,
        lambda rng, n: rng.beta(50, 1, n) * (rng.random(n) < 0.95) - 1,
    ),
    "three runs that pass in 80 %, each": (0.0, _repeated),
}


def ours(differences: Floats) -> tuple[float, float]:
    """Return the interval of a comparison."""
    found = difference_interval_95(differences.tolist())
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def students(differences: Floats) -> tuple[float, float]:
    """Return the interval of the paired t test, which is most used."""
    n = len(differences)
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n)
    return float(differences.mean() - half), float(differences.mean() + half)


RULES: dict[str, Interval] = {
    "The interval of a comparison": ours,
    "Student's t": students,
}


class Outcomes:
    """All outcomes of n pairs of 0/1 scores, with the ends of their intervals."""

    def __init__(self, rule: Interval, n: int) -> None:
        pairs = [
            (worse, better) for worse in range(n + 1) for better in range(n + 1 - worse)
        ]
        self.worse, self.better = (
            np.array(each, dtype=float) for each in zip(*pairs, strict=True)
        )
        self.n = n
        known: dict[tuple[int, int], tuple[float, float]] = {}
        for worse, better in pairs:
            if (
                worse,
                better,
            ) not in known:  # else it is the mirror image of one before
                low, high = rule(
                    np.repeat([-1.0, 0.0, 1.0], [worse, n - worse - better, better])
                )
                known[worse, better], known[better, worse] = (low, high), (-high, -low)
        ends = [known[pair] for pair in pairs]
        self.low, self.high = (np.array(each) for each in zip(*ends, strict=True))
        self.ways = (
            special.gammaln(n + 1)
            - special.gammaln(self.worse + 1)
            - special.gammaln(self.better + 1)
            - special.gammaln(n - self.worse - self.better + 1)
        )

    def coverage(self, worse: float, better: float) -> float:
        """Return how often the interval holds where these shares get worse and better."""
        chances = np.exp(
            self.ways
            + special.xlogy(self.worse, worse)
            + special.xlogy(self.better, better)
            + special.xlogy(
                self.n - self.worse - self.better, max(0.0, 1 - worse - better)
            )
        )
        held = (self.low <= better - worse + 1e-9) & (
            self.high >= better - worse - 1e-9
        )
        return float(chances[held].sum())


def of_flips(n: int, rule_name: str) -> list[float]:
    """Return the coverage for each pair of shares, and the least over a grid of all shares."""
    outcomes = Outcomes(RULES[rule_name], n)
    shares = np.arange(0, 1 + 1e-9, GRID_STEP)
    grid = [
        outcomes.coverage(worse, better)
        for worse in shares
        for better in shares
        if worse + better <= 1 + 1e-9
    ]
    return [*(outcomes.coverage(*each) for each in FLIPS), min(grid)]


def of_drawn(name: str, rule_name: str, samples: int) -> list[float]:
    """Return how often an interval held, for each size."""
    mean, draw = DRAWN[name]
    found = []
    for n in SIZES:
        rng = np.random.default_rng([n, *name.encode()])
        ends = [RULES[rule_name](draw(rng, n)) for _ in range(samples)]
        found.append(
            sum(low - 1e-9 <= mean <= high + 1e-9 for low, high in ends) / samples
        )
    return found


def row(name: str, figures: list[float], error: float) -> str:
    """Return one row of a table, in percent; what is under the rate is bold."""
    cells = [
        f"{figure:.1%}" if figure >= 0.95 - error else f"**{figure:.1%}**"
        for figure in figures
    ]
    return (
        "| " + " | ".join([name, *(cell.replace("%", " %") for cell in cells)]) + " |"
    )


def tell(*lines: str) -> None:
    """Print lines at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    # Two standard errors of a coverage of 95 %; a sum has none.
    error = 2 * math.sqrt(0.05 * 0.95 / given.samples)
    labels = [
        f"{worse:.0%} worse, {better:.0%} better".replace("%", " %")
        for worse, better in FLIPS
    ]
    with ProcessPoolExecutor(given.processes) as pool:
        for rule_name in RULES:
            by_size = list(pool.map(partial(of_flips, rule_name=rule_name), SIZES))
            drawn = pool.map(
                partial(of_drawn, rule_name=rule_name, samples=given.samples), DRAWN
            )
            tell(
                f"{rule_name}:",
                "",
                "| Pairs | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
            )
            tell("|---|" + "---:|" * len(SIZES))
            for index, name in enumerate([*labels, "the least of all shares"]):
                tell(row(name, [each[index] for each in by_size], 0.0))
            for name, figures in zip(DRAWN, drawn, strict=True):
                tell(row(name, figures, error))
            tell("")


if __name__ == "__main__":
    main()
