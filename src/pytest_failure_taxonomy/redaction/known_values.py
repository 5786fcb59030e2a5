"""Values that are known to be secret: of the environment, or removed once before.

They are removed from every text, in whatever form they are written.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from html import escape
from itertools import takewhile
from math import inf
from operator import eq
from typing import Final
from unicodedata import normalize
from urllib.parse import quote, quote_plus

from pytest_failure_taxonomy.redaction import grammar
from pytest_failure_taxonomy.redaction.marks import (
    Removal,
    Search,
    find_cuts,
    find_places,
)
from pytest_failure_taxonomy.redaction.names import is_secret_variable
from pytest_failure_taxonomy.redaction.ordinary_values import is_ordinary, is_telling
from pytest_failure_taxonomy.redaction.signs import (
    blocks_of,
    encode_base64_parts,
    find_url_passwords,
)

_SURE_LENGTH: Final = 8
"""Shorter values are removed only where no letter or digit touches them."""
_MOST_OF_CUT: Final = 400
"""Characters of a value's start or end looked for at a cut."""
_MANY: Final = 8
"""Values from which on it is faster to take a text apart than to look for each of their
parts."""
_CHARACTERS: Final = 4
"""Characters of a value's start or end that give it away beside a cut.

By them values are found that may be in a text."""

_MOST_LEARNT: Final = 1_000
"""Values that are known at once."""

_SHORTEST_WRAPPED: Final = 12
"""Characters of a value that is looked for across the ends of lines."""

_QUOTED: Final[tuple[Callable[[str], str], ...]] = (
    repr,
    # Beside the other quote its own has a backslash.
    lambda text: repr(f'"{text}').replace('"', "", 1),
    ascii,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
)
"""Ways to quote a text; each puts a quote around it."""
_QUOTED_OTHERWISE: Final = re.compile(r"[\"'\\]|[^ -~]")
_PERCENT_CODE: Final = re.compile("%[0-9A-F]{2}")
_PARTS: Final = re.compile(r"[\s;,\"']+")
_BASIC: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_LINE_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{40,}")


