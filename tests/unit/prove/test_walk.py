"""Finding the commit since which a test fails: which ones are asked, and what is believed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.prove.experiment import Outcome, OutOfTime
from pytest_failure_taxonomy.prove.rates import Count
from pytest_failure_taxonomy.prove.search import Walk

NOTHING_KNOWN: Final = Count()
MOST_WRONG: Final = 0.05


def commits(*parents: tuple[int, ...]) -> list[list[str]]:
    """Return commits with these parents, named by their numbers."""
    return [[str(number), *map(str, of_one)] for number, of_one in enumerate(parents)]


def in_a_row(count: int) -> list[list[str]]:
    """Return a good commit, and others of which each has the one before as its parent."""
    return commits((), *((number,) for number in range(count)))


class Runs:
    """Answers as a test does that fails from a commit on, and counts."""

    def __init__(
        self,
        history: list[list[str]],
        culprit: int,
        *,
        rate: float = 1.0,
        false_rate: float = 0.0,
        untestable: Mapping[int, str] | None = None,
        seed: int = 0,
        most: int = 10_000,
    ) -> None:
        failing = {str(culprit)}
        for name, *parents in history:
            if not failing.isdisjoint(parents):
                failing.add(name)
        self._failing = failing
        self._rates = (false_rate, rate)
        self._untestable = untestable or {}
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._most = most
        self.asked: list[int] = []

    def __call__(self, name: str) -> Outcome:
        """Return how it ends at a commit."""
        commit = int(name)
        if len(self.asked) == self._most:
            raise OutOfTime
        self.asked.append(commit)
        if commit in self._untestable:
            return Outcome(result="other", words=self._untestable[commit], seconds=0.0)
        is_failed = self._random.random() < self._rates[name in self._failing]
        return Outcome(
            result="failed" if is_failed else "passed", words="", seconds=0.0
        )


def walk(
    history: list[list[str]],
    runs: Callable[[str], Outcome],
    known: Count = NOTHING_KNOWN,
) -> tuple[str, str] | str:
    """Return what is found."""
    return Walk(history, runs, known).find()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_test_that_always_fails_takes_a_plain_bisection(data: st.DataObject) -> None:
    """Both ends, about log2 of the commits, and five runs each at the commit and its parent."""
    count = data.draw(st.integers(1, 300))
    culprit = data.draw(st.integers(1, count))
    history = in_a_row(count)
    runs = Runs(history, culprit)
    found = walk(history, runs)
    assert found == (str(culprit), str(culprit - 1))
    assert len(set(runs.asked)) <= 2 + count.bit_length() + 1
    assert len(runs.asked) <= len(set(runs.asked)) + 8


def test_a_merged_branch_is_searched_and_its_merge_is_named_where_both_sides_pass() -> (
    None
):
    """Commits 2 and 3 are a branch from 1, and 4 and 5 the main line; 6 merges, 7 follows.

    8 is a parent outside of the range.
    """
    merged = commits((), (0,), (1, 8), (2,), (1,), (4,), (5, 3), (6,))
    for culprit in range(1, 8):
        found = walk(merged, Runs(merged, culprit))
        assert found in [(str(culprit), parent) for parent in merged[culprit][1:]]
    # Each side is good for itself, so the merge is what fails first.
    runs = Runs(merged, 6)
    walk(merged, runs)
    assert runs.asked.count(3) >= 5
    assert runs.asked.count(5) >= 5


def test_commits_that_cannot_be_tested_are_passed_over() -> None:
    """A build that was broken for some commits hides nothing beside it."""
    history = in_a_row(40)
    broken = dict.fromkeys(range(10, 25), "ImportError: no module named shop")
    runs = Runs(history, 30, untestable=broken)
    assert walk(history, runs) == ("30", "29")
    assert sum(each in broken for each in runs.asked) <= 3


def test_it_is_undecided_where_the_commit_is_among_those_that_cannot_be_tested() -> (
    None
):
    """The posterior names them all alike, and none is told as the one."""
    history = in_a_row(10)
    broken = dict.fromkeys((4, 5, 6), "no module named shop")
    search = Walk(history, Runs(history, 5, untestable=broken), NOTHING_KNOWN)
    assert search.find() == "the other commits can't be tested"
    assert dict(search.likeliest()) == {"4": 0.25, "5": 0.25, "6": 0.25, "7": 0.25}


def test_a_parent_of_a_merge_that_cannot_be_tested_leaves_it_undecided() -> None:
    """It fails at the commit; that it passes before is not shown on one side."""
    merged = commits((), (0, 2))
    search = Walk(
        merged,
        Runs(merged, 1, untestable={2: "no tests were collected"}),
        NOTHING_KNOWN,
    )
    assert search.find() == "the other commits can't be tested"
    assert search.likeliest() == [("1", 1.0)]


def test_the_ends_have_to_be_as_they_are_said_to_be() -> None:
    """Nothing is searched where it passes at the bad commit, or fails at the good one."""
    history = in_a_row(8)
    passes = Runs(history, 8, rate=0.0)
    assert walk(history, passes) == "at the failing commit it passes (5 of 5)"
    assert set(passes.asked) == {8}
    # It has failed once in ten runs: five passes would say nothing.
    rare = Runs(history, 8, rate=0.0)
    assert walk(history, rare, Count(failed=1, runs=10)) == (
        "at the failing commit it passes (29 of 29)"
    )
    other = Runs(history, 8, untestable={8: "KeyError: 'x'"})
    assert walk(history, other) == (
        "at the failing commit it ends in another way: KeyError: 'x'"
    )
    earlier = Runs(history, 0)
    assert walk(history, earlier) == (
        "it fails before, too: 1 of 1 at 0; give an earlier commit with --good"
    )
    assert set(earlier.asked) == {0, 8}


def test_what_is_known_so_far_is_left_where_time_runs_out() -> None:
    """The commits that are still possible are told with how likely each is."""
    history = in_a_row(64)
    search = Walk(history, Runs(history, 40, most=4), NOTHING_KNOWN)
    assert search.find() == "time ran out"
    likely = search.likeliest()
    assert len(likely) == 16
    assert "40" in dict(likely)


def test_a_failure_that_comes_and_goes_is_found_by_weighing_and_hardly_ever_wrongly() -> (
    None
):
    """Among 60 searches with rates of 10 % to 90 %, a wrong commit is proven in 5 % at most."""
    proven = wrong = 0
    for seed in range(60):
        chance = random.Random(seed)  # noqa: S311 - no secret
        count = chance.randrange(2, 60)
        rate = chance.choice((0.1, 0.3, 0.5, 0.9))
        culprit = chance.randrange(1, count + 1)
        history = in_a_row(count)
        at_bad = sum(chance.random() < rate for _ in range(40))
        runs = Runs(history, culprit, rate=rate, seed=seed, most=2_000)
        found = walk(history, runs, Count(failed=at_bad, runs=40))
        proven += isinstance(found, tuple)
        wrong += isinstance(found, tuple) and found[0] != str(culprit)
    assert proven >= 57
    assert wrong <= MOST_WRONG * proven


def test_what_is_taken_for_certain_at_first_is_weighed_once_it_contradicts_itself() -> (
    None
):
    """Nothing is known of a rate of 60 %; a pass after the commit first leads astray."""
    right = 0
    for seed in range(20):
        history = in_a_row(16)
        found = walk(history, Runs(history, 5, rate=0.6, seed=seed, most=1_000))
        assert isinstance(found, str) or found == ("5", "4")
        right += found == ("5", "4")
    assert right >= 18


def test_a_test_that_failed_seldom_before_is_hardly_ever_told_wrongly() -> None:
    """It is undecided where it is seen to fail before the commit, too."""
    history = in_a_row(12)
    right = wrong = 0
    for seed in range(100):
        runs = Runs(history, 7, rate=0.9, false_rate=0.1, seed=seed, most=400)
        found = walk(history, runs, Count(failed=18, runs=20))
        right += found == ("7", "6")
        wrong += isinstance(found, tuple) and found[0] != "7"
    assert wrong == 0
    assert right >= 40


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_shares_of_all_suspects_are_one(data: st.DataObject) -> None:
    """Whatever was seen, no suspect is lost and none counts twice."""
    count = data.draw(st.integers(1, 12))
    parents = [()] + [
        tuple(
            sorted(data.draw(st.sets(st.integers(0, number), min_size=1, max_size=2)))
        )
        for number in range(count)
    ]
    known = Count(failed=data.draw(st.sampled_from((0, 1, 10))), runs=10)
    search = Walk(commits(*parents, (count,)), Runs([], 0), known)
    seen = st.builds(
        lambda failed, passed: Count(failed=failed, runs=failed + passed),
        st.integers(0, 4),
        st.integers(0, 4),
    )
    names = st.integers(0, count + 1).map(str)
    search.counts.update(data.draw(st.dictionaries(names, seen)))
    shares = [share for _, share in search.likeliest()]
    assert abs(sum(shares) - 1) < 1e-6
    assert shares == sorted(shares, reverse=True)
