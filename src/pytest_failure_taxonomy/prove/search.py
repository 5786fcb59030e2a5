"""Search in few steps: for the smallest set of tests or files, and for the first bad commit.

The fewest of many things that are needed for an answer are found by delta debugging (Zeller and
Hildebrandt, 2002), which keeps complements: two tests that pollute together are found wherever they
lie, and nothing has to be monotone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import itemgetter
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
    needed, parts = tuple(items), 2
    while len(needed) >= 2:
        size = -(-len(needed) // parts)
        # What ran last is looked at first: it is nearest to what failed.
        starts = range(0, len(needed), size)[::-1]
        subsets = [(needed[start : start + size], 2) for start in starts]
        # With two parts each is the other's complement.
        if parts > 2:
            for start in starts:
                complement = needed[:start] + needed[start + size :]
                subsets.append((complement, parts - 1))
        for subset, next_parts in subsets:
            if holds(subset):
                needed, parts = subset, min(next_parts, len(subset))
                break
        else:
            if parts >= len(needed):
                break
            parts = min(2 * parts, len(needed))
    return needed


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
        self._good, *_, self._bad = self._parents
        # One bit a commit, and which of them each contains; the bit of the good one stands for all
        # before.
        self._bits: dict[str, int] = {}
        self._contained: dict[str, int] = {}
        for number, (name, parents) in enumerate(self._parents.items()):
            self._bits[name] = self._contained[name] = 1 << number
            for parent in parents:
                self._contained[name] |= self._contained.setdefault(parent, 1)
        self.counts: defaultdict[str, Count] = defaultdict(Count)
        self.untestable: dict[str, str] = {}

    def find(self) -> tuple[str, str] | str:
        """Return the first commit at which it fails and its parent, or why that is not known.

        Of several parents it is the one of which least is known that it passes there.
        """
        try:
            if why := self._fail_at_bad():
                return why
            self._run(self._good)
            while True:
                shares = self.likeliest()
                commit, share = shares[0]
                commit_to_ask: str | None
                if share < _SURE:
                    commit_to_ask = self._most_telling(shares)
                elif commit == self._good:
                    why = self._fails_before(commit)
                    return f"{why}; give an earlier commit with --good"
                else:
                    commit_to_ask, result = self._compare_with_parents(commit)
                    if result is not None:
                        return result
                if commit_to_ask is None:
                    return "the other commits can't be tested"
                self._run(commit_to_ask)
        except OutOfTime:
            return "time ran out"

    def _fail_at_bad(self) -> str:
        """Run the test at the bad commit until it fails; return why it did not fail."""
        known, bad = self._known, self._bad
        tries = FEWEST
        if known.failed:
            tries = max(FEWEST, passes_needed(known.share))
        while not self.counts[bad].failed:
            self._run(bad)
            if bad in self.untestable:
                return f"at the failing commit it ends in another way: {self.untestable[bad]}"
            if self.counts[bad] == Count(runs=tries):
                return f"at the failing commit it passes ({tries} of {tries})"
        return ""

    def _fails_before(self, commit: str) -> str:
        return f"it fails before, too: {self.counts[commit]} at {commit[:12]}"

    def _compare_with_parents(
        self,
        commit: str,
    ) -> tuple[str | None, tuple[str, str] | str | None]:
        """Return where to run next, or the result if the runs have shown it.

        Nowhere can be asked where one of them can't be tested.
        """
        parents, count = self._parents[commit], self.counts[commit]
        sides = [commit, *parents]
        if not self.untestable.keys().isdisjoint(sides):
            return None, None
        # What comes and goes may have failed by chance, and passed at the good commit.
        if count.failed < count.runs:
            ends = (self._good, self._bad)
            sides += [end for end in ends if end not in self.untestable]
        least_run = min(sides, key=lambda name: self.counts[name].runs)
        parent = max(parents, key=lambda name: upper_bound(self.counts[name]))
        is_shown = are_apart(count, self.counts[parent])
        if not is_shown or self.counts[least_run].runs < FEWEST:
            return least_run, None
        at_bad = self._known.and_those_of(self.counts[self._bad])
        if are_apart(at_bad, count):
            return least_run, self._fails_before(commit)
        return least_run, (commit, parent)

    def likeliest(self) -> list[tuple[str, float]]:
        """Return the commits that may be the first and how likely each is, the likeliest first.

        They are in all at which it fails; the oftener it passes where one is in, the less likely
        is that.
        """
        counts = [(self._contained[name], count) for name, count in self.counts.items()]
        passes = {}
        for name, bit in self._bits.items():
            if all(bits & bit for bits, count in counts if count.failed):
                containing = [count for bits, count in counts if bits & bit]
                passes[name] = sum(count.runs - count.failed for count in containing)
        least = min(passes.values())
        at_bad = self._known.and_those_of(self.counts[self._bad])
        rate = (at_bad.failed + 0.5) / (at_bad.runs + 1)
        # It fails each time, unless it has passed where it then had to fail.
        if at_bad.failed == at_bad.runs and not least:
            rate = 1.0
        weights = {}
        for name, times in passes.items():
            if weight := (1 - rate) ** (times - least):
                weights[name] = weight
        total = sum(weights.values())
        shares = [(name, weight / total) for name, weight in weights.items()]
        return sorted(shares, key=itemgetter(1), reverse=True)

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
        names = [*self._contained]
        skipped = [*map(names.index, self.untestable)]
        best, commit = _TELLS_NOTHING, None
        for place, (name, contained) in enumerate(self._contained.items()):
            share = sum(
                share_of_each * (group & contained).bit_count()
                for share_of_each, group in groups.items()
            )
            told = share * (1 - share)
            if skipped:
                distance = min(abs(place - other) for other in skipped)
                told *= distance / (distance + len(shares) / 8)
            if told > best:
                best, commit = told, name
        return commit
