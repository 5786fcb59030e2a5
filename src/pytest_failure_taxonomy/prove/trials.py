"""Run one victim under given conditions, record how it ends, and compare two conditions."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from typing import Final

from pytest_failure_taxonomy.prove import rates
from pytest_failure_taxonomy.prove.copies import Copies
from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    OTHER_ORDER,
    Experiments,
    Outcome,
    Result,
    Victim,
)
from pytest_failure_taxonomy.prove.ledger import ALONE, Comparison, Ledger, Side
from pytest_failure_taxonomy.prove.rates import Count, Tally
from pytest_failure_taxonomy.prove.recorded import Repeat
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.prove.shell import Program, commands_of
from pytest_failure_taxonomy.taxonomy.values import replace

_LONG_SECONDS: Final = 2.0
"""A run that takes longer is looked at twice, not more often."""
_FEWEST_PROBES: Final = 4
_PROBES: Final = 60
_SECONDS_OF_PROBES: Final = 20.0
"""How often one pass over the tests before looks at the victim, and how long that may
take."""
COMMAND_RUNS: Final = 3
"""How often a command has to fail before anybody is given it."""


class Trials:
    """Runs a victim, in forks where that is possible and enough.

    Attributes:
        victim: the test.
        ledger: every run of it.
        base: how it runs where nothing is changed: here, or in clean copies.
        other_words: how it ended where that was neither a pass nor its failure.
        uses_random: whether it takes numbers of a generator that can be seeded.
        outside: files outside of the project that the run has left, and that it reads.
        why_no_forks: a sentence, where each run takes a process of its own.
    """

    def __init__(
        self,
        experiments: Experiments,
        victim: Victim,
        program: Program,
        copies: Copies | None = None,
        shuffles: random.Random | None = None,
    ) -> None:
        """Prepare.

        Args:
            experiments: which run tests.
            victim: the test.
            program: how a shell calls pytest.
            copies: which run tests in copies of the project.
            shuffles: decides which side of a pair runs first.
        """
        self.victim = victim
        self.ledger = Ledger()
        self.base = ALONE
        self.other_words = "it never ran"
        self.uses_random = False
        self.outside: tuple[str, ...] = ()
        self.why_no_forks = experiments.why_no_forks
        self.is_reordered = False
        self.experiments = experiments
        self._program = program
        self._copies = copies
        self._shuffles = shuffles or random.Random()  # noqa: S311 - no secret
        self._seconds = 0.01
        self._commands: dict[Side, list[str]] = {}
        self._command_runs: dict[Side, int] = {}

    def set_victim(self, victim: Victim) -> None:
        """Go on with another test."""
        self.victim = victim
        self.ledger = Ledger()
        self._commands, self._command_runs = {}, {}

    def go_on_in_clean_copies(self) -> None:
        """Take for unchanged what runs in a clean copy, where each run is a process."""
        self.base = replace(ALONE, tree="clean copy")
        self.ledger = Ledger(self.base)
        self.why_no_forks = "each run takes a copy of its own"

    def go_on_without_forks(self) -> None:
        """Drop what forks have said: there the victim ends in another way."""
        self.ledger.forget_forks()
        self.why_no_forks = "it ends in another way in a fork"

    def after(self, before: Sequence[str]) -> Side:
        """Return the side on which some tests run before the victim."""
        return replace(self.base, before=tuple(before))

    @property
    def alone(self) -> Tally:
        """All runs in which nothing was changed."""
        return self.ledger.tally(self.base)

    def run(self, side: Side, *, is_fresh: bool = False) -> Outcome:
        """Run one side once.

        Raises:
            OutOfTime: the budget is spent.
        """
        conditions = side.conditions
        # A fork can have another seed, but nothing else of what a process begins with.
        is_changed = side.key.conditions != AS_RECORDED and conditions.seed is None
        is_fresh = bool(is_fresh or self.why_no_forks or side.files or is_changed)
        if side.tree == "here":
            outcome = self.experiments.run(
                self.victim,
                side.before,
                conditions,
                is_fresh=is_fresh,
                put_back=side.put_back,
                files=side.files,
            )
        else:
            is_fresh = True
            outcome = self._run_in_copy(side)
        self._seconds = max(outcome.seconds, 0.01)
        self.uses_random |= bool(outcome.answer("uses_random"))
        if outcome.result == "other":
            self.other_words = outcome.words
        if not self.outside:
            self.outside = tuple(outcome.answer("outside") or ())
        self.ledger.add(side, "fresh" if is_fresh else "fork", outcome.result)
        return outcome

    def _run_in_copy(self, side: Side) -> Outcome:
        if self._copies is None:
            raise LookupError(side.tree)
        repeat = Repeat(
            victim=self.victim, before=side.before, conditions=side.conditions
        )
        return self._copies.run(repeat, side.tree, side.left, files=side.files)

    def look(self, side: Side, *, times: int, until_mixed: bool = False) -> Count:
        """Run one side some times in forks, where that is possible."""
        count = Count()
        for done in range(1, times + 1):
            self.experiments.show("runs of the test", done, times)
            outcome = self.run(side)
            count = count.plus(outcome.result)
            is_long = outcome.seconds > _LONG_SECONDS and done >= 2
            if (until_mixed and count.is_mixed) or is_long:
                break
        return count

    def run_fresh(self, side: Side, runs: int, *, until_mixed: bool = False) -> Count:
        """Run one side in fresh processes until so many have decided something.

        Returns:
            All of its runs in processes of their own, earlier ones included.
        """
        for _ in range(2 * runs):
            count = self.ledger.tally(side).fresh
            if count.runs >= runs or (until_mixed and count.is_mixed):
                break
            self.experiments.show("runs in fresh processes", count.runs + 1, runs)
            self.run(side, is_fresh=True)
        return self.ledger.tally(side).fresh

    def ends_after(
        self, before: Sequence[str], result: str, *, is_fresh: bool = False
    ) -> bool:
        """Tell whether the victim ends so after some tests."""
        return self.run(self.after(before), is_fresh=is_fresh).result == result

    def search(
        self, before: tuple[str, ...], result: str, *, is_fresh: bool = False
    ) -> tuple[str, ...] | None:
        """Return the fewest of the tests before the victim after which it has a result.

        Returns:
            `None` where it does not have it after all of them.
        """
        before = tuple(nodeid for nodeid in before if nodeid != self.victim.nodeid)
        if not before:
            return None

        def holds(some: tuple[str, ...]) -> bool:
            self.experiments.show(f"{len(some):,} of the tests before it")
            return self.ends_after(some, result, is_fresh=is_fresh)

        walks = not (is_fresh or self.why_no_forks)
        if result == "failed" and len(before) > 1 and walks:
            probes = min(_PROBES, int(_SECONDS_OF_PROBES / self._seconds))
            probes = max(_FEWEST_PROBES, probes)
            every = -(-len(before) // probes)
            self.experiments.show("one pass over the tests before it")
            end = self.experiments.walk(self.victim, before, every)
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

    def compare(self, comparison: Comparison, *, is_steady: bool = False) -> bool:
        """Run both sides in pairs, in random order, until they are apart or it is no use.

        Of the runs that have to fail, the first are those of the command that is given.

        Args:
            comparison: of the two sides.
            is_steady: whether the failing side has to fail each time, too.

        Raises:
            OutOfTime: the budget is spent.
        """
        failing, passing = comparison.failing, comparison.passing
        for _ in range(2 * rates.MOST_PAIRS):
            verdict = rates.compare(
                comparison.pairs,
                self.ledger.tally(failing),
                self.ledger.tally(passing),
                is_steady=is_steady,
            )
            if verdict != "go on":
                return verdict == "apart"
            done = comparison.pairs.effect.runs
            self.experiments.show("run pair", done + 1, rates.MOST_PAIRS)
            sides = [failing, passing]
            self._shuffles.shuffle(sides)
            ends = []
            for side in sides:
                result = self._run_of_pair(side, fails=side is failing)
                if result is not None:
                    ends.append((side, result))
            # A command that doesn't fail says nothing of the side, and is not given.
            if len(ends) == len(sides):
                for side, result in ends:
                    comparison.add(side, result)
        return False

    def _run_of_pair(self, side: Side, *, fails: bool) -> Result | None:
        """Return how one run of a pair has ended; `None` where it is void."""
        command = None
        # In a copy other files are there than where a command runs.
        is_asked = fails and side.tree == "here"
        if is_asked and self._command_runs.get(side, 0) < COMMAND_RUNS:
            command = self._next_command(side)
        if command is not None:
            return "failed" if self._run_command(side, command) else None
        return self.run(side, is_fresh=True).result

    def command_of(self, side: Side) -> str | None:
        """Return a command that fails each time, as it was seen; `None` without one.

        Raises:
            OutOfTime: the budget is spent.
        """
        while command := self._next_command(side):
            if self._command_runs.get(side, 0) >= COMMAND_RUNS:
                return command
            self.experiments.show(
                "runs of the command", self._command_runs.get(side, 0) + 1, COMMAND_RUNS
            )
            self._run_command(side, command)
        return None

    def verified_command(self, side: Side) -> str | None:
        """Return the command of a side as far as it is known to fail, without a run."""
        is_verified = self._command_runs.get(side, 0) >= COMMAND_RUNS
        return self._next_command(side) if is_verified else None

    def _next_command(self, side: Side) -> str | None:
        """Return a command to try or to give.

        Three failures are a matter of luck where another run of the side has passed.
        """
        runs = self.ledger.tally(side).runs
        if runs.failed < runs.runs:
            return None
        if side not in self._commands:
            commands = commands_of(self._program, side, self.victim.nodeid)
            self._commands[side] = [*commands] if shutil.which("sh") else []
        return next(iter(self._commands[side]), None)

    def _run_command(self, side: Side, command: str) -> bool:
        """Run a command, and tell whether it fails; one that doesn't is dropped."""
        outcome = self.experiments.run_command(self.victim, side.before, command)
        has_failed = outcome.result == "failed"
        self.is_reordered |= outcome.words == OTHER_ORDER
        # In a copy other files are there.
        if side.tree == "here":
            self.ledger.add(side, "command", outcome.result)
        if has_failed:
            self._command_runs[side] = self._command_runs.get(side, 0) + 1
        else:
            self._commands[side].remove(command)
            self._command_runs[side] = 0
        return has_failed
