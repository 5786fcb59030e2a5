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
    97 if (code < 128 and chr(code).isalnum()) or chr(code) in "_-" else 10 if code == 10 else 32
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
"""Letters of a run behind a `_` or `-` in it where a token may begin."""
_BEFORE_RUN: Final = 100
"""Characters before a run in which the address of a webhook stands."""


class TokenHeads:
    """The starts of all known tokens."""

    def __init__(self, table: dict[str, Any]) -> None:
        """Take them from the packaged table."""
        tokens, shapes = table["tokens"], table["shapes"]
        self._heads: dict[str, tuple[str, ...]] = {}
        """All heads, by their first three letters."""
        for form in tokens:
            for head in _heads(form):
                start = head[:LETTERS_OF_HEAD]
                self._heads[start] = (*self._heads.get(start, ()), head)
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
        runs = text.encode("latin-1", "replace").translate(_RUNS)
        lines = runs.replace(b"\n", b" ")
        end = 0
        while (start := lines.find(_LONG_RUN, end)) >= 0:
            end = lines.find(b" ", start)
            if end < 0:
                end = len(lines)
            if self._is_in_run(text, start, end):
                return True
        return b"\n" in runs and self._is_at_line_end(text, runs)

    def _is_in_run(self, text: str, start: int, end: int) -> bool:
        before = text[start - 1 : start]
        if self._begins(text, start):
            return True
        if before in _LENGTHS_OF_CODES:
            # Behind the letter of an escape, or the two of a percent code, comes the token.
            is_found = self._begins(text, start + _LENGTHS_OF_CODES[before])
        elif before in _INSIDE_OF_TOKENS:
            is_found = text.endswith(self._inside, max(0, start - _LONGEST_INSIDE), start)
        else:
            is_found = before == "/" and "hook" in text[max(0, start - _BEFORE_RUN) : start]
        if not is_found and text[start] in "-_":  # the sign of a line of a diff
            is_found = self._begins(text, end - len(text[start:end].lstrip("-_")))
        return is_found or self._is_joined_in(text, start, end - _SHORTEST_BEHIND)

    def may_be_wrapped_in(self, text: str) -> bool:
        """Return whether the last word of a line begins like a token, also one of a repr."""
        text = text.replace("\\n", "\n ")
        return "\n" in text and self._is_at_line_end(
            text, text.encode("latin-1", "replace").translate(_RUNS)
        )

    def _begins(self, text: str, at: int) -> bool:
        heads = self._heads.get(text[at : at + LETTERS_OF_HEAD])
        return heads is not None and text.startswith(heads, at)

    def _is_joined_in(self, text: str, start: int, last: int) -> bool:
        """Return whether a token may begin inside of a run: behind a `-`, and some behind a `_`.

        pytest joins the values of parameters by `-`: `test_it[admin-ghp_…]`.
        """
        joined = self._joined
        for sign in "_-":
            at = start
            while (at := text.find(sign, at, last) + 1) > 0:
                is_head = sign == "-" or text[at : at + _LETTERS_OF_JOINED] in joined
                if is_head and self._begins(text, at):
                    return True
        return False

    def _is_at_line_end(self, text: str, runs: bytes) -> bool:
        end = runs.find(_LINE_END)
        while end >= 0:
            line = max(runs.rfind(b" ", 0, end), runs.rfind(b"\n", 0, end)) + 1
            if self._begins(text, line):
                return True
            if self._is_joined_in(text, line, end):
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
    package = __name__.rpartition(".")[0]
    table: dict[str, Any] = json.loads(pkgutil.get_data(package, "patterns.json") or b"{}")
    return table


def _heads(form: dict[str, Any]) -> Iterator[str]:
    """Yield how a form's tokens begin, by three characters at least."""
    for prefix in form["prefixes"]:
        if len(prefix) >= LETTERS_OF_HEAD:
            yield prefix
        else:
            yield from (prefix + digit for digit in "0123456789abcdef")