class _JoinedLines:
    """A text without the ends of its lines, to find values that were broken there."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def text(self) -> str:
        """The joined lines."""
        return grammar("line_break").sub("", self._source)

    def place(self, position: int) -> int:
        """Return where in the source a character of the joined lines stands."""
        index = bisect_right(self._starts, (position, inf))
        joined, original = self._starts[index - 1]
        return original + position - joined

    @cached_property
    def _starts(self) -> list[tuple[int, int]]:
        """Where each line begins in the joined lines, and in the source."""
        starts = [(0, 0)]
        removed = 0
        for line_break in grammar("line_break").finditer(self._source):
            start, end = line_break.span()
            removed += end - start
            starts.append((end - removed, end))
        return starts


class KnownValues:
    """Secret values, each with the id of its mark."""

    def __init__(self, most: int) -> None:
        """Begin without values. Of more than `most`, the oldest are forgotten."""
        self._most = most
        self._forms: dict[str, tuple[str, ...]] = {}
        """The forms of each value, the oldest value first."""
        self._names: dict[str, str] = {}
        """The id of each form's mark."""
        self._by_part: dict[str, set[str]] = {}
        self._new: list[str] = []
        self.count = 0
        """How many were ever added. When it grows, earlier texts are to be searched
        again."""

    def __contains__(self, secret: str) -> bool:
        return secret in self._forms

    def add(self, values: Iterable[tuple[str, str]]) -> None:
        """Add values, each with the id of its mark."""
        for name, secret in values:
            forms = make_forms(secret)
            if secret in self._forms:
                # It becomes the newest.
                self._forget(secret)
            else:
                self.count += 1
                self._new += forms
            self._forms[secret] = forms
            for form in forms:
                self._names[form] = name
                for part in _make_parts(form):
                    forms_with_part = self._by_part.setdefault(part, set())
                    forms_with_part.add(form)
            if len(self._forms) > self._most:
                oldest = next(iter(self._forms))
                self._forget(oldest)

    def _forget(self, secret: str) -> None:
        for form in self._forms.pop(secret):
            self._names.pop(form, None)
            for part in _make_parts(form):
                self._by_part[part].discard(form)

    def take_new(self) -> list[str]:
        """Return all forms of the values that were added since this was called last."""
        new = self._new
        self._new = []
        return new

    def remove(self, text: str, search: Search, *, cut: bool) -> str:
        """Return the text without the values, in any form that is common for them.

        Args:
            text: any text.
            search: removes what was found.
            cut: whether the text has places where something was cut out, perhaps of a
                value.
        """
        forms = self._select_forms(text)
        text = search.remove(text, self._find_whole_values(text, forms, search))
        if cut:
            text = search.remove(text, self._find_cut_values(text, forms, search))
        return text

    def _select_forms(self, text: str) -> Iterable[str]:
        """Return the forms to look for: those of which four characters are there."""
        if len(self._forms) < _MANY:
            parts = {part for part in self._by_part if part in text}
        else:
            parts = _split_pieces(text) & self._by_part.keys()
        forms: set[str] = set()
        for part in parts:
            forms |= self._by_part[part]
        return forms

    def _find_whole_values(
        self, text: str, forms: Iterable[str], search: Search
    ) -> Iterator[Removal]:
        lines = None
        if "\n" in text or "\\n" in text:
            lines = _JoinedLines(text)
        # Many forms begin alike, and a few characters are found faster.
        is_there = cache(text.__contains__)
        spans = []
        for form in forms:
            for start, end in find_copies(text, form):
                spans.append((start, -end, form))
            if lines is None or len(form) < _SHORTEST_WRAPPED:
                continue
            # A line that is broken in the first four characters isn't in the next four.
            first = form[:_CHARACTERS]
            second = form[_CHARACTERS : 2 * _CHARACTERS]
            if is_there(first) or is_there(second):
                for start, end in find_copies(lines.text, form):
                    last = lines.place(end - 1)
                    spans.append((lines.place(start), -last - 1, form))
        done = 0
        for start, minus_end, form in sorted(spans):  # the longest of a place first
            search.look(start)
            end = -minus_end
            if end > done:
                name = self._names[form]
                yield Removal(max(start, done), end, name, "")
                done = end

    def _find_cut_values(
        self, text: str, forms: Iterable[str], search: Search
    ) -> Iterator[Removal]:
        """Yield the starts of values before cuts, and their ends behind."""
        by_edge = self._group_by_edge(text, forms, search)
        if not any(by_edge.values()):
            return
        done = 0
        for start, end in find_cuts(text):
            search.look(start)
            if start < done:
                continue
            lengths = [(0, 0, 0, "")]
            before, behind = _get_edges(text, start, end)
            for form in {*by_edge[before], *by_edge[behind]}:
                search.judge(start, start + len(form))
                start_length = _measure_start(text, done, start, form)
                end_length = _measure_end(text, end, form)
                longest = max(start_length, end_length)
                lengths.append((longest, start_length, end_length, form))
            longest, start_length, end_length, form = max(lengths)
            if longest >= _CHARACTERS:
                done = end + end_length
                name = self._names[form]
                yield Removal(start - start_length, start, name, "")
                yield Removal(end, done, "", "")

    def _group_by_edge(
        self, text: str, forms: Iterable[str], search: Search
    ) -> dict[str, list[str]]:
        """Return the forms that contain the characters beside a cut, by these."""
        by_edge: dict[str, list[str]] = {}
        for start, end in find_cuts(text):
            search.look(start)
            before, behind = _get_edges(text, start, end)
            by_edge[before] = []
            by_edge[behind] = []
        for form in forms:
            if len(form) >= _SURE_LENGTH:
                for edge in _split_pieces(form) & by_edge.keys():
                    by_edge[edge].append(form)
        return by_edge


class LearntValues(KnownValues):
    """The values that the texts of one run have given away.

    A password that one text shows beside its name may stand in another without it.
    Ordinary words are not learnt: the password `test` must not take the word out of
    every text.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_LEARNT)

    def learn(self, name: str, removed: str) -> None:
        """Learn a removed value, unless it can be taken for something else."""
        for value in _extract_values(name, removed):
            if value not in self and is_telling(value):
                self.add([(name, value)])


def secret_values(name: str, text: str) -> list[str]:
    """Return the secrets in an environment variable: all, a URL's password, or none."""
    passwords = find_url_passwords(text)
    secrets = [password for password in passwords if not is_ordinary(password)]
    is_secret = is_secret_variable(name) and not is_ordinary(text)
    # A word is no secret beside `KEY` alone.
    if grammar("telling_variable").search(name):
        is_secret = is_secret or is_telling(text.strip())
    if is_secret and "://" not in text:
        secrets.append(text)
        # Keys and the like are shown a line at a time, too.
        lines = text.split("\n")
        secrets += [line for line in lines if 16 <= len(line) < len(text)]
    return [secret.strip() for secret in secrets]


