"""Whether a value is made of words, as those of programs and parsers are, or of chance."""

from __future__ import annotations

import re
from typing import Final

_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_WORD_OF_SEVERAL: Final = re.compile(r"[A-Za-z]+[0-9]?|[0-9]")
_WORD_IN_CAMEL_CASE: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PADDED: Final = re.compile(r"[A-Za-z0-9+/]{8,}={1,2}")
_LONGEST_WORD: Final = 20
_SHORTEST_OF_CHANCE: Final = 12
_SHORTEST_AVERAGE: Final = 3
"""Letters of the words of a `CamelCase` name, on the average: `dXNlcjpwYXNz` has fewer."""


def looks_random(value: str) -> bool:
    """Return whether a value has what no words have: digits among letters, capitals anywhere."""
    runs = _RUN.findall(value)
    if _PADDED.fullmatch(value) or "..." in value:
        return True
    has_digit = any(character.isdigit() for character in value)
    if has_digit and any(character.isalpha() for character in value):
        return len(runs) < 2 or not all(_WORD_OF_SEVERAL.fullmatch(run) for run in runs)
    return any(is_of_chance(run) for run in runs if run.isalpha())


def is_of_chance(run: str) -> bool:
    """Return whether letters follow one another as in no word, of however many parts."""
    if len(run) < _SHORTEST_OF_CHANCE:
        return False
    words = _WORD_IN_CAMEL_CASE.findall(run)
    if not words:  # nothing but digits: a date, an id
        return False
    return len(run) < _SHORTEST_AVERAGE * len(words) or max(map(len, words)) > _LONGEST_WORD
