"""Secrets that show by their form what they are: `ghp_…`, `AKIA…`, `eyJ…`, private keys."""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_failure_taxonomy.redaction.marks import (
    CONTEXT,
    CUT,
    Note,
    Removal,
    Search,
    cuts,
    removal_of_group,
)
from pytest_failure_taxonomy.redaction.ordinary_values import looks_random
from pytest_failure_taxonomy.redaction.signs import (
    LETTERS_OF_HEAD,
    TokenHeads,
    joined_heads,
    read_table,
)

_FEW_CUTS: Final = 100
# A token may also begin behind an escape (`\n` in a repr) or a percent code, whose last character
# is a letter or a digit.
_START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"

# No token begins inside of such a run. So each run is read once, however many heads it has.
_START_OF_RUN: Final = r"(?:(?<![A-Za-z0-9_.-])|(?<=\\[nrtbf])|(?<=%[0-9A-F][0-9A-F]))"
_RUN: Final = r"(?:[A-Za-z0-9_-]|[.](?![.][.])){0,400}+"
_LINE_BREAK: Final = r"[ \t]*(?:\r?\n|(?:\\{1,2}r)?\\{1,2}n)(?:[ \t>|]|E(?=[ \t])){0,60}"
_SHORTEST_REST: Final = 4
_TAIL: Final = r"[A-Za-z0-9_.+/=~-]*+"

_BEGIN_OF_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END_OF_KEY: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LONGEST_KEY: Final = 30_000
"""Characters between the start of a key and its end; an RSA key of 16,384 bits has 13,000."""

# Lines of base64, each perhaps behind pytest's `E  `, in a repr with `\n` in place of line ends,
# or in a list of lines with their quotes and commas.
_LINES_OF_KEY: Final = re.compile(
    r"(?:(?:\\{1,2}[nr]|[\s\"',>|+-]|(?<=\n)E )*+"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]*+"
    r"|[A-Za-z0-9/+=]{16,}+|\.{3}(?!\.)|…|[A-Za-z0-9/+]{1,64}={0,2}+(?=\\n|\n|[\"']|$)))*+"
)
_OF_A_KEY: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n\\"


