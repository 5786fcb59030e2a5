"""Choose the experiments for a cause, the cheapest first, and conclude what they prove.

Forks say where to look. What is said to be proven has failed in fresh processes with what
is named, and has not without it (`rates.compare`); what is said to be reproducible has
failed in each of 29 runs (`rates.is_reproducible`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from pytest_failure_taxonomy.prove.axes import Axis, Base
from pytest_failure_taxonomy.prove.copies import Copies
from pytest_failure_taxonomy.prove.experiment import (
    Conditions,
    Experiments,
    OutOfTime,
    Victim,
)
from pytest_failure_taxonomy.prove.ledger import Comparison, Side
from pytest_failure_taxonomy.prove.rates import (
    ENOUGH,
    ENOUGH_FRESH,
    ENOUGH_IN_FORKS,
    FEWEST,
    LEAST_FORKS,
    NO_RUNS,
    Count,
    are_apart,
    changes_once,
    is_reproducible,
    lower_bound,
    make_proof,
    passes_needed,
)
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.prove.shell import Program
from pytest_failure_taxonomy.prove.trials import Trials
from pytest_failure_taxonomy.taxonomy.judgement import Proof, ProofType
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import listed

_MOST_FRESH: Final = 20
"""Fresh runs of a test that comes and goes."""
_MOST_FORKS: Final = 40
"""Runs of a test alone, in forks, that look for a failure that comes and goes."""
_LOOKS: Final = 5
"""Runs in forks that say what is worth a proof."""
_SHOWN: Final = 3
_NO_TIME: Final = "time ran out"
_CLEAR_SHIFT: Final = 0.3
"""By how much a rate changes before it is looked at more closely."""


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
    files: tuple[str, ...] = ()
    """The files of all tests, in the order in which they are collected."""
    home: Conditions | None = None
    """Folders of the user that are empty; `None` where that can't be had."""
    program: Program = Program()
    """How pytest is called, with the options of the run, for a shell."""
    axes: Callable[[Base, bool], Iterable[Axis]] | None = None
    """Returns what else may decide, by how the test ends alone and whether it takes random
    numbers."""

    @property
    def own_file(self) -> str:
        """The file of the victim."""
        return self.victim.nodeid.partition("::")[0]


