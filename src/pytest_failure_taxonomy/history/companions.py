"""Find tests that fail together, by clustering the runs in which they failed.

The distance of two tests is Jaccard's, of the sets of runs in which they failed; that
of two clusters is the mean of their tests'. This is the method of Parry, Kapfhammer,
Hilton and McMinn, *Systemic Flakiness* (arXiv 2504.16777); docs/decisions/0031 says
what is different here.

A set of runs is a whole number with one bit a run: thousands of tests take seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final

from pytest_failure_taxonomy.history.signals import (
    FEWEST_FAILURES,
    MAX_CHANCE,
    chance_of_so_many,
)

MAX_DISTANCE: Final = 0.5
"""On average, companions share half of the runs in which one of them fails."""
MAX_TESTS: Final = 1_000
"""Tests that are compared, those with the most failures."""


def comparable_tests(
    failed: Mapping[int, int], ran: Mapping[int, int]
) -> tuple[list[int], int]:
    """Return the tests that failed often enough to tell which others fail with them.

    Chance would not give them all failures in common with another test, corrected for
    the number of pairs, which is returned as well.

    Args:
        failed: by test, the runs in which it failed.
        ran: by test, those in which it passed or failed.
    """
    times = {test: runs.bit_count() for test, runs in failed.items()}
    often = [test for test, count in times.items() if count >= FEWEST_FAILURES]
    often.sort(key=times.__getitem__, reverse=True)
    del often[MAX_TESTS:]
    pairs = comb(len(often), 2)
    telling = []
    for test in often:
        count = times[test]
        chance = chance_of_so_many(count, count, count, ran[test].bit_count())
        if pairs * chance <= MAX_CHANCE:
            telling.append(test)
    return telling, pairs


def find_clusters(
    failed: Mapping[int, int], ran: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return the tests that fail together, the biggest cluster first.

    Two tests are compared within the runs in which both have passed or failed. Nothing
    depends on what numbers the tests have: all is in the order of `failed`.

    Args:
        failed: by test, the runs in which it failed.
        ran: by test, those in which it passed or failed.
    """
    tests, pairs = comparable_tests(failed, ran)
    # Only tests with a link that is no chance can be joined to anything. Linked tests
    # share one list, so that two are linked already where their lists are the same
    # object.
    linked = {test: [test] for test in tests}
    for test, other in combinations(tests, 2):
        if linked[test] is linked[other]:
            continue
        runs, others = failed[test], failed[other]
        shared = (runs & others).bit_count()
        # Cheaper than the chance, and most pairs end here.
        if shared < FEWEST_FAILURES or 2 * shared < (runs | others).bit_count():
            continue
        both_ran = ran[test] & ran[other]
        sets = (runs & both_ran, others & both_ran, both_ran)
        chance = chance_of_so_many(shared, *map(int.bit_count, sets))
        if chance * pairs <= MAX_CHANCE:
            linked[test] += linked[other]
            linked.update(dict.fromkeys(linked[other], linked[test]))
    places = {test: place for place, test in enumerate(failed)}
    clusters = []
    for members in {id(members): members for members in linked.values()}.values():
        for indices in _join_nearest([failed[test] for test in members]):
            cluster = [members[index] for index in indices]
            if len(cluster) > 1:
                clusters.append(tuple(sorted(cluster, key=places.__getitem__)))
    clusters.sort(key=lambda cluster: (-len(cluster), places[cluster[0]]))
    return clusters


def group_by_runs(
    failed: Mapping[int, int], ran: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return all tests in their order, each cluster where its first test is."""
    clusters: dict[int, tuple[int, ...]] = {test: (test,) for test in failed}
    for cluster in find_clusters(failed, ran):
        clusters |= dict.fromkeys(cluster, cluster)
    return [*dict.fromkeys(clusters.values())]


def _join_nearest(sets: Sequence[int]) -> list[list[int]]:
    """Return clusters of sets of runs, by their indices, that are near enough.

    It follows chains of nearest neighbours, which give the clusters of average linkage
    in quadratic time (Murtagh, *The Computer Journal* 26, 1983): two clusters that are
    each other's nearest are joined, and one without a neighbour that is near enough
    never gets one.
    """
    distances = []
    for runs in sets:
        # An array takes a quarter of a list's memory, and there may be a million
        # numbers.
        row = array("d")
        for others in sets:
            row.append(1 - (runs & others).bit_count() / (runs | others).bit_count())
        distances.append(row)
    clusters = {index: [index] for index in range(len(sets))}
    unfinished = set(clusters)
    chain: list[int] = []
    while unfinished:
        chain = chain or [min(unfinished)]
        last = chain[-1]
        before = chain[-2] if len(chain) > 1 else None
        row = distances[last]

        nearest = min(unfinished - {last}, key=row.__getitem__, default=last)
        # Of equals it is the one before, or the chain would have no end.
        if before is not None and row[before] == row[nearest]:
            nearest = before
        if nearest == last or row[nearest] > MAX_DISTANCE:
            unfinished.remove(chain.pop())
        elif nearest != before:
            chain.append(nearest)
        else:
            # Each is the other's nearest: the nearest one takes in the last one.
            del chain[-2:]
            unfinished.remove(last)
            size, nearest_size = len(clusters[last]), len(clusters[nearest])
            clusters[nearest] += clusters.pop(last)
            nearest_row = distances[nearest]
            for index in unfinished - {nearest}:
                total = size * row[index] + nearest_size * nearest_row[index]
                mean = total / (size + nearest_size)
                nearest_row[index] = distances[index][nearest] = mean
    return list(clusters.values())
