"""Which cases run together: computed alike by xdist's controller and by its workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_UNITS_A_WORKER: Final = 4
"""Enough that a worker with quick cases can take some from one with slow ones."""
_ROUNDS_A_UNIT: Final = 2
"""A unit is at least so many times what runs at once: its last cases leave places empty."""


def share_of(concurrency: int, workers: int) -> int:
    """Return how many cases one of several workers may run at a time."""
    return max(1, concurrency // max(1, workers))


def split_cases(nodeids: Sequence[str], *, workers: int, concurrency: int) -> list[list[str]]:
    """Split the selected cases of one task class into units for xdist's workers.

    No more units than `concurrency` where that is less than the workers, so that no more cases
    than that run at a time.

    Args:
        nodeids: of the selected cases in pytest's order.
        workers: how many there are; 0 without xdist.
        concurrency: of the task class, over all workers.
    """
    if not nodeids:
        return []
    if workers == 0:
        return [list(nodeids)]
    if concurrency < workers:
        count = concurrency
    else:
        fitting = len(nodeids) // (_ROUNDS_A_UNIT * share_of(concurrency, workers))
        count = min(max(fitting, workers), _UNITS_A_WORKER * workers)
    count = min(count, len(nodeids))
    size, bigger = divmod(len(nodeids), count)
    ends = [0]
    for number in range(count):
        ends.append(ends[-1] + size + (number < bigger))
    return [list(nodeids[start:end]) for start, end in pairwise(ends)]
