"""Secrets beside a name in markup, in pairs and in files of logins.

Such as `<password>…</password>`, `name="csrf_token" value="…"`, `('password', '…')`, and
`machine example.org login me password …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final

from pytest_failure_taxonomy.redaction.marks import Removal, Search, removal_of_group
from pytest_failure_taxonomy.redaction.ordinary_values import (
    is_code,
    is_placeholder,
    is_too_little,
    looks_random,
)
from pytest_failure_taxonomy.redaction.secret_names import find_secret_key, mark_id

_UNMARKED: Final = r"(?!\[REDACTED:)"
_NAME: Final = r"(?P<name>[\w.:-]{2,100}+)"
_OPEN: Final = r"\\{0,2}[\"']"
_VALUE: Final = rf"{_UNMARKED}(?P<value>[^\"'<>\n\\]{{1,2000}}+)"

_ELEMENT: Final = re.compile(
    rf"(?:<|&lt;){_NAME}(?:\s[^<>\n]{{0,200}}?)?(?:>|&gt;)\s{{0,40}}"
    rf"{_UNMARKED}(?P<value>(?:(?!&lt;)[^<>\s]){{1,2000}}+)(?=\s{{0,40}}(?:</|&lt;/))",
    re.IGNORECASE | re.ASCII,
)
_NAME_OF: Final = (
    rf"(?:name|key|id|field|property|variable|header)(?:{_OPEN})?\s{{0,4}}[:=]\s{{0,4}}"
)
_VALUE_OF: Final = rf"(?:value|content)(?:{_OPEN})?\s{{0,4}}[:=]\s{{0,4}}"
# What may stand between the two: more attributes or entries, but no end of a tag or an object.
_BETWEEN: Final = r"[^<>{}\[\]()]{0,200}?"
_VALUE_SIGN: Final = re.compile(_VALUE_OF)
_QUOTED_VALUE: Final = re.compile(rf"{_VALUE_OF}{_OPEN}{_VALUE}{_OPEN}[\s,;]")
_NAME_SIGN: Final = re.compile(rf"{_NAME_OF}|type\s?=")
_NAME_THEN_VALUE: Final = re.compile(
    rf"(?<![\w-]){_NAME_OF}(?:{_OPEN})?{_NAME}(?:{_OPEN})?(?=[\s,;]){_BETWEEN}(?<![\w-]){_VALUE_OF}"
    rf"(?:{_OPEN}{_VALUE}|{_UNMARKED}(?P<bare>[^\s\"'<>{{}},]{{1,2000}}+))",
    re.IGNORECASE | re.ASCII,
)
_VALUE_THEN_NAME: Final = re.compile(
    rf"(?<![\w-]){_VALUE_OF}{_OPEN}{_VALUE}{_OPEN}(?=[\s,;]){_BETWEEN}"
    rf"(?<![\w-])(?:{_NAME_OF}{_OPEN}{_NAME}|type\s?=\s?{_OPEN}(?P<type>password)){_OPEN}",
    re.IGNORECASE | re.ASCII,
)
_TYPE_THEN_VALUE: Final = re.compile(
    rf"(?<![\w-])(?P<type>type)\s?=\s?{_OPEN}password{_OPEN}(?=\s){_BETWEEN}(?<![\w-])"
    rf"value\s?=\s?{_OPEN}{_VALUE}",
    re.IGNORECASE,
)
# A call has a name before its bracket: `get('password', 'x')` asks for one.
_TUPLE: Final = re.compile(
    rf"(?<![\w\])])[(\[]\s{{0,4}}[bru]?{_OPEN}{_NAME}{_OPEN}\s?,\s{{0,4}}[bru]?{_OPEN}"
    rf"{_UNMARKED}(?P<value>[^\"'\n\\]{{1,2000}}+){_OPEN}\s{{0,4}},?\s{{0,4}}[)\]]",
    re.IGNORECASE | re.ASCII,
)
_NETRC: Final = re.compile(
    r"(?<![\w-])(?:machine\s{1,20}(?P<host>[^\s\"']{1,253})|default)\s{1,20}"
    rf"(?P<login>(?:(?:login|account|user)\s{{1,20}}[^\s\"']{{1,200}}\s{{1,20}}){{0,2}})"
    rf"(?P<name>password)\s{{1,20}}{_UNMARKED}(?P<value>[^\s\"'\\]{{1,400}}+)",
    re.ASCII,
)
_WORDS: Final = re.compile(r"[A-Za-z _.,:;!?-]*")
_ENDS_OF_NAMES: Final = {
    "pass": ("ssword", "sswd", "ssphrase", "pass"),
    "pwd": ("pwd",),
    "secret": ("secret",),
    "token": ("token",),
    "credential": ("ials", "ial"),
    "key": ("key",),
    "auth": ("auth", "authorization"),
    "cookie": ("cookie",),
}
"""The ends of names in a tuple, by the word that is in them."""
_BRACKET: Final = re.compile(r"[<>{}\[\]()]")
_LONGEST_BETWEEN: Final = 400
"""Characters between the sign of a name and that of its value."""


def remove_pairs(text: str, lower: str, words: Collection[str], search: Search) -> str:
    """Return the text without the secrets that stand beside a name that is no assignment.

    Args:
        text: any text.
        lower: the same in lower case.
        words: which of the words that names of secrets have are in it.
        search: removes what was found.
    """
    for expression, id_of in _expressions(lower, words):
        text = search.without_matches(text, expression, partial(_removal, id_of))
    return text


def _expressions(
    lower: str, words: Collection[str]
) -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    """Yield what may find something: a search takes longer than looking for its signs."""
    if "</" in lower or "&lt;/" in lower:
        yield _ELEMENT, _id_of_value
    if _may_have_name_and_value(lower, words):
        yield _NAME_THEN_VALUE, _id_of_value
        yield _VALUE_THEN_NAME, _id_of_value
        if "type" in lower:
            yield _TYPE_THEN_VALUE, _id_of_value
    if "'," in lower or '",' in lower:
        ends = [end for word, ends in _ENDS_OF_NAMES.items() if word in words for end in ends]
        if any(f"{end}'," in lower or f'{end}",' in lower for end in ends):
            yield _TUPLE, _id_in_tuple
    if "pass" in words and any(
        _NETRC.match(lower, at) for word in ("machine", "default") for at in _places(lower, word)
    ):
        yield _NETRC, _id_in_netrc


def _may_have_name_and_value(lower: str, words: Collection[str]) -> bool:
    """Return whether a value has a secret's name before it, or is quoted and has it behind.

    Between the two there is no bracket, which source code is full of.
    """
    for at in (*_places(lower, "value"), *_places(lower, "content")):
        if not _VALUE_SIGN.match(lower, at):
            continue
        before = _BRACKET.split(lower[max(0, at - _LONGEST_BETWEEN) : at])[-1]
        if any(word in before for word in words) and _NAME_SIGN.search(before):
            return True
        if quoted := _QUOTED_VALUE.match(lower, at):
            behind = lower[quoted.end() : quoted.end() + _LONGEST_BETWEEN]
            if any(word in behind for word in words):
                return True
    return False


def _places(text: str, word: str) -> Iterator[int]:
    """Yield where the word stands in the text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _removal(id_of: Callable[[re.Match[str]], str], found: re.Match[str]) -> Removal | None:
    name = id_of(found)
    group = "value" if found["value"] is not None else "bare"
    return removal_of_group(found, group, name) if name else None


def _id_of_value(found: re.Match[str]) -> str:
    """Return the id of the secret; the empty text where the value is none."""
    groups = found.groupdict()
    value = groups["value"] or groups.get("bare") or ""
    name = find_secret_key("password" if groups.get("type") else groups["name"]).lower()
    is_word = groups["value"] is None and is_code(value)
    if not name or not value.strip() or is_placeholder(value) or is_word:
        return ""
    return "" if is_too_little(name, value) else mark_id(name)


def _id_in_tuple(found: re.Match[str]) -> str:
    """Two words in brackets are names: `('password', 'email')`."""
    value = found["value"]
    if _WORDS.fullmatch(value) and not looks_random(value):
        return ""
    return _id_of_value(found)


def _id_in_netrc(found: re.Match[str]) -> str:
    if not found["login"] and not looks_random(found["value"]):
        return ""
    return "" if is_placeholder(found["value"]) else "password"
