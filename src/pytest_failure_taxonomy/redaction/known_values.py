"""Values that are known to be secret, removed in whatever form they are written."""

from __future__ import annotations

import json
import re
from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Final

from pytest_failure_taxonomy.redaction.marks import Note, cuts

_SURE_LENGTH: Final = 8
"""Shorter values are removed only where no letter or digit touches them."""
FEWEST_OF_CUT: Final = 4
"""Characters of a value's start or end that give it away beside a cut."""
_MOST_OF_CUT: Final = 400
"""Characters of a value's start or end looked for at a cut."""
_MANY: Final = 50
"""Values from which on those are sorted out that can't be in a text."""
_CHARACTERS: Final = 4

_SHORTEST_WRAPPED: Final = 12
"""Characters of a value that is looked for across the ends of lines."""

# The end of a line, as it is or in a repr, with the quotes of two literals around it, and what
# pytest and quoting put before the next line.
_LINE_BREAK: Final = re.compile(
    r"[\"']?[ \t]*(?:\r?\n|(?:\\{1,2}r)?\\{1,2}n)(?:[ \t>|+-]|E(?=[ \t])){0,60}(?:[bfru]?[\"'])?"
)


class _Secret:
    """A value, and what tells quickly that it is not in a text."""

    def __init__(self, name: str, forms: tuple[str, ...]) -> None:
        self.name = name
        self.forms = forms
        half, end = _CHARACTERS // 2, -_CHARACTERS
        self.edges = frozenset(edge for form in forms for edge in (form[:_CHARACTERS], form[end:]))
        # Tokens of one kind begin alike. A line may be broken in one of the two places.
        middles = tuple((len(form) // 2, form) for form in forms)
        self.parts = frozenset(
            part
            for middle, form in middles
            for part in (
                form[middle - half : middle + half],
                form[middle + half : middle + half + _CHARACTERS],
            )
            if len(part) == _CHARACTERS
        )


def _order(secret: _Secret) -> tuple[int, str]:
    """Sort a value before those that it holds."""
    return -len(secret.forms[0]), secret.forms[0]


class KnownValues:
    """Secret values, each with the id of its mark."""

    def __init__(self, most: int) -> None:
        """Know none yet, and never more than `most`: the oldest are forgotten."""
        self._most = most
        self._secrets: dict[str, _Secret] = {}
        self._in_order: list[_Secret] = []
        self._by_part: dict[str, set[_Secret]] = {}
        self._by_edge: dict[str, set[_Secret]] = {}
        self._new: list[_Secret] = []
        self.count = 0
        """How many were ever added: who sees it grow looks at earlier texts again."""

    def __contains__(self, secret: str) -> bool:
        return secret in self._secrets

    def add(self, values: Iterable[tuple[str, str]]) -> None:
        """Know more of them, given by the id of their mark and the value."""
        for name, secret in values:
            known = self._secrets.pop(secret, None)
            if known is None:
                self.count += 1
            else:
                self._remove_from_index(known)
            added = self._secrets[secret] = _Secret(name=name, forms=forms_of(secret))
            self._index(added)
            if known is None:
                self._new.append(added)
            if len(self._secrets) > self._most:
                self._remove_from_index(self._secrets.pop(next(iter(self._secrets))))

    def _that_may_stand_in(self, text: str, *, cut: bool) -> Iterable[_Secret]:
        """Return the values to look for; of very many, those of which four characters are there."""
        if len(self._in_order) < _MANY:
            return self._in_order
        there = {text[at : at + _CHARACTERS] for at in range(len(text) - _CHARACTERS + 1)}
        found = {secret for part in self._by_part.keys() & there for secret in self._by_part[part]}
        if cut:
            edges = self._by_edge.keys() & there
            found |= {secret for edge in edges for secret in self._by_edge[edge]}
        return sorted(found, key=_order)

    def _index(self, secret: _Secret) -> None:
        insort(self._in_order, secret, key=_order)
        for index, parts in ((self._by_part, secret.parts), (self._by_edge, secret.edges)):
            for part in parts:
                index.setdefault(part, set()).add(secret)

    def _remove_from_index(self, secret: _Secret) -> None:
        self._in_order.remove(secret)
        for index, parts in ((self._by_part, secret.parts), (self._by_edge, secret.edges)):
            for part in parts:
                index[part].discard(secret)

    def take_new(self) -> list[str]:
        """Return all forms of the values that were added since this was called last."""
        new, self._new = self._new, []
        return [form for secret in new for form in secret.forms]

    def remove(self, text: str, note: Note, *, cut: bool) -> str:
        """Return the text without the values, in any form that they are commonly written in.

        Args:
            text: any text.
            note: counts a removal and returns its mark.
            cut: whether the text has places where something was cut out, perhaps of a value.
        """
        is_wrapped = "\n" in text or "\\n" in text
        for secret in self._that_may_stand_in(text, cut=cut):
            for form in secret.forms:
                if form in text:
                    text = _without_value(text, form, secret.name, note)
                if cut and len(form) >= _SURE_LENGTH:
                    text = _without_cut_value(text, form, secret.name, note)
                if is_wrapped and len(form) >= _SHORTEST_WRAPPED and form[:FEWEST_OF_CUT] in text:
                    text = _without_wrapped_value(text, form, secret.name, note)
        return text


def forms_of(text: str) -> tuple[str, ...]:
    """Return the value as it is, in a repr, in JSON, in a URL, and in base64 of itself and more."""
    import base64
    from urllib.parse import quote, quote_plus

    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate of a text's own
        raw = text.encode("utf-8", "surrogatepass")
    found = [
        text,
        repr(text)[1:-1],
        repr(raw)[2:-1],
        json.dumps(text)[1:-1],
        repr(json.dumps(text)[1:-1])[1:-1],
        quote(raw, safe=""),
        quote_plus(raw),
    ]
    if len(raw) >= _SURE_LENGTH:
        # Behind a user's name and a colon the value begins at any of three places in a group.
        for before in range(3):
            first = (before * 8 + 5) // 6
            last = (before + len(raw)) * 8 // 6
            encoded = base64.b64encode(b"\0" * before + raw).decode()[first:last]
            found += [encoded, encoded.translate({43: "-", 47: "_"})]
    return tuple(dict.fromkeys(found))


def _without_value(text: str, form: str, name: str, note: Note) -> str:
    if len(form) >= _SURE_LENGTH:
        pieces = text.split(form)
    else:
        pieces = re.split(rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])", text)
    result = pieces[0]
    if len(pieces) > 1:
        marks = [note(name) for _ in pieces[1:]]
        result += "".join(mark + piece for mark, piece in zip(marks, pieces[1:], strict=True))
    return result


def _without_cut_value(text: str, form: str, name: str, note: Note) -> str:
    """Remove the start of the value before a cut, and its end behind one."""
    if form[:FEWEST_OF_CUT] not in text and form[-FEWEST_OF_CUT:] not in text:
        return text
    parts = []
    position = 0
    for cut_start, cut_end in cuts(text):
        if cut_start < position:
            continue
        before = _length_of_start(text, position, cut_start, form)
        behind = _length_of_end(text, cut_end, form)
        if max(before, behind) < FEWEST_OF_CUT:
            continue
        parts += [text[position : cut_start - before], note(name), text[cut_start:cut_end]]
        position = cut_end + behind
    return "".join([*parts, text[position:]])


def _length_of_start(text: str, begin: int, end: int, form: str) -> int:
    """Return how many characters before `end` are the start of the value."""
    most = min(len(form) - 1, end - begin, _MOST_OF_CUT)
    for length in range(most, 0, -1):
        if text[end - 1] == form[length - 1] and text.endswith(form[:length], begin, end):
            return length
    return 0


def _length_of_end(text: str, begin: int, form: str) -> int:
    """Return how many characters from `begin` on are the end of the value."""
    if begin >= len(text):
        return 0
    for length in range(min(len(form) - 1, len(text) - begin, _MOST_OF_CUT), 0, -1):
        if form[-length] == text[begin] and text.startswith(form[-length:], begin):
            return length
    return 0


def _without_wrapped_value(text: str, form: str, name: str, note: Note) -> str:
    """Remove the value where lines were broken inside of it."""
    if form[-FEWEST_OF_CUT:] not in text:
        return text
    pieces: list[str] = []
    starts: list[tuple[int, int]] = []  # of each piece: in the joined text, in the text
    joined_length = position = 0
    for found in [*_LINE_BREAK.finditer(text), None]:
        end = found.start() if found else len(text)
        starts.append((joined_length, position))
        pieces.append(text[position:end])
        joined_length += end - position
        position = found.end() if found else end
    joined = "".join(pieces)
    parts = []
    done = 0
    place = joined.find(form)
    while place >= 0:
        start, end = (_place_in_text(starts, each) for each in (place, place + len(form) - 1))
        parts += [text[done:start], note(name)]
        done = end + 1
        place = joined.find(form, place + len(form))
    return "".join([*parts, text[done:]])


def _place_in_text(starts: list[tuple[int, int]], place: int) -> int:
    joined, original = starts[bisect_right(starts, place, key=lambda each: each[0]) - 1]
    return original + place - joined
