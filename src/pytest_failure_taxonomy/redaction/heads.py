"""How tokens begin: what can be looked for without their whole forms."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, Final

_SHORTEST_RUN: Final = 18
"""Every whole token has a run of so many letters, digits, `_` and `-`, by the table's lengths."""
_RUNS: Final = bytes(
    97
    if (code < 128 and chr(code).isalnum()) or chr(code) in "_-"
    else 10
    if code == 10
    else 32
    for code in range(256)
)
_LONG_RUN: Final = b"a" * _SHORTEST_RUN

_LENGTHS_OF_CODES: Final = {"\\": 1, "%": 2}
_INSIDE_OF_TOKENS: Final = frozenset(".~:")
_LONGEST_INSIDE: Final = 12
LETTERS_OF_HEAD: Final = 3
_LETTERS_OF_JOINED: Final = 4
_LINE_END: Final = b"aaaa\n"
_SHORTEST_BEHIND: Final = 12
"""Letters of a run behind a `_` in it where a token may begin."""
_BEFORE_RUN: Final = 100
"""Characters before a run in which the address of a webhook stands."""


class TokenHeads:
    """The starts of all known tokens."""

    def __init__(self, table: dict[str, Any]) -> None:
        """Take them from the packaged table."""
        tokens, shapes = table["tokens"], table["shapes"]
        self._starts = frozenset(start for form in tokens for start in _starts(form))
        self._joined = frozenset(
            prefix[:_LETTERS_OF_JOINED] for form in tokens for prefix in joined_heads(form)
        )
        self._inside = tuple(
            [
                inside[0]
                for form in tokens
                for each in form["prefixes"]
                if (inside := re.match(r".*[.~]", each))
            ]
            + [each for form in shapes for each in form.get("inside", ())]
        )

    def may_stand_in(self, text: str) -> bool:
        """Return whether a run that is long enough begins like a token, or what is before it does.

        Looking for a hundred heads in all of a traceback takes longer than looking for the few
        long words in it, and at their first letters.
        """
        if "eyJ" in text:
            return True
        starts = self._starts
        runs = text.encode("latin-1", "replace").translate(_RUNS)
        lines = runs.replace(b"\n", b" ")
        end = 0
        while (start := lines.find(_LONG_RUN, end)) >= 0:
            end = lines.find(b" ", start)
            if end < 0:
                end = len(lines)
            before = text[start - 1 : start]
            # Behind the letter of an escape, or the two of a percent code, comes the token.
            first = start + _LENGTHS_OF_CODES.get(before, 0)
            if text[start : start + 3] in starts or text[first : first + 3] in starts:
                return True
            if text[start] in "-_" and text[start:end].lstrip("-_")[:3] in starts:
                return True  # behind the sign of a line of a diff
            if before in _INSIDE_OF_TOKENS:
                if text.endswith(self._inside, max(0, start - _LONGEST_INSIDE), start):
                    return True
            elif before == "/" and "hook" in text[max(0, start - _BEFORE_RUN) : start]:
                return True
            if self._is_joined_in(text, start, end - _SHORTEST_BEHIND):
                return True
        return b"\n" in runs and self._may_be_wrapped(text, runs)

    def _is_joined_in(self, text: str, start: int, last: int) -> bool:
        """Return whether a token may begin behind a `_` of a run."""
        joined = self._joined
        while (start := text.find("_", start, last) + 1) > 0:
            if text[start : start + _LETTERS_OF_JOINED] in joined:
                return True
        return False

    def _may_be_wrapped(self, text: str, runs: bytes) -> bool:
        """Return whether a short run at the end of a line begins like a token."""
        end = runs.find(_LINE_END)
        while end >= 0:
            line = max(runs.rfind(b" ", 0, end), runs.rfind(b"\n", 0, end)) + 1
            if text[line : line + LETTERS_OF_HEAD] in self._starts:
                return True
            end = runs.find(_LINE_END, end + 1)
        return False


def joined_heads(form: dict[str, Any]) -> list[str]:
    """Return the heads of a form that are known behind a `_`, too: `of_ghp_…`.

    Others are words or a letter or two: `cache_key-…` is a name.
    """
    if form.get("alone"):
        return []
    return [each for each in form["prefixes"] if len(each) >= _LETTERS_OF_JOINED]


def read_table() -> dict[str, Any]:
    """Return the packaged table of token forms."""
    table: dict[str, Any] = json.loads(pkgutil.get_data(__package__, "patterns.json") or b"{}")
    return table


def _starts(form: dict[str, Any]) -> Iterator[str]:
    """Yield the first three characters of a form's tokens."""
    for prefix in form["prefixes"]:
        if len(prefix) >= LETTERS_OF_HEAD:
            yield prefix[:LETTERS_OF_HEAD]
        else:
            yield from (prefix + digit for digit in "0123456789abcdef")
