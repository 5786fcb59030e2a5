"""Find quickly which of many patterns fits a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_PIECE: Final = re.compile(
    r"(?P<group>\((?:\?(?:P<\w+>|[:=!>]|<[=!]|i\)))?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<other>\[\^?\]?(?:\\.|[^\]\\])*\]|\\u....|\\x..|\\[A-Za-z0-9]|[\^$.])"
    r"|(?P<letter>\\.|.)",
    re.DOTALL,
)
_QUANTIFIER: Final = re.compile(r"(?:[?*+]|\{\d*,?\d*\})[?+]?")


def literal_of(pattern: str) -> str:
    """Return the longest text that stands outside of all groups of a pattern.

    Whatever the pattern fits has it. It is small where the pattern ignores case, and
    empty if there is none.
    """
    longest = text = ""
    depth = position = 0
    while position < len(pattern):
        piece = _PIECE.match(pattern, position)
        assert piece is not None  # noqa: S101 - its last alternative fits any letter
        position = piece.end()
        quantifier = _QUANTIFIER.match(pattern, position)
        if quantifier is not None:
            position = quantifier.end()
        is_flag = piece["group"] == "(?i)"
        if piece["bar"] and depth == 0:
            return ""  # no text is in all of several alternatives
        if piece["letter"] and depth == 0 and quantifier is None:
            text += piece["letter"].removeprefix("\\")
        elif not is_flag:
            text = ""
        if piece["group"] and not is_flag:
            depth += 1
        elif piece["close"]:
            depth -= 1
        longest = max(longest, text, key=len)
    return longest.lower() if pattern.startswith("(?i)") else longest


_FIRST_LETTER: Final = re.compile(r"\\?[^\\.(\[A-Za-z]|[A-Za-z]")
"""A letter that stands for itself: patterns that begin with one fail quickly."""


class LinePattern:
    """Several patterns for the beginning of a line; the first that fits counts.

    A pattern that may begin with anything is slow, so it is tried only on lines that
    have a text that it needs.
    """

    def __init__(self, patterns: Sequence[str], before: str = "") -> None:
        """Compile them.

        Args:
            patterns: in their order.
            before: a pattern for what each of them comes after.
        """
        self._far: list[tuple[str, re.Pattern[str]]] = []
        near = []
        for pattern in patterns:
            literal = literal_of(pattern)
            if _FIRST_LETTER.match(pattern) or len(literal) < _MIN_LITERAL:
                near.append(pattern)
            else:
                self._far.append((literal, re.compile(f"{before}(?:{pattern})")))
        nothing = "(?!)"
        self._all = _compile_alternatives(before, patterns)
        self._near = _compile_alternatives(before, near or [nothing])

    def match(self, text: str) -> re.Match[str] | None:
        """Return the match of the first pattern that fits."""
        near = self._near.match(text)
        for literal, pattern in self._far:
            if literal in text:
                if near is not None:
                    # Both may fit: the order of all patterns decides.
                    return self._all.match(text)
                if far := pattern.match(text):
                    return far
        return near


def _compile_alternatives(before: str, patterns: Sequence[str]) -> re.Pattern[str]:
    alternatives = "|".join(patterns)
    return re.compile(f"{before}(?:{alternatives})")


_MIN_LITERAL: Final = 2
"""A shorter text is in most lines."""
