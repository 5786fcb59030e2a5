"""Look for tables of patterns in one text, and for most of them not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from pytest_failure_taxonomy.taxonomy import diagnostics, false_friends, verdicts, wider_phrases
from pytest_failure_taxonomy.taxonomy.diagnostics import Pattern
from pytest_failure_taxonomy.taxonomy.recovery import FailureType

_Groups = tuple[tuple[bytes, tuple[Pattern, ...]], ...]
"""Patterns by a word that a text must have; those under the empty word are always looked for."""

_WORD: Final = re.compile(rb"[a-z]+")
_INNER_WORD: Final = re.compile(rb"(?<=[^a-z])[a-z]{2,}(?=[^a-z])")
_LETTERS: Final = bytes(
    ord(chr(each).lower()) if chr(each).isascii() and chr(each).isalpha() else ord(" ")
    for each in range(256)
)
"""What each byte of a text counts as: a small letter, or a blank between two words."""

_TABLES: Final[Mapping[str, tuple[Pattern, ...]]] = {
    "LINTS": verdicts.LINTS,
    "DIAGNOSTICS": diagnostics.DIAGNOSTICS,
    "REFUSALS": diagnostics.REFUSALS,
    "VERDICTS": verdicts.VERDICTS,
    "TALLIES": verdicts.TALLIES,
    "CRASH_REPORTS": false_friends.CRASH_REPORTS,
}
_LOWER_CASE_TABLES: Final[Mapping[str, tuple[Pattern, ...]]] = {
    "RATE_LIMITS": false_friends.RATE_LIMITS,
    "OVERFLOWS": wider_phrases.OVERFLOWS,
}


class Searched:
    """A text with the words that are in it."""

    def __init__(self, text: str) -> None:
        # With a line's end in front, each beginning of a line has one before it.
        self._text = f"\n{text}"
        self._lowered = self._text.lower()
        self._words = frozenset(_spaced(text).split())

    def has(self, table: str) -> bool:
        """Say whether a pattern of a table is in the text."""
        text = self._text if table in _TABLES else self._lowered
        return self._has_any(_grouped()[table], text)

    def wider(self) -> FailureType:
        """Return the type that the wider phrases give, in their order."""
        for failure_type, groups in _wider():
            if self._has_any(groups, self._lowered):
                return failure_type
        return FailureType.UNKNOWN

    def _has_any(self, groups: _Groups, text: str) -> bool:
        return any(
            phrase in text and (not expression or _compiled(expression).search(text) is not None)
            for word, group in groups
            if not word or word in self._words
            for phrase, expression in group
        )


def without_false_friends(lowered: str) -> str:
    """Take out of a lower-case text what holds a promised phrase by chance."""
    return _false_friends().sub(" ", lowered)


@cache
def _false_friends() -> re.Pattern[str]:
    return re.compile("|".join(false_friends.FALSE_FRIENDS), re.MULTILINE)


@cache
def _grouped() -> Mapping[str, _Groups]:
    return {name: _by_word(each) for name, each in {**_TABLES, **_LOWER_CASE_TABLES}.items()}


@cache
def _wider() -> tuple[tuple[FailureType, _Groups], ...]:
    return tuple((kind, _by_word(patterns)) for kind, patterns in wider_phrases.WIDER_PHRASES)


def _spaced(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(_LETTERS)


def _by_word(patterns: tuple[Pattern, ...]) -> _Groups:
    groups: dict[bytes, list[Pattern]] = {}
    for pattern in patterns:
        phrase = pattern[0].lower().encode()
        words = _INNER_WORD.findall(phrase) or _WORD.findall(phrase)
        groups.setdefault(max(words, key=len, default=b""), []).append(pattern)
    return tuple((word, tuple(each)) for word, each in groups.items())


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    # `re` looks for a literal line's end far faster than it tries `^` at each character.
    if expression.startswith("^"):
        expression = rf"\n{expression[1:]}"
    return re.compile(expression, re.MULTILINE)