class Ladder:
    """Climbs from the cheapest experiment on one victim to what proves its cause.

    Attributes:
        not_tried: axes by name, and why they can't be tried here.
        trials: what runs the victim, and all runs of it.
    """

    def __init__(
        self,
        experiments: Experiments,
        climb: Climb,
        copies: Copies | None = None,
        shuffles: random.Random | None = None,
    ) -> None:
        self._experiments, self._climb, self._copies = experiments, climb, copies
        self.trials = Trials(experiments, climb.victim, climb.program, copies, shuffles)
        self._suspicions = list(climb.suspicions)
        self._comparison: tuple[ProofType, Comparison, str] | None = None
        """What is being compared, until that is decided."""
        self._own: Side | None = None
        """How the test runs truly alone, where it fails so."""
        self._only_shifting: list[Axis] = []
        """What can't decide alone whether a test fails that comes and goes."""
        self._doubt = ""
        """What else may make it fail, and can't be told apart here."""
        self.not_tried: dict[str, str] = {}

    def prove(self) -> Proof:
        """Return the proof of a cause, as the report has it; what was seen if time runs out."""
        try:
            return self._prove()
        except OutOfTime:
            return self._conclude_early()

    def _prove(self) -> Proof:
        trials = self.trials
        alone = trials.look(trials.base, times=_LOOKS, until_mixed=True)
        if not alone.runs and not trials.why_no_forks:
            alone = trials.run_fresh(trials.base, 1)
            if alone.runs:
                trials.go_on_without_forks()
                alone = trials.run_fresh(trials.base, _LOOKS, until_mixed=True)
        if alone.is_mixed:
            return self._comes_and_goes()
        if not alone.runs:
            # What it depends on may make it end in one of the two ways.
            proof = self._depends_on_order(fails=False, passes=False)
            why = f"alone it ends in another way: {trials.other_words}"
            return proof or self._proof("flaky", "undecided", state=why)
        return self._has_failed() if alone.failed else self._has_passed()

    def _has_failed(self) -> Proof:
        """Go on with a test that has failed in each run alone."""
        if (proof := self._look_at_surroundings()) is not None:
            return proof
        if self.trials.alone.runs.is_mixed:
            return self._comes_and_goes()
        proof = self._depends_on_order(fails=True, passes=False)
        return proof or self._fails_always()

    def _has_passed(self) -> Proof:
        """Go on with a test that has passed in each run alone."""
        proof = self._depends_on_order(fails=False, passes=True)
        if proof is None and self._fails_in_clean_copy():
            self.trials.go_on_in_clean_copies()
            return self._prove()
        return proof or self._comes_and_goes()

    # What follows are the rungs.

    def _look_at_surroundings(self) -> Proof | None:
        """Run the test truly alone; where it passes then, find what made it fail.

        Alone, only its own file is collected, in a folder without what the recorded run
        has left, with empty folders of the user.
        """
        trials = self.trials
        base, (left, older) = trials.base, self._leftovers
        only_file = replace(base, files=(self._climb.own_file,))
        clean = replace(only_file, tree="clean copy")
        # Files from before the run may be a part of the project, without which it breaks.
        with_older = replace(clean, left=older)
        # Where it fails on one of these first, some of the files may be what decides.
        with_files = {only_file, with_older} - {clean} if left or older else set()
        sides = [clean, with_older, only_file] if with_files else [only_file]
        if self._climb.home is not None:
            sides.insert(0, replace(sides[0], conditions=self._climb.home))
        sides = [*dict.fromkeys(sides)]
        self._own = next((side for side in sides if self._fails_on(side)), None)
        if self._own is not None and self._own not in with_files:
            return None
        if not trials.why_no_forks:
            fresh = trials.run_fresh(base, 2, until_mixed=True)
            if not fresh.failed:
                # In a process of its own it has never failed.
                trials.go_on_without_forks()
                return self._prove()
        if self._own is None:
            self._doubt = "where only its own file is collected it ends in another way"
            return self._depends_on_import(only_file)
        result = trials.run(clean).result
        if result == "passed" and self._fails_on(replace(only_file, tree="copy")):
            return self._depends_on_leftovers((*left, *older))
        if left and self._own == only_file:
            named = listed(left, _SHOWN)
            self._doubt = (
                f"the run has written {named}, and without that it ends otherwise"
            )
        return None

    @property
    def _leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Files that the recorded run has left, and those that an earlier one may have."""
        if self._copies is None or self.trials.base.tree != "here":
            return (), ()
        leftovers = self._copies.leftovers
        if unknown := self._copies.unknown:
            self._doubt = f"the run has changed {listed(unknown, _SHOWN)}"
        return leftovers.names, leftovers.older

    def _fails_on(self, side: Side) -> bool:
        return self.trials.run(side, is_fresh=True).result == "failed"

    def _fails_in_clean_copy(self) -> bool:
        """Tell whether it fails without what the recorded run has left, in its order."""
        trials, recorded = self.trials, self._climb.recorded or ()
        if self._copies is None or trials.base.tree != "here":
            return False
        if self._copies.leftovers.may_be_edited:
            return False  # that it passes now may be a fix
        clean = replace(trials.base, tree="clean copy", before=recorded)
        return trials.run(clean).result == "failed"

    def _depends_on_import(self, only_file: Side) -> Proof | None:
        """Find the files whose import makes it fail."""
        trials, climb = self.trials, self._climb
        others = tuple(file for file in climb.files if file != climb.own_file)
        if not others or trials.run(only_file).result != "passed":
            return None

        def with_files(some: Sequence[str]) -> Side:
            files = {*some, climb.own_file}
            collected = tuple(file for file in climb.files if file in files)
            return replace(trials.base, files=collected)

        def holds(some: tuple[str, ...]) -> bool:
            self._experiments.show(f"{len(some):,} of the files that are imported")
            return trials.run(with_files(some)).result == "failed"

        if not holds(others):
            return None
        named = fewest(others, holds)
        failing = with_files(named)
        words = " and ".join(named)
        if not self._compare("collection.polluted", failing, only_file, state=words):
            return None
        if trials.command_of(failing) is None:
            # What decides may be how many tests there are, and no import.
            why = f"it fails where {words} is collected, and no plain run shows that"
            return self._proof("flaky", "undecided", state=why)
        return self._proof(
            "collection.polluted", "proven", failing, only_file, state=words
        )

    def _depends_on_leftovers(self, left: tuple[str, ...]) -> Proof | None:
        """Find which files that the run has left make it fail, or which test leaves them."""
        trials = self.trials
        failing_files = self._find_leftovers(left)
        named = listed([*map(self._name_left, failing_files)], _SHOWN)
        trials.go_on_in_clean_copies()
        proof = self._depends_on_order(fails=False, passes=True)
        if proof is not None:
            words = f"left behind: the file {named}"
            return replace(proof, suspicions=(*proof.suspicions, words))
        with_them = replace(trials.base, left=failing_files)
        if not failing_files or not self._compare(
            "leftover.files", with_them, trials.base, state=named
        ):
            return self._proof(
                "flaky", "undecided", state="files that the run has left"
            )
        proof = self._proof(
            "leftover.files", "proven", with_them, trials.base, state=named
        )
        with suppress(OutOfTime):
            leavers = self._find_leavers(failing_files[-1])
            proof = replace(proof, nodeids=leavers)
        return proof

    def _name_left(self, name: str) -> str:
        leftovers = self._copies.leftovers if self._copies is not None else None
        is_tracked = leftovers is not None and name in leftovers.tracked
        return f"{name} as it was changed" if is_tracked else name

    def _find_leftovers(self, left: tuple[str, ...]) -> tuple[str, ...]:
        clean = replace(self.trials.base, tree="clean copy")

        def holds(some: tuple[str, ...]) -> bool:
            self._experiments.show(f"{len(some):,} of the files that the run has left")
            side = replace(clean, left=some)
            return self.trials.run(side).result == "failed"

        return fewest(left, holds) if holds(left) else ()

    def _find_leavers(self, file: str) -> tuple[str, ...]:
        """Return the tests that leave a file, in a clean copy; none where that is not seen."""
        trials, copies = self.trials, self._copies
        tests = self._climb.others

        def leave(some: tuple[str, ...]) -> bool:
            trials.run(trials.after(some))
            return copies is not None and copies.has(file)

        if leave(()):
            return (trials.victim.nodeid,)
        return fewest(tests, leave) if tests and leave(tests) else ()

    def _depends_on_order(self, *, fails: bool, passes: bool) -> Proof | None:
        """Find tests after which it fails, or passes, where alone it does not.

        Args:
            fails: whether it fails alone.
            passes: whether it passes alone.
        """
        trials = self.trials
        sort: ProofType = "order.brittle" if fails else "order.polluted"
        failing = trials.base if fails else self._find_polluters()
        if failing is None:
            return None
        is_one = passes and len(failing.before) == 1 and failing.tree == "here"
        if is_one:
            polluter = replace(trials.victim, nodeid=failing.before[0])
            # Such as a fixture of the module whose end fails: pytest charges it to the last test.
            if self._experiments.run(polluter).result == "failed":
                trials.set_victim(polluter)
                return self._prove()
        passing = trials.base if passes else self._find_setters()
        if passing is None:
            return None
        if not trials.why_no_forks:
            trials.look(passing, times=LEAST_FORKS)
        if not self._compare(sort, failing, passing):
            return self._explain_no_difference(failing, passing)
        state = None
        if passing == trials.base and trials.base.tree == "here":
            state = self._find_state(failing.before)
            self._suspect_others(failing.before)
        return self._proof(sort, "proven", failing, passing, state=state)

    def _explain_no_difference(
        self,
        failing: Side,
        passing: Side,
    ) -> Proof | None:
        trials = self.trials
        if passing != trials.base:
            return None
        named, alone = " and ".join(failing.before), trials.alone.fresh
        if alone.failed == alone.runs:
            why = (
                f"since {named} has run in a process of its own, it fails alone as well"
            )
            return self._proof("flaky", "undecided", state=f"{why} ({alone})")
        if not alone.failed:
            count = trials.ledger.tally(failing).runs
            self._suspicions.append(f"after {named}: fails {count}")
        return None

    def _suspect_others(self, polluters: tuple[str, ...]) -> None:
        """Look whether the recorded tests make the victim fail without the polluters."""
        recorded = self._climb.recorded or ()
        rest = tuple(nodeid for nodeid in recorded if nodeid not in polluters)
        with suppress(OutOfTime):
            if rest and self.trials.ends_after(rest, "failed"):
                self._suspicions.append(
                    "other tests that ran before it make it fail, too"
                )

    def _find_polluters(self) -> Side | None:
        """Return the tests before it that make the victim fail; `None` if they do not."""
        trials, recorded = self.trials, self._climb.recorded or ()
        polluters = None
        for suspects in self._climb.suspects:
            # In this run, too, they have to be those that ran before it.
            is_other = {*suspects} <= {*recorded} - {trials.victim.nodeid}
            if is_other and trials.ends_after(suspects, "failed"):
                polluters = suspects
                break
        polluters = polluters or trials.search(recorded, "failed")
        if polluters is None and recorded and not trials.why_no_forks:
            # Not in forks, which share files and sockets with the process that collected.
            polluters = trials.search(recorded, "failed", is_fresh=True)
        if polluters is None:
            return None
        failing = trials.after(polluters)
        if trials.why_no_forks:
            return failing  # the pairs will tell, and cost as little
        count = trials.look(failing, times=_LOOKS)
        if count.failed * 2 < count.runs:
            return None  # it was chance that it failed
        if count.failed < count.runs and len(polluters) > 1:
            # Chance may have kept tests that are not needed.
            tries = passes_needed(max(lower_bound(count), 1 / _MOST_FRESH))

            def makes_fail(some: tuple[str, ...]) -> bool:
                return any(trials.ends_after(some, "failed") for _ in range(tries))

            polluters = fewest(polluters, makes_fail)
        return trials.after(polluters)

    def _find_setters(self) -> Side | None:
        """Return tests after which the victim passes; `None` if none of those that are tried."""
        climb = self._climb
        for before in (climb.natural, climb.others):
            # The same tests in another order may leave something else behind.
            if before == climb.recorded:
                continue
            if setters := self.trials.search(before, "passed"):
                return self.trials.after(setters)
        return None

    def _find_state(self, polluters: tuple[str, ...]) -> str | None:
        """Return in words what the polluters leave behind that makes the victim fail."""
        trials = self.trials
        why_no_forks = trials.why_no_forks
        try:
            if why_no_forks:
                suspected = f"what they leave behind: {why_no_forks}"
            else:
                self._experiments.show("what they leave behind")
                outcome = self._experiments.find_state(trials.victim, polluters)
                left = outcome.answer("differences")
                suspected = f"left behind: {listed(left, _SHOWN)}" if left else ""
                if left is None:
                    suspected = f"what they leave behind: {outcome.words}"
                if fixed := dict(outcome.answer("fixed") or ()):
                    suspected = "; ".join(fixed.values())
                    side = Side(before=polluters, put_back=tuple(fixed))
                    # One of the forks may end in another way, which counts for nothing.
                    count = trials.look(side, times=4)
                    count = count.and_those_of(trials.run_fresh(side, 2))
                    if not count.failed and count.runs >= FEWEST:
                        return suspected
        except OutOfTime:
            suspected = f"what they leave behind: {_NO_TIME}"
        if suspected:
            self._suspicions.append(suspected)
        return None

    def _fails_always(self) -> Proof:
        """Prove that it fails by itself, whatever else is different."""
        trials = self.trials
        if (proof := self._depends_on_axis(Count(failed=1, runs=1))) is not None:
            return proof
        trials.command_of(trials.base)
        truly_alone = self._own or trials.base
        enough = ENOUGH if trials.why_no_forks else ENOUGH_IN_FORKS
        for _ in range(2 * enough):
            together = trials.ledger.tally_of_all_alone()
            if trials.alone.runs.is_mixed or together.runs.runs >= enough:
                break
            self._experiments.show("runs of the test", together.runs.runs + 1, enough)
            if together.fresh.runs < ENOUGH_FRESH:
                trials.run(truly_alone, is_fresh=True)
            else:
                trials.run(trials.base)
        if trials.alone.runs.is_mixed:
            return self._comes_and_goes()
        return self._conclude_reproducible()

    def _conclude_reproducible(self) -> Proof:
        trials = self.trials
        together = trials.ledger.tally_of_all_alone()
        count = together.runs
        if count.failed < count.runs:
            why = "it sometimes passes under other conditions"
            return self._proof("flaky", "undecided", state=why)
        self._suspicions += self._climb.not_known
        outside = listed(trials.outside, _SHOWN)
        if outside:
            self._doubt = f"the run has left {outside}, which it reads"
        if self._doubt:
            self._suspicions.append(self._doubt)
        is_certain = is_reproducible(together) and not self._doubt
        status: Literal["proven", "suspected"] = "proven" if is_certain else "suspected"
        return replace(
            make_proof("reproducible", status, count),
            command=trials.verified_command(trials.base),
            suspicions=tuple(self._suspicions),
        )

    def _comes_and_goes(self) -> Proof:
        """Run it alone until it has failed and passed under the same conditions."""
        trials = self.trials
        if not trials.why_no_forks:
            trials.look(trials.base, times=_MOST_FORKS, until_mixed=True)
        trials.run_fresh(trials.base, FEWEST, until_mixed=True)
        alone = trials.alone
        if not trials.why_no_forks and are_opposite(alone.forks, alone.fresh):
            trials.go_on_without_forks()
            return self._prove()
        if (proof := self._depends_on_axis(alone.runs)) is not None:
            return proof
        fresh = trials.run_fresh(trials.base, _MOST_FRESH, until_mixed=True)
        if fresh.is_mixed:
            trials.run_fresh(trials.base, _MOST_FRESH)
        with suppress(OutOfTime):
            for axis in self._only_shifting:
                self._suspect(axis)
        return self._conclude_flaky()

    def _conclude_flaky(self) -> Proof:
        trials = self.trials
        alone, results = trials.alone, trials.ledger.unchanged
        by_command = trials.ledger.count(trials.base, "command")
        by_us = trials.ledger.count(trials.base, "fresh")
        if by_command.runs and not by_command.failed and by_us.failed == by_us.runs > 0:
            why = "a plain run of pytest passes, and each other process fails"
            return self._proof("flaky", "undecided", state=why)
        if not alone.runs.is_mixed:
            ended = "passed" if alone.runs.failed else "failed"
            why = f"it has never {ended} in {alone.runs.runs} runs alone"
            return self._proof("flaky", "undecided", state=why)
        if changes_once(results):
            first = results.index(not results[0])
            ends = ("failed", "passed") if results[0] else ("passed", "failed")
            why = (
                f"it {ends[0]} in its first {first} runs, and has {ends[1]} in the "
                f"{len(results) - first} since"
            )
            return self._proof("flaky", "undecided", state=why)
        # Else something that was not tried may decide.
        is_whole = alone.fresh.is_mixed and alone.fresh.runs >= _MOST_FRESH
        return self._proof("flaky", "proven" if is_whole else "suspected")

    def _conclude_early(self) -> Proof:
        """Return what was seen until time ran out, without what was tried on one side only."""
        trials = self.trials
        if self._comparison is not None:
            sort, comparison, words = self._comparison
            failing, pairs = comparison.failing, comparison.pairs
            if pairs.effect.failed and pairs.without.runs and not pairs.without.failed:
                # The words say what decides, if there are any.
                if words:
                    self._suspicions.append(_NO_TIME)
                state = words or _NO_TIME
                passing = comparison.passing
                return self._proof(sort, "suspected", failing, passing, state=state)
        alone = trials.alone.runs
        if alone.is_mixed:
            return self._conclude_flaky()
        if alone.failed >= FEWEST and trials.ledger.tally_of_all_alone().fresh.failed:
            return replace(self._conclude_reproducible(), state=_NO_TIME)
        return self._proof("flaky", "undecided", state=_NO_TIME)

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
        is_home_tried = self._own is not None and self._own.conditions.words
        for axis in self._climb.axes(base, self.trials.uses_random):
            if axis.name == "home" and is_home_tried:
                continue
            self._experiments.show(f"along an axis: {axis.name}")
            if axis.why_not:
                self.not_tried[axis.name] = axis.why_not
            elif base == "mixed" and axis.as_it_is:
                self._only_shifting.append(axis)
            elif (proof := self._prove_axis(axis, base)) is not None:
                return proof
        return None

    def _prove_axis(self, axis: Axis, base: Base) -> Proof | None:
        trials, sides = self.trials, dict[str, Side]()
        if axis.as_it_is:
            as_it_is = replace(trials.base, conditions=Conditions(words=axis.as_it_is))
            sides["failed" if base == "fails" else "passed"] = as_it_is
        for conditions in axis.conditions:
            for _ in range(axis.tries):
                if not {"failed", "passed"} <= sides.keys():
                    side = replace(trials.base, conditions=conditions)
                    sides.setdefault(trials.run(side).result, side)
        if not {"failed", "passed"} <= sides.keys():
            return None
        sort: Any = f"axis.{axis.name}"  # one of `ProofType`
        failing, passing = sides["failed"], sides["passed"]
        is_apart = self._compare(sort, failing, passing, is_steady=axis.tries == 1)
        return self._proof(sort, "proven", failing, passing) if is_apart else None

    def _suspect(self, axis: Axis) -> None:
        """Keep as a suspicion what makes a test that comes and goes fail more often, or less."""
        trials = self.trials
        base = trials.run_fresh(trials.base, _MOST_FRESH)
        for conditions in axis.conditions:
            side = replace(trials.base, conditions=conditions)
            for runs in (3, 10):
                count = trials.run_fresh(side, runs)
                if not count.runs or abs(count.share - base.share) < _CLEAR_SHIFT:
                    break
            else:
                if are_apart(count, base) or are_apart(base, count):
                    words = f"{axis.name}: fails {count} with {conditions.words}"
                    self._suspicions.append(words)

    def _compare(
        self,
        sort: ProofType,
        failing: Side,
        passing: Side,
        *,
        is_steady: bool = False,
        state: str = "",
    ) -> bool:
        """Run both sides in pairs until they are apart or it is no use."""
        comparison = Comparison(failing, passing)
        self._comparison = sort, comparison, state or failing.words
        is_apart = self.trials.compare(comparison, is_steady=is_steady)
        if is_apart:
            with suppress(OutOfTime):
                self.trials.command_of(failing)
        self._comparison = None
        return is_apart

    def _proof(
        self,
        sort: ProofType,
        status: Literal["proven", "suspected", "undecided"],
        failing: Side | None = None,
        passing: Side | None = None,
        *,
        state: str | None = None,
    ) -> Proof:
        trials = self.trials
        failing = failing or trials.base
        nodeids, tally = failing.before, trials.ledger.tally(failing)
        count = tally.runs
        other, without = "", None
        if passing is not None:
            # What forks say led here; what is proven are the runs of processes.
            count, without = tally.fresh, trials.ledger.tally(passing).fresh
            other = passing.words
            if nodeids and passing.before:
                other = f"after {' and '.join(passing.before)}"
            nodeids = nodeids or passing.before
        suspicions = [*self._suspicions]
        if trials.is_reordered:
            suspicions.append(
                "pytest runs these tests in another order, so no command repeats it"
            )
        return make_proof(
            sort,
            status,
            count,
            without if without is None or without.runs else NO_RUNS,
            other=other or None,
            nodeids=nodeids,
            state=state or failing.words or None,
            command=trials.verified_command(failing),
            suspicions=tuple(suspicions),
        )


def are_opposite(forks: Count, fresh: Count) -> bool:
    """Tell whether a test ends in one way in each fork, and in the other in its own process."""
    fewest_runs = min(forks.runs, fresh.runs)
    is_split = {forks.failed == forks.runs, fresh.failed == fresh.runs} == {True, False}
    return (
        fewest_runs >= FEWEST and is_split and not forks.is_mixed and not fresh.is_mixed
    )
