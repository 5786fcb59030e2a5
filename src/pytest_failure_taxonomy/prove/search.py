"""Find the fewest of many things that are needed for an answer.

Delta debugging (Zeller and Hildebrandt, 2002), which keeps complements: two tests that pollute
together are found wherever they lie, and nothing has to be monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], holds: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return items, in their order, without any of which the answer is another one.

    Args:
        items: for all of which it holds.
        holds: asks the question for some of them. It may raise, which ends the search.
    """
    kept, parts = tuple(items), 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        cuts = range(0, len(kept), size)
        # What ran last is looked at first: it is nearest to what failed. With two parts each is
        # the other's complement.
        subsets = [(kept[at : at + size], 2) for at in reversed(cuts)]
        if parts > 2:
            fewer = max(parts - 1, 2)
            subsets += [(kept[:at] + kept[at + size :], fewer) for at in reversed(cuts)]
        for subset, then in subsets:
            if holds(subset):
                kept, parts = subset, min(then, len(subset))
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept
