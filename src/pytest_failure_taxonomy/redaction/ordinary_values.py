"""What a value looks like: chance, a word, code, a placeholder, or something long and odd."""

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
"""Letters of the words of a `CamelCase` name, on the average: `dXNlcjpwYXNz` has fewer."""

_NO_VALUES: Final = frozenset(WORDS["no_values"])
"""Words that say that there is no value, or name its type."""
_BETWEEN_TYPES: Final = re.compile(r"[\s|\[\],.]+")
_LONGEST_TYPE: Final = 60
_FORMAT: Final = re.compile(
    r"[<>^=]?[+ -]?#?[0-9]{0,3}[_,]?(?:\.[0-9]{1,2})?[bcdeEfFgGnosxX%]?"
)
"""How a value is written: `{token:02x}`."""
_WEAK_NAMES: Final = frozenset(("token", "auth", "credential", "credentials", "pass"))
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
    """Return whether a value has what no words have: digits among letters, capitals anywhere."""
    runs = _RUN.findall(value)
    if _PADDED.fullmatch(value) or "..." in value:
        return True
    if _DIGIT.search(value) and _LETTER.search(value):
        return len(runs) < 2 or not all(_WORD_OF_SEVERAL.fullmatch(run) for run in runs)
    return any(is_of_chance(run) for run in runs if run.isalpha())


def is_of_chance(run: str, shortest_average: float = _SHORTEST_AVERAGE) -> bool:
    """Return whether letters follow one another as in no word, of however many parts."""
    if len(run) < _SHORTEST_OF_CHANCE:
        return False
    words = _WORD_IN_CAMEL_CASE.findall(run)
    if not words:  # nothing but digits: a date, an id
        return False
    return (
        len(run) < shortest_average * len(words) or max(map(len, words)) > _LONGEST_WORD
    )


@_remembered
def is_placeholder(value: str) -> bool:
    """Return whether the value says that there is none, or stands for one: `None`, `***`."""
    text = value.strip()
    if (
        not text
        or text.lower() in _NO_VALUES
        or grammar("placeholder").fullmatch(text) is not None
    ):
        return True
    is_type = len(text) <= _LONGEST_TYPE and ("|" in text or "[" in text)
    return is_type and all(
        not each or each.lower() in _NO_VALUES for each in _BETWEEN_TYPES.split(text)
    )


def is_prose_of_header(value: str) -> bool:
    """Return whether what follows a scheme stands for credentials: `Bearer <token>`."""
    first, *others = value.split() or [""]
    is_word = (
        is_placeholder(first)
        or grammar("bare_word").fullmatch(first.rstrip(".,;:)")) is not None
    )
    return is_word and not any(looks_random(each) for each in others)


def is_code(value: str) -> bool:
    """Return whether the value is a name of source code, a word or a small number."""
    return grammar("code").fullmatch(value) is not None


def is_too_little(name: str, value: str) -> bool:
    """Return whether a quoted value is too short, or too many words, for a secret of such a name.

    `token='if'` is a parser's, `password='if'` is a password.
    """
    # `Password: ', x=1)`: the quote ends a text, and what follows is code.
    if value[0] in ",)]}:;":
        return True
    return name in _WEAK_NAMES and (
        len(value) < _SHORTEST_WEAK or " " in value or not _may_be_secret(name, value)
    )


def _may_be_secret(name: str, value: str) -> bool:
    if not value.strip("0123456789."):
        return False
    return looks_random(value) or (
        name != "token" and _USER_AND_PASSWORD.fullmatch(value) is not None
    )


def is_ordinary_bare(found: re.Match[str]) -> bool:
    """Return whether an assigned value without quotes is source code, a count, a word or a path."""
    value = found["bare"]
    text = found.string
    following = text[found.end() : found.end() + 1]
    if found["sign"] in ("==", "===", "!=") or following in ("(", "[", "{"):
        return True
    # A second `:` is that of a node id or of C++: `TestPassword::test_it`.
    starts = ("/", "~", ".", "=", ":=", "http:", "https:")
    if value.startswith((*starts, ":") if found["sign"] == ":" else starts):
        return True
    name = found["name"].lower()
    touches = found.start("bare") == found.end("sign")
    before = text[max(0, found.start() - _LONGEST_NAME) : found.start()]
    if touches and found["sign"] == ":" and before.endswith(":") and "arn:" in before:
        return True  # the name of a thing: `arn:aws:…:secret:its-name`
    if following == "}" and touches and _FORMAT.fullmatch(value) is not None:
        return True
    if not is_code(value) and not (
        name in _WEAK_NAMES and not _may_be_secret(name, value)
    ):
        return False
    line_start = (
        text.rfind("\n", max(0, found.start() - _LONGEST_NAME), found.start()) + 1
    )
    is_variable = found["name"].isupper() and found["sign"] == "=" and touches
    is_entry = (
        found["sign"] == ":"
        and following in ("", "\n")
        and value.islower()
        and _ENTRY_START.fullmatch(text, line_start, found.start()) is not None
    )
    return value.isupper() or not value.isascii() or not (is_variable or is_entry)


def is_ordinary(text: str) -> bool:
    """Return whether the text stands in others' texts, too: a word, a small number, a path."""
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

    It has eight characters or more, and no blanks. It is not made of words, perhaps with a few
    digits behind them, is no date, number, version, path or address; it has digits among its
    letters, capitals anywhere, or other signs beside a digit.
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
    runs = _RUN.findall(value)
    if not all(_PLAIN_RUN.fullmatch(run) and not is_of_chance(run) for run in runs):
        return True
    return (
        _DIGIT.search(value) is not None
        and _LETTER.search(value) is not None
        and not _SIGNS.isdisjoint(value.rstrip("=!?"))
    )
