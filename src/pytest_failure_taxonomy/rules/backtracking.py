"""Tell which regular expressions can't take long, however bad the text.

A bound is computed for the steps that Python's matcher can take on a text of `TEXT_LENGTH`
characters. It is far from exact, but never too low: what it does not know counts as endless.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from typing import Any, Final

TEXT_LENGTH: Final = 2_000
"""Characters of a text that the bound holds for."""
MAX_STEPS: Final = 50_000_000
"""About a fifth of a second, if ever they are all taken."""

_CHARACTERS: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN"})
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})

_Cost = tuple[float, float]
"""In how many ways a part can match, and the steps that trying them all takes."""
_ENDLESS: Final = (inf, inf)
_MAX_TIMES: Final = 16
"""More repetitions of what can match in two ways are more than `MAX_STEPS` at any rate."""


@lru_cache(maxsize=1_000)
def is_harmless(pattern: str, length: int = TEXT_LENGTH) -> bool:
    """Tell whether a search of the pattern ends soon on every text of so many characters.

    Args:
        pattern: what `re.compile` takes; anything else is not harmless.
        length: characters of the longest text.
    """
    parser: Any = getattr(re, "_parser", None)  # not public: nothing relies on its being there
    if parser is None:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, steps = _Bound(length).of_sequence(parser.parse(pattern))
    except (re.error, RecursionError, OverflowError):
        return False
    return steps * length <= MAX_STEPS


class _Bound:
    """Compute the cost of what `re` parses a pattern into."""

    def __init__(self, length: int) -> None:
        self._length = length

    def of_sequence(self, items: Iterable[tuple[Any, Any]]) -> _Cost:
        ways, steps = 1.0, 1.0
        for operator, argument in reversed(list(items)):
            own_ways, own_steps = self._of(str(operator), argument)
            steps = own_steps + own_ways * steps
            ways *= own_ways
        return ways, steps

    def _of(self, operator: str, argument: Any) -> _Cost:
        if operator in _CHARACTERS:
            return 1, len(argument) if operator == "IN" else 1
        if operator == "AT":
            return 1, 1
        if operator == "SUBPATTERN":
            return self.of_sequence(argument[-1])
        if operator == "BRANCH":
            each = [self.of_sequence(branch) for branch in argument[1]]
            return sum(ways for ways, _ in each), sum(steps for _, steps in each)
        if operator in _REPEATS:
            return self._of_repeat(*argument)
        return _ENDLESS

    def _of_repeat(self, least: int, most: int, body: Iterable[tuple[Any, Any]]) -> _Cost:
        ways, steps = self.of_sequence(body)
        times = min(int(most), self._length)
        if ways == 1:
            return max(1, times - int(least) + 1), times * steps + 1
        if ways == inf or times > _MAX_TIMES:
            return _ENDLESS
        all_ways = sum(ways**count for count in range(times + 1))
        return all_ways, all_ways * steps
