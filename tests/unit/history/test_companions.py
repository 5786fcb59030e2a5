"""Which tests fail together: by chance none, and those that were made to."""

from __future__ import annotations

import random
from math import comb

import pytest

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history import History
from pytest_failure_taxonomy.history.companions import find_clusters
from pytest_failure_taxonomy.history.questions import FlakyRow, find_flaky, find_top
from pytest_failure_taxonomy.history.signals import bits, chance_of_so_many
from tests.helpers.past_runs import TEST, a_mixed_report

RUNS = 1_000
EVERY = (1 << RUNS) - 1


def runs(*numbers: int) -> int:
    """Return a set of runs."""
    return sum(1 << number for number in set(numbers))


@pytest.mark.parametrize(
    ("shared", "one", "other", "all_", "chance"),
    [
        (3, 3, 3, 10, 1 / 120),
        (2, 3, 3, 10, 22 / 120),
        (0, 3, 3, 10, 1.0),
        (8, 9, 9, 10, 1.0),  # so many have to be common
        (1, 5_000, 5_000, 10_000, 1.0),
        (3_000, 5_000, 5_000, 10_000, 0.0),
        (6, 6, 40, 412, comb(40, 6) / comb(412, 6)),
    ],
)
def test_chance_of_common_runs(
    shared: int, one: int, other: int, all_: int, chance: float
) -> None:
    """It is the exact tail of the hypergeometric distribution."""
    assert chance_of_so_many(shared, one, other, all_) == pytest.approx(chance)


@pytest.mark.parametrize(
    ("failed", "known", "clusters"),
    [
        ({1: runs(1, 5, 9), 2: runs(1, 5, 9)}, {}, [(1, 2)]),
        ({1: runs(1, 5), 2: runs(1, 5)}, {}, []),  # may be two bad commits
        ({1: runs(1, 5, 9, 20), 2: runs(1, 5, 9, 21)}, {}, [(1, 2)]),
        (
            {1: runs(1, 5, 9, 20, 30), 2: runs(1, 5, 9, 21, 31)},
            {},
            [],
        ),  # less than half
        # They have run together in ten runs alone, and have failed in nearly all of them.
        (
            {1: runs(*range(9)), 2: runs(*range(9))},
            {1: (1 << 10) - 1, 2: (1 << 10) - 1},
            [],
        ),
        ({1: EVERY, 2: EVERY}, {}, []),
        # By average: the third is near to one of two only.
        (
            {1: runs(*range(8)), 2: runs(*range(8)), 3: runs(*range(6, 22))},
            {},
            [(1, 2)],
        ),
        ({7: runs(1, 2, 3), 3: runs(1, 2, 3), 5: runs(1, 2, 3)}, {}, [(7, 3, 5)]),
        ({1: 0, 2: 0}, {}, []),
    ],
)
def test_clusters(
    failed: dict[int, int], known: dict[int, int], clusters: list[tuple[int, ...]]
) -> None:
    """Tests belong together that fail together more often than not, and than chance would give."""
    assert find_clusters(failed, dict.fromkeys(failed, EVERY) | known) == clusters


@pytest.mark.parametrize("seed", range(5))
def test_planted_clusters_are_found_and_no_others(seed: int) -> None:
    """Five clusters of 14, each test failing by itself, too, are found whole among 50 others."""
    draw = random.Random(seed)  # noqa: S311 - the same each time
    failed: dict[int, int] = {}
    planted = []
    for cluster in range(5):
        bad = {number for number in range(RUNS) if draw.random() < 0.08}
        members = range(14 * cluster, 14 * cluster + 14)
        for test in members:
            failed[test] = bits(
                (number in bad and draw.random() < 0.95) or draw.random() < 0.002
                for number in range(RUNS)
            )
        planted.append(tuple(members))
    for test in range(100, 150):
        failed[test] = bits(draw.random() < 0.05 for _ in range(RUNS))
    assert find_clusters(failed, dict.fromkeys(failed, EVERY)) == planted


