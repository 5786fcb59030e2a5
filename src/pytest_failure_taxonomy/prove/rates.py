"""Estimate how often something fails from how often it failed.

The bounds are exact (Clopper and Pearson, 1934), found by halving: a rate is known to a millionth
after twenty steps, and no library is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from pytest_failure_taxonomy.taxonomy.judgement import (
    Counterfactual,
    Interval,
    Proof,
    ProofType,
)
from pytest_failure_taxonomy.taxonomy.values import value

_STEPS: Final = 40
FEWEST: Final = 5
"""Runs of each side that a proof takes at least."""
FEWEST_OF_CHANCE: Final = 8
"""The same where runs in forks don't say the same: of so many pairs in random order, a test
that fails every second time splits all rightly once in 256 times."""
MOST_PAIRS: Final = 20
"""Pairs of runs that a comparison takes at most."""
ENOUGH: Final = 29
"""Failures in a row that show that a test fails in at least 90 % of its runs, at 95 %."""
ENOUGH_IN_FORKS: Final = 34
"""The same where forks are cheap: of a test that fails in nine of ten runs, three in a
hundred are taken for one that fails each time."""
ENOUGH_FRESH: Final = 8
"""How many of them are in processes of their own."""
LEAST_FORKS: Final = 3
"""Runs in forks of each side that say the same as its processes."""
_BY_CHANCE: Final = 0.01


@value
class Count:
    """How many of some runs failed with the failure that was asked for."""

    failed: int = 0
    runs: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95 % interval of the rate, of 0 to 1."""
        return lower_bound(self, 0.025), upper_bound(self, 0.025)

    @property
    def share(self) -> float:
        """How many of the runs failed, of 0 to 1; there is one at least."""
        return self.failed / self.runs

    @property
    def is_mixed(self) -> bool:
        """Whether some of the runs failed, and some did not."""
        return 0 < self.failed < self.runs

    def and_those_of(self, other: Count) -> Count:
        """Return the count of both."""
        return Count(failed=self.failed + other.failed, runs=self.runs + other.runs)

    def plus(self, result: str) -> Count:
        """Return the count with one more run, unless that has decided nothing."""
        if result not in ("failed", "passed"):
            return self
        return Count(failed=self.failed + (result == "failed"), runs=self.runs + 1)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs}"


NO_RUNS: Final = Count()


@value
class Tally:
    """All runs of one side: those in forks, and those in processes of their own."""

    forks: Count = NO_RUNS
    fresh: Count = NO_RUNS

    @property
    def runs(self) -> Count:
        """Both together."""
        return self.forks.and_those_of(self.fresh)

    def agrees(self, *, fails: bool) -> bool:
        """Tell whether some forks ended, and each run so far, as is expected."""
        runs = self.runs
        expected = runs.runs if fails else 0
        return self.forks.runs >= LEAST_FORKS and runs.failed == expected


@value
class Pairs:
    """Runs of two sides, one of each at a time, in random order."""

    effect: Count = NO_RUNS
    without: Count = NO_RUNS


Verdict = Literal["apart", "not apart", "go on"]


def make_proof(
    type_: ProofType,
    status: Literal["proven", "suspected", "undecided"],
    effect: Count = NO_RUNS,
    without: Count | None = None,
    *,
    other: str | None = None,
    **fields: Any,
) -> Proof:
    """Return a proof with its counts.

    Args:
        type_: what was tried.
        status: what came of it.
        effect: of the runs with what the proof names.
        without: of those without it.
        other: what was different in these.
        fields: what else is known.
    """
    counterfactual = None
    if without is not None:
        counterfactual = Counterfactual(
            runs=without.runs, failed=without.failed, state=other
        )
    unknown = {"nodeids": (), "state": None, "command": None, "suspicions": ()}
    return Proof(
        type=type_,
        status=status,
        runs=effect.runs,
        failed=effect.failed,
        without=counterfactual,
        interval=interval_of(effect),
        known_since=None,
        **(unknown | fields),
    )


