"""Which experiments a cause needs, the cheapest first, and what is proven by them.

Forks say where to look. What is said to be proven has failed in fresh processes with what is named,
and has not without it (`rates.are_apart`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.prove.axes import Axis, Base
from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    Conditions,
    Experiments,
    Outcome,
    OutOfTime,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import (
    FEWEST,
    Count,
    are_apart,
    in_report,
    lower_bound,
    passes_needed,
)
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import listed

_MOST_FRESH: Final = 20
"""Fresh runs of one side that a comparison takes at most."""
_MOST_FORKS: Final = 40
"""Runs of a test alone, in forks, that look for a failure that comes and goes."""
_LOOKS: Final = 5
"""Runs in forks that say what is worth a proof; what takes long is looked at twice."""
_LONG_SECONDS: Final = 2.0
_FEWEST_PROBES: Final = 4
_PROBES: Final = 60
_SECONDS_OF_PROBES: Final = 20.0
"""How often one pass over the tests before looks at the victim, and how long that may take."""
_SHOWN: Final = 3
_NO_TIME: Final = "time ran out"
_FEWEST_OF_CHANCE: Final = 8
"""Runs of each side where a test comes and goes anyway: of so many, chance has eight fail and eight
pass once in 65,000 times."""
_CLEAR_SHIFT: Final = 0.3
"""By how much a rate changes before it is looked at more closely."""
_ALONG_AXES: Final = 100
"""Runs that all axes together take at most."""
MOST_RUNS: Final = 2 * _MOST_FRESH + _MOST_FORKS + 3 * _PROBES + _ALONG_AXES
"""Runs that one cause takes at most, unless several tests are needed together."""


@value
class Side:
    """One side of a comparison: what runs before the victim, and what is different."""

    before: tuple[str, ...] = ()
    conditions: Conditions = AS_RECORDED
    put_back: tuple[str, ...] = ()


ALONE: Final = Side()


@value
class Climb:
    """What is known of a victim before the experiments."""

    victim: Victim
    recorded: tuple[str, ...] | None
    """The tests before it in its process; `None` if that is not known."""
    natural: tuple[str, ...]
    """The tests that are collected before it."""
    others: tuple[str, ...] = ()
    """All tests but the victim, where there is time to run them all; else none."""
    suspects: tuple[tuple[str, ...], ...] = ()
    """Polluters of other tests, which are tried first."""
    suspicions: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    """What may decide though a test fails each time, and can't be tried."""
    program: str = "pytest"
    """How pytest is called, with the options of the run, for a shell."""
    axes: Callable[[Base, bool], Iterable[Axis]] | None = None
    """Returns what else may decide, by how the test ends alone and whether it takes random numbers.
    """


