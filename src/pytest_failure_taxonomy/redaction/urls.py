"""Secrets in URLs: passwords, tokens in the place of a user, and signatures."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from pytest_failure_taxonomy.redaction.marks import Note
from pytest_failure_taxonomy.redaction.ordinary_values import is_placeholder, looks_random

_UNMARKED: Final = r"(?!\[REDACTED:)"
_PASSWORD: Final = re.compile(
    rf"(?P<start>://[^\s/:@\"'<>?#\[\]]{{0,100}}+:){_UNMARKED}(?P<value>[^\s/\"'<>?#]{{1,400}})(?=@)"
)
# One that should have been encoded. `host:8080/path@x` has a port, and `{host}:{port}/@x` may.
_PASSWORD_WITH_SLASH: Final = re.compile(
    rf"(?P<start>://[^\s/:@\"'<>?#\[\]]{{0,100}}+:){_UNMARKED}(?![0-9]{{1,5}}/)"
    r"(?P<value>[^\s@/\"'<>?#{}]{0,100}+[/?#][^\s@\"'<>{}]{0,300}+)(?=@[\w.-]{1,253}(?:[:/?#\s\"',;)]|$))"
)
_USER: Final = re.compile(
    rf"(?P<start>://){_UNMARKED}(?P<value>[^\s/:@\"'<>?#{{}}\[\]]{{8,400}})(?=:?@)"
)
_SIGNATURE: Final = re.compile(
    r"(?P<start>(?<=[?&;])(?:amp;)?(?:sig(?:nature)?|x-(?:amz|goog)-signature)=)"
    + _UNMARKED
    + r"(?P<value>[A-Za-z0-9%+/_=~-]{16,1000}+)",
    re.IGNORECASE | re.ASCII,
)
_NAME_WITH_NUMBER: Final = re.compile(r"[A-Za-z._-]+[0-9]{0,4}")
_SHORTEST_ALONE: Final = 16
"""Letters and digits of a token in the place of a user: shorter ones are names."""


def remove_from_urls(text: str, note: Note) -> str:
    """Return the text without the passwords in its URLs, and without tokens in place of a user."""
    text = _PASSWORD.sub(lambda found: _without(found, note, "url-password"), text)
    text = _PASSWORD_WITH_SLASH.sub(lambda found: _without(found, note, "url-password"), text)
    return _USER.sub(lambda found: _without_user(found, note), text)


def remove_signatures(text: str, note: Note) -> str:
    """Return the text without the signatures in its URLs."""
    return _SIGNATURE.sub(lambda found: found["start"] + note("signature", found["value"]), text)


def _without(found: re.Match[str], note: Note, name: str) -> str:
    if is_placeholder(found["value"]):
        return found.group()
    return found["start"] + note(name, found["value"])


def _without_user(found: re.Match[str], note: Note) -> str:
    """Remove a user that is a token: it looks like chance, and is longer than names are."""
    value = found["value"]
    has_no_password = found.string[found.end()] == ":"
    shortest = 8 if has_no_password else _SHORTEST_ALONE
    if (
        len(value) < shortest
        or "@" in unquote(value)
        or _NAME_WITH_NUMBER.fullmatch(value)
        or not looks_random(value)
    ):
        return found.group()
    return _without(found, note, "url-token")
