"""How two sides are compared, and what is put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from pytest_failure_taxonomy.prove.environment import (
    Change,
    compare_sides,
    why_not_put_back,
)
from pytest_failure_taxonomy.prove.experiment import OutOfTime
from pytest_failure_taxonomy.prove.rates import Count

Run = Callable[[], str]


def fails_at(rate: float, chance: random.Random) -> Run:
    """Return a run that fails at a rate."""
    return lambda: "failed" if chance.random() < rate else "passed"


def fails_in_turns(period: int, chance: random.Random) -> Run:
    """Return a run that fails in the first half of a period, which may have begun."""
    turns = count(chance.randrange(period))
    return lambda: "failed" if next(turns) % period < period / 2 else "passed"


def seeded() -> random.Random:
    """Return what decides on the order, the same way each time."""
    return random.Random(1)  # noqa: S311 - the same each time


def ends(*results: str) -> Run:
    """Return runs with these results, after which the time is over."""
    left = [*results]

    def run() -> str:
        if not left:
            raise OutOfTime
        return left.pop(0)

    return run


@pytest.mark.parametrize(
    ("with_it", "without", "counts", "status"),
    [
        (["failed"] * 8, ["passed"] * 8, ("8 of 8", "0 of 8"), "proven"),
        (
            ["failed", "passed", *["failed"] * 18],
            ["passed"] * 20,
            ("7 of 8", "0 of 8"),
            "proven",
        ),
        (["failed"] * 20, ["failed"] * 20, ("1 of 1", "1 of 1"), "undecided"),
        (["failed", "passed"] * 10, ["passed"] * 20, ("6 of 11", "0 of 11"), "proven"),
        (
            ["other", *["failed"] * 8],
            ["passed"] * 9,
            ("8 of 8", "0 of 9"),
            "proven",
        ),
        (["other"] * 20, ["passed"] * 20, ("0 of 0", "0 of 20"), "undecided"),
    ],
)
def test_two_sides_are_compared_until_they_are_told_apart(
    with_it: list[str], without: list[str], counts: tuple[str, str], status: str
) -> None:
    """Eight pairs if each run is as it should be, else as many as it takes."""
    chance = seeded()
    *sides, result = compare_sides(ends(*with_it), ends(*without), chance)
    assert (tuple(map(str, sides)), result) == (counts, status)


def test_what_was_seen_before_the_time_was_over_stays() -> None:
    """A difference that was seen on both sides is suspected, and never more."""
    sides = (ends(*["failed"] * 7), ends(*["passed"] * 7))
    effect, without, status = compare_sides(*sides, seeded())
    assert (effect, status) == (Count(failed=7, runs=7), "suspected")
    assert without == Count(runs=7)
    assert compare_sides(ends("failed"), ends(), seeded())[2] == "undecided"
    assert compare_sides(ends(), ends(), seeded())[2] == "undecided"


@pytest.mark.parametrize(
    "make",
    [
        *(partial(fails_at, rate) for rate in (0.02, 0.1, 0.5, 0.75, 0.9, 0.98)),
        *(partial(fails_in_turns, period) for period in (2, 3, 4, 16)),
    ],
)
def test_chance_is_no_difference(make: Callable[[random.Random], Run]) -> None:
    """Of two sides that are alike, at most one in a hundred is taken for proven."""
    chance = seeded()
    proven = 0
    for _ in range(400):
        run = make(chance)
        proven += compare_sides(run, run, chance)[2] == "proven"
    assert proven <= 4


@pytest.mark.parametrize(
    ("name", "new", "old", "why"),
    [
        ("no-such-thing", "2.0", "1.0", ""),
        ("no-such-thing", None, "1.0.post1", ""),
        ("no-such-thing", "2.0", "1!2.0rc1+cu118", ""),
        ("no-such-thing", "2.0", None, "it was added since, and can't be hidden"),
        ("python", "3.13.0", "3.12.1", "it takes another environment"),
        ("--index-url", "2.0", "1.0", "it is no release"),
        ("a", "2.0", "1.0 --index-url=http://x", "it is no release"),
        ("a", "2.0", "1.0;b", "it is no release"),
        ("a", "2.0", "1.0\n", "it is no release"),
        ("a @ http://x/", "2.0", "1.0", "it is no release"),
        ("../a", "2.0", "1.0", "it is no release"),
        ("a[b]", "2.0", "1.0", "it is no release"),
        ("a", "2.0", "../1.0", "it is no release"),
        ("a", "2.0", "*", "it is no release"),
        ("", "2.0", "1.0", "it is no release"),
        (
            "pytest-failure-taxonomy",
            "2.0",
            "1.0",
            "it is not installed from an index",
        ),
    ],
)
def test_what_is_put_back(
    name: str, new: str | None, old: str | None, why: str
) -> None:
    """Anybody may have written a report: it names a release of a distribution, or nothing."""
    assert why_not_put_back(Change(name=name, new=new, old=old)) == why
