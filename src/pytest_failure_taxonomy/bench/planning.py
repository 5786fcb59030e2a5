"""Plan a bench: how many cases a gate needs, and which loss a number of pairs can show.

For scores of 0 and 1 each chance is computed over all samples. Others are drawn from those of an
earlier run, with a fixed seed. What is assumed, and why: docs/bench/scores.md and
compare-runs.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from pytest_failure_taxonomy.bench import bounds
from pytest_failure_taxonomy.bench.models import GateSettings
from pytest_failure_taxonomy.errors import BenchError

Shares = Mapping[float, float]
"""How often each score, or each difference of two, occurs: shares that add up to 1."""

MOST_CASES: Final = 100_000
SAMPLES: Final = 400
"""That are drawn for a chance that is not computed: its standard error is 2 % at most."""
_MOST_DISTINCT: Final = 100
"""Scores; more are rounded to hundredths, or each sample would take too long."""
_SEED: Final = 20_240
_THOUSAND: Final = 1_000
_SAME: Final = 1e-9
_FARTHEST: Final = 60.0
"""A tilt by which all but e**-60 of the mass is at one end."""


def shares_of(scores: Sequence[float]) -> Shares:
    """Return how often each score occurs among some."""
    digits = 9 if len(set(scores)) <= _MOST_DISTINCT else 2
    return _added((round(score, digits), 1 / len(scores)) for score in scores)


def _added(shares: Iterable[tuple[float, float]]) -> Shares:
    found: dict[float, float] = {}
    for score, share in sorted(
        (round(score, 9) + 0.0, share) for score, share in shares
    ):
        found[score] = found.get(score, 0.0) + share
    return found


def with_mean(shares: Shares, mean: float) -> Shares:
    """Return the shares of the same scores that have another mean and differ least from the given.

    That is an exponential tilt: it has the least relative entropy.

    Raises:
        ValueError: All scores are above the mean, or all below.
    """
    if shares.keys() <= {0.0, 1.0}:
        return {0.0: 1 - mean, 1.0: mean}
    least, greatest = min(shares), max(shares)
    if not least - _SAME <= mean <= greatest + _SAME:
        raise ValueError(f"the scores are from {least:g} to {greatest:g}")
    if least == greatest:
        return dict(shares)
    values, weights = np.array([*shares]), np.array([*shares.values()])

    def tilted(tilt: float) -> NDArray[Any]:
        end = greatest if tilt > 0 else least
        masses = weights * np.exp(tilt * (values - end) / (greatest - least))
        return np.asarray(masses / masses.sum())

    def excess(tilt: float) -> float:
        return float(tilted(tilt) @ values) - mean

    if excess(-_FARTHEST) >= 0 or excess(_FARTHEST) <= 0:
        return {least if mean < (least + greatest) / 2 else greatest: 1.0}
    tilt: float = brentq(excess, -_FARTHEST, _FARTHEST)
    return dict(zip(shares, tilted(tilt).tolist(), strict=True))


def _draw(shares: Shares, n: int) -> Iterable[Counter[float]]:
    """Yield samples of n scores: how often each score occurs in it."""
    drawn = np.random.default_rng(_SEED).multinomial(
        n, [*shares.values()], size=SAMPLES
    )
    for sample in drawn:
        yield Counter(
            {score: int(k) for score, k in zip(shares, sample, strict=True) if k}
        )


class CasesNeeded(TypedDict):
    """How many cases it takes to pass a gate, if a mean is the true one."""

    truth: float
    cases: int | None
    """`None` for more than can be planned for."""
    is_never: bool
    """No number of cases is enough."""


class WithCases(TypedDict):
    """What a number of cases can show, if a mean is the true one."""

    cases: int
    truth: float
    chance_of_gate: float | None
    least_loss: float | None
    least_loss_if_none_improves: float | None


class Plan(TypedDict):
    """What `bench plan --format json` prints."""

    gate: dict[str, float | None] | None
    power: float
    method: str
    most_cases: int
    cases_needed: list[CasesNeeded]
    with_cases: list[WithCases]
    unit: NotRequired[str]
    """What is counted: `case` or `cluster`."""


def plan(
    gate: GateSettings | None,
    counts: Sequence[int],
    power: float,
    *,
    truths: Sequence[float] = (),
    scores: Sequence[float] = (),
    differences: Sequence[float] = (),
) -> Plan:
    """Return the whole plan, as `bench plan --format json` prints it.

    Args:
        gate: What a run must reach; `None` for no gate.
        counts: Numbers of cases to say of what they can do.
        power: The chance that is asked for.
        truths: What the true mean may be; by default, the mean of the scores.
        scores: Of an earlier run's distinct cases; by default, scores are 0 or 1.
        differences: Of the pairs of two earlier runs; by default, runs answer independently.

    Raises:
        BenchError: The scores can't have one of the means, or there are too many cases.
    """
    if too_many := [count for count in counts if count > MOST_CASES]:
        what = f"{too_many[0]} is more than can be planned for"
        raise BenchError(f"--cases: {what}; give {MOST_CASES} or less")
    base = shares_of(scores) if scores else {0.0: 0.5, 1.0: 0.5}
    by_truth = {}
    for truth in truths or [math.fsum(scores) / len(scores)]:
        try:
            by_truth[truth] = with_mean(base, truth)
        except ValueError as error:
            right = "give a mean between, or leave out --from to plan with scores of 0 and 1"
            raise BenchError(
                f"--truth: {truth:g} can't be the mean, because {error}; {right}"
            ) from None
    of_pairs = shares_of(differences)
    is_exact = base.keys() <= {0.0, 1.0} and of_pairs.keys() <= {-1.0, 0.0, 1.0}
    needed: list[CasesNeeded] = []
    able: list[WithCases] = []
    if gate is not None:
        for truth, shares in by_truth.items():
            is_never = truth <= (gate.lower_bound_95 or 0.0)
            cases = None if is_never else cases_needed(shares, gate, power)
            needed.append({"truth": truth, "cases": cases, "is_never": is_never})
    for count in counts:
        for truth, shares in by_truth.items():
            most = truth - min(shares)
            find, easiest = partial(independent_runs, shares), None
            if of_pairs:
                most, find = max(map(abs, of_pairs)), partial(as_in_pairs, of_pairs)
            elif is_exact:
                easiest = least_loss(no_case_better, count, power, most)
            able.append(
                {
                    "cases": count,
                    "truth": truth,
                    "chance_of_gate": None
                    if gate is None
                    else chance_of_gate(shares, count, gate),
                    "least_loss": least_loss(find, count, power, most),
                    "least_loss_if_none_improves": easiest,
                }
            )
    drawn = f"drawn {SAMPLES:,} times from what --from names"
    return {
        "gate": None if gate is None else gate.model_dump(mode="json"),
        "power": power,
        "method": "computed for scores of 0 and 1" if is_exact else drawn,
        "most_cases": MOST_CASES,
        "cases_needed": needed,
        "with_cases": able,
    }


# A gate.


def chance_of_gate(shares: Shares, n: int, gate: GateSettings) -> float:
    """Return the chance that a run of n cases passes a gate, if no failure mode blocks.

    Args:
        shares: How the scores lie, from 0 to 1. A score above 0 has passed.
        n: Independent cases, at least one.
        gate: What the run must reach.
    """
    if shares.keys() <= {0.0, 1.0}:
        return float(_exact_chances(shares.get(1.0, 0.0), np.array([n]), gate)[0])
    least = gate.lower_bound_95
    passing = sum(
        sample.total() - sample[0.0] >= _needed_passes(gate)
        and (
            least is None
            or (n >= bounds.FEWEST_SCORES and bounds.proves(sample, least))
        )
        for sample in _draw(shares, n)
    )
    return passing / SAMPLES


def _needed_passes(gate: GateSettings) -> int:
    return max(
        gate.min_passed_cases or 1,
        1 if gate.lower_bound_95 is None else bounds.FEWEST_SCORES,
    )


def _exact_chances(truth: float, n: NDArray[Any], gate: GateSettings) -> NDArray[Any]:
    needed: Any = _needed_passes(gate)
    if (
        gate.lower_bound_95 is not None
    ):  # passes that so low a share exceeds in 5 % of samples
        needed = np.maximum(needed, binom.isf(bounds.ALPHA, n, gate.lower_bound_95) + 1)
    return np.asarray(binom.sf(needed - 1, n, truth))


def cases_needed(shares: Shares, gate: GateSettings, power: float) -> int | None:
    """Return from how many cases on a gate passes with a chance; `None`: more than `MOST_CASES`.

    One case more can lower the chance a little, because passes are whole numbers: from the returned
    number on it never falls below `power`. Where chances are drawn, it is beyond their noise.
    """
    if shares.keys() <= {0.0, 1.0}:
        chances = _exact_chances(shares.get(1.0, 0.0), np.arange(MOST_CASES) + 1, gate)
        too_few = np.flatnonzero(chances < power) + 1
        most = int(too_few[-1]) if too_few.size else 0
    else:

        def suffices(n: int) -> bool:
            passing = round(chance_of_gate(shares, n, gate) * SAMPLES)
            noisy = bounds.lower_bound_95(
                [1.0] * passing + [0.0] * (SAMPLES - passing)
            ).value
            return noisy is not None and noisy >= power

        most = bisect_left(range(1, MOST_CASES + 1), x=True, key=suffices)
    return most + 1 if most < MOST_CASES else None


# Pairs.


def least_loss(
    differences: Callable[[float], Shares], pairs: int, power: float, most: float
) -> float | None:
    """Return the least loss of the mean that pairs show with a chance, rounded up to thousandths.

    Args:
        differences: Gives the shares of the differences of pairs, -1 to 1, for a loss of the mean.
        pairs: Independent cases that both runs have.
        power: The chance that the whole interval of the difference is below 0.
        most: The greatest loss there can be.

    Returns:
        `None` if even the greatest is shown less often.
    """
    losses = [
        number / _THOUSAND for number in range(1, int(most * _THOUSAND + _SAME) + 1)
    ]
    found = bisect_left(
        losses,
        x=True,
        key=lambda loss: chance_of_finding(differences(loss), pairs) >= power,
    )
    return losses[found] if found < len(losses) else None


def chance_of_finding(differences: Shares, pairs: int) -> float:
    """Return the chance that the interval of so many pairs lies wholly below 0."""
    if pairs < bounds.FEWEST_SCORES:
        return 0.0
    if differences.keys() <= {-1.0, 0.0, 1.0}:  # McNemar's exact test
        flips = np.arange(pairs + 1)
        worse, better = differences.get(-1.0, 0.0), differences.get(1.0, 0.0)
        differ = min(1.0, worse + better)
        if not differ:
            return 0.0
        most = binom.isf(
            bounds.EACH_SIDE, flips, 1 / 2
        )  # losses that still prove nothing
        shown = binom.sf(most, flips, worse / differ)
        return float(binom.pmf(flips, pairs, differ) @ shown)
    return (
        sum(
            bounds.proves(
                Counter({(1 - difference) / 2: k for difference, k in sample.items()}),
                1 / 2,
                bounds.EACH_SIDE,
            )
            for sample in _draw(differences, pairs)
        )
        / SAMPLES
    )


def no_case_better(loss: float) -> Shares:
    """Return the differences of pairs of which none gets better: the easiest loss to show."""
    return {-1.0: loss, 0.0: 1 - loss}


def independent_runs(shares: Shares, loss: float) -> Shares:
    """Return the differences where the runs agree on no case more often than by chance.

    Args:
        shares: How the scores of the older run lie.
        loss: The mean of the older run less that of the newer one.
    """
    mean = sum(score * share for score, share in shares.items())
    newer = with_mean(shares, mean - loss)
    return _added(
        (after - before, of_before * of_after)
        for before, of_before in shares.items()
        for after, of_after in newer.items()
    )


def as_in_pairs(differences: Shares, loss: float) -> Shares:
    """Return the differences that vary as those of two earlier runs did, with a loss of the mean.

    Which of the two was the better one is left out: each difference counts half as its opposite.
    """
    both = _added(
        (sign * difference, share / 2)
        for difference, share in differences.items()
        for sign in (1, -1)
    )
    return with_mean(both, -loss)
