"""Compare how tests end at another revision with how they end here.

The other revision has a failure, too, if it was seen there with its fingerprint. It is new here if
runs of both sides are as far apart as a proof takes (`rates.compare`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from pytest_failure_taxonomy.prove import commits, rates, recorded, repository
from pytest_failure_taxonomy.prove.causes import causes_of, in_turn
from pytest_failure_taxonomy.prove.experiment import (
    Experiments,
    Outcome,
    OutOfTime,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import (
    FEWEST,
    FEWEST_OF_CHANCE,
    MOST_PAIRS,
    NO_RUNS,
    Count,
    Pairs,
    Tally,
    interval_of,
)
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import base_words
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.judgement import BaseComparison, Cause
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import first_line

_NO_TIME: Final = "time ran out"
_TOO_SELDOM: Final = "it fails here, but too rarely to tell"
_MOST_TESTS: Final = 5
"""Tests of a cause that are tried until one exists at the other revision."""

Side = Literal["here", "there"]


def compare(
    ask: Callable[[Side], Outcome], known: Count, counts: dict[Side, Count]
) -> str:
    """Run a test on both sides, in pairs, until it is known whether it fails on both.

    Args:
        ask: runs it on one side.
        known: runs of a proof that it fails here. Where all of 8 or more failed, it isn't run here.
        counts: runs of both sides so far, to which others are added.

    Returns:
        Why that is not known; empty if it is.
    """
    always_fails = FEWEST_OF_CHANCE <= known.runs == known.failed
    try:
        for _ in range(2 * MOST_PAIRS):
            here, there = counts["here"], counts["there"]
            effect = known if always_fails else here
            verdict = rates.compare(
                Pairs(effect=effect, without=there),
                Tally(fresh=effect),
                Tally(fresh=there),
            )
            is_known = there.runs >= FEWEST if there.failed else verdict == "apart"
            if is_known:
                return ""
            if verdict == "not apart" and not there.failed:
                passes = f"here it passes now ({here.runs} of {here.runs})"
                return _TOO_SELDOM if here.failed else passes
            sides: list[Side] = ["there"]
            # Once it has failed there, nothing more is to be learned here.
            if not (always_fails or there.failed):
                sides.append("here")
            # As they may differ by a network that is back again, or by every second run.
            for side in random.sample(sides, len(sides)):
                outcome = ask(side)
                if outcome.result == "other":
                    words = first_line(outcome.words)
                    return f"{side} it ends in another way: {words}"
                counts[side] = counts[side].plus(outcome.result)
    except OutOfTime:
        return _NO_TIME
    return _TOO_SELDOM


def find_on_base(task: recorded.Task, revision: str) -> tuple[FailureReport, bool]:
    """Return a report that says which causes a revision has, too, and whether it says so of all.

    Args:
        task: what is asked for.
        revision: a branch or a commit, such as `origin/main`.

    Raises:
        ExperimentError: git or pytest can't be run, or what would be tested is not the commit's.
        SettingsError: there is no such cause.
    """
    report, tell = task.report, task.tell
    chosen = causes_of(report, task.number)
    setup = recorded.setup_of(report)
    source = repository.toplevel_of(setup.folder)
    commit = find_commit(source, revision)
    undecided = len(chosen)
    with (
        commits.checkout_beside(report, setup, source, tell) as place,
        recorded.experiments_of(task, setup) as experiments,
    ):
        for cause in in_turn(task, chosen, experiments, _victims_of):
            sides = _Sides(place, commit, experiments, setup)
            base = _compare_cause(report, cause, sides, revision)
            tell(f"   {base_words(base)}")
            report = amend(report, Amendment(bases={cause.key: base}))
            task.save(report)
            undecided -= base.status != "undecided"
    return report, not undecided


def find_commit(source: Path, revision: str) -> str:
    """Return the commit of a revision.

    Raises:
        ExperimentError: it is not there; the message has the command that gets it.
    """
    hint = f"; {source} has no {revision}"
    if "origin" in repository.git(source, "remote").split():
        branch = revision.removeprefix("origin/")
        # It would make a whole clone shallow.
        depth = "--depth=1 " if commits.is_shallow(source) else ""
        fetch = f"git fetch {depth}origin {branch}:refs/remotes/origin/{branch}"
        hint += f": {fetch}, and then --base origin/{branch}"
    names = ("rev-parse", "--verify", f"{revision}^{{commit}}")
    return repository.git(source, *names, hint=hint)


def _victims_of(report: FailureReport, cause: Cause) -> tuple[Victim, ...]:
    """Return the tests of a cause, or its files that can't be collected."""
    prints, nothing = frozenset(cause.fingerprints), frozenset[str]()
    files = [
        Victim(nodeid=file, fingerprints=prints, endings=nothing)
        for file in filter(None, cause.files)
    ]
    return recorded.victims_of(report, cause) or tuple(files)


