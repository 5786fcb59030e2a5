"""A pytest that is none: it answers what a world says, in no time, and counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    Conditions,
    Experiments,
    Outcome,
    OutOfTime,
    Result,
    Victim,
)

World = Callable[[Sequence[str], str], float]
"""How often the victim fails after some tests, under conditions that have these words."""


class Run(NamedTuple):
    """One run of the victim."""

    before: Sequence[str]
    words: str
    number: int
    """Of all runs, from 0 on."""
    process: int
    """Of all processes that have collected the tests: a fork has the number of its own."""
    luck: float
    """Of 0 to 1, another one for each run."""

    @property
    def is_alone(self) -> bool:
        """Whether nothing runs before it."""
        return not self.before


class Simulated(Experiments):
    """Answers what a world would, and counts.

    Attributes:
        leaves: what other tests leave behind, in words.
        others: tests that pass whatever happens.
    """

    def __init__(
        self,
        world: World,
        *,
        seed: int,
        most: int = 10_000,
        threads: bool = False,
        fails: Callable[[Run], bool] | None = None,
    ) -> None:
        """Prepare.

        Args:
            world: says how often the victim fails.
            seed: of the luck.
            most: runs before time is over.
            threads: whether no process can fork.
            fails: says whether one run fails, instead of a world.
        """
        self.fresh_runs = self.forks = 0
        self.why_no_forks = "threads" if threads else ""
        self.progress = None
        self._world, self._fails = world, fails
        self._random = random.Random(seed)  # noqa: S311 - no secret is made of it
        self._most = most
        self.leaves: tuple[str, ...] = ()
        self.others: tuple[str, ...] = ()

    def run(
        self,
        victim: Victim,
        before: Sequence[str] = (),
        conditions: Conditions = AS_RECORDED,
        **asked: Any,
    ) -> Outcome:
        """Say how it ends."""
        number = self.forks + self.fresh_runs
        if number >= self._most:
            raise OutOfTime
        is_fresh = asked.get("is_fresh", False)
        self.fresh_runs += is_fresh
        self.forks += not is_fresh
        luck = self._random.random()
        if self._fails is not None and victim.nodeid in self.others:
            return _ended("passed")
        if self._fails is not None:
            process = self.fresh_runs if is_fresh else 0
            has_failed = self._fails(
                Run(before, conditions.words, number, process, luck)
            )
            return _ended("failed" if has_failed else "passed")
        rate = 0.0 if asked.get("put_back") else self._world(before, conditions.words)
        if rate < 0:
            return Outcome(result="other", words="ValueError: other", seconds=0.0)
        return _ended("failed" if luck < rate else "passed")

    def run_command(
        self, victim: Victim, before: Sequence[str], command: str
    ) -> Outcome:
        """Say how it ends as a plain run."""
        return self.run(victim, before, is_fresh=True)

    def walk(self, victim: Victim, before: Sequence[str], every: int) -> int | None:
        """Look at it after every so many tests."""
        places = [*range(0, len(before), every), len(before)]
        fails = (
            place
            for place in places
            if self.run(victim, before[:place]).result == "failed"
        )
        return next(fails, None)

    def find_state(self, victim: Victim, before: Sequence[str]) -> Outcome:
        """Say what was left behind."""
        pairs = [(text, text) for text in self.leaves]
        answer = {"fixed": pairs, "differences": ["shop.config.X = 1 (was 0)"]}
        return Outcome(result="other", words="", seconds=0.0, answers=(answer,))


def _ended(result: Result) -> Outcome:
    return Outcome(result=result, words="", seconds=0.0)
