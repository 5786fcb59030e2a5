"""Values that are known to be secret: those of the environment, and those that were removed once.

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
from pytest_failure_taxonomy.redaction.marks import Removal, Search, cuts, places
from pytest_failure_taxonomy.redaction.names import is_secret_variable
from pytest_failure_taxonomy.redaction.ordinary_values import is_ordinary, is_telling
from pytest_failure_taxonomy.redaction.signs import (
    base64_parts,
    blocks_of,
    url_passwords,
)

_SURE_LENGTH: Final = 8
"""Shorter values are removed only where no letter or digit touches them."""
_MOST_OF_CUT: Final = 400
"""Characters of a value's start or end looked for at a cut."""
_MANY: Final = 8
"""Values from which on it is faster to take a text apart than to look for each of their parts."""
_CHARACTERS: Final = 4
"""Characters of a value's start or end that give it away beside a cut, and by which values are
found that may be in a text."""

_MOST_LEARNT: Final = 1_000
"""Values that are known at once."""

_SHORTEST_WRAPPED: Final = 12
"""Characters of a value that is looked for across the ends of lines."""

_QUOTED: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: repr(text)[1:-1],
    lambda text: repr(f'"{text}')[
        2:-1
    ],  # beside the other quote its own has a backslash
    lambda text: ascii(text)[1:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
)
_QUOTED_OTHERWISE: Final = re.compile(r"[\"'\\]|[^ -~]")
_PERCENT_CODE: Final = re.compile("%[0-9A-F]{2}")
_PARTS: Final = re.compile(r"[\s;,\"']+")
_BASIC: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_LINE_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{40,}")