@pytest.mark.parametrize("seed", range(5))
def test_independent_tests_have_no_companions(seed: int) -> None:
    """However often they fail."""
    draw = random.Random(seed)  # noqa: S311 - the same each time
    rates = [0.01, 0.05, 0.2, 0.5] * 25
    failed = {
        test: bits(draw.random() < rate for _ in range(RUNS))
        for test, rate in enumerate(rates)
    }
    assert find_clusters(failed, dict.fromkeys(failed, EVERY)) == []


REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"


def planted(history: History, count: int, every: int = 5) -> None:
    """Add runs in each fifth of which three tests can't connect, and another one fails alone."""
    for number in range(count):
        tests = {f"test_{name}": None if number % every else REFUSED for name in "abc"}
        alone = None if number % 7 else "AssertionError: assert 1 == 2"
        history.add(
            a_mixed_report(number, {**tests, "test_alone": alone, "test_good": None})
        )


def words(rows: list[FlakyRow]) -> list[tuple[str, list[str], str | None]]:
    """Return whom rows are about."""
    return [
        (
            row.nodeid.removeprefix(TEST),
            [each.removeprefix(TEST) for each in row.companions],
            row.common,
        )
        for row in rows
    ]


def test_companions_in_a_history(history: History) -> None:
    """One stands for all; each is listed by itself where that is asked."""
    planted(history, 40)
    together = ("test_a", ["test_b", "test_c"], REFUSED)
    alone: tuple[str, list[str], None] = ("test_alone", [], None)
    assert words(find_flaky(history, each=False)) == [together, alone]
    assert words(find_flaky(history, each=False, alone=False)) == [together]
    each = [row.nodeid.removeprefix(TEST) for row in find_flaky(history)]
    assert each == ["test_a", "test_b", "test_c", "test_alone"]


@pytest.mark.parametrize(
    ("raised", "common"),
    [
        ((REFUSED, REFUSED, "KeyError: 'x'"), REFUSED),
        (("OSError: no a", "OSError: no b", "KeyError: 'x'"), "OSError"),
        ((REFUSED, "OSError: no b", "KeyError: 'x'"), None),
    ],
)
def test_what_companions_have_in_common(
    history: History, raised: tuple[str, ...], common: str | None
) -> None:
    """It is what more than half of them have failed of, or else have raised."""
    for number in range(30):
        of_run = raised if number % 5 == 0 else (None,) * 3
        tests = dict(zip(("test_a", "test_b", "test_c"), of_run, strict=True))
        history.add(a_mixed_report(number, {**tests, "test_good": None}))
    (row,) = find_flaky(history, each=False)
    assert (len(row.companions), row.common) == (2, common)


def test_too_few_runs(history: History) -> None:
    """It says that they are, where companions are all that was asked for."""
    planted(history, 6, every=2)
    assert len(find_flaky(history, each=False)) == 3
    with pytest.raises(
        HistoryError, match="of 3 flaky tests fewer than two have failed often enough"
    ):
        find_flaky(history, each=False, alone=False)


def test_causes_that_runs_have_together(history: History) -> None:
    """They are one row with the numbers of all, and each its own where that is asked."""
    for number in range(40):
        is_bad, is_worse = number % 5 == 0, number % 7 == 0
        tests = {"test_a": REFUSED, "test_b": "ValueError: closed"} if is_bad else {}
        tests |= {"test_c": "KeyError: 'x'"} if is_worse else {}
        history.add(a_mixed_report(number, {"test_good": None, **tests}))
    first, other = find_top(history, each=False)
    assert (first.title, first.runs, first.failures, first.seconds) == (
        REFUSED,
        8,
        16,
        4.0,
    )
    assert (other.title, other.runs, other.companions) == ("KeyError: 'x'", 6, ())
    rows = find_top(history)
    assert [row.title for row in rows] == [
        REFUSED,
        "ValueError: closed",
        "KeyError: 'x'",
    ]
    assert first.companions == (rows[1].fingerprint,)
    assert [row.companions for row in rows] == [(), (), ()]
    assert len(find_top(history, each=False, limit=1)) == 1
