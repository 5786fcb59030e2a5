"""Secrets in URLs: passwords, tokens in the place of a user, and signatures."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from pytest_failure_taxonomy.redaction.marks import Removal, Search, removal_of_group
from pytest_failure_taxonomy.redaction.ordinary_values import (
    is_of_chance,
    is_placeholder,
    looks_random,
)

_UNMARKED: Final = r"(?!\[REDACTED:)"
_PASSWORD: Final = re.compile(
    rf"(?P<start>://[^\s/:@\"'<>?#\[\]]{{0,100}}+:){_UNMARKED}(?P<value>[^\s/\"'<>?#]{{1,400}})(?=@)"
)
# One that should have been encoded. `host:8080/path@x` has a port, and `{host}:{port}/@x` may.
_PASSWORD_WITH_SLASH: Final = re.compile(
    rf"(?P<start>://[^\s/:@\"'<>?#\[\]]{{0,100}}+:){_UNMARKED}(?![0-9]{{1,5}}/)"
    r"(?P<value>[^\s@/\"'<>?#{}]{0,100}+[/?#][^\s@\"'<>{}]{0,300}+)(?=@[\w.-]{1,253}(?:[:/?#\s\"',;)]|$))"
)
_USER: Final = re.compile(rf"://{_UNMARKED}(?P<value>[^\s/:@\"'<>?#{{}}\[\]]{{8,400}})(?=:?@)")
# In JSON the `&` may be a code, and so may all signs of a URL that is in another one.
_SIGNATURE: Final = re.compile(
    r"(?:(?<=[?&;])|(?<=\\u0026)|(?<=%26)|(?<=%3F))"
    r"(?:sig(?:nature)?|x-(?:amz|goog)-signature)(?:=|%3D)"
    rf"{_UNMARKED}(?P<value>[A-Za-z0-9%+/_=~-]{{8,1000}}+)",
    re.IGNORECASE | re.ASCII,
)
_SHORTEST_SIGNATURE: Final = 16
"""Shorter ones may be words, and go only if they look random."""
_NAME_WITH_NUMBER: Final = re.compile(r"(?P<name>[A-Za-z._-]+)[0-9]{0,4}")
_PART_OF_NAME: Final = re.compile(r"[A-Za-z]+")
_SHORTEST_AVERAGE_OF_NAMES: Final = 3.5
"""Letters of the words of a name such as `DeployBotOfShop`."""
_SHORTEST_ALONE: Final = 16
"""Letters and digits of a token in the place of a user: shorter ones are names."""


def remove_from_urls(text: str, search: Search) -> str:
    """Return the text without the passwords in its URLs, and without tokens in place of a user."""
    text = search.without_matches(text, _PASSWORD, _password)
    text = search.without_matches(text, _PASSWORD_WITH_SLASH, _password)
    return search.without_matches(text, _USER, _token)


def remove_signatures(text: str, search: Search) -> str:
    """Return the text without the signatures in its URLs."""
    return search.without_matches(text, _SIGNATURE, _signature)


def _signature(found: re.Match[str]) -> Removal | None:
    value = found["value"]
    is_one = len(value) >= _SHORTEST_SIGNATURE or looks_random(value)
    return removal_of_group(found, "value", "signature") if is_one else None


def _password(found: re.Match[str]) -> Removal | None:
    is_none = is_placeholder(found["value"])
    return None if is_none else removal_of_group(found, "value", "url-password")


def _token(found: re.Match[str]) -> Removal | None:
    """Remove a user that is a token: it looks like chance, and is longer than names are."""
    value = found["value"]
    name = _NAME_WITH_NUMBER.fullmatch(value)
    has_no_password = found.string[found.end()] == ":"
    shortest = 8 if has_no_password else _SHORTEST_ALONE
    if (
        len(value) < shortest
        or "@" in unquote(value)
        or (name and not any(map(_is_no_name, _PART_OF_NAME.findall(name["name"]))))
        or is_placeholder(value)
        or not (name or looks_random(value))
    ):
        return None
    return removal_of_group(found, "value", "url-token")


def _is_no_name(letters: str) -> bool:
    return is_of_chance(letters, _SHORTEST_AVERAGE_OF_NAMES)