class _JoinedLines:
    """A text without the ends of its lines, in which a value may be found that was broken there."""

    def __init__(self, source: str) -> None:
        self._source = source

    @cached_property
    def text(self) -> str:
        """The joined lines."""
        return grammar("line_break").sub("", self._source)

    def place(self, position: int) -> int:
        """Return where in the source a character of the joined lines stands."""
        joined, original = self._starts[bisect_right(self._starts, (position, inf)) - 1]
        return original + position - joined

    @cached_property
    def _starts(self) -> list[tuple[int, int]]:
        """Where each line begins in the joined lines, and in the source."""
        starts = [(0, 0)]
        removed = 0
        for found in grammar("line_break").finditer(self._source):
            removed += found.end() - found.start()
            starts.append((found.end() - removed, found.end()))
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
        """How many were ever added. When it grows, earlier texts are to be searched again."""

    def __contains__(self, secret: str) -> bool:
        return secret in self._forms

    def add(self, values: Iterable[tuple[str, str]]) -> None:
        """Add values, each with the id of its mark."""
        for name, secret in values:
            forms = forms_of(secret)
            if secret in self._forms:
                self._forget(secret)
            else:
                self.count += 1
                self._new += forms
            self._forms[secret] = forms
            for form in forms:
                self._names[form] = name
                for part in _parts_of(form):
                    self._by_part.setdefault(part, set()).add(form)
            if len(self._forms) > self._most:
                self._forget(next(iter(self._forms)))

    def _forget(self, secret: str) -> None:
        for form in self._forms.pop(secret):
            self._names.pop(form, None)
            for part in _parts_of(form):
                self._by_part[part].discard(form)

    def take_new(self) -> list[str]:
        """Return all forms of the values that were added since this was called last."""
        new, self._new = self._new, []
        return new

    def remove(self, text: str, search: Search, *, cut: bool) -> str:
        """Return the text without the values, in any form that they are commonly written in.

        Args:
            text: any text.
            search: removes what was found.
            cut: whether the text has places where something was cut out, perhaps of a value.
        """
        forms = self._that_may_stand_in(text)
        text = search.without(text, self._whole_values(text, forms, search))
        return (
            search.without(text, self._cut_values(text, forms, search)) if cut else text
        )

    def _that_may_stand_in(self, text: str) -> Iterable[str]:
        """Return the forms to look for: those of which four characters are there."""
        if len(self._forms) < _MANY:
            there = {part for part in self._by_part if part in text}
        else:
            there = {
                text[at : at + _CHARACTERS] for at in range(len(text) - _CHARACTERS + 1)
            }
        return {
            form
            for part in self._by_part.keys() & there
            for form in self._by_part[part]
        }

    def _whole_values(
        self, text: str, forms: Iterable[str], search: Search
    ) -> Iterator[Removal]:
        lines = _JoinedLines(text) if "\n" in text or "\\n" in text else None
        # Many forms begin alike, and a few characters are found faster.
        is_there = cache(text.__contains__)
        spans = []
        for form in forms:
            spans += [(start, -end, form) for start, end in copies_in(text, form)]
            # A line that is broken in the first four characters isn't in the next four.
            may_be_wrapped = len(form) >= _SHORTEST_WRAPPED and (
                is_there(form[:_CHARACTERS])
                or is_there(form[_CHARACTERS : 2 * _CHARACTERS])
            )
            if lines and may_be_wrapped:
                for start, end in copies_in(lines.text, form):
                    spans.append((lines.place(start), -lines.place(end - 1) - 1, form))
        done = 0
        for start, minus_end, form in sorted(spans):  # the longest of a place first
            search.look(start)
            if -minus_end > done:
                yield Removal(max(start, done), -minus_end, self._names[form], "")
                done = -minus_end

    def _cut_values(
        self, text: str, forms: Iterable[str], search: Search
    ) -> Iterator[Removal]:
        """Yield the starts of values before cuts, and their ends behind."""
        by_edge: dict[str, list[str]] = {}
        for start, end in cuts(text):
            search.look(start)
            for edge in _edges(text, start, end):
                by_edge[edge] = []
        for form in forms:
            if len(form) >= _SURE_LENGTH:
                places_in_form = range(len(form) - _CHARACTERS + 1)
                parts = {form[place : place + _CHARACTERS] for place in places_in_form}
                for edge in parts & by_edge.keys():
                    by_edge[edge].append(form)
        done = 0
        for start, end in cuts(text) if any(by_edge.values()) else ():
            search.look(start)
            if start < done:
                continue
            lengths = [(0, 0, 0, "")]
            before, behind = _edges(text, start, end)
            for form in {*by_edge[before], *by_edge[behind]}:
                search.judge(start, start + len(form))
                of_start = _length_of_start(text, done, start, form)
                of_end = _length_of_end(text, end, form)
                lengths.append((max(of_start, of_end), of_start, of_end, form))
            longest, of_start, of_end, form = max(lengths)
            if longest >= _CHARACTERS:
                done = end + of_end
                yield Removal(start - of_start, start, self._names[form], "")
                yield Removal(end, done, "", "")


class LearntValues(KnownValues):
    """The values that the texts of one run have given away.

    A password that one text shows beside its name may stand in another without it. Ordinary words
    are not learnt: the password `test` must not take the word out of every text.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_LEARNT)

    def learn(self, name: str, removed: str) -> None:
        """Know what was removed under a name, if it can't be taken for something else."""
        for value in _values_in(name, removed):
            if value not in self and is_telling(value):
                self.add([(name, value)])


def secret_values(name: str, text: str) -> list[str]:
    """Return what of an environment variable is secret: all, the password of a URL, or nothing."""
    passwords = [found for found in url_passwords(text) if not is_ordinary(found)]
    is_secret = is_secret_variable(name) and not is_ordinary(text)
    if grammar("telling_variable").search(
        name
    ):  # a word is no secret beside `KEY` alone
        is_secret |= is_telling(text.strip())
    if is_secret and "://" not in text:
        passwords.append(text)
        # Keys and the like are shown a line at a time, too.
        passwords += [
            line for line in text.split("\n") if len(line) >= 16 and line != text
        ]
    return [each.strip() for each in passwords]