class _Sides:
    """The user's own checkout, and that of the other revision, in which a test runs.

    Attributes:
        commit: that of the other revision.
        counts: of the runs that decide.
        repeat: what runs.
    """

    repeat: recorded.Repeat

    def __init__(
        self,
        place: commits.Checkout,
        commit: str,
        experiments: Experiments,
        setup: Setup,
    ) -> None:
        self.experiments, self.commit = experiments, commit
        self._place, self._setup = place, setup
        self._missing: frozenset[str] = frozenset()
        self.counts: dict[Side, Count] = {"here": NO_RUNS, "there": NO_RUNS}

    def run(self, side: Side) -> Outcome:
        """Run the test in a fresh process, there in a clean checkout."""
        repeat, experiments, place = self.repeat, self.experiments, self._place
        if side == "here":
            experiments.setup = self._setup
            test, before, conditions = repeat.victim, repeat.before, repeat.conditions
            return experiments.run(test, before, conditions, is_fresh=True)
        place.check_out(self.commit, (*repeat.before, repeat.victim.nodeid))
        there = [test for test in repeat.before if test not in self._missing]
        return place.run(experiments, replace(repeat, before=tuple(there)))

    def lacks_test(self) -> bool:
        """Run the test there, and tell whether it does not exist: its file is without it."""
        outcome = self.run("there")
        self.counts["there"] = NO_RUNS.plus(outcome.result)
        nodeid = self.repeat.victim.nodeid
        is_whole = outcome.answer("is_file_collected")
        return (
            outcome.result == "other"
            and nodeid in self._missing_in(outcome)
            and bool(is_whole or not self._place.file_of(nodeid).exists())
        )

    def take_order(self, before: tuple[str, ...]) -> None:
        """Have other tests run first, there as far as they exist."""
        self.repeat = replace(self.repeat, before=before)
        self._missing = self._missing_in(self.run("there"))
        self.counts["there"] = NO_RUNS  # how it ends alone says nothing of this

    def _missing_in(self, outcome: Outcome) -> frozenset[str]:
        """Return the tests that are not collected there."""
        missing = outcome.answer("missing") or ()
        tests = (*self.repeat.before, self.repeat.victim.nodeid)
        return frozenset(test for test in tests if self._place.name_of(test) in missing)


def _compare_cause(
    report: FailureReport, cause: Cause, sides: _Sides, revision: str
) -> BaseComparison:
    """Return what is known of a cause, which has a test, at another revision."""
    lacks_test, why_not = False, ""
    victims = _victims_of(report, cause)[:_MOST_TESTS]
    if cause.proof is not None and cause.proof.type == "leftover.files":
        # A checkout is without them, so it would pass there in any case.
        why_not, victims = "files that a run has left make it fail", ()
    try:
        for victim in victims:
            sides.repeat = recorded.Repeat(victim=victim)
            if recorded.victims_of(report, cause):
                repeat = recorded.repeat_of(report, cause, sides.experiments)
                sides.repeat = replace(repeat, victim=victim)
            lacks_test = sides.lacks_test()
            if not lacks_test:
                why_not = _compare_test(report, sides)
                break
    except OutOfTime:
        why_not = _NO_TIME
    here, there = sides.counts["here"], sides.counts["there"]
    status: Literal["new", "also", "undecided"] = "undecided" if why_not else "new"
    if there.failed:
        status, why_not = "also", ""
    return BaseComparison(
        revision=revision,
        commit=sides.commit,
        status=status,
        lacks_test=lacks_test,
        runs=there.runs,
        failed=there.failed,
        interval=interval_of(there),
        here_runs=here.runs,
        here_failed=here.failed,
        state=why_not or None,
    )


def _compare_test(report: FailureReport, sides: _Sides) -> str:
    """Compare a test that has had one run there, as it fails alone or in the recorded order."""
    known, there = sides.repeat.known, sides.counts["there"]
    if there.runs > there.failed and not known.runs:
        alone = (sides.run("here").result for _ in range(FEWEST))
        if "failed" not in alone:
            experiments = sides.experiments
            experiments.start()
            experiments.stop()
            nodeid = sides.repeat.victim.nodeid
            before = recorded.order_before(report, experiments, nodeid)
            sides.take_order(before or ())
    return compare(sides.run, known, sides.counts)
