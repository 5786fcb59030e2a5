"""How many passes show that a test is fixed, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove.after import run_in_turn, run_until_excluded
from pytest_failure_taxonomy.prove.experiment import (
    Conditions,
    Experiments,
    Outcome,
    OutOfTime,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import Count
from pytest_failure_taxonomy.prove.recorded import Repeat

VICTIM: Final = Victim(
    nodeid="test_it.py::test", fingerprints=frozenset(), endings=frozenset()
)
OF_LETTERS: Final = {
    "p": "passed",
    "f": "failed",
    "o": "other",
    "s": "other",
    "c": "other",
}


class Letters(Experiments):
    """Ends as letters say, and then for lack of time.

    Passes, the failure that is asked for, another, skipped, a crash. The last one is repeated.
    """

    def __init__(self, *, most: int = 10_000, **letters: str) -> None:
        self._letters, self._most = letters, most
        self.asked: list[str] = []

    def run(
        self, victim: Victim, before: Sequence[str] = (), *_: Any, **given: Any
    ) -> Outcome:
        """Return the next outcome of a test."""
        if len(self.asked) == self._most:
            raise OutOfTime
        name = victim.nodeid.rpartition("::")[2]
        letters = self._letters[name]
        letter = letters[min(self.asked.count(name), len(letters) - 1)]
        self.asked.append(name)
        result: Any = OF_LETTERS[letter]
        answers: tuple[dict[str, Any], ...] = ({"result": result, "kinds": []},)
        if letter in "fo":
            answers = ({"result": "other", "kinds": ["test.failed"]},)
        words = {
            "o": "KeyError: 1\n  more",
            "f": "assert 0",
            "c": "it ended with SIGSEGV",
        }
        return Outcome(
            result=result,
            words=words.get(letter, ""),
            seconds=0.5 if name == "slow" else 0.1,
            answers=() if letter == "c" else answers,
        )


def test_as_many_passes_as_the_rate_asks_for() -> None:
    """The words say what is excluded, where it failed, or why nothing is known."""
    often, seldom = Count(failed=5, runs=5), Count(failed=10, runs=100)
    rows: tuple[tuple[Count, str, int, bool, str], ...] = (
        (often, "p", 99, True,
         "fixed: 5 passes in a row exclude a failure rate of 45.1% or more (at 95%)"),
        (seldom, "p", 99, True,
         "fixed: 60 passes in a row exclude a failure rate of 4.9% or more (at 95%)"),
        (Count(), "p", 99, True,
         "no rate is known: 59 passes in a row exclude a failure rate of 5.0% or more (at 95%)"),
        (seldom, "ppppppf", 99, False, "not fixed: failed in run 7"),
        (often, "po", 99, False, "undecided: it ends in another way: KeyError: 1"),
        (seldom, "p", 1, False,
         ("undecided, time ran out: 1 pass excludes a failure rate of 95.0% or more (at 95%); "
          "it takes 60 to exclude 4.9%")),
        (seldom, "p", 0, False, "undecided, time ran out: it takes 60 to exclude 4.9%"),
    )  # fmt: skip
    for known, letters, most, is_fixed, words in rows:
        experiments = Letters(test=letters, most=most)
        repeat = Repeat(victim=VICTIM, known=known)
        assert run_until_excluded(experiments, repeat) == (is_fixed, words)


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(seed=1),
        Conditions(variables=(("PYTHONHASHSEED", "3"),)),
    ],
)
def test_a_seed_shows_only_what_is_not_fixed(conditions: Conditions) -> None:
    """One more number that is drawn, and the test passes with the same seed."""
    often = Count(failed=8, runs=8)
    rows = (
        ("f", False, "not fixed: failed in run 1", 1),
        ("pppf", False, "not fixed: failed in run 3", 4),
        (
            "p",
            True,
            "fixed: 59 passes in a row exclude a failure rate of 5.0% or more (at 95%)",
            60,
        ),
    )
    for letters, is_fixed, words, runs in rows:
        experiments = Letters(test=letters)
        repeat = Repeat(victim=VICTIM, known=often, conditions=conditions)
        assert run_until_excluded(experiments, repeat) == (is_fixed, words)
        assert len(experiments.asked) == runs


def test_new_tests_share_the_time_and_each_has_ten_runs_first() -> None:
    """After that a slow one has fewer; what is skipped is left out, and a crash is a failure."""
    names = ("quick", "slow", "skipped", "flaky", "dies", "another")
    experiments = Letters(
        quick="p", slow="p", skipped="s", flaky="pppf", dies="c", another="o", most=400
    )
    counts, words = run_in_turn(experiments, [f"test_it.py::{name}" for name in names])
    by_name = {nodeid.rpartition("::")[2]: count for nodeid, count in counts.items()}
    assert set(by_name) == {"quick", "slow", "flaky", "dies", "another"}
    assert by_name["slow"].runs >= 10
    assert by_name["quick"].runs > 4 * by_name["slow"].runs
    assert by_name["quick"].failed == by_name["slow"].failed == 0
    assert by_name["flaky"].failed == by_name["flaky"].runs - 3
    assert by_name["dies"].failed == by_name["dies"].runs
    assert by_name["another"].failed == by_name["another"].runs
    assert words["test_it.py::dies"] == "it ended with SIGSEGV"
    assert words["test_it.py::another"] == "KeyError: 1"
    few = Letters(quick="p", slow="p", most=7)
    counts, _ = run_in_turn(few, ["a::quick", "a::slow"])
    assert sorted(count.runs for count in counts.values()) == [3, 4]
    many = Letters(quick="p")
    counts, _ = run_in_turn(many, ["a::quick"])
    assert counts["a::quick"] == Count(runs=299)  # a rate of 1 % is excluded