def interval_of(count: Count) -> Interval | None:
    """Return the exact 95 % interval of a rate, as a report has it; `None` without a run."""
    if not count.runs:
        return None
    low, high = count.interval
    return Interval(low=round(low, 6), high=round(high, 6))


def lower_bound(count: Count, alpha: float = 0.05) -> float:
    """Return the rate below which so many failures or more would be rarer than `alpha`."""
    passes = Count(failed=count.runs - count.failed, runs=count.runs)
    return 1 - upper_bound(passes, alpha)


def upper_bound(count: Count, alpha: float = 0.05) -> float:
    """Return the rate above which so few failures would be rarer than `alpha`."""
    if count.failed >= count.runs:
        return 1.0
    # By logarithms: of a history's thousands of runs the coefficients are no floats any more.
    runs = count.runs
    ways = [
        math.lgamma(runs + 1) - math.lgamma(failed + 1) - math.lgamma(runs - failed + 1)
        for failed in range(count.failed + 1)
    ]
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        rate = (low + high) / 2
        fails, passes = math.log(rate), math.log1p(-rate)
        at_most = sum(
            math.exp(way + failed * fails + (runs - failed) * passes)
            for failed, way in enumerate(ways)
        )
        if at_most > alpha:
            low = rate
        else:
            high = rate
    return high


def are_apart(effect: Count, without: Count) -> bool:
    """Tell whether something makes a test fail: it does with it, and does not without it.

    Each side has five runs at least, and the effect's lower bound is above the other's upper one,
    both at 95 %: five of five against none of five is just enough (0.549 and 0.451).
    """
    fewest = min(effect.runs, without.runs)
    return fewest >= FEWEST and lower_bound(effect) > upper_bound(without)


def compare(
    pairs: Pairs, effect: Tally, without: Tally, *, is_steady: bool = False
) -> Verdict:
    """Decide from all runs of two sides whether one fails and the other doesn't.

    What led to a comparison was chosen by how it ended, so only pairs can show a
    difference; any other run can refute it.

    Args:
        pairs: the runs of the comparison.
        effect: all runs of the side that fails.
        without: all runs of the side that passes.
        is_steady: whether the failing side has to fail each time, too.
    """
    failed, passed = pairs.effect, pairs.without
    is_refuted = passed.failed > 0 or (is_steady and failed.failed < failed.runs)
    if is_refuted:
        return "not apart"
    agree = effect.agrees(fails=True) and without.agrees(fails=False)
    fewest = FEWEST if agree else FEWEST_OF_CHANCE
    fewest_runs = min(failed.runs, passed.runs)
    if fewest_runs >= fewest and are_apart(failed, passed):
        # A rare failure that was seen before the pairs counts, too.
        return "apart" if are_apart(effect.runs, without.runs) else "not apart"
    # What fails in less than every third run won't be apart in so many.
    is_no_use = min(failed.failed, passed.runs) < (fewest_runs - 2) // 3
    return "not apart" if is_no_use or fewest_runs >= MOST_PAIRS else "go on"


def is_reproducible(alone: Tally) -> bool:
    """Tell whether a test fails each time: 29 of 29, 8 of them in their own process."""
    runs = alone.runs
    return runs.failed == runs.runs >= ENOUGH and alone.fresh.runs >= ENOUGH_FRESH


def changes_once(results: Sequence[bool]) -> bool:
    """Tell whether runs failed up to one of them and passed since, or the other way.

    That happens by chance as rarely as one order of the results among all.

    Args:
        results: whether each run failed, in the order in which they ran.
    """
    changes = sum(first != second for first, second in pairwise(results))
    ways = math.comb(len(results), sum(results))
    return changes == 1 and 2 / ways < _BY_CHANCE


def passes_needed(rate: float) -> int:
    """Return after how many passes in a row a rate of failure is excluded, at 95 %.

    Args:
        rate: above 0.
    """
    return 1 if rate >= 1 else math.ceil(math.log(0.05) / math.log1p(-rate))
