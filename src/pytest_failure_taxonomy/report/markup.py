"""Untrusted texts as Markdown: words, spans of code, folded blocks of it.

Nothing that a test or a report says can become Markdown or HTML. Words are written with each
special character escaped; a fence is longer than any row of backticks in what it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pytest_failure_taxonomy.text import cap, safe_text

_MAX_WIDTH: Final = 2_000
"""Characters of one line."""
_MAX_BLOCK: Final = 20_000
"""Characters of one stack or traceback."""

_SPECIAL: Final = re.compile(
    r"[\\`*_\[\]<>&~|@#$]"  # emphasis, links, HTML, references, code, tables, mathematics
    r"|:(?=//)|(?<=mailto):|(?<=xmpp):|(?<=www)\."  # what GitHub makes links of
    r"|^[-+=]|^\d(?=\d*[.)](\s|$))",  # what begins a list or underlines a title
    re.IGNORECASE,
)
_BACKTICKS: Final = re.compile("`+")
_REFERENCES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "@": "&#64;&#8203;",
}
"""An `@` is followed by a space of no width: GitHub notifies whom a name after it belongs to."""


def as_words(text: str, limit: int = _MAX_WIDTH) -> str:
    """Return a text as words that are neither Markdown nor HTML; one line of so many characters."""
    return _SPECIAL.sub(_escaped, safe_text(text, limit).strip())


def as_table(
    heads: Sequence[str], rows: Iterable[Iterable[str]], rules: Iterable[str]
) -> str:
    """Return a table; a rule is `---`, or `--:` for a column of numbers."""
    lines = [map(as_words, heads), rules, *(map(as_words, row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    if found.isdigit():  # a backslash before it would be shown
        return f"&#{ord(found)};"
    return _REFERENCES.get(found) or f"\\{found}"


def as_code(text: str) -> str:
    """Return a text as a code span; one line."""
    shown = safe_text(text)
    if not shown.strip():
        return "(empty)"
    fence = "`" * (_longest_row(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def folded(title: str, text: str | None, most: int | None = None) -> str:
    """Return a text of several lines that is shown on a click; nothing for an empty one.

    Args:
        title: what is clicked on.
        text: the text; its middle is left out where it is too long.
        most: characters of the block.
    """
    if not text:
        return ""
    lines = cap(text, _MAX_BLOCK).splitlines()
    block = "\n".join(safe_text(line.expandtabs(), _MAX_WIDTH) for line in lines)
    block = (
        block if most is None else cap(block, most)
    )  # an escape is longer than what it shows
    fence = "`" * max(3, _longest_row(block) + 1)
    summary = f"<details><summary>{escape(safe_text(title))}</summary>"
    return f"{summary}\n\n{fence}text\n{block}\n{fence}\n\n</details>\n\n"


def _longest_row(text: str) -> int:
    return max((len(row) for row in _BACKTICKS.findall(text)), default=0)