class Tokens:
    """The packaged table of token forms, compiled."""

    def __init__(self) -> None:
        table = read_table()
        self._starts = TokenHeads(table)
        tokens = table["tokens"]
        shapes = table["shapes"]
        self._ids = {prefix: form["id"] for form in tokens for prefix in form["prefixes"]}
        self._lengths = sorted({len(prefix) for prefix in self._ids}, reverse=True)
        self._shapes = [(re.compile(each["regex"]), each["id"]) for each in shapes]
        forms = {
            prefix: re.escape(prefix) + _rest_of(form)
            for form in tokens
            for prefix in form["prefixes"]
        }
        anywhere = "|".join(each["regex"] for each in shapes)
        joined = {prefix: forms[prefix] for form in tokens for prefix in joined_heads(form)}
        self._line_break = re.compile(_LINE_BREAK)
        self._whole = re.compile(
            f"{_START}(?:{_by_first_letter(forms)}|{anywhere})"
            f"|(?<=[A-Za-z0-9]_)(?:{_by_first_letter(joined)})"
        )
        self._wrapped = re.compile(
            f"{_START}(?:{_by_first_letter({each: re.escape(each) for each in forms})})"
            rf"[A-Za-z0-9_.+/=~-]{{0,400}}+(?:{_LINE_BREAK}[A-Za-z0-9_.+/=~-]{{2,400}}+){{1,8}}"
        )
        # Two letters before a cut are no sign of a token.
        heads = _by_first_letter(
            {prefix: re.escape(prefix) for prefix in self._ids if len(prefix) >= LETTERS_OF_HEAD}
        )
        self._cut_head = re.compile(f"{_START_OF_RUN}(?:{heads})")
        self._cut = re.compile(f"{_START_OF_RUN}(?:{heads}){_RUN}{CUT}{_TAIL}")

    def remove(self, text: str, search: Search, *, cut: bool) -> str:
        """Return the text without the tokens in it.

        Args:
            text: any text.
            search: removes what was found.
            cut: whether the text has places where something was cut out, perhaps of a token.
        """
        if self._starts.may_stand_in(text):
            if self._starts.may_be_wrapped_in(text):
                text = search.without_matches(text, self._wrapped, self._wrapped_token)
            text = search.without_matches(text, self._whole, self._whole_token)
        if cut and self._may_hold_a_cut_one(text):
            text = search.without_matches(text, self._cut, self._cut_token)
        return text

    def _whole_token(self, found: re.Match[str]) -> Removal:
        return removal_of_group(found, 0, self._id_of(found.group()))

    def _cut_token(self, found: re.Match[str]) -> Removal:
        return Removal(*found.span(), self._id_of(found.group()), "")

    def _wrapped_token(self, found: re.Match[str]) -> Removal | None:
        """Remove a token that lines were broken in: as far as its parts belong to it."""
        text = found.group()
        breaks = list(self._line_break.finditer(text))
        ends = [*(each.start() for each in breaks[1:]), len(text)]
        token = text[: breaks[0].start()]
        end = 0
        for before, part_end in zip(breaks, ends, strict=True):
            part = text[before.end() : part_end]
            whole = self._whole.match(token + part)
            is_more = whole is not None and whole.end() > len(token)
            known = self._whole.fullmatch(token)
            # What begins a line belongs to the token that ended the one before, if it is like one.
            if not is_more or (known and not (len(part) >= _SHORTEST_REST and looks_random(part))):
                break
            taken = whole.end() - len(token) if whole else 0
            token += part[:taken]
            end = before.end() + taken
            if taken < len(part):
                break
        if end == 0 or self._whole.fullmatch(token) is None:
            return None
        return Removal(found.start(), found.start() + end, self._id_of(token), token)

    def _id_of(self, token: str) -> str:
        """Return the id of the longest head that the token has: `sk-ant-` is not a key of `sk-`."""
        heads = (token[:length] for length in self._lengths)
        by_head = (self._ids[head] for head in heads if head in self._ids)
        by_shape = (name for shape, name in self._shapes if shape.fullmatch(token))
        return next(by_head, None) or next(by_shape, "token")

    def _may_hold_a_cut_one(self, text: str) -> bool:
        if text.count("...") > _FEW_CUTS:
            return True
        before = 0
        for start, end in cuts(text):
            begin = max(before, start - CONTEXT)
            if start - begin >= LETTERS_OF_HEAD and self._cut_head.search(text, begin, start):
                return True
            before = end
        return False


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


def remove_private_keys(text: str, note: Note) -> str:
    """Return the text without the private keys in it."""
    parts = []
    position = 0
    # Both are searched once, so that a text with a million starts takes linear time.
    begins = [found.span() for found in _BEGIN_OF_KEY.finditer(text)]
    ends = iter([*(found.span() for found in _END_OF_KEY.finditer(text)), None])
    end = next(ends)
    for index, (start, after) in enumerate(begins):
        if start < position:
            continue
        while end is not None and end[0] < after:
            end = next(ends)
        following = begins[index + 1][0] if index + 1 < len(begins) else len(text)
        is_whole = end is not None and end[0] < min(following, after + _LONGEST_KEY)
        lines = _LINES_OF_KEY.match(text, after)
        before = _without_rest_of_key(text[position:start], note)
        position = end[1] if is_whole and end else lines.end() if lines else after
        parts += [before, note("private-key", text[after:position])]
    parts.append(_without_rest_of_key(text[position:], note))
    return "".join(parts)


def _without_rest_of_key(text: str, note: Note) -> str:
    """Remove what stands before an end whose start was cut away."""
    parts = []
    position = 0
    for end in _END_OF_KEY.finditer(text):
        head = text[max(position, end.start() - _LONGEST_KEY) : end.start()]
        rest = head.rstrip(_OF_A_KEY)
        start = end.start() - len(head) + len(rest)
        if rest and not rest.endswith(("...", "…", "]")):
            # Something else stands before; only whole lines of base64 are a key's.
            found = re.search(r"[A-Za-z0-9+/=]{40,}", head[len(rest) :])
            start += found.start() if found else len(head) - len(rest)
        parts += [text[position:start], note("private-key")]
        position = end.end()
    return "".join([*parts, text[position:]]) if parts else text


def may_hold_key(text: str) -> bool:
    """Return whether the text may hold a private key."""
    return "PRIVATE KEY" in text and ("-----BEGIN" in text or "-----END" in text)
