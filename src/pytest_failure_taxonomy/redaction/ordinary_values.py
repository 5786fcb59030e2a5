"""Tell what a value looks like: chance, a word, code, a placeholder, or a secret."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pytest_failure_taxonomy.redaction import WORDS, grammar, is_cut

_remembered = lru_cache(maxsize=4_096)
"""Texts repeat their values, and a judgement takes microseconds."""

_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD_OF_SEVERAL: Final = re.compile(r"[A-Za-z]+[0-9]?|[0-9]")
_WORD_IN_CAMEL_CASE: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PADDED: Final = re.compile(r"[A-Za-z0-9+/]{8,}={1,2}")
_LONGEST_WORD: Final = 20
_SHORTEST_OF_CHANCE: Final = 12
_SHORTEST_AVERAGE: Final = 3
"""Letters of the words of a `CamelCase` name, on the average: `dXNlcjpwYXNz` has
fewer."""

_NO_VALUES: Final = frozenset(WORDS["no_values"])
"""Words that say that there is no value, or name its type."""
_BETWEEN_TYPES: Final = re.compile(r"[\s|\[\],.]+")
_LONGEST_TYPE: Final = 60
_FORMAT: Final = re.compile(
    r"[<>^=]?[+ -]?#?[0-9]{0,3}[_,]?(?:\.[0-9]{1,2})?[bcdeEfFgGnosxX%]?"
)
"""How a value is written: `{token:02x}`."""
_WEAK_NAMES: Final = frozenset(
    (
        "token",
        "auth",
        "credential",
        "credentials",
        "pass",
    )
)
_SHORTEST_WEAK: Final = 8
_USER_AND_PASSWORD: Final = re.compile(r"[^\s:./]+:[^\s:./]+")
_ENTRY_START: Final = re.compile(r"(?:E )?[ \t]*(?:- )?[\w-]{0,40}")
_LONGEST_NAME: Final = 80

SHORTEST_KNOWN: Final = 6
_LONGEST_KNOWN: Final = 20_000
_FEWEST_DIFFERENT: Final = 4
"""Different characters of a secret: `xxxxxxxx` is none."""
_ORDINARY: Final = frozenset(WORDS["ordinary_values"])
_PLAIN_WORD: Final = re.compile(
    r"[a-z]{1,11}|[A-Z]{1,11}|[A-Z]?[a-z]{1,10}|[0-9.]{1,7}|\s*"
)
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@ -]{0,23}){1,30}")

_SHORTEST_TELLING: Final = 8
_LONGEST_TELLING: Final = 4_000
_FEWEST_DIFFERENT_TELLING: Final = 5
_PLAIN_RUN: Final = re.compile(r"[A-Za-z]{1,20}[0-9]{0,4}|[0-9]{1,15}")
_SIGNS: Final = frozenset("!@#$%^&*?~+=")
_OF_CODE: Final = frozenset("()[]{}<>`|")


@_remembered
def looks_random(value: str) -> bool:
    """Tell whether a value is unlike words: digits inside, capitals anywhere."""
    if _PADDED.fullmatch(value) or "..." in value:
        return True
    runs = _RUN.findall(value)
    if not _DIGIT.search(value) or not _LETTER.search(value):
        return any(is_of_chance(run) for run in runs if run.isalpha())
    if len(runs) < 2:
        return True
    return not all(map(_WORD_OF_SEVERAL.fullmatch, runs))


def is_of_chance(run: str, shortest_average: float = _SHORTEST_AVERAGE) -> bool:
    """Tell whether letters follow one another as in no word, however composed."""
    if len(run) < _SHORTEST_OF_CHANCE:
        return False
    words = _WORD_IN_CAMEL_CASE.findall(run)
    if not words:  # nothing but digits: a date, an id
        return False
    if len(run) < shortest_average * len(words):
        return True
    return max(map(len, words)) > _LONGEST_WORD


@_remembered
def is_placeholder(value: str) -> bool:
    """Tell whether a value stands for none, or for another: `None`, `***`."""
    text = value.strip()
    if not text or grammar("placeholder").fullmatch(text):
        return True
    lower = text.lower()
    if lower in _NO_VALUES:
        return True
    is_type = "|" in text or "[" in text
    if not is_type or len(text) > _LONGEST_TYPE:
        return False
    names = set(_BETWEEN_TYPES.split(lower))
    return names <= _NO_VALUES | {""}


def is_prose_of_header(value: str) -> bool:
    """Return whether what follows a scheme stands for credentials: `Bearer <token>`."""
    words = value.split()
    if any(map(looks_random, words[1:])):
        return False
    first = words[0] if words else ""
    if is_placeholder(first):
        return True
    return grammar("bare_word").fullmatch(first.rstrip(".,;:)")) is not None


def is_code(value: str) -> bool:
    """Return whether the value is a name of source code, a word or a small number."""
    return grammar("code").fullmatch(value) is not None


def is_too_little(name: str, value: str) -> bool:
    """Return whether a quoted value is too short, or too many words, for such a name.

    `token='if'` is a parser's, `password='if'` is a password.
    """
    # `Password: ', x=1)`: the quote ends a text, and what follows is code.
    if value[0] in ",)]}:;":
        return True
    if name not in _WEAK_NAMES:
        return False
    is_phrase = len(value) < _SHORTEST_WEAK or " " in value
    return is_phrase or not _may_be_secret(name, value)


def _may_be_secret(name: str, value: str) -> bool:
    if not value.strip("0123456789."):
        return False
    if looks_random(value):
        return True
    return name != "token" and _USER_AND_PASSWORD.fullmatch(value) is not None


def is_ordinary_bare(match: re.Match[str]) -> bool:
    """Tell whether an unquoted assigned value is code, a count, a word or a path."""
    if _is_part_of_code(match):
        return True
    value = match["bare"]
    if not is_code(value):
        name = match["name"].lower()
        if name not in _WEAK_NAMES or _may_be_secret(name, value):
            return False
    if value.isupper() or not value.isascii():
        return True
    # A word is a secret only as the value of a variable of the shell, or of an entry.
    if match["sign"] == "=":
        return not (match["name"].isupper() and _touches(match))
    return not (value.islower() and _is_entry(match))


def _is_part_of_code(match: re.Match[str]) -> bool:
    """Tell whether the text around a value, or its start, shows that it is code."""
    value = match["bare"]
    sign = match["sign"]
    following = _get_following(match)
    if sign in _COMPARISONS or following in ("(", "[", "{"):
        return True
    if value.startswith(_STARTS_OF_NO_SECRET):
        return True
    if sign == ":":
        # A second `:` is that of a node id or of C++: `TestPassword::test_it`.
        if value.startswith(":"):
            return True
        start = match.start()
        before = match.string[max(0, start - _LONGEST_NAME) : start]
        # The name of a thing: `arn:aws:…:secret:its-name`.
        if before.endswith(":") and "arn:" in before and _touches(match):
            return True
    if following != "}" or not _touches(match):
        return False
    return _FORMAT.fullmatch(value) is not None


def _get_following(match: re.Match[str]) -> str:
    end = match.end()
    return match.string[end : end + 1]


def _touches(match: re.Match[str]) -> bool:
    """Return whether no blank is between the sign and the value."""
    return match.start("bare") == match.end("sign")


def _is_entry(match: re.Match[str]) -> bool:
    """Return whether name and value are all of a line but the begin of an entry."""
    if match["sign"] != ":" or _get_following(match) not in ("", "\n"):
        return False
    start = match.start()
    earliest = max(0, start - _LONGEST_NAME)
    line_start = match.string.rfind("\n", earliest, start) + 1
    return _ENTRY_START.fullmatch(match.string, line_start, start) is not None


_COMPARISONS: Final = ("==", "===", "!=")

_STARTS_OF_NO_SECRET: Final = (
    "/",
    "~",
    ".",
    "=",
    ":=",
    "http:",
    "https:",
)


def is_ordinary(text: str) -> bool:
    """Tell whether any text may hold it: a word, a small number, a path."""
    text = text.strip()
    return (
        not SHORTEST_KNOWN <= len(text) <= _LONGEST_KNOWN
        or text.lower() in _ORDINARY
        or _PLAIN_WORD.fullmatch(text) is not None
        or _PATH.fullmatch(text) is not None
        or len(set(text)) < _FEWEST_DIFFERENT
    )


@_remembered
def is_telling(value: str) -> bool:
    """Return whether a value is long and odd enough to be looked for everywhere.

    It has eight characters or more, and no blanks. It is not made of words, perhaps
    with a few digits behind them, is no date, number, version, path or address; it has
    digits among its letters, capitals anywhere, or other signs beside a digit.
    """
    if (
        not _SHORTEST_TELLING <= len(value) <= _LONGEST_TELLING
        or len(set(value)) < _FEWEST_DIFFERENT_TELLING
        or is_ordinary(value)
        or is_placeholder(value)
        or is_cut(value)
        or "://" in value
        or not _OF_CODE.isdisjoint(value)
        or grammar("date_or_address").fullmatch(value)
    ):
        return False
    for run in _RUN.findall(value):
        if is_of_chance(run) or not _PLAIN_RUN.fullmatch(run):
            return True
    if _SIGNS.isdisjoint(value.rstrip("=!?")):
        return False
    return bool(_DIGIT.search(value) and _LETTER.search(value))