class Ladder:
    """Climbs from the cheapest experiment on one victim to what proves its cause."""

    def __init__(self, experiments: Experiments, climb: Climb) -> None:
        self._experiments = experiments
        self._victim = climb.victim
        self._climb = climb
        self._fresh: dict[Side, Count] = {}
        self._suspicions = list(climb.suspicions)
        self.others: list[str] = []
        """How it ended where that was neither a pass nor the failure that was asked for."""
        self._seconds = 0.01
        """How long the last run has taken; those of the victim alone are the first."""
        self.found: tuple[str, ...] = ()
        """The tests that the proof names."""
        self._suspected = ("flaky", ALONE, ALONE)
        """What is being compared: the type of the proof that would come of it, and both sides."""
        self._uses_random = False
        """Whether it takes numbers of a generator that can be seeded."""
        self._ran_out = False
        """Whether time ran out before all axes were tried."""
        self.not_tried: dict[str, str] = {}
        """Axes by name, and why they can't be tried here."""

    def prove(self) -> dict[str, Any]:
        """Return the proof of a cause, as the report has it; undecided where time runs out."""
        try:
            return self._prove()
        except OutOfTime:
            sort, effect, without = self._suspected
            counts = [self._side_counts(each) for each in (effect, without)]
            if sort == "flaky" or counts[1].failed:  # without it, it fails as well by now
                self.found = ()
                return self._proof("flaky", "undecided", self._side_counts(ALONE), why=_NO_TIME)
            return self._proof(sort, "suspected", *counts, why=_NO_TIME)

    def _prove(self) -> dict[str, Any]:
        alone = self._look(ALONE, times=_LOOKS, until_mixed=True)
        if alone.runs == 0:
            return self._ends_otherwise_alone()
        if alone.failed == alone.runs:
            return self._fails_alone()
        if alone.failed == 0 and (proof := self._fails_after_others()) is not None:
            return proof
        return self._comes_and_goes()

    # What follows are the rungs.

    def _fails_alone(self) -> dict[str, Any]:
        ran = {*(self._climb.recorded or ())}
        for before in (self._climb.natural, self._climb.others):
            setters = None if ran.issuperset(before) else self._search(before, "passed")
            if setters is not None:
                self.found = setters
                effect, without = self._compare("order.brittle", ALONE, Side(before=setters))
                if are_apart(effect, without):
                    return self._proof("order.brittle", "proven", effect, without)
                self.found = ()
        alone = self._count_fresh(ALONE, FEWEST)
        if alone.failed < alone.runs:
            return self._comes_and_goes()
        if (proof := self._depends_on_axis(alone)) is not None:
            return proof
        status = "proven" if alone.runs >= FEWEST else "undecided"
        self._suspicions += self._climb.not_known
        return self._proof("reproducible", status, self._side_counts(ALONE))

    def _fails_after_others(self) -> dict[str, Any] | None:
        """Find the tests that make the victim fail; `None` if those that ran before it do not."""
        recorded = self._climb.recorded or ()
        suspects = (
            each
            for each in self._climb.suspects
            if self._victim.nodeid not in each and self._is(each, "failed")
        )
        polluters = next(suspects, None) or self._search(recorded, "failed")
        if polluters is None and recorded and not self._experiments.why_no_forks:
            # Not in forks, which share files and sockets with the process that collected.
            polluters = self._search(recorded, "failed", is_fresh=True)
        if not polluters:
            return None
        seen = self._look(Side(before=polluters), times=_LOOKS)
        if seen.failed * 2 < seen.runs:
            return None  # it was chance that it failed
        by_itself = replace(self._victim, nodeid=polluters[-1])
        if len(polluters) == 1 and self._experiments.run(by_itself).result == "failed":
            # Such as a fixture of the module whose end fails: pytest charges it to the last test.
            self._victim, self._fresh = by_itself, {}
            return self._fails_alone()
        self.found = polluters
        effect, without = self._compare("order.polluted", Side(before=polluters), ALONE)
        if effect.failed < effect.runs and len(polluters) > 1:
            # It is a matter of chance, which may have kept tests that are not needed.
            tries = passes_needed(max(lower_bound(effect), 1 / _MOST_FRESH))
            polluters = fewest(
                polluters, lambda some: any(self._is(some, "failed") for _ in range(tries))
            )
            self.found = polluters
            effect, without = self._compare("order.polluted", Side(before=polluters), ALONE)
        if not are_apart(effect, without):
            self.found = ()
            named = " and ".join(polluters)
            if not without.failed:
                self._suspicions.append(f"after {named}: fails {effect}")
            elif without.failed == without.runs:
                why = f"since {named} has run in a process of its own, it fails alone as well"
                return self._proof("flaky", "undecided", without, why=f"{why} ({without})")
            return None
        state = self._find_state(polluters)
        with suppress(OutOfTime):
            rest = tuple(each for each in recorded if each not in polluters)
            if rest and self._is(rest, "failed"):
                self._suspicions.append("other tests that ran before it make it fail, too")
        return self._proof("order.polluted", "proven", effect, without, state=state)

    def _ends_otherwise_alone(self) -> dict[str, Any]:
        """Compare tests after which it fails with tests after which it passes."""
        alone = self._other_words()
        polluters = self._search(self._climb.recorded or (), "failed")
        others = (self._climb.natural, self._climb.others) if polluters else ()
        setters = next(filter(None, (self._search(each, "passed") for each in others)), None)
        if polluters and setters:
            self.found = polluters
            sides = Side(before=polluters), Side(before=setters)
            effect, without = self._compare("order.polluted", *sides)
            if are_apart(effect, without):
                after = f"after {' and '.join(setters)}"
                return self._proof("order.polluted", "proven", effect, without, other=after)
            self.found = ()
        return self._proof("flaky", "undecided", self._side_counts(ALONE), why=alone)

    def _find_state(self, polluters: tuple[str, ...]) -> str | None:
        """Return in words what the polluters leave behind that makes the victim fail."""
        if self._experiments.why_no_forks:
            self._suspicions.append(f"what they leave behind: {self._experiments.why_no_forks}")
            return None
        try:
            found = self._experiments.find_state(self._victim, polluters)
            mended = dict(found.answer("mended") or ())
            if mended:
                side = Side(before=polluters, put_back=tuple(mended))
                forks, fresh = self._look(side, times=3), self._count_fresh(side, 2)
                if not forks.failed + fresh.failed and forks.runs + fresh.runs >= FEWEST:
                    return "; ".join(mended.values())
                self._suspicions.append("; ".join(mended.values()))
            elif left := found.answer("differences"):
                self._suspicions.append(f"left behind: {listed(left, _SHOWN)}")
            elif left is None:
                self._suspicions.append(f"what they leave behind: {found.words}")
        except OutOfTime:
            self._suspicions.append(f"what they leave behind: {_NO_TIME}")
        return None

    def _comes_and_goes(self) -> dict[str, Any]:
        """Run it alone until it has failed and passed under the same conditions."""
        forks = Count()
        if not self._experiments.why_no_forks:
            forks = self._look(ALONE, times=_MOST_FORKS, until_mixed=True)
        alone = self._count_fresh(ALONE, FEWEST, until_mixed=True)
        if (proof := self._depends_on_axis(forks.and_those_of(alone))) is not None:
            return proof
        with suppress(OutOfTime):
            alone = self._count_fresh(ALONE, _MOST_FRESH, until_mixed=True)
            if 0 < alone.failed < alone.runs:
                self._count_fresh(ALONE, _MOST_FRESH)
        alone = self._side_counts(ALONE)
        is_mixed = 0 < alone.failed < alone.runs
        if not is_mixed:
            why = f"it has never failed in {alone.runs} runs alone"
            return self._proof("flaky", "undecided", alone, why=why)
        if self._ran_out or alone.runs < FEWEST:  # something else may decide
            return self._proof("flaky", "suspected", alone, why=_NO_TIME)
        return self._proof("flaky", "proven", alone)

    def _depends_on_axis(self, alone: Count) -> dict[str, Any] | None:
        """Find an axis along which the victim fails here and passes there.

        Args:
            alone: how it ends while nothing is changed.
        """
        if not alone.runs or self._climb.axes is None:
            return None
        base: Base = "mixed"
        if alone.failed in (0, alone.runs):
            base = "fails" if alone.failed else "passes"
        with suppress(OutOfTime):
            for axis in self._climb.axes(base, self._uses_random):
                if axis.why_not:
                    self.not_tried[axis.name] = axis.why_not
                    continue
                sides = self._sides_of(axis, base)
                counts = sides and self._confirm(axis, base, *sides)
                if sides and counts:
                    state, other = (each.conditions.words or axis.as_it_is for each in sides)
                    name, side = f"axis.{axis.name}", sides[0]
                    return self._proof(name, "proven", *counts, state=state, other=other, side=side)
            return None
        self._ran_out = True
        return None

    def _sides_of(self, axis: Axis, base: Base) -> tuple[Side, Side] | None:
        """Return where a test fails along an axis, and where it passes; `None` unless it does."""
        sides = {}
        if base == "mixed" and axis.as_it_is:
            for conditions in axis.conditions:
                self._suspect(axis.name, Side(conditions=conditions))
            return None
        if axis.as_it_is:
            sides["failed" if base == "fails" else "passed"] = ALONE
        for conditions in axis.conditions:
            side = Side(conditions=conditions)
            for _ in range(axis.tries):
                sides.setdefault(self._run(side).result, side)
                if {"failed", "passed"} <= sides.keys():
                    return sides["failed"], sides["passed"]
        return None

    def _suspect(self, name: str, side: Side) -> None:
        """Keep as a suspicion what makes a test that comes and goes fail more often, or less."""
        base = self._count_fresh(ALONE, _MOST_FRESH)
        for runs in (3, 10):
            count = self._count_fresh(side, runs)
            if not count.runs or abs(count.share - base.share) < _CLEAR_SHIFT:
                return
        if are_apart(count, base) or are_apart(base, count):
            self._suspicions.append(f"{name}: fails {count} with {side.conditions.words}")

    def _confirm(
        self, axis: Axis, base: Base, failing: Side, passing: Side
    ) -> tuple[Count, Count] | None:
        """Run both sides in turn; `None` where one passes and fails, or nothing is decided."""
        fewest = _FEWEST_OF_CHANCE if base == "mixed" else FEWEST
        # What led here was chosen by how it ended, and proves nothing.
        before, self._fresh = self._side_counts(ALONE), {}
        try:
            for runs in range(1, _MOST_FRESH + 1):
                effect, without = self._count_fresh(failing, runs), self._count_fresh(passing, runs)
                passes_too = effect.failed < effect.runs and axis.tries == 1
                if without.failed or passes_too or min(effect.failed, without.runs) < runs // 2:
                    return None
                if runs >= fewest and are_apart(effect, without):
                    return effect, without
        except OutOfTime:
            count = self._side_counts(failing)
            if count.failed >= 2:
                words = f"{axis.name}: fails {count}", failing.conditions.words
                self._suspicions.append(" with ".join(filter(None, words)))
            raise
        finally:
            self._fresh[ALONE] = before.and_those_of(self._side_counts(ALONE))
        return None

    # What follows are the ways to ask.

    def _is(self, before: Sequence[str], result: str, *, is_fresh: bool = False) -> bool:
        return self._run(Side(before=tuple(before)), is_fresh=is_fresh).result == result

    def _search(
        self, before: tuple[str, ...], result: str, *, is_fresh: bool = False
    ) -> tuple[str, ...] | None:
        """Return the fewest of the tests before the victim after which it has a result.

        Returns:
            `None` where it does not have it after all of them.
        """
        if not before:
            return None

        def holds(some: tuple[str, ...]) -> bool:
            return self._is(some, result, is_fresh=is_fresh)

        walks = not (is_fresh or self._experiments.why_no_forks)
        if result == "failed" and len(before) > 1 and walks:
            probes = max(_FEWEST_PROBES, min(_PROBES, int(_SECONDS_OF_PROBES / self._seconds)))
            every = -(-len(before) // probes)
            at = self._experiments.walk(self._victim, before, every)
            if at is not None:
                near = before[max(0, at - every) : at]
                if holds(near):
                    return fewest(near, holds)
                before = before[:at]
        # A failure may be a matter of chance: it has two.
        tries = 2 if result == "failed" else 1
        return fewest(before, holds) if any(holds(before) for _ in range(tries)) else None

    def _run(self, side: Side, *, is_fresh: bool = False) -> Outcome:
        outcome = self._experiments.run(
            self._victim, side.before, side.conditions, is_fresh=is_fresh, put_back=side.put_back
        )
        self._seconds = max(outcome.seconds, 0.01)
        self._uses_random |= bool(outcome.answer("uses_random"))
        if outcome.result == "other":
            self.others.append(outcome.words)
        if is_fresh or self._experiments.why_no_forks:
            self._fresh[side] = self._side_counts(side).plus(outcome.result)
        return outcome

    def _side_counts(self, side: Side) -> Count:
        return self._fresh.get(side, Count())

    def _look(self, side: Side, *, times: int, until_mixed: bool = False) -> Count:
        """Run one side some times in forks, where that is possible."""
        count = Count()
        for done in range(1, times + 1):
            outcome = self._run(side)
            count = count.plus(outcome.result)
            is_mixed = 0 < count.failed < count.runs
            is_long = outcome.seconds > _LONG_SECONDS and done >= 2
            if (until_mixed and is_mixed) or is_long:
                break
        return count

    def _count_fresh(self, side: Side, runs: int, *, until_mixed: bool = False) -> Count:
        """Run one side in fresh processes until so many have decided something."""
        tries = 2 * runs
        while self._side_counts(side).runs < runs and tries:
            count = self._side_counts(side)
            if until_mixed and 0 < count.failed < count.runs:
                break
            self._run(side, is_fresh=True)
            tries -= 1
        return self._side_counts(side)

    def _compare(self, sort: str, effect: Side, without: Side) -> tuple[Count, Count]:
        """Run both sides in turn, in fresh processes, until they are apart or it is no use."""
        self._suspected = (sort, effect, without)
        runs = 0
        while runs < _MOST_FRESH:
            runs += 1
            one, other = self._count_fresh(effect, runs), self._count_fresh(without, runs)
            if are_apart(one, other):
                break
            # Five of one kind on both sides, or hardly a difference: more runs won't separate them.
            if runs >= FEWEST and one.failed - other.failed < runs // 2:
                break
        self._suspected = ("flaky", ALONE, ALONE)
        return self._side_counts(effect), self._side_counts(without)

    def _other_words(self) -> str:
        return f"alone it ends in another way: {self.others[-1]}" if self.others else "it never ran"

    def _proof(
        self,
        sort: str,
        status: str,
        effect: Count,
        without: Count | None = None,
        *,
        state: str | None = None,
        other: str | None = None,
        side: Side = ALONE,
        why: str = "",
    ) -> dict[str, Any]:
        return {
            "type": sort,
            "status": status,
            "nodeids": list(self.found),
            "state": state or why or None,
            **in_report(effect, without, other),
            # A brittle test fails without those that it needs.
            "command": self._command(() if sort == "order.brittle" else self.found, side),
            "suspicions": [*filter(None, self._suspicions)],
            "known_since": None,
        }

    def _command(self, before: Sequence[str], side: Side) -> str:
        conditions = side.conditions
        # Folders of the experiments' own are gone by then.
        named = () if conditions.around else conditions.variables
        variables = [f"{name}={shlex.quote(text)}" for name, text in named if text is not None]
        words = [*conditions.args, *before, self._victim.nodeid]
        return " ".join([*variables, self._climb.program, shlex.join(words)])
