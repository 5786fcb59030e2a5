"""The marks that stand where something was removed, and the marks of what others cut out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol


class Note(Protocol):
    """Takes note of one removal."""

    def __call__(self, name: str, removed: str = "", /) -> str:
        """Count a removal under an id, learn what was removed, and return its mark."""


MARK: Final = re.compile(r"\[REDACTED:[A-Za-z0-9_:. -]{1,120}\]")

# `saferepr` and `reprlib` put three dots where they cut, terminals an ellipsis, and
# `report.text.cap` a line of its own.
CUT: Final = r"(?:\n?\.\.\. \[truncated: \d{1,12} characters\] \.\.\.\n?|\.{3,}+|…)"
_CUT_EXPRESSION: Final = re.compile(CUT)

CONTEXT: Final = 300
"""Characters before a cut in which the start of what was cut is looked for."""


def is_cut(text: str) -> bool:
    """Return whether something may have been cut out of the text."""
    return "..." in text or "…" in text


def cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a cut begins and ends, for each one in the text."""
    end = 0
    while (start := text.find("...", end)) >= 0:
        # The mark of `cap` has a line of its own.
        begin = start - 1 if start > end and text[start - 1] == "\n" else start
        found = _CUT_EXPRESSION.match(text, begin) or _CUT_EXPRESSION.match(text, start)
        if found is None:
            return
        yield found.span()
        end = found.end()
    if "…" in text:
        yield from (found.span() for found in re.finditer("…", text))
