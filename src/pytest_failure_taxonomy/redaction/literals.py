"""Where the literals of a line of source code begin and end."""

from __future__ import annotations

import re
from typing import Final

_LONGEST_LINE: Final = 400
"""Characters before a place in which the start of its line is looked for."""

_QUOTE_OR_ESCAPE: Final = re.compile(r"\\.|[\"']", re.DOTALL)
_BEHIND_A_LITERAL: Final = re.compile(
    r"[ \t]*(?:[-+*%,)\]};:.]|[=!]=|(?:if|else|in|not|and|or|for|is|as)\b|\Z)"
)
_BEFORE_A_LITERAL: Final = re.compile(
    r"(?:[-+*%,(\[{:=<>|&]|\b(?:if|else|in|not|and|or|is|return))[ \t]*[bfru]{0,2}\Z",
    re.IGNORECASE,
)
_LONGEST_JOINT: Final = 40


def is_between_literals(text: str, start: int, end: int) -> bool:
    """Return whether what stands from `start` to `end` is code between two literals.

    In `"?password=" + password + "&x="` the quote behind the name closes the literal that holds
    the name. Both the code and the quotes before it must say so: prose has apostrophes.
    """
    if _BEHIND_A_LITERAL.match(text, start, end) is None:
        return False
    quote = text[start - 1]
    if text[end : end + 1] == quote:
        before = max(start, end - _LONGEST_JOINT)
        if text[start:end].strip() and _BEFORE_A_LITERAL.search(text, before, end) is None:
            return False
    return _open_quote(text, start - 1) == quote


def _open_quote(text: str, end: int) -> str:
    """Return the quote of the literal that the place is in; the empty text outside of any."""
    earliest = max(0, end - _LONGEST_LINE)
    line_start = text.rfind("\n", earliest, end) + 1
    opened = ""
    for found in _QUOTE_OR_ESCAPE.finditer(text, max(earliest, line_start), end):
        sign = found.group()
        if not opened:
            # An escape outside of a literal is its quote in a repr, or none.
            opened = sign if len(sign) == 1 else ""
        elif sign == opened:
            opened = ""
    return opened
