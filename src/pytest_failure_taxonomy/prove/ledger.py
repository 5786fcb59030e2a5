"""All runs of a victim, by what ran before it and by what was different."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal

from pytest_failure_taxonomy.prove.experiment import AS_RECORDED, Conditions, Result
from pytest_failure_taxonomy.prove.rates import NO_RUNS, Count, Pairs, Tally
from pytest_failure_taxonomy.taxonomy.values import replace, value

Way = Literal["fork", "fresh", "command"]
"""How a test ran: in a fork, in a process of its own, or by the command of a shell."""
Tree = Literal["here", "copy", "clean copy"]
"""Where it ran: in the user's folder, in a copy of it, or in a copy without the files that
the recorded run has left."""


@value
class Side:
    """One side of a comparison: what runs before the victim, and what is different."""

    before: tuple[str, ...] = ()
    conditions: Conditions = AS_RECORDED
    put_back: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The only ones to collect; empty for all of the run."""
    tree: Tree = "here"
    left: tuple[str, ...] = ()
    """Files of the recorded run that a clean copy has after all."""

    @property
    def words(self) -> str:
        """What is different, for people; empty for nothing."""
        return self.conditions.words

    @property
    def key(self) -> Side:
        """The same without words: sides that differ in these alone are one."""
        conditions = self.conditions
        if conditions.words and replace(conditions, words="") == AS_RECORDED:
            return replace(self, conditions=AS_RECORDED)
        return self


ALONE: Final = Side()


class Ledger:
    """Keeps every run; each counts for every claim whose conditions it meets."""

    def __init__(self, base: Side = ALONE) -> None:
        """Prepare.

        Args:
            base: the side on which nothing is changed.
        """
        self._base = base
        self._runs: dict[tuple[Side, Way], list[bool]] = defaultdict(list)
        self._unchanged: list[bool] = []
        self._changed: dict[Way, list[bool]] = defaultdict(list)

    def add(self, side: Side, way: Way, result: Result) -> None:
        """Keep a run, unless it has decided nothing."""
        if result == "other":
            return
        has_failed = result == "failed"
        self._runs[side.key, way].append(has_failed)
        if side.key == self._base:
            self._unchanged.append(has_failed)
        elif not side.before and not side.put_back:
            self._changed[way].append(has_failed)

    def count(self, side: Side, way: Way) -> Count:
        """Return the runs of a side in one way."""
        return _count(self._runs.get((side.key, way), []))

    def tally(self, side: Side) -> Tally:
        """Return all runs of a side. A command's run is one in a process of its own."""
        fresh = self.count(side, "fresh").and_those_of(self.count(side, "command"))
        return Tally(forks=self.count(side, "fork"), fresh=fresh)

    def tally_of_all_alone(self) -> Tally:
        """Return all runs of the test alone, whatever else was different.

        What fails at other times, without a network and with other files fails alone.
        """
        alone = self.tally(self._base)
        forks, fresh = self._changed["fork"], self._changed["fresh"]
        return Tally(
            forks=alone.forks.and_those_of(_count(forks)),
            fresh=alone.fresh.and_those_of(_count(fresh)),
        )

    @property
    def unchanged(self) -> tuple[bool, ...]:
        """Whether the test failed alone, in each run in which nothing was different."""
        return tuple(self._unchanged)

    def forget_forks(self) -> None:
        """Drop what ended in forks, where forks end in another way than processes."""
        self._unchanged = []
        for side, way in [*self._runs]:
            if way == "fork":
                del self._runs[side, way]
            elif side.key == self._base:
                self._unchanged += self._runs[side, way]


def _count(results: Sequence[bool]) -> Count:
    return Count(failed=sum(results), runs=len(results))


class Comparison:
    """The runs of two sides since they are compared."""

    def __init__(self, failing: Side, passing: Side) -> None:
        self.failing, self.passing = failing, passing
        self._counts: dict[Side, Count] = {failing: NO_RUNS, passing: NO_RUNS}

    def add(self, side: Side, result: Result) -> None:
        """Count a run of one of the sides."""
        self._counts[side] = self._counts[side].plus(result)

    @property
    def pairs(self) -> Pairs:
        """The counts of both sides."""
        return Pairs(
            effect=self._counts[self.failing],
            without=self._counts[self.passing],
        )
