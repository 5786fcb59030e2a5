"""Secrets that show by the name beside them: headers, assignments, options, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pytest_failure_taxonomy.redaction.expressions import (
    ASSIGNMENT,
    BEARER,
    HEADER,
    LITERAL,
    OPTION,
    OPTION_START,
)
from pytest_failure_taxonomy.redaction.literals import is_between_literals
from pytest_failure_taxonomy.redaction.marks import Note
from pytest_failure_taxonomy.redaction.ordinary import (
    is_code,
    is_ordinary_bare,
    is_placeholder,
    is_prose_of_header,
    is_too_little,
)
from pytest_failure_taxonomy.redaction.pairs import remove_pairs
from pytest_failure_taxonomy.redaction.url_credentials import remove_from_urls

# The words that end the name of a secret, and what may stand before them. They are looked for as
# plain texts, and only there is an expression tried: that takes a tenth of the time.
_WORDS: Final = {
    "pass": ("passw", "passp", "pass="),
    "cre": ("secret", "credential"),
    "ok": ("token", "cookie"),
    "key": ("key",),
    "auth": ("auth",),
    "bearer": ("bearer",),
    "pwd": ("pwd",),
}
"""By a part that they share: it is seldom there, and then its words need not be looked for."""
_ALONE: Final = frozenset(("pass=", "pwd", "auth"))
"""Words that are others' parts: `compass`, `author`."""
_WHOLE: Final = frozenset(("token", "secret", "key", "pwd"))
"""Words that end there: `tokens` and `keyboard` are others."""
_OF_A_KEY: Final = tuple(
    kind + joint
    for kind in (
        "api",
        "access",
        "secret",
        "private",
        "signing",
        "encryption",
        "account",
        "auth",
        "shared",
    )
    for joint in ("", "_", "-")
)
_Removal = tuple[int, int, str]
"""Where a secret begins and ends, and its id."""
_LONGEST_JUDGED: Final = 1_000
"""Characters by which a value is judged: what is left is looked at again from the next name on, and
a line of nothing but names would take the square of its length."""
_RemovalOf = Callable[[re.Match[str]], "_Removal | None"]

_BEHIND_AN_OPTION: Final = frozenset(
    (
        *("and", "or", "is", "are", "can", "cannot", "must", "may", "to", "in", "for", "with"),
        *("from", "option", "options", "flag", "flags", "argument", "arguments"),
    )
)
"""Words of a sentence about an option."""
_LETTER_OR_DIGIT: Final = re.compile(r"[^\W_]")
_EXPRESSION: Final = re.compile(r"(?:[A-Za-z_]+(?:\.[A-Za-z_]+)*|[0-9]{1,3})[(\[,)}\]]")
_AROUND_SIGN: Final = " \t\"'\\"


def remove_fields(text: str, note: Note) -> str:
    """Return the text without the secrets that a name, a header or a URL gives away."""
    if "@" in text and "://" in text:
        text = remove_from_urls(text, note)
    lower = lower_case(text)
    changed = remove_pairs(text, lower, note)
    if changed != text:
        text, lower = changed, lower_case(changed)
    for part, words in _WORDS.items():
        if part not in lower:
            continue
        for word in words:
            if word in lower:
                text, lower = _without(text, lower, word, note)
    return text


def lower_case(text: str) -> str:
    """Return the text in lower case, and as long as it was."""
    # The dotted I of Turkish is the one letter whose small form is two characters.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


def _without(text: str, lower: str, word: str, note: Note) -> tuple[str, str]:
    if word in _HEADERS:
        expression, removal_of = _HEADERS[word]
        text, lower = _edited(text, lower, word, expression, removal_of, note)
        if word != "auth":
            return text, lower
    if "--" in text or " -" in text:
        text, lower = _edited(text, lower, word, OPTION, _of_option, note)
    return _edited(text, lower, word, ASSIGNMENT, _of_assignment, note)


