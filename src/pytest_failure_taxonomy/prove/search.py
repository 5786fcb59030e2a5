"""Searches that ask as few questions as they can: for the fewest things, and for the first commit.

The fewest of many things that are needed for an answer are found by delta debugging (Zeller and
Hildebrandt, 2002), which keeps complements: two tests that pollute together are found wherever they
lie, and nothing has to be monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from pytest_failure_taxonomy.prove.rates import Count

T = TypeVar("T")
_TELLS_NOTHING: Final = 1e-9
"""Bits that one more run tells at most where it isn't worth it."""


def fewest(items: Sequence[T], holds: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return items, in their order, without any of which the answer is another one.

    Args:
        items: for all of which it holds.
        holds: asks the question for some of them. It may raise, which ends the search.
    """
    kept, parts = tuple(items), 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        cuts = range(0, len(kept), size)
        # What ran last is looked at first: it is nearest to what failed. With two parts each is
        # the other's complement.
        subsets = [(kept[at : at + size], 2) for at in reversed(cuts)]
        if parts > 2:
            fewer = max(parts - 1, 2)
            subsets += [(kept[:at] + kept[at + size :], fewer) for at in reversed(cuts)]
        for subset, then in subsets:
            if holds(subset):
                kept, parts = subset, min(then, len(subset))
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept


class Culprits:
    """How likely each of some commits is the first at which a test fails, by the runs so far.

    Commits are numbers. One contains the first that fails if that is itself or an ancestor: then
    the test fails at a rate, else at a lower one or never. With rates of 1 and 0 this is plain
    bisection; else what each run says is weighed (Henderson and others, Flake Aware Culprit
    Finding, 2023).

    Attributes:
        groups: suspects between which the runs don't decide, as bits of their numbers, with how
            likely each of them is. None are left where the runs contradict the rates.
    """

    def __init__(
        self,
        contained: Sequence[int],
        counts: Mapping[int, Count],
        rate: float,
        false_rate: float = 0.0,
    ) -> None:
        """Weigh the runs.

        Args:
            contained: of each commit, the suspects that it contains, as bits of their numbers.
            counts: of the runs at commits.
            rate: how often the test fails at commits that contain the first.
            false_rate: how often it fails in the same way at others.
        """
        self._contained, self._rates = contained, (rate, false_rate)
        suspects = 0
        for bits in contained:
            suspects |= bits
        logs = [(suspects, 0.0)]
        for commit, count in counts.items():
            bits = contained[commit]
            with_it, without = (_log_of(count, each) for each in self._rates)
            logs = [
                (part, log + of_part)
                for group, log in logs
                for part, of_part in ((group & bits, with_it), (group & ~bits, without))
                if part and of_part > -math.inf
            ]
        most = max((log for _, log in logs), default=0.0)
        total = sum(group.bit_count() * math.exp(log - most) for group, log in logs)
        self.groups = [(group, math.exp(log - most) / total) for group, log in logs]

    def likeliest(self, most: int) -> list[tuple[int, float]]:
        """Return the likeliest suspects and how likely each is; the first of equals first."""
        ranked = sorted(
            (-share, commit)
            for group, share in self.groups
            for commit in islice(_bits_of(group), most)
        )
        return [(commit, -share) for share, commit in ranked[:most]]

    def most_telling(self, untestable: Collection[int]) -> int | None:
        """Return the commit at which one more run is expected to tell most; `None` if none tells.

        Near one that can't be tested others can't be either, so those count less.
        """
        rate, false_rate = self._rates
        uncertain = sum(
            group.bit_count() * -share * math.log2(share) for group, share in self.groups if share
        )
        nearby = 2**uncertain / 8
        best, found = _TELLS_NOTHING, None
        for commit, bits in enumerate(self._contained):
            if commit in untestable:
                continue
            contains = sum((group & bits).bit_count() * share for group, share in self.groups)
            fails = contains * rate + (1 - contains) * false_rate
            told = (
                _entropy(fails) - contains * _entropy(rate) - (1 - contains) * _entropy(false_rate)
            )
            distance = min((abs(commit - each) for each in untestable), default=0)
            told *= distance / (distance + nearby) if untestable else 1
            if told > best:
                best, found = told, commit
        return found


def _log_of(count: Count, rate: float) -> float:
    """Return the logarithm of how likely some runs are at a rate, but for a constant."""
    shares = ((count.failed, rate), (count.runs - count.failed, 1 - rate))
    return sum(
        (times * math.log(share) if share > 0 else -math.inf) for times, share in shares if times
    )


def _entropy(share: float) -> float:
    """Return how many bits an answer tells that is yes so often."""
    shares = (share, 1 - share)
    return -sum(each * math.log2(each) for each in shares if each > 0)


def _bits_of(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
