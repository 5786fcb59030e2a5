"""Which experiments a cause needs, the cheapest first, and what is proven by them.

Forks say where to look. What is said to be proven has failed in fresh processes with what is named,
and has not without it (`rates.are_apart`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

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
    lower_bound,
    make_proof,
    passes_needed,
)
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.taxonomy.judgement import Proof, ProofType
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
    """Climbs from the cheapest experiment on one victim to what proves its cause.

    Attributes:
        not_tried: axes by name, and why they can't be tried here.
    """

    def __init__(self, experiments: Experiments, climb: Climb) -> None:
        self._experiments, self._climb = experiments, climb
        self._victim = climb.victim
        self._fresh: dict[Side, Count] = {}
        self._suspicions = list(climb.suspicions)
        self._other_words = "it never ran"
        """How it ended where that was neither a pass nor the failure that was asked for."""
        self._seconds = 0.01
        """How long the last run has taken; those of the victim alone are the first."""
        self._uses_random = False
        """Whether it takes numbers of a generator that can be seeded."""
        self._draft: Proof | None = None
        """What was about to be proven when time ran out."""
        self.not_tried: dict[str, str] = {}

    def prove(self) -> Proof:
        """Return the proof of a cause, as the report has it; undecided where time runs out."""
        try:
            return self._prove()
        except OutOfTime:
            return self._draft or self._proof("flaky", "undecided", state=_NO_TIME)

    def _prove(self) -> Proof:
        alone = self._look(ALONE, times=_LOOKS, until_mixed=True)
        always = alone.failed == alone.runs
        if not alone.is_mixed:
            # Of one that ended in another way each time, neither is known.
            proof = self._depends_on_order(
                fails=always and alone.runs > 0,
                passes=not always,
            )
            if proof is not None:
                return proof
        if alone.runs == 0:
            why = f"alone it ends in another way: {self._other_words}"
            return self._proof("flaky", "undecided", state=why)
        if always:
            alone = self._count_fresh(ALONE, FEWEST)
            if alone.failed == alone.runs:
                if (proof := self._depends_on_axis(alone)) is not None:
                    return proof
                self._suspicions += self._climb.not_known
                return self._proof(
                    "reproducible",
                    "proven" if alone.runs >= FEWEST else "undecided",
                )
        return self._comes_and_goes()

    # What follows are the rungs.

    def _depends_on_order(self, *, fails: bool, passes: bool) -> Proof | None:
        """Find tests after which it fails, or passes, where alone it does not.

        Args:
            fails: whether it fails alone.
            passes: whether it passes alone.
        """
        sort: ProofType = "order.brittle" if fails else "order.polluted"
        failing = ALONE if fails else self._find_polluters()
        if failing is None:
            return None
        if passes and len(failing.before) == 1:
            polluter = replace(self._victim, nodeid=failing.before[0])
            # Such as a fixture of the module whose end fails: pytest charges it to the last test.
            if self._experiments.run(polluter).result == "failed":
                self._victim, self._fresh = polluter, {}
                return self._prove()
        passing = ALONE if passes else self._find_setters()
        if passing is None:
            return None
        if not self._are_apart(sort, failing, passing):
            return self._explain_no_difference(failing, passing)
        state = None
        if passing == ALONE:
            state = self._find_state(failing.before)
            self._suspect_others(failing.before)
        return self._proof(sort, "proven", failing, passing, state=state)

    def _explain_no_difference(
        self,
        failing: Side,
        passing: Side,
    ) -> Proof | None:
        if passing != ALONE:
            return None
        named, alone = " and ".join(failing.before), self._counts(ALONE)
        if alone.failed == alone.runs:
            why = (
                f"since {named} has run in a process of its own, it fails alone as well"
            )
            return self._proof("flaky", "undecided", state=f"{why} ({alone})")
        if not alone.failed:
            self._suspicions.append(f"after {named}: fails {self._counts(failing)}")
        return None

    def _suspect_others(self, polluters: tuple[str, ...]) -> None:
        """Look whether the recorded tests make the victim fail without the polluters."""
        recorded = self._climb.recorded or ()
        rest = tuple(nodeid for nodeid in recorded if nodeid not in polluters)
        with suppress(OutOfTime):
            if rest and self._is(rest, "failed"):
                self._suspicions.append(
                    "other tests that ran before it make it fail, too"
                )

    def _find_polluters(self) -> Side | None:
        """Return the tests before it that make the victim fail; `None` if they do not."""
        recorded = self._climb.recorded or ()
        polluters = None
        for suspects in self._climb.suspects:
            if self._victim.nodeid not in suspects and self._is(suspects, "failed"):
                polluters = suspects
                break
        polluters = polluters or self._search(recorded, "failed")
        if polluters is None and recorded and not self._experiments.why_no_forks:
            # Not in forks, which share files and sockets with the process that collected.
            polluters = self._search(recorded, "failed", is_fresh=True)
        if polluters is None:
            return None
        count = self._look(Side(before=polluters), times=_LOOKS)
        if count.failed * 2 < count.runs:
            return None  # it was chance that it failed
        if count.failed < count.runs and len(polluters) > 1:
            # Chance may have kept tests that are not needed.
            tries = passes_needed(max(lower_bound(count), 1 / _MOST_FRESH))

            def makes_fail(some: tuple[str, ...]) -> bool:
                return any(self._is(some, "failed") for _ in range(tries))

            polluters = fewest(polluters, makes_fail)
        return Side(before=polluters)

    def _find_setters(self) -> Side | None:
        """Return tests after which the victim passes; `None` if none of those that are tried."""
        climb = self._climb
        for before in (climb.natural, climb.others):
            # The same tests in another order may leave something else behind.
            if before == climb.recorded:
                continue
            if setters := self._search(before, "passed"):
                return Side(before=setters)
        return None

    def _find_state(self, polluters: tuple[str, ...]) -> str | None:
        """Return in words what the polluters leave behind that makes the victim fail."""
        why_no_forks = self._experiments.why_no_forks
        try:
            if why_no_forks:
                suspected = f"what they leave behind: {why_no_forks}"
            else:
                outcome = self._experiments.find_state(self._victim, polluters)
                left = outcome.answer("differences")
                suspected = f"left behind: {listed(left, _SHOWN)}" if left else ""
                if left is None:
                    suspected = f"what they leave behind: {outcome.words}"
                if mended := dict(outcome.answer("mended") or ()):
                    suspected = "; ".join(mended.values())
                    side = Side(before=polluters, put_back=tuple(mended))
                    # One of the forks may end in another way, which counts for nothing.
                    count = self._look(side, times=4)
                    count = count.and_those_of(self._count_fresh(side, 2))
                    if not count.failed and count.runs >= FEWEST:
                        return suspected
        except OutOfTime:
            suspected = f"what they leave behind: {_NO_TIME}"
        if suspected:
            self._suspicions.append(suspected)
        return None

    def _comes_and_goes(self) -> Proof:
        """Run it alone until it has failed and passed under the same conditions."""
        forks = Count()
        if not self._experiments.why_no_forks:
            forks = self._look(ALONE, times=_MOST_FORKS, until_mixed=True)
        alone = self._count_fresh(ALONE, FEWEST, until_mixed=True)
        if (proof := self._depends_on_axis(forks.and_those_of(alone))) is not None:
            return proof
        is_whole = False
        with suppress(OutOfTime):
            if self._count_fresh(ALONE, _MOST_FRESH, until_mixed=True).is_mixed:
                self._count_fresh(ALONE, _MOST_FRESH)
            is_whole = True
        alone = self._counts(ALONE)
        if not alone.is_mixed:
            why = f"it has never failed in {alone.runs} runs alone"
            return self._proof("flaky", "undecided", state=why)
        # Else something that was not tried may decide.
        if is_whole:
            return self._proof("flaky", "proven")
        return self._proof("flaky", "suspected", state=_NO_TIME)

    def _depends_on_axis(self, alone: Count) -> Proof | None:
        """Find an axis along which the victim fails here and passes there.

        Args:
            alone: how it ends while nothing is changed.
        """
        if not alone.runs or self._climb.axes is None:
            return None
        base: Base = "passes"
        if alone.failed:
            base = "mixed" if alone.is_mixed else "fails"
        with suppress(OutOfTime):
            for axis in self._climb.axes(base, self._uses_random):
                if axis.why_not:
                    self.not_tried[axis.name] = axis.why_not
                elif base == "mixed" and axis.as_it_is:
                    self._suspect(axis)
                elif (proof := self._prove_axis(axis, base)) is not None:
                    return proof
        return self._draft

    def _prove_axis(self, axis: Axis, base: Base) -> Proof | None:
        sides: dict[str, Side] = {}
        if axis.as_it_is:
            as_it_is = Side(conditions=Conditions(words=axis.as_it_is))
            sides["failed" if base == "fails" else "passed"] = as_it_is
        for conditions in axis.conditions:
            for _ in range(axis.tries):
                if not {"failed", "passed"} <= sides.keys():
                    side = Side(conditions=conditions)
                    sides.setdefault(self._run(side).result, side)
        if not {"failed", "passed"} <= sides.keys():
            return None
        sort: Any = f"axis.{axis.name}"  # one of `ProofType`
        failing, passing = sides["failed"], sides["passed"]
        is_apart = self._are_apart(
            sort,
            failing,
            passing,
            fewest=_FEWEST_OF_CHANCE if base == "mixed" else FEWEST,
            is_steady=axis.tries == 1,
        )
        return self._proof(sort, "proven", failing, passing) if is_apart else None

    def _suspect(self, axis: Axis) -> None:
        """Keep as a suspicion what makes a test that comes and goes fail more often, or less."""
        base = self._count_fresh(ALONE, _MOST_FRESH)
        for conditions in axis.conditions:
            for runs in (3, 10):
                count = self._count_fresh(Side(conditions=conditions), runs)
                if not count.runs or abs(count.share - base.share) < _CLEAR_SHIFT:
                    break
            else:
                if are_apart(count, base) or are_apart(base, count):
                    words = f"{axis.name}: fails {count} with {conditions.words}"
                    self._suspicions.append(words)

    # What follows are the ways to ask.

    def _are_apart(
        self,
        sort: ProofType,
        failing: Side,
        passing: Side,
        fewest: int = FEWEST,
        *,
        is_steady: bool = False,
    ) -> bool:
        """Run both sides in turn, in fresh processes, until they are apart or it is no use.

        Args:
            sort: the type of the proof that may come of it.
            failing: where it fails.
            passing: where it has to pass each time.
            fewest: runs of each side that it takes at least.
            is_steady: whether it has to fail each time, too.
        """
        for side in (failing, passing):  # what led here was chosen by how it ended
            self._fresh.pop(side, None)
        try:
            for runs in range(1, _MOST_FRESH + 1):
                effect = self._count_fresh(failing, runs)
                without = self._count_fresh(passing, runs)
                passes_too = is_steady and effect.failed < effect.runs
                # What fails in less than every third run won't be apart in so many.
                is_no_use = min(effect.failed, without.runs) < (runs - 2) // 3
                if without.failed or passes_too or is_no_use:
                    return False
                if runs >= fewest and are_apart(effect, without):
                    return True
        except OutOfTime:
            if not self._counts(passing).failed:
                self._draft = self._proof(
                    sort, "suspected", failing, passing, state=_NO_TIME
                )
            raise
        return False

    def _is(
        self, before: Sequence[str], result: str, *, is_fresh: bool = False
    ) -> bool:
        return self._run(Side(before=tuple(before)), is_fresh=is_fresh).result == result

    def _search(
        self, before: tuple[str, ...], result: str, *, is_fresh: bool = False
    ) -> tuple[str, ...] | None:
        """Return the fewest of the tests before the victim after which it has a result.

        Returns:
            `None` where it does not have it after all of them.
        """
        before = tuple(nodeid for nodeid in before if nodeid != self._victim.nodeid)
        if not before:
            return None

        def holds(some: tuple[str, ...]) -> bool:
            return self._is(some, result, is_fresh=is_fresh)

        walks = not (is_fresh or self._experiments.why_no_forks)
        if result == "failed" and len(before) > 1 and walks:
            probes = min(_PROBES, int(_SECONDS_OF_PROBES / self._seconds))
            probes = max(_FEWEST_PROBES, probes)
            every = -(-len(before) // probes)
            end = self._experiments.walk(self._victim, before, every)
            if end is not None:
                near = before[max(0, end - every) : end]
                if holds(near):
                    return fewest(near, holds)
                before = before[:end]
        # A failure may be a matter of chance: it has two.
        tries = 2 if result == "failed" else 1
        if not any(holds(before) for _ in range(tries)):
            return None
        return fewest(before, holds)

    def _run(self, side: Side, *, is_fresh: bool = False) -> Outcome:
        outcome = self._experiments.run(
            self._victim,
            side.before,
            side.conditions,
            is_fresh=is_fresh,
            put_back=side.put_back,
        )
        self._seconds = max(outcome.seconds, 0.01)
        self._uses_random |= bool(outcome.answer("uses_random"))
        if outcome.result == "other":
            self._other_words = outcome.words
        if is_fresh or self._experiments.why_no_forks:
            self._fresh[side] = self._counts(side).plus(outcome.result)
        return outcome

    def _counts(self, side: Side) -> Count:
        return self._fresh.get(side, Count())

    def _look(self, side: Side, *, times: int, until_mixed: bool = False) -> Count:
        """Run one side some times in forks, where that is possible."""
        count = Count()
        for done in range(1, times + 1):
            outcome = self._run(side)
            count = count.plus(outcome.result)
            is_long = outcome.seconds > _LONG_SECONDS and done >= 2
            if (until_mixed and count.is_mixed) or is_long:
                break
        return count

    def _count_fresh(
        self, side: Side, runs: int, *, until_mixed: bool = False
    ) -> Count:
        """Run one side in fresh processes until so many have decided something."""
        for _ in range(2 * runs):
            count = self._counts(side)
            if count.runs >= runs or (until_mixed and count.is_mixed):
                break
            self._run(side, is_fresh=True)
        return self._counts(side)

    def _proof(
        self,
        sort: ProofType,
        status: Literal["proven", "suspected", "undecided"],
        failing: Side = ALONE,
        passing: Side | None = None,
        *,
        state: str | None = None,
    ) -> Proof:
        nodeids = failing.before
        other, without = "", None
        if passing:
            other, without = passing.conditions.words, self._counts(passing)
            if nodeids and passing.before:
                other = f"after {' and '.join(passing.before)}"
            nodeids = nodeids or passing.before
        return make_proof(
            sort,
            status,
            self._counts(failing),
            without,
            other=other or None,
            nodeids=nodeids,
            state=state or failing.conditions.words or None,
            command=self._command(failing),
            suspicions=tuple(self._suspicions),
        )

    def _command(self, side: Side) -> str:
        conditions = side.conditions
        variables = []
        # Folders of the experiments' own are gone by then.
        if not conditions.around:
            for name, text in conditions.variables:
                if text is not None:
                    variables.append(f"{name}={shlex.quote(text)}")
        words = [*conditions.args, *side.before, self._victim.nodeid]
        return " ".join([*variables, self._climb.program, shlex.join(words)])