def _edited(
    text: str,
    lower: str,
    word: str,
    expression: re.Pattern[str],
    removal_of: _RemovalOf,
    note: Note,
) -> tuple[str, str]:
    """Remove what the expression finds where the word stands, if it is a secret."""
    parts = []
    done = 0
    place = lower.find(word)
    while place >= 0:
        limit = place + _LONGEST_JUDGED
        found = expression.match(text, place, limit) if _may_start(lower, word, place) else None
        removal = removal_of(found) if found else None
        if found and removal:
            start, end, name = removal
            parts += [text[done:start], note(name, text[start:end])]
            # Every expression ends with its value.
            whole = expression.match(text, place) if found.end() == limit else None
            done = max(end, whole.end()) if whole else end
        place = lower.find(word, max(done, place + len(word)))
    if not parts:
        return text, lower
    text = "".join([*parts, text[done:]])
    return text, lower_case(text)


def _may_start(lower: str, word: str, place: int) -> bool:
    if word in _WHOLE and lower[place + len(word) : place + len(word) + 1].isalpha():
        return False
    if word in _ALONE:
        return not lower[place - 1 : place].isalnum()
    return word != "key" or lower.endswith(_OF_A_KEY, max(0, place - 12), place)


def _of_header(found: re.Match[str]) -> _Removal | None:
    value = found["value"].strip()
    if found["scheme"]:
        is_left = is_prose_of_header(value)
    elif is_code(value) or value.startswith(("=", ":")) or not _LETTER_OR_DIGIT.search(value):
        is_left = True
    elif found["open"] is None:
        is_left = _is_no_header(found, value)
    else:
        is_left = is_between_literals(found.string, *found.span("value"))
    if is_left or is_placeholder(value):
        return None
    return (*found.span("value"), _id_of(found["name"]))


def _is_no_header(found: re.Match[str], value: str) -> bool:
    """Return whether a value without quotes and scheme is prose or code."""
    if found["sign"].strip(_AROUND_SIGN) != ":":
        return True
    is_cookie = found["name"].lower().startswith("cookie")
    if "=" not in value if is_cookie else " " in value:
        return True
    # Behind a quoted name is an expression: `'Authorization': auth}`.
    return not found["sign"].startswith(":") and _EXPRESSION.match(value) is not None


def _of_bearer(found: re.Match[str]) -> _Removal | None:
    has_digit = any(character.isdigit() for character in found["value"])
    return (*found.span("value"), "bearer") if has_digit else None


def _of_option(found: re.Match[str]) -> _Removal | None:
    value = found["bare"]
    name = found["name"].lower()
    line = found.string[max(0, found.start() - 90) : found.start()]
    if OPTION_START.search(line) is None or is_placeholder(value):
        return None
    if value.isupper() and value.lower().startswith(name[:4]):
        return None  # the placeholder of a usage line: `--token TOKEN`
    if found["sign"].isspace() and value.lower() in _BEHIND_AN_OPTION:
        return None
    if found["sign"][-1] in "\"'" and is_between_literals(found.string, *found.span("bare")):
        return None
    return (*found.span("bare"), _id_of(name))


def _of_assignment(found: re.Match[str]) -> _Removal | None:
    group = next(each for each in ("e", "s", "d", "bare") if found[each] is not None)
    start, end = found.span(group)
    if group in "sd" and is_between_literals(found.string, start, end):
        return _of_joined_literal(found, found[group])
    value = found[group]
    if is_placeholder(value):
        return None
    name = found["name"].lower()
    is_left = is_ordinary_bare(found) if group == "bare" else is_too_little(name, value)
    return None if is_left else (start, end, _id_of(name))


def _of_joined_literal(found: re.Match[str], code: str) -> _Removal | None:
    """Return the second literal of `"password=" + "value"`."""
    second = LITERAL.match(found.string, found.end())
    if second is None or found["sign"] != "=" or code.strip().rstrip("bfruBFRU").strip(" +"):
        return None
    group = "s" if second["s"] is not None else "d"
    value = second[group]
    name = found["name"].lower()
    if not value or " " in value or is_placeholder(value) or is_too_little(name, value):
        return None
    return (*second.span(group), _id_of(name))


def _id_of(name: str) -> str:
    name = name.lower().rstrip("2")
    return "api-key" if name == "key" else name


_HEADERS: Final[dict[str, tuple[re.Pattern[str], _RemovalOf]]] = {
    "auth": (HEADER, _of_header),
    "cookie": (HEADER, _of_header),
    "bearer": (BEARER, _of_bearer),
}