def make_forms(text: str) -> tuple[str, ...]:
    """Return the value in all forms in which it is looked for.

    That is as it is, with its accents as letters of their own or not, in a URL, in HTML
    and quoted for a shell; all of these in a repr and in JSON, and the JSON in a repr
    and in JSON again. Its bytes in a repr, in hexadecimal digits, and in base64 with
    others.
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate of a text's own
        raw = text.encode("utf-8", "surrogatepass")
    # Each form once, in the order in which it was added.
    forms = dict.fromkeys([text, repr(raw)[2:-1]])
    if not text.isascii():
        forms[normalize("NFC", text)] = None
        forms[normalize("NFD", text)] = None
    for form in tuple(forms):
        # A lone surrogate has no code in a URL of its own.
        form_raw = raw if form == text else form.encode("utf-8", "surrogatepass")
        forms.update(dict.fromkeys(_encode_for_url(form_raw)))
        forms.update(dict.fromkeys(_escape_for_html(form)))
        forms[form.replace("'", "'\"'\"'")] = None
    if _QUOTED_OTHERWISE.search(text):
        for _ in range(2):
            for form in tuple(forms):
                for quote_form in _QUOTED:
                    quoted = quote_form(form)
                    forms[quoted[1:-1]] = None
    if len(raw) >= _SURE_LENGTH:
        digits = raw.hex()
        forms[digits] = None
        forms[digits.upper()] = None
        for encoded in encode_base64_parts(raw):
            forms[encoded] = None
            forms[encoded.replace("+", "-").replace("/", "_")] = None
    return tuple(forms)


def _encode_for_url(raw: bytes) -> Iterator[str]:
    for encoded in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield encoded
        yield _PERCENT_CODE.sub(lambda code: code.group().lower(), encoded)


def _escape_for_html(text: str) -> Iterator[str]:
    escaped = escape(text)
    yield escaped
    yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    yield escape(text, quote=False)


def _make_parts(form: str) -> set[str]:
    """Return short parts, of which any text with the form, cut or broken, has one."""
    _, blocks = blocks_of(form)
    ends = [*blocks.values(), form[-_CHARACTERS:]]
    return {end[:_CHARACTERS] for end in ends if len(end) >= _CHARACTERS}


def _split_pieces(text: str) -> set[str]:
    """Return all of four characters that stand in a text."""
    starts = range(len(text) - _CHARACTERS + 1)
    return {text[start : start + _CHARACTERS] for start in starts}


def find_copies(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each copy of a form in a text, changed or not.

    One may be yielded several times. A short form counts where no letter or digit
    touches it.
    """
    if len(form) < _SURE_LENGTH:
        word = re.compile(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])")
        for match in word.finditer(text):
            yield match.span()
        return
    least, blocks = blocks_of(form)
    for begin, block in blocks.items():
        for place in find_places(text, block):
            # Grow the block to both sides, as far as the text agrees with the form.
            before = text[max(0, place - begin) : place]
            behind = text[place : place + len(form)]
            head = form[:begin]
            start = place - _count_common(before[::-1], head[::-1])
            end = place + _count_common(behind, form[begin:])
            copy = text[start:end]
            # Half of a line may be words: a credential of several lines has names and
            # headings.
            is_most = len(copy) >= least and " " not in copy
            if is_most or copy == form:
                yield start, end


def _count_common(text: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    return sum(takewhile(bool, map(eq, text, other)))


def _get_edges(text: str, start: int, end: int) -> tuple[str, str]:
    """Return what is right before and behind a cut: a value cut there has them, too."""
    before = text[max(0, start - _CHARACTERS) : start]
    behind = text[end : end + _CHARACTERS]
    return before, behind


def _measure_start(text: str, begin: int, end: int, form: str) -> int:
    """Return how many characters before `end` are the start of the value."""
    most = min(len(form) - 1, end - begin, _MOST_OF_CUT)
    for length in range(most, 0, -1):
        if text.endswith(form[:length], begin, end):
            return length
    return 0


def _measure_end(text: str, begin: int, form: str) -> int:
    """Return how many characters from `begin` on are the end of the value."""
    most = min(len(form) - 1, _MOST_OF_CUT)
    for length in range(most, 0, -1):
        if text.startswith(form[-length:], begin):
            return length
    return 0


def _extract_values(name: str, removed: str) -> list[str]:
    """Return the value, and what else it gives away."""
    removed = removed.strip()
    if name == "private-key":
        return _LINE_OF_KEY.findall(removed)
    values = [removed]
    if name in ("cookie", "authorization"):
        for part in _PARTS.split(removed):
            _, _, content = part.partition("=")
            values.append(content or part)
    if name == "authorization" and _BASIC.fullmatch(removed):
        with suppress(ValueError):
            values.append(b64decode(removed).decode("utf-8").partition(":")[2])
    return values
