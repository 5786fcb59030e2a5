"""Whether another revision has a failure, too: what runs on both sides allow to say."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.prove.bases import Side, compare, find_commit
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Outcome,
    OutOfTime,
)
from pytest_failure_taxonomy.prove.rates import NO_RUNS, Count

ALWAYS = Count(failed=8, runs=8)
NOW_AND_THEN = Count(failed=10, runs=20)
PASSES, FAILS = "passed", "failed"


def ask_of(
    here: Iterator[str], there: Iterator[str], asked: list[Side]
) -> Callable[[Side], Outcome]:
    """Return what answers with the endings of both sides, until they are over."""
    endings: dict[Side, Iterator[str]] = {"here": here, "there": there}

    def ask(side: Side) -> Outcome:
        asked.append(side)
        ending: Any = next(endings[side], None)
        if ending is None:
            raise OutOfTime
        is_other = ending not in (PASSES, FAILS)
        words = ending if is_other else ""
        return Outcome(result="other" if is_other else ending, words=words, seconds=0.0)

    return ask


@pytest.mark.parametrize(
    ("known", "here", "there", "why_not", "runs"),
    [
        pytest.param(ALWAYS, [], repeat(PASSES), "", {"there": 8}, id="proven-and-new"),
        pytest.param(ALWAYS, [], repeat(FAILS), "", {"there": 5}, id="proven-on-both"),
        pytest.param(
            NO_RUNS,
            repeat(FAILS),
            repeat(PASSES),
            "",
            {"here": 8, "there": 8},
            id="both-sides-are-seen",
        ),
        pytest.param(
            NO_RUNS,
            repeat(PASSES),
            repeat(PASSES),
            "here it passes now (5 of 5)",
            {"here": 5, "there": 5},
            id="it-passes-here-now",
        ),
        pytest.param(
            NOW_AND_THEN,
            chain([PASSES] * 4, repeat(FAILS)),
            repeat(PASSES),
            "",
            {"here": 10, "there": 10},
            id="a-rate-takes-more-passes",
        ),
        pytest.param(
            NOW_AND_THEN,
            repeat(PASSES),
            repeat(PASSES),
            "here it passes now (5 of 5)",
            {"here": 5, "there": 5},
            id="what-came-and-went-is-gone",
        ),
        pytest.param(
            ALWAYS,
            [],
            chain([PASSES] * 3, [FAILS], repeat(PASSES)),
            "",
            {"there": 5},
            id="one-failure-is-enough",
        ),
        pytest.param(
            ALWAYS,
            [],
            chain([PASSES] * 2, ["OSError: no\nmore"]),
            "there it ends in another way: OSError: no",
            {"there": 3},
            id="another-failure-there",
        ),
        pytest.param(
            ALWAYS,
            [],
            [PASSES] * 2,
            "time ran out",
            {"there": 3},
            id="time",
        ),
    ],
)
def test_what_runs_on_both_sides_allow_to_say(
    known: Count,
    here: Any,
    there: Any,
    why_not: str,
    runs: dict[str, int],
) -> None:
    """A test that always fails takes eight runs a side."""
    asked: list[Side] = []
    ask = ask_of(iter(here), iter(there), asked)
    counts: dict[Side, Count] = {"here": NO_RUNS, "there": NO_RUNS}
    assert compare(ask, known, counts) == why_not
    assert Counter(asked) == runs


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_chance_is_no_news(rate: float) -> None:
    """Where it fails as often on both sides, it is hardly ever called new."""

    def endings(seed: int) -> Iterator[str]:
        chance = random.Random(seed)  # noqa: S311 - no secret
        for _ in range(60):
            yield FAILS if chance.random() < rate else PASSES

    trials, new = 400, 0
    for trial in range(trials):
        # Of each side its own, since which of a pair runs first is chance, too.
        ask = ask_of(endings(trial), endings(trial + trials), [])
        counts: dict[Side, Count] = {"here": NO_RUNS, "there": NO_RUNS}
        is_answered = not compare(ask, NO_RUNS, counts)
        new += is_answered and not counts["there"].failed
    assert new <= 0.01 * trials


def test_a_whole_clone_is_not_made_shallow(tmp_path: Path) -> None:
    """By the command that gets what it lacks: a depth would cut the history that is there."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(ExperimentError, match=r" has no origin/main$"):
        find_commit(tmp_path, "origin/main")  # from nowhere it can be had
    remote = ["git", "remote", "add", "origin", str(tmp_path)]
    subprocess.run(remote, cwd=tmp_path, check=True)
    command = "git fetch origin main:refs/remotes/origin/main"
    with pytest.raises(ExperimentError, match=f" has no origin/main: {command}, "):
        find_commit(tmp_path, "origin/main")
