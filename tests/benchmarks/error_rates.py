"""Measure figures of cases that are alike, and of systems that are equal.

How often the bound and the interval of clusters hold, beside those that take each case for itself;
and how often some of several equal systems seem to differ, with Holm's method and without: see
docs/bench/scores.md and compare-runs.md. It takes minutes:
``OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.error_rates > tables.md``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_failure_taxonomy.bench.bounds import (
    difference_interval_95,
    holm,
    lower_bound_95,
    mcnemar_p_value,
)

Floats: TypeAlias = NDArray[np.float64]
Sizes: TypeAlias = NDArray[np.int64]

SHARES = (0.05, 0.5, 0.8, 0.95)
"""Mean scores."""


def _fixed(groups: int, size: int) -> Callable[[np.random.Generator, Floats], Sizes]:
    return lambda _rng, _means: np.full(groups, size)


def _geometric(rng: np.random.Generator, means: Floats) -> Sizes:
    return rng.geometric(0.2, len(means))


def _larger_where_harder(rng: np.random.Generator, means: Floats) -> Sizes:
    return np.where(means > 0.5, 2, 20) + rng.integers(0, 4, len(means))


SHAPES: dict[str, tuple[int, float, Callable[[np.random.Generator, Floats], Sizes]]] = {
    "20 of 5, alike by 0.5": (20, 0.5, _fixed(20, 5)),
    "5 of 20, alike by 0.9": (5, 0.9, _fixed(5, 20)),
    "20 of 1 to 20 or so, alike by 0.5": (20, 0.5, _geometric),
    "20 of 1 to 20 or so, alike by 0.9": (20, 0.9, _geometric),
    "20, the hard ones larger, alike by 0.5": (20, 0.5, _larger_where_harder),
}
"""Clusters and their intraclass correlation; what draws their sizes, by their means."""


def _means(
    rng: np.random.Generator, shape: str, share: float, n: int | None = None
) -> Floats:
    groups, alike, _ = SHAPES[shape]
    spread = (1 - alike) / alike
    return rng.beta(share * spread, (1 - share) * spread, n or groups)


def _drawn(
    rng: np.random.Generator, shape: str, share: float, *, graded: bool
) -> tuple[Floats, Sizes]:
    """Return scores, and the cluster of each."""
    means = _means(rng, shape, share)
    clusters = np.repeat(np.arange(len(means)), SHAPES[shape][2](rng, means))
    truths = means[clusters]
    if graded:
        return rng.beta(8 * truths + 1e-3, 8 * (1 - truths) + 1e-3), clusters
    return rng.binomial(1, truths).astype(float), clusters


def of_bounds(shape: str, samples: int, *, graded: bool) -> list[float]:
    """Return how often bounds hold, for each mean: of clusters, then of single cases."""
    rates = []
    for share in SHARES:
        rng = np.random.default_rng([int(1000 * share), graded, *shape.encode()])
        # Where sizes go with means, the mean over cases is another.
        many = _means(rng, shape, share, 200_000)
        truth = (
            float(np.average(many, weights=SHAPES[shape][2](rng, many)))
            if "hard" in shape
            else share
        )
        held = np.zeros(2)
        for _ in range(samples):
            scores, clusters = _drawn(rng, shape, share, graded=graded)
            held += [
                (lower_bound_95(scores.tolist(), "", given).value or 0.0)
                <= truth + 1e-12
                for given in (clusters.tolist(), ())
            ]
        rates.append(held / samples)
    return [float(rate[which]) for which in (0, 1) for rate in rates]


def of_pairs(shape: str, samples: int) -> list[float]:
    """Return how often equal systems seem to differ, for each mean: by clusters, then by cases.

    Each system has means of its own in the clusters, with the same distribution.
    """
    rates = []
    for share in SHARES:
        rng = np.random.default_rng([int(1000 * share), 2, *shape.encode()])
        found = np.zeros(2)
        for _ in range(samples):
            scores, clusters = _drawn(rng, shape, share, graded=False)
            other = _means(rng, shape, share)[clusters]
            differences = (rng.binomial(1, other) - scores).tolist()
            found += [
                (difference_interval_95(differences, "", given).p_value or 0.0) < 0.05
                for given in (clusters.tolist(), ())
            ]
        rates.append(found / samples)
    return [float(rate[which]) for which in (0, 1) for rate in rates]


def of_systems(systems: int, samples: int, *, cases: int = 100) -> list[float]:
    """Return how often some of several equal systems seem to differ, alone and by Holm's method.

    Then how often Holm's method finds, in each pair that it is in, one system that is worse by 0.2.
    """
    rng = np.random.default_rng([systems, cases])
    pairs = list(itertools.combinations(range(systems), 2))
    alone = together = worse = 0
    for _ in range(samples):
        easy = rng.beta(4, 1, cases)
        passes = rng.random((systems, cases)) < easy
        p_values = _p_values(passes, pairs)
        alone += min(p_values) < 0.05
        together += min(holm(p_values)) < 0.05
        passes[0] &= rng.random(cases) < 0.75
        adjusted = holm(_p_values(passes, pairs))
        worse += all(
            p < 0.05 for p, pair in zip(adjusted, pairs, strict=True) if 0 in pair
        )
    return [alone / samples, together / samples, worse / samples]


def _p_values(
    passes: NDArray[np.bool_], pairs: Sequence[tuple[int, int]]
) -> list[float]:
    # McNemar's is the interval's for scores of 0 and 1, and takes no integral.
    return [
        mcnemar_p_value(
            int((passes[a] & ~passes[b]).sum()), int((passes[b] & ~passes[a]).sum())
        )
        for a, b in pairs
    ]


def _row(name: str, figures: Sequence[float]) -> str:
    return f"| {name} | " + " | ".join(f"{100 * each:.1f}" for each in figures) + " |"


def _tell(title: str, heads: Sequence[str], rows: Sequence[str]) -> None:
    head = "| " + " | ".join(heads) + " |"
    lines = [f"{title}:", "", head, "|---|" + "---:|" * (len(heads) - 1), *rows, "", ""]
    sys.stdout.write("\n".join(lines))
    sys.stdout.flush()


def main() -> None:
    """Print the tables in Markdown, in percent, with the greatest standard error of a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000)
    given = parser.parse_args()
    n = given.samples
    noise = f"{n:,} samples, standard error {100 * math.sqrt(0.0475 / n):.1f} at 95 %"
    means = [
        f"{which}, mean {share:g}"
        for which in ("clusters", "cases")
        for share in SHARES
    ]
    with ProcessPoolExecutor(2) as pool:
        for words, graded in (("scores of 0 and 1", False), ("other scores", True)):
            rates = pool.map(partial(of_bounds, samples=n, graded=graded), SHAPES)
            rows = list(map(_row, SHAPES, rates))
            _tell(f"Bounds that hold, {words} ({noise})", ["Clusters", *means], rows)
        alike = [
            shape for shape in SHAPES if "hard" not in shape
        ]  # where both have the same mean
        rows = list(map(_row, alike, pool.map(partial(of_pairs, samples=n), alike)))
        _tell(
            f"Equal systems that seem to differ ({noise})", ["Clusters", *means], rows
        )
        sizes = (2, 5, 20)
        figures = pool.map(partial(of_systems, samples=n), sizes)
        rows = [
            _row(str(size), each) for size, each in zip(sizes, figures, strict=True)
        ]
        heads = [
            "Systems",
            "equal: some pair alone",
            "equal: by Holm",
            "one worse: all its pairs",
        ]
        _tell(f"Pairs of systems, 100 cases ({noise})", heads, rows)


if __name__ == "__main__":
    main()
