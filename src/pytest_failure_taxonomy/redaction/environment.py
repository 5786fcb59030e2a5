"""Values of environment variables whose names say that they are secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_failure_taxonomy.redaction.marks import Note, cuts
from pytest_failure_taxonomy.redaction.urls import url_passwords
from pytest_failure_taxonomy.taxonomy.values import value

_SECRET_NAME: Final = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY)\d?(?![A-Z0-9])"
    r"|(?:^|_)(?:PASS|PWD|AUTH|CREDENTIALS?|(?:ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|ACCOUNT|DEPLOY|SSH)_?KEY)"
    r"(?![A-Z])",
    re.IGNORECASE,
)
_NOT_THE_SECRET: Final = re.compile(
    r"^(?:OLD)?PWD$|_(?:FILE|PATH|DIR|SOCK|SOCKET|URL|URI|ENDPOINT|HOST|PORT|USER|USERNAME|NAME|TYPE|METHOD|MODE"
    r"|TTL|TIMEOUT|EXPIRES|EXPIRY|EXPIRATION|LENGTH|ENABLED|REQUIRED|ISSUER|AUDIENCE|ALGORITHM|SCOPES?)$",
    re.IGNORECASE,
)

SHORTEST_VALUE: Final = 6
_LONGEST_VALUE: Final = 20_000
_SURE_LENGTH: Final = 8
"""Shorter values are removed only where no letter or digit touches them."""
_MOST_VALUES: Final = 200
FEWEST_OF_CUT: Final = 4
"""Characters of a value's start or end that give it away beside a cut."""

_MOST_OF_CUT: Final = 400
"""Characters of a value's start or end looked for at a cut."""

_ORDINARY: Final = frozenset(
    [
        "true",
        "false",
        "none",
        "null",
        "yes",
        "no",
        "on",
        "off",
        "enabled",
        "disabled",
        "default",
        "example",
        "changeme",
        "change-me",
        "required",
        "optional",
        "test",
        "testing",
        "test123",
        "password",
        "passw0rd",
        "password1",
        "secret",
        "token",
        "admin",
        "root",
        "user",
        "guest",
        "dummy",
        "fake",
        "mock",
        "sample",
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "rabbitmq",
        "redis",
        "localhost",
        "development",
        "production",
        "staging",
    ]
)
_PLAIN_WORD: Final = re.compile(r"[a-z]{1,11}|[A-Z]{1,11}|[A-Z]?[a-z]{1,10}|[0-9.]{1,7}|\s*")
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@ -]{0,23}){1,30}")


@value
class _Secret:
    name: str
    forms: tuple[str, ...]


class EnvironmentValues:
    """The secret values that the environment holds or has held since the first text.

    Tests change the environment: a value that is gone by the time a text is written may still
    stand in it.
    """

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self._environment = environment
        self._seen: dict[Any, Any] = {}
        self._secrets: dict[str, _Secret] = {}

    def remove(self, text: str, note: Note, *, cut: bool) -> str:
        """Return the text without the values, in any form that they are commonly written in.

        Args:
            text: any text.
            note: counts a removal and returns its mark.
            cut: whether the text has places where something was cut out, perhaps of a value.
        """
        self._refresh()
        for secret in self._secrets.values():
            for form in secret.forms:
                if form in text:
                    text = _without_value(text, form, secret.name, note)
                if cut and len(form) >= _SURE_LENGTH:
                    text = _without_cut_value(text, form, secret.name, note)
        return text

    def _refresh(self) -> None:
        # Comparing the mapping beneath `os.environ` takes 2 µs, decoding all of it 100.
        source: Any = os.environ if self._environment is None else self._environment
        raw = getattr(source, "_data", source)
        if raw == self._seen:
            return
        # pytest itself names the test and its phase there, so that something changes all the time.
        changed = [each for each in raw.items() if self._seen.get(each[0]) != each[1]]
        self._seen = dict(raw)
        found = [
            (name, secret_value)
            for name, text in (map(os.fsdecode, each) for each in changed)
            for secret_value in secret_values(name, text)
        ]
        if not found:
            return
        for name, secret_value in found:
            self._secrets.pop(secret_value, None)
            self._secrets[secret_value] = _Secret(name=name, forms=_forms(secret_value))
        for oldest in list(self._secrets)[:-_MOST_VALUES]:
            del self._secrets[oldest]
        # A value that holds another is removed first.
        self._secrets = dict(sorted(self._secrets.items(), key=lambda each: -len(each[0])))


def secret_values(name: str, text: str) -> list[str]:
    """Return what of an environment variable is secret: all, the password of a URL, or nothing."""
    passwords = [found for found in url_passwords(text) if not _is_ordinary(found)]
    is_secret = _SECRET_NAME.search(name) is not None and _NOT_THE_SECRET.search(name) is None
    if is_secret and "://" not in text and not _is_ordinary(text):
        passwords.append(text)
        # Keys and the like are shown a line at a time, too.
        passwords += [line for line in text.split("\n") if len(line) >= 16 and line != text]
    return [each.strip() for each in passwords]


def _is_ordinary(text: str) -> bool:
    text = text.strip()
    return (
        not SHORTEST_VALUE <= len(text) <= _LONGEST_VALUE
        or text.lower() in _ORDINARY
        or _PLAIN_WORD.fullmatch(text) is not None
        or _PATH.fullmatch(text) is not None
        or len(set(text)) < FEWEST_OF_CUT
    )


def _forms(text: str) -> tuple[str, ...]:
    """Return the value as it is, in a repr, in JSON, in a URL, and in base64 of itself and more."""
    import base64
    from urllib.parse import quote, quote_plus

    raw = text.encode("utf-8", "surrogateescape")
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
        marks = [note(f"env:{name}") for _ in pieces[1:]]
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
        parts += [text[position : cut_start - before], note(f"env:{name}"), text[cut_start:cut_end]]
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