def forms_of(text: str) -> tuple[str, ...]:
    """Return the value in all forms in which it is looked for.

    That is as it is, with its accents as letters of their own or not, in a URL, in HTML and quoted
    for a shell; all of these in a repr and in JSON, and the JSON in a repr and in JSON again. Its
    bytes in a repr, in hexadecimal digits, and in base64 with others.
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate of a text's own
        raw = text.encode("utf-8", "surrogatepass")
    found = [text, repr(raw)[2:-1]]
    if not text.isascii():
        found += [normalize("NFC", text), normalize("NFD", text)]
    for form in tuple(found):
        # A lone surrogate has no code in a URL of its own.
        form_raw = raw if form == text else form.encode("utf-8", "surrogatepass")
        in_url = [quote(form_raw, safe=""), quote(form_raw), quote_plus(form_raw)]
        in_html = escape(form)
        found += in_url
        found += [
            _PERCENT_CODE.sub(lambda code: code.group().lower(), each)
            for each in in_url
        ]
        found += [
            in_html,
            in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        ]
        found += [escape(form, quote=False), form.replace("'", "'\"'\"'")]
    for _ in range(2 if _QUOTED_OTHERWISE.search(text) else 0):
        for form in tuple(dict.fromkeys(found)):
            found += [quoted(form) for quoted in _QUOTED]
    if len(raw) >= _SURE_LENGTH:
        found += [raw.hex(), raw.hex().upper()]
        for encoded in base64_parts(raw):
            found += [encoded, encoded.translate({43: "-", 47: "_"})]
    return tuple(dict.fromkeys(found))


def _parts_of(form: str) -> set[str]:
    """Return parts of which each text has one that holds the form, perhaps cut or broken."""
    ends = [*blocks_of(form)[1].values(), form[-_CHARACTERS:]]
    return {end[:_CHARACTERS] for end in ends if len(end) >= _CHARACTERS}


def copies_in(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Yield where a copy of a form begins and ends in a text, also one that was changed.

    One may be yielded several times. A short form is one where no letter or digit touches it.
    """
    if len(form) < _SURE_LENGTH:
        word = re.compile(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])")
        yield from (found.span() for found in word.finditer(text))
        return
    least, blocks = blocks_of(form)
    for begin, block in blocks.items():
        for place in places(text, block):
            before = text[max(0, place - begin) : place]
            start = place - _common(before[::-1], form[:begin][::-1])
            end = place + _common(text[place : place + len(form)], form[begin:])
            copy = text[start:end]
            # Half of a line may be words: a credential of several lines has names and headings.
            if copy == form or (len(copy) >= least and " " not in copy):
                yield start, end


def _common(text: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    return sum(takewhile(bool, map(eq, text, other)))


def _edges(text: str, start: int, end: int) -> tuple[str, str]:
    """Return what is right before and behind a cut: a value that was cut there has them, too."""
    return text[max(0, start - _CHARACTERS) : start], text[end : end + _CHARACTERS]


def _length_of_start(text: str, begin: int, end: int, form: str) -> int:
    """Return how many characters before `end` are the start of the value."""
    most = min(len(form) - 1, end - begin, _MOST_OF_CUT)
    lengths = range(most, 0, -1)
    return next(
        (length for length in lengths if text.endswith(form[:length], begin, end)), 0
    )


def _length_of_end(text: str, begin: int, form: str) -> int:
    """Return how many characters from `begin` on are the end of the value."""
    lengths = range(min(len(form) - 1, _MOST_OF_CUT), 0, -1)
    return next(
        (length for length in lengths if text.startswith(form[-length:], begin)), 0
    )


def _values_in(name: str, removed: str) -> list[str]:
    """Return the value, and what else it gives away."""
    removed = removed.strip()
    if name == "private-key":
        return _LINE_OF_KEY.findall(removed)
    values = [removed]
    if name in ("cookie", "authorization"):
        values += [part.partition("=")[2] or part for part in _PARTS.split(removed)]
    if name == "authorization" and _BASIC.fullmatch(removed):
        with suppress(ValueError):
            values.append(b64decode(removed).decode("utf-8").partition(":")[2])
    return values
