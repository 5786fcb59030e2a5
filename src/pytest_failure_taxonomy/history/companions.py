"""Find tests that fail together: agglomerative clustering of the runs in which they failed.

The distance of two tests is Jaccard's, of the sets of runs in which they failed; that of two
clusters is the mean of their tests'. This is the method of Parry, Kapfhammer, Hilton and McMinn,
*Systemic Flakiness* (arXiv 2504.16777); docs/decisions/0031 says what is different here.

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
"""Companions fail together in half of the runs in which one of them fails, on average."""
MAX_TESTS: Final = 1_000
"""Tests that are compared, those with the most failures."""


def comparable_tests(
    failed: Mapping[int, int], known: Mapping[int, int]
) -> tuple[list[int], int]:
    """Return the tests that have failed often enough to tell which others fail with them.

    Those are the ones for which chance would not give all failures in common with another test,
    corrected for the number of pairs, which is returned as well.

    Args:
        failed: by test, the runs in which it failed.
        known: by test, those in which it passed or failed.
    """
    times = {test: runs.bit_count() for test, runs in failed.items()}
    often = [test for test, count in times.items() if count >= FEWEST_FAILURES]
    often = sorted(often, key=lambda test: (-times[test], test))[:MAX_TESTS]
    pairs = comb(len(often), 2)
    telling = []
    for test in often:
        count = times[test]
        chance = chance_of_so_many(count, count, count, known[test].bit_count())
        if pairs * chance <= MAX_CHANCE:
            telling.append(test)
    return telling, pairs


def find_clusters(
    failed: Mapping[int, int], known: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return the tests that fail together, the biggest cluster first.

    Two tests are compared within the runs in which both have passed or failed.

    Args:
        failed: by test, the runs in which it failed.
        known: by test, those in which it passed or failed.
    """
    tests, pairs = comparable_tests(failed, known)
    # Only what has a link that is no chance can be joined to anything.
    linked = {test: [test] for test in tests}
    for one, other in combinations(tests, 2):
        if linked[one] is linked[other]:
            continue
        in_one, in_other = failed[one], failed[other]
        shared = (in_one & in_other).bit_count()
        if shared < FEWEST_FAILURES or 2 * shared < (in_one | in_other).bit_count():
            continue
        both = known[one] & known[other]
        chance = chance_of_so_many(
            shared,
            (in_one & both).bit_count(),
            (in_other & both).bit_count(),
            both.bit_count(),
        )
        if chance * pairs <= MAX_CHANCE:
            linked[one] += linked[other]
            linked.update(dict.fromkeys(linked[other], linked[one]))
    clusters = []
    for members in {id(members): members for members in linked.values()}.values():
        clusters += [
            tuple(sorted(map(members.__getitem__, places)))
            for places in _join([failed[test] for test in members])
            if len(places) > 1
        ]
    return sorted(clusters, key=lambda cluster: (-len(cluster), cluster))


def group_by_runs(
    failed: Mapping[int, int], known: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Return all tests in their order, each cluster of `find_clusters` where its first one is."""
    clusters: dict[int, tuple[int, ...]] = {test: (test,) for test in failed}
    for cluster in find_clusters(failed, known):
        clusters |= dict.fromkeys(cluster, cluster)
    return [*dict.fromkeys(clusters.values())]


def _join(sets: Sequence[int]) -> list[list[int]]:
    """Return clusters of sets of runs, each by their places, that are near enough to each other.

    It follows chains of nearest neighbours, which give the clusters of average linkage in quadratic
    time (Murtagh, *The Computer Journal* 26, 1983): two clusters that are each other's nearest are
    joined, and one without a neighbour that is near enough never gets one.
    """
    distances = []
    for one in sets:
        row = array("d")
        for other in sets:
            row.append(1 - (one & other).bit_count() / (one | other).bit_count())
        distances.append(row)
    clusters = {place: [place] for place in range(len(sets))}
    left = set(clusters)
    chain: list[int] = []
    while left:
        chain = chain or [min(left)]
        last = chain[-1]
        before = chain[-2] if len(chain) > 1 else None
        row = distances[last]
        # Of equals it is the one before, or the chain would have no end.
        nearest = min(
            left - {last}, key=lambda place: (row[place], place != before), default=last
        )
        if nearest == last or row[nearest] > MAX_DISTANCE:
            left.remove(chain.pop())
        elif nearest != before:
            chain.append(nearest)
        else:
            del chain[-2:]
            left.remove(last)
            mine, others = len(clusters[last]), len(clusters[nearest])
            clusters[nearest] += clusters.pop(last)
            for place in left - {nearest}:
                total = mine * row[place] + others * distances[nearest][place]
                mean = total / (mine + others)
                distances[nearest][place] = distances[place][nearest] = mean
    return list(clusters.values())
