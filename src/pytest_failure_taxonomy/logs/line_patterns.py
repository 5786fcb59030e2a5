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

    It is in whatever the pattern fits, and small where the pattern ignores case; empty where there
    is none.
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
            return ""
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
"""A letter that stands for itself: the search for patterns that begin with one is quick."""


class LinePattern:
    """Several patterns for the beginning of a line, of which the first that fits counts.

    Those that begin with anything are tried only on a line that has a text which they need.
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
        self._all = re.compile(f"{before}(?:{'|'.join(patterns)})")
        self._near = re.compile(f"{before}(?:{'|'.join(near) or '(?!)'})")

    def match(self, text: str) -> re.Match[str] | None:
        """Return how the first pattern fits that does."""
        near = self._near.match(text)
        for literal, pattern in self._far:
            if literal in text:
                if near is not None:
                    return self._all.match(text)
                if far := pattern.match(text):
                    return far
        return near


_MIN_LITERAL: Final = 2
"""A shorter text is in most lines."""
