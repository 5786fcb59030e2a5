"""Values that are known to be secret: those of the environment, and those that were removed once.

They are removed from every text, in whatever form they are written.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from pytest_failure_taxonomy.redaction.marks import Note, cuts
from pytest_failure_taxonomy.redaction.ordinary_values import is_ordinary, is_telling
from pytest_failure_taxonomy.redaction.secret_names import is_secret_variable
from pytest_failure_taxonomy.redaction.signs import ChangingVariables, base64_parts, url_passwords

_SURE_LENGTH: Final = 8
"""Shorter values are removed only where no letter or digit touches them."""
_FEWEST_OF_CUT: Final = 4
"""Characters of a value's start or end that give it away beside a cut."""
_MOST_OF_CUT: Final = 400
"""Characters of a value's start or end looked for at a cut."""
_MANY: Final = 50
"""Values from which on those are sorted out that can't be in a text."""
_CHARACTERS: Final = 4

_MOST_OF_ENVIRONMENT: Final = 200
_MOST_LEARNT: Final = 1_000
"""Values that are known at once."""

_SHORTEST_WRAPPED: Final = 12
"""Characters of a value that is looked for across the ends of lines."""

# The end of a line, as it is or in a repr, with the quotes of two literals around it, and what
# pytest and quoting put before the next line.
_LINE_BREAK: Final = re.compile(
    r"[\"']?[ \t]*(?:\r?\n|(?:\\{1,2}r)?\\{1,2}n)(?:[ \t>|+-]|E(?=[ \t])){0,60}(?:[bfru]?[\"'])?"
)

_PARTS: Final = re.compile(r"[\s;,\"']+")
_BASIC: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_LINE_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{40,}")


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
        """Begin without values. Of more than `most`, the oldest are forgotten."""
        self._most = most
        self._secrets: dict[str, _Secret] = {}
        self._in_order: list[_Secret] = []
        self._by_part: dict[str, set[_Secret]] = {}
        self._by_edge: dict[str, set[_Secret]] = {}
        self._new: list[_Secret] = []
        self.count = 0
        """How many were ever added. When it grows, earlier texts are to be searched again."""

    def __contains__(self, secret: str) -> bool:
        return secret in self._secrets

    def add(self, values: Iterable[tuple[str, str]]) -> None:
        """Add values, each with the id of its mark."""
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
        edges = _edges_of_cuts(text) if cut else frozenset()
        for secret in self._that_may_stand_in(text, cut=cut):
            for form in secret.forms:
                begins = form[:_FEWEST_OF_CUT] in text
                if begins and form in text:
                    text = _without_value(text, form, secret.name, note)
                if len(form) >= _SURE_LENGTH and any(edge in form for edge in edges):
                    text = _without_cut_value(text, form, secret.name, note)
                if begins and is_wrapped and len(form) >= _SHORTEST_WRAPPED:
                    text = _without_wrapped_value(text, form, secret.name, note)
        return text


class EnvironmentValues(KnownValues):
    """The secret values that the environment holds or has held since the first text.

    Args:
        environment: a mapping to look at instead of `os.environ`.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(_MOST_OF_ENVIRONMENT)
        self._variables = ChangingVariables(environment)

    def refresh(self) -> None:
        """Know the values of variables that were set or changed."""
        if changed := self._variables.changed():
            self.add(
                (f"env:{name}", secret)
                for name, text in changed
                for secret in secret_values(name, text)
            )


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
    if is_secret_variable(name) and "://" not in text and not is_ordinary(text):
        passwords.append(text)
        # Keys and the like are shown a line at a time, too.
        passwords += [line for line in text.split("\n") if len(line) >= 16 and line != text]
    return [each.strip() for each in passwords]


def forms_of(text: str) -> tuple[str, ...]:
    """Return the value as it is, in a repr, in JSON, in a URL, and in base64 of itself and more."""
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
        for encoded in base64_parts(raw):
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


def _edges_of_cuts(text: str) -> frozenset[str]:
    """Return the characters right before and behind each cut: a cut value has them, too."""
    edges = (
        edge
        for start, end in cuts(text)
        for edge in (
            text[max(0, start - _FEWEST_OF_CUT) : start],
            text[end : end + _FEWEST_OF_CUT],
        )
    )
    return frozenset(edge for edge in edges if len(edge) == _FEWEST_OF_CUT)


def _without_cut_value(text: str, form: str, name: str, note: Note) -> str:
    """Remove the start of the value before a cut, and its end behind one."""
    parts = []
    position = 0
    for cut_start, cut_end in cuts(text):
        if cut_start < position:
            continue
        before = _length_of_start(text, position, cut_start, form)
        behind = _length_of_end(text, cut_end, form)
        if max(before, behind) < _FEWEST_OF_CUT:
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
    if form[-_FEWEST_OF_CUT:] not in text:
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


def _values_in(name: str, removed: str) -> list[str]:
    """Return the value, and what else it gives away."""
    removed = removed.strip()
    if name == "private-key":
        return _LINE_OF_KEY.findall(removed)
    values = [removed]
    if name in ("cookie", "authorization"):
        values += [part.partition("=")[2] or part for part in _PARTS.split(removed)]
    if name == "authorization" and _BASIC.fullmatch(removed):
        values.append(_password_of_basic(removed))
    return values


def _password_of_basic(encoded: str) -> str:
    try:
        return b64decode(encoded).decode("utf-8").partition(":")[2]
    except ValueError:
        return ""
