"""What state tests are in on each branch: broken, flaky or healthy again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from math import sqrt
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple

from pytest_failure_taxonomy.history.outcomes import Ended
from pytest_failure_taxonomy.history.signals import FEWEST_FAILURES, MAX_CHANCE
from pytest_failure_taxonomy.taxonomy.values import value

CHANGES_OF_MIND: Final = 3
"""From how many changes between passed and failed on one branch a test counts as flaky.

A fault that is made and fixed is two.
"""
_CONFIDENCE: Final = 0.95

State = Literal["broken", "flaky", "healthy again"]


@value
class BranchState:
    """How a test that has failed is on one branch."""

    nodeid: str = ""
    branch: str | None
    """`None` where it is not known."""
    state: State | None
    """`None` for a test that has not failed there, but on a commit of the branch."""
    since: datetime
    """The start of the first run from which on it failed each time or was healthy; of a
    flaky test, of the first in which it failed."""
    since_run: str
    since_commit: str | None
    streak: int
    """In how many runs it has ended as in the last one, without a break."""
    failures: int
    """Runs in which it failed, passes on a rerun included."""
    runs: int
    """Runs in which it passed or failed."""
    changes: int
    """Changes between passed and failed, in the order of the runs' times."""
    commits: tuple[str, ...]
    """Clean commits on which it has passed and failed, even on another branch."""
    last_failed: datetime | None


class _End(NamedTuple):
    """How a test ended in one run."""

    run: Any
    how: str
    """`failed`, `passed` or `rerun`."""


def judge_branches(ends: Iterable[Ended]) -> dict[int, list[BranchState]]:
    """Return the states of tests on each of their branches, by test.

    A test is `flaky` on a branch if it has passed and failed on one clean commit of it,
    passed on a rerun, or changed between passed and failed `CHANGES_OF_MIND` times
    there. That is over when it has ended one way so often that chance would not do it:
    by the bounds of its rate until then, in one of twenty cases. A test that is not
    flaky is `broken` if it failed in the branch's last run that had it, else `healthy
    again`.

    Args:
        ends: how tests ended in runs, the oldest first.
    """
    by_test = defaultdict[int, defaultdict[str | None, list[_End]]](
        lambda: defaultdict(list)
    )
    failed_on = defaultdict[str, set[int]](set)
    passed_on = defaultdict[str, set[int]](set)
    for run, failed, rerun, passed in ends:
        tests_by_end = {"failed": failed, "rerun": rerun, "passed": passed}
        for how, tests in tests_by_end.items():
            end = _End(run, how)
            for test in tests:
                by_test[test][run.branch].append(end)
        # With local changes the code is another one than the commit's.
        if run.commit_id is not None and not run.dirty:
            failed_on[run.commit_id] |= failed
            passed_on[run.commit_id] |= passed | rerun
    commits_by_test = defaultdict[int, set[str]](set)
    for commit, tests in failed_on.items():
        for test in tests & passed_on[commit]:
            commits_by_test[test].add(commit)
    states = {}
    for test, by_branch in by_test.items():
        commits = commits_by_test[test]
        # A branch without a failure matters if it may show that a commit is flaky.
        states[test] = [
            _judge_branch(branch, ends_there, commits)
            for branch, ends_there in by_branch.items()
            if commits or any(end.how != "passed" for end in ends_there)
        ]
    return states


def _judge_branch(
    branch: str | None, ends: Sequence[_End], commits: set[str]
) -> BranchState:
    has_failed = [end.how == "failed" for end in ends]
    failed = [end.run for end in ends if end.how != "passed"]
    changes = sum(before != after for before, after in pairwise(has_failed))
    commits_here = commits & {end.run.commit_id for end in ends}
    streak = 0
    while streak < len(ends) and ends[-1 - streak].how == ends[-1].how:
        streak += 1
    first = ends[-streak].run
    state: State | None = None
    if failed:
        state = "broken" if has_failed[-1] else "healthy again"
        has_rerun = any(end.how == "rerun" for end in ends)
        goes_both_ways = commits_here or has_rerun or changes >= CHANGES_OF_MIND
        if goes_both_ways and not _is_over(ends, streak):
            state, first = "flaky", failed[0]
    return BranchState(
        branch=branch,
        state=state,
        since=first.started_at,
        since_run=first.id,
        since_commit=first.commit_id,
        streak=streak,
        failures=len(failed),
        runs=len(ends),
        changes=changes,
        commits=tuple(sorted(commits_here)),
        last_failed=failed[-1].started_at if failed else None,
    )


def _is_over(ends: Sequence[_End], streak: int) -> bool:
    """Tell whether a flaky test would hardly end as it last did so often, by chance."""
    before = ends[:-streak]
    failures = sum(end.how != "passed" for end in before)
    low, high = wilson_interval(failures, len(before))
    # The bound that makes the streak likeliest. Reruns that pass are flaky by
    # themselves.
    chances = {"failed": high, "passed": 1 - low, "rerun": 1.0}
    chance = chances[ends[-1].how] ** streak
    return streak >= FEWEST_FAILURES and chance <= MAX_CHANCE


def wilson_interval(failures: int, runs: int) -> tuple[float, float]:
    """Return Wilson's score interval of 95 % for a rate.

    Source: Wilson, JASA 22, 1927, pages 209 to 212.
    """
    if not runs:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    rate = failures / runs
    share = z * z / runs
    middle = (rate + share / 2) / (1 + share)
    variance = rate * (1 - rate) / runs
    half = z / (1 + share) * sqrt(variance + share / (4 * runs))
    return max(0.0, middle - half), min(1.0, middle + half)
