"""Searches that ask as few questions as they can: for the fewest things, and for the first commit.

The fewest of many things that are needed for an answer are found by delta debugging (Zeller and
Hildebrandt, 2002), which keeps complements: two tests that pollute together are found wherever they
lie, and nothing has to be monotone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from pytest_failure_taxonomy.prove.experiment import Outcome, OutOfTime
from pytest_failure_taxonomy.prove.rates import (
    FEWEST,
    Count,
    are_apart,
    passes_needed,
    upper_bound,
)

T = TypeVar("T")
_SURE: Final = 0.95
"""How likely a commit has to be before it is compared with its parents."""
_TELLS_NOTHING: Final = 1e-9
"""What one more run tells at most where it isn't worth it."""


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


class Walk:
    """Asks at as few commits as possible whether a test fails, until one is known as the first.

    It fails at a rate at commits that contain the first one, which are that and those after it, and
    never at others. Where it fails each time, this is plain bisection. Else each run is weighed
    (Henderson and others, Flake Aware Culprit Finding, 2023), and commits are asked again.

    Attributes:
        counts: of the runs, by commit.
        untestable: what happened at commits where nothing could be decided.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[str]],
        ask: Callable[[str], Outcome],
        known: Count,
    ) -> None:
        """Prepare.

        Args:
            rows: names of commits, each with its parents, which come before it: the good one first
                and the bad one last. A parent without a row is older than the good one.
            ask: runs the test at one of them.
            known: earlier runs that tell how often it fails at the bad commit.
        """
        self._ask, self._known = ask, known
        self._parents = {name: parents for name, *parents in rows}
        self._bits = {name: 1 << number for number, (name, *_) in enumerate(rows)}
        # Which of them each contains; the bit of the good one stands for all before.
        self._contained: dict[str, int] = {}
        for name, parents in self._parents.items():
            self._contained[name] = self._bits[name]
            for parent in parents:
                self._contained[name] |= self._contained.setdefault(parent, 1)
        self.counts: defaultdict[str, Count] = defaultdict(Count)
        self.untestable: dict[str, str] = {}

    def find(self) -> tuple[str, str] | str:
        """Return the first commit at which it fails and its parent, or why that is not known.

        Of several parents it is the one of which least is known that it passes there.
        """
        good, *_, bad = self._bits
        known = self._known
        needed = passes_needed(known.share) if known.failed else 1
        tries = max(FEWEST, needed)
        with suppress(OutOfTime):
            while not self.counts[bad].failed:
                self._run(bad)
                if bad in self.untestable:
                    return f"at the failing commit it ends in another way: {self.untestable[bad]}"
                if self.counts[bad] == Count(runs=tries):
                    return f"at the failing commit it passes ({tries} of {tries})"
            self._run(good)
            while True:
                shares = self.likeliest()
                commit, share = shares[0]
                parents, count = self._parents[commit], self.counts[commit]
                earlier = f"it fails before, too: {count} at {commit[:12]}"
                if share < _SURE:
                    asked = self._most_telling(shares)
                elif commit == good:
                    return f"{earlier}; give an earlier commit by --good"
                elif not self.untestable.keys().isdisjoint([commit, *parents]):
                    asked = None
                else:
                    # What comes and goes may have failed by chance, and passed at the good commit.
                    ends = (good, bad) if count.failed < count.runs else ()
                    sides = [
                        each
                        for each in (commit, *parents, *ends)
                        if each not in self.untestable
                    ]
                    asked = min(sides, key=lambda each: self.counts[each].runs)
                    parent = max(
                        parents, key=lambda each: upper_bound(self.counts[each])
                    )
                    is_shown = are_apart(count, self.counts[parent])
                    if is_shown and self.counts[asked].runs >= FEWEST:
                        at_bad = known.and_those_of(self.counts[bad])
                        return earlier if are_apart(at_bad, count) else (commit, parent)
                if asked is None:
                    return "the other commits can't be tested"
                self._run(asked)
        return "time ran out"

    def likeliest(self) -> list[tuple[str, float]]:
        """Return the commits that may be the first and how likely each is, the likeliest first.

        They are in all at which it fails; the oftener it passes where one is in, the less likely
        is that.
        """
        seen = [(self._contained[name], count) for name, count in self.counts.items()]
        passes = {
            name: sum(count.runs - count.failed for bits, count in seen if bits & bit)
            for name, bit in self._bits.items()
            if all(bits & bit for bits, count in seen if count.failed)
        }
        least = min(passes.values())
        at_bad = self._known.and_those_of(self.counts[[*self._bits][-1]])
        # It fails each time, unless it has passed where it then had to fail.
        is_certain = at_bad.failed == at_bad.runs and not least
        rate = 1.0 if is_certain else (at_bad.failed + 0.5) / (at_bad.runs + 1)
        weights = {
            name: (1 - rate) ** (times - least) for name, times in passes.items()
        }
        total = sum(weights.values())
        shares = [(name, weight / total) for name, weight in weights.items() if weight]
        return sorted(shares, key=lambda each: -each[1])

    def _run(self, commit: str) -> None:
        outcome = self._ask(commit)
        self.counts[commit] = self.counts[commit].plus(outcome.result)
        if not self.counts[commit].runs:
            self.untestable[commit] = outcome.words

    def _most_telling(self, shares: Sequence[tuple[str, float]]) -> str | None:
        """Return the commit at which one more run tells most; `None` if none tells anything.

        That is one which contains the first as likely as not. Near one that can't be tested others
        can't be either, so those count less.
        """
        groups: defaultdict[float, int] = defaultdict(int)
        for name, share in shares:
            groups[share] |= self._bits[name]
        skipped = [
            at for at, name in enumerate(self._contained) if name in self.untestable
        ]
        best, found = _TELLS_NOTHING, None
        for at, (name, bits) in enumerate(self._contained.items()):
            share = sum(
                each * (group & bits).bit_count() for each, group in groups.items()
            )
            told = share * (1 - share)
            if skipped:
                distance = min(abs(at - each) for each in skipped)
                told *= distance / (distance + len(shares) / 8)
            if told > best:
                best, found = told, name
        return found
