"""Tokens that show by their form whose they are: `ghp_…`, `AKIA…`, `eyJ…`."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, Final

from pytest_failure_taxonomy.redaction.marks import CONTEXT, CUT, Note, cuts

_SHORTEST_RUN: Final = 18
"""Every whole token has a run of so many letters, digits, `_` and `-`, by the table's lengths."""
_RUNS: Final = bytes(
    97 if (code < 128 and chr(code).isalnum()) or chr(code) in "_-" else 32 for code in range(256)
)
_LONG_RUN: Final = b"a" * _SHORTEST_RUN

_INSIDE_OF_TOKENS: Final = frozenset(".~:")
_LONGEST_INSIDE: Final = 12
_LETTERS_OF_HEAD: Final = 3
_FEW_CUTS: Final = 100
_BEFORE_RUN: Final = 100
"""Characters before a run in which the address of a webhook stands."""

# A token may also begin behind an escape (`\n` in a repr) or a percent code, whose last character
# is a letter or a digit.
_START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"

# No token begins inside of what such a run may hold. So a run is read once, however many heads it
# repeats.
_START_OF_RUN: Final = r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"
_RUN: Final = r"(?:[A-Za-z0-9_-]|[.](?![.][.])){0,400}+"
_TAIL: Final = r"[A-Za-z0-9_.+/=~-]*+"


class Tokens:
    """The packaged table of token forms, compiled."""

    def __init__(self) -> None:
        table = read_table()
        tokens = table["tokens"]
        shapes = table["shapes"]
        self._heads = sorted(
            ((prefix, form["id"]) for form in tokens for prefix in form["prefixes"]),
            key=lambda head: -len(head[0]),
        )
        self._shapes = [(re.compile(each["regex"]), each["id"]) for each in shapes]
        forms = {
            prefix: re.escape(prefix) + _rest_of(form)
            for form in tokens
            for prefix in form["prefixes"]
        }
        anywhere = "|".join(each["regex"] for each in shapes)
        self._whole = re.compile(f"{_START}(?:{_by_first_letter(forms)}|{anywhere})")
        self._starts = frozenset(start for form in tokens for start in _starts(form))
        self._inside = tuple(
            [
                inside[0]
                for form in tokens
                for each in form["prefixes"]
                if (inside := re.match(r".*[.~]", each))
            ]
            + [each for form in shapes for each in form.get("inside", ())]
        )
        # Two letters before a cut are no sign of a token.
        heads = _by_first_letter(
            {
                prefix: re.escape(prefix)
                for prefix, _ in self._heads
                if len(prefix) >= _LETTERS_OF_HEAD
            }
        )
        self._cut_head = re.compile(f"{_START_OF_RUN}(?:{heads})")
        self._cut = re.compile(f"{_START_OF_RUN}(?:{heads}){_RUN}{CUT}{_TAIL}")

    def remove(self, text: str, note: Note, *, cut: bool) -> str:
        """Return the text without the tokens in it.

        Args:
            text: any text.
            note: counts a removal and returns its mark.
            cut: whether the text has places where something was cut out, perhaps of a token.
        """
        if "eyJ" in text or self._may_hold_one(text):
            text = self._whole.sub(lambda found: note(self._id_of(found.group())), text)
        if cut and self._may_hold_a_cut_one(text):
            text = self._cut.sub(lambda found: note(self._id_of(found.group())), text)
        return text

    def _may_hold_one(self, text: str) -> bool:
        """Return whether a run that is long enough begins like a token, or what is before it does.

        Looking for a hundred heads in all of a traceback takes longer than looking for the few
        long words in it, and at their first letters.
        """
        if len(text) < _SHORTEST_RUN:
            return False
        starts = self._starts
        runs = text.encode("latin-1", "replace").translate(_RUNS)
        end = 0
        while (start := runs.find(_LONG_RUN, end)) >= 0:
            end = runs.find(b" ", start)
            if end < 0:
                end = len(runs)
            first = text[start : start + 5]
            # Behind the letter of an escape, or the two of a percent code, comes the token.
            if first[:3] in starts or first[1:4] in starts or first[2:] in starts:
                return True
            if first[0] in "-_" and text[start:end].lstrip("-_")[:3] in starts:
                return True  # behind the sign of a line of a diff
            before = text[start - 1 : start]
            if before in _INSIDE_OF_TOKENS:
                if text.endswith(self._inside, max(0, start - _LONGEST_INSIDE), start):
                    return True
            elif before == "/" and "hook" in text[max(0, start - _BEFORE_RUN) : start]:
                return True
        return False

    def _id_of(self, token: str) -> str:
        """Return the id of the longest head that the token has: `sk-ant-` is not a key of `sk-`."""
        by_head = (name for prefix, name in self._heads if token.startswith(prefix))
        by_shape = (name for shape, name in self._shapes if shape.fullmatch(token))
        return next(by_head, None) or next(by_shape, "token")

    def _may_hold_a_cut_one(self, text: str) -> bool:
        if text.count("...") > _FEW_CUTS:
            return True
        before = 0
        for start, end in cuts(text):
            begin = max(before, start - CONTEXT)
            if start - begin >= _LETTERS_OF_HEAD and self._cut_head.search(text, begin, start):
                return True
            before = end
        return False


def read_table() -> dict[str, Any]:
    """Return the packaged table of token forms."""
    table: dict[str, Any] = json.loads(pkgutil.get_data(__package__, "patterns.json") or b"{}")
    return table


def _rest_of(form: dict[str, Any]) -> str:
    """Return what follows a head, as an expression that never goes back."""
    alphabet = form["alphabet"]
    most = form.get("most", "")
    end = f"(?![{alphabet}])" if most else ""
    return f"[{alphabet}]{{{form['least']},{most}}}+{end}"


def _by_first_letter(forms: dict[str, str]) -> str:
    """Return one expression for all, the longest first, that tries those of a letter alone."""
    letters: dict[str, list[str]] = {}
    for prefix in sorted(forms, key=lambda each: (-len(each), each)):
        letters.setdefault(prefix[0], []).append(forms[prefix].removeprefix(prefix[0]))
    return "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in letters.items())


def _starts(form: dict[str, Any]) -> Iterator[str]:
    """Yield the first three characters of a form's tokens."""
    for prefix in form["prefixes"]:
        if len(prefix) >= _LETTERS_OF_HEAD:
            yield prefix[:_LETTERS_OF_HEAD]
        else:
            yield from (prefix + digit for digit in "0123456789abcdef")
