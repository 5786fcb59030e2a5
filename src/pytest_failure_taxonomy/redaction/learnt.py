"""Values that were removed once, and are removed wherever else they stand."""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.redaction.environment import is_ordinary
from pytest_failure_taxonomy.redaction.known_values import KnownValues
from pytest_failure_taxonomy.redaction.marks import Note, is_cut
from pytest_failure_taxonomy.redaction.ordinary import is_placeholder
from pytest_failure_taxonomy.redaction.words import is_of_chance

SHORTEST: Final = 8
LONGEST: Final = 4_000
_MOST: Final = 1_000
"""Values that are known at once."""
_FEWEST_DIFFERENT: Final = 5

_PARTS: Final = re.compile(r"[\s;,\"']+")
_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_PLAIN_RUN: Final = re.compile(r"[A-Za-z]{1,20}[0-9]{0,4}|[0-9]{1,15}")
_SIGNS: Final = frozenset("!@#$%^&*?~+=")
_OF_CODE: Final = frozenset("()[]{}<>`|")
_DATE_OR_ADDRESS: Final = re.compile(
    r"\d{4}-\d\d-\d\d.*|0x[0-9A-Fa-f]+|v?\d+(?:\.\d+)+[\w.+-]*|[\w.+-]+@[\w-]+\.[\w.-]+"
)
_BASIC: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_LINE_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{40,}")


class LearntValues:
    """What the texts of one run have given away.

    A password that one text shows beside its name may stand in another without it. Ordinary words
    are not learnt: the password `test` must not take the word out of every text.
    """

    def __init__(self) -> None:
        self.known = KnownValues(_MOST)

    def learn(self, name: str, removed: str) -> None:
        """Know what was removed under a name, if it can't be taken for something else."""
        for value in _values_in(name, removed):
            if value not in self.known and is_telling(value):
                self.known.add([(name, value)])

    def remove(self, text: str, note: Note, *, cut: bool) -> str:
        """Return the text without the values."""
        return self.known.remove(text, note, cut=cut) if self.known.count else text


def is_telling(value: str) -> bool:
    """Return whether a value is long and odd enough to be looked for everywhere.

    It has eight characters or more, and no blanks. It is not made of words, perhaps with a few
    digits behind them, is no date, number, version, path or address; it has digits among its
    letters, capitals anywhere, or other signs beside a digit.
    """
    if (
        not SHORTEST <= len(value) <= LONGEST
        or len(set(value)) < _FEWEST_DIFFERENT
        or is_ordinary(value)
        or is_placeholder(value)
        or is_cut(value)
        or "://" in value
        or not _OF_CODE.isdisjoint(value)
        or _DATE_OR_ADDRESS.fullmatch(value)
    ):
        return False
    runs = _RUN.findall(value)
    if not all(_PLAIN_RUN.fullmatch(run) and not is_of_chance(run) for run in runs):
        return True
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_digit and has_letter and not _SIGNS.isdisjoint(value.rstrip("=!?"))


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
    from base64 import b64decode
    from binascii import Error

    try:
        return b64decode(encoded).decode("utf-8").partition(":")[2]
    except (Error, UnicodeDecodeError):
        return ""
