"""Secrets that show by the name beside them: headers, assignments, options, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pytest_failure_taxonomy.redaction.marks import Note, cuts
from pytest_failure_taxonomy.redaction.ordinary import (
    is_code,
    is_ordinary_bare,
    is_placeholder,
    is_too_little,
)

_UNMARKED: Final = r"(?!\[REDACTED:)"

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
_NAME: Final = (
    r"(?P<name>pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|key|auth)[0-9]?(?![\w-])"
)
_NameOf = Callable[[re.Match[str]], "tuple[str, str] | None"]

_QUOTE: Final = r"\\{0,2}[\"']"
# What is quoted may hold the other quote and escapes. Without an end on its line it was cut there.
_QUOTED: Final = (
    r"b?(?:\\{1,2}\"(?P<e>[^\"\\\n]++(?:\\(?!\")[^\"\n][^\"\\\n]*+)*+)"
    r"|'(?P<s>[^'\\\n]*+(?:\\.[^'\\\n]*+)*+)"
    r"|\"(?P<d>[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+))"
)
_BARE: Final = r"(?P<bare>[^\s\"'`,;&()\[\]{}<>|\\]++)"

_SIGN: Final = r"(?P<sign>={1,3}|:|=>|!=|,(?=[ ]?b[\"']))"
_ASSIGNMENT: Final = re.compile(
    rf"{_NAME}(?:{_QUOTE})?[\])]?[ \t]{{0,20}}+{_SIGN}[ \t]{{0,20}}+{_UNMARKED}"
    rf"(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE | re.ASCII,
)
_OPTION: Final = re.compile(
    rf"{_NAME}(?P<sign>[\"'],[ \t\n]{{1,4}}[\"']|[ \t]{{1,4}}[\"']?|=[\"']?){_UNMARKED}"
    r"(?P<bare>(?!-)[^\s\"',\])]++)",
    re.IGNORECASE | re.ASCII,
)
_OPTION_START: Final = re.compile(r"(?:^|[\s\"'=\[(])--?(?:[a-z0-9]{1,20}-){0,4}$", re.IGNORECASE)
_HEADER: Final = re.compile(
    rf"(?P<name>authorization|cookie2?)(?P<sign>(?:{_QUOTE})?[ \t]{{0,4}}[:,=][ \t]{{0,4}})"
    r"(?P<open>b?\\{0,2}[\"'])?"
    r"(?P<scheme>(?:bearer|basic|digest|token|negotiate|ntlm|apikey|aws4-hmac-sha256)[ \t]{1,4})?"
    rf"{_UNMARKED}(?P<value>[^\"'\n\r\\]++(?:\\(?![rn\"'])[^\"'\n\r\\]*+)*+)",
    re.IGNORECASE | re.ASCII,
)
_BEARER: Final = re.compile(
    r"(?P<scheme>bearer[ \t]{1,4})(?P<value>[\w.~+/=-]{8,}+)", re.IGNORECASE | re.ASCII
)
_URL: Final = re.compile(
    rf"(?P<start>://[^\s/:@\"'<>?#]{{0,100}}+:){_UNMARKED}(?P<value>[^\s/@\"'<>?#]{{1,400}}+)(?=@)"
)
_CUT_NAME: Final = re.compile(
    r"(?:auth[a-z]{0,9}|passw?[a-z]{0,4}|secr[a-z]{0,2}|toke?n?|cook[a-z]{0,2}|api[_-]?k[a-z]{0,2}"
    r"|bear[a-z]{0,2})\Z",
    re.IGNORECASE | re.ASCII,
)
_STARTS_OF_NAMES: Final = ("auth", "pass", "secr", "tok", "cook", "api", "bear")
_LONGEST_CUT_NAME: Final = 14
_CUT_VALUE: Final = re.compile(r"[^\s\"'(){}\[\]]{4,}+")
_AROUND_SIGN: Final = " \t\"'\\"
_SECRET_KEY: Final = re.compile(
    r"(?:pass(?:word|wd|phrase)|(?<![a-z0-9])(?:pass|pwd|auth)|secret|token|credentials?"
    r"|(?:api|access|secret|private|signing|encryption|account|auth|shared)[_-]?key)\d?"
    r"|(?:proxy-)?authorization|(?:set-)?cookie",
    re.IGNORECASE | re.ASCII,
)
_SECRET_END: Final = re.compile(rf"(?:{_SECRET_KEY.pattern})$", re.IGNORECASE | re.ASCII)


def remove_fields(text: str, note: Note) -> str:
    """Return the text without the secrets that a name, a header or a URL gives away."""
    if "@" in text and "://" in text:
        text = _URL.sub(lambda found: _replaced(found, "value", note("url-password")), text)
    lower = lower_case(text)
    for part, words in _WORDS.items():
        if part not in lower:
            continue
        for word in words:
            if word in lower:
                text, lower = _without(text, lower, word, note)
    return text


def remove_behind_cut_names(text: str, note: Note) -> str:
    """Return the text without what follows a name of a secret that was cut: `{'Autho...f3xyz'}`."""
    lower = lower_case(text)
    if not any(start in lower for start in _STARTS_OF_NAMES):
        return text
    parts = []
    done = 0
    for start, end in cuts(text):
        if start < done or not _CUT_NAME.search(text, max(done, start - _LONGEST_CUT_NAME), start):
            continue
        if value := _CUT_VALUE.match(text, end):
            parts += [text[done:end], note("cut-field")]
            done = value.end()
    return "".join([*parts, text[done:]]) if parts else text


def is_secret_name(name: str) -> bool:
    """Return whether an entry of that name holds a secret."""
    return _SECRET_END.search(name[-100:]) is not None


def lower_case(text: str) -> str:
    """Return the text in lower case, and as long as it was."""
    # The dotted I of Turkish is the one letter whose small form is two characters.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


def _without(text: str, lower: str, word: str, note: Note) -> tuple[str, str]:
    if word in _HEADERS:
        expression, name_of = _HEADERS[word]
        text, lower = _edited(text, lower, word, expression, name_of, note)
        if word != "auth":
            return text, lower
    if "--" in text or " -" in text:
        text, lower = _edited(text, lower, word, _OPTION, _option_id, note)
    return _edited(text, lower, word, _ASSIGNMENT, _assignment_id, note)


def _edited(
    text: str,
    lower: str,
    word: str,
    expression: re.Pattern[str],
    name_of: _NameOf,
    note: Note,
) -> tuple[str, str]:
    """Remove what the expression finds where the word stands, if it is a secret."""
    parts = []
    done = 0
    place = lower.find(word)
    while place >= 0:
        found = expression.match(text, place) if _may_start(lower, word, place) else None
        named = name_of(found) if found else None
        if found and named:
            group, name = named
            parts += [text[done : found.start(group)], note(name)]
            done = found.end(group)
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


def _replaced(found: re.Match[str], group: str, mark: str) -> str:
    start = found.start()
    whole = found.group()
    return whole[: found.start(group) - start] + mark + whole[found.end(group) - start :]


def _header_id(found: re.Match[str]) -> tuple[str, str] | None:
    value = found["value"].strip()
    if not found["scheme"] and is_code(value):
        return None
    if found["open"] is None:
        if found["sign"].strip(_AROUND_SIGN) != ":":
            return None
        is_cookie = found["name"].lower().startswith("cookie")
        if is_cookie and "=" not in value:
            return None
        if not is_cookie and not found["scheme"] and " " in value:
            return None
    return None if is_placeholder(value) else ("value", found["name"].lower().rstrip("2"))


def _bearer_id(found: re.Match[str]) -> tuple[str, str] | None:
    has_digit = any(character.isdigit() for character in found["value"])
    return ("value", "bearer") if has_digit else None


def _option_id(found: re.Match[str]) -> tuple[str, str] | None:
    value = found["bare"]
    name = found["name"].lower()
    line = found.string[max(0, found.start() - 90) : found.start()]
    if _OPTION_START.search(line) is None or is_placeholder(value):
        return None
    if value.isupper() and value.lower().startswith(name[:4]):
        return None  # the placeholder of a usage line: `--token TOKEN`
    return "bare", _id_of(name)


def _assignment_id(found: re.Match[str]) -> tuple[str, str] | None:
    name = found["name"].lower()
    group = next(each for each in ("e", "s", "d", "bare") if found[each] is not None)
    value = found[group]
    if is_placeholder(value):
        return None
    is_left = is_ordinary_bare(found) if group == "bare" else is_too_little(name, value)
    return None if is_left else (group, _id_of(name))


def _id_of(name: str) -> str:
    return "api-key" if name == "key" else name


_HEADERS: Final[dict[str, tuple[re.Pattern[str], _NameOf]]] = {
    "auth": (_HEADER, _header_id),
    "cookie": (_HEADER, _header_id),
    "bearer": (_BEARER, _bearer_id),
}
