"""Values of environment variables whose names say that they are secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from pytest_failure_taxonomy.redaction.known_values import KnownValues
from pytest_failure_taxonomy.redaction.marks import Note
from pytest_failure_taxonomy.redaction.urls import url_passwords

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

_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"
SHORTEST_VALUE: Final = 6
_LONGEST_VALUE: Final = 20_000
_MOST_VALUES: Final = 200
_FEWEST_DIFFERENT: Final = 4
"""Different characters of a secret: `xxxxxxxx` is none."""

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


class EnvironmentValues:
    """The secret values that the environment holds or has held since the first text.

    Tests change the environment: a value that is gone by the time a text is written may still
    stand in it.
    """

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self._environment = environment
        self._seen: dict[Any, Any] = {}
        self.known = KnownValues(_MOST_VALUES)

    def remove(self, text: str, note: Note, *, cut: bool) -> str:
        """Return the text without the values, in any form that they are commonly written in.

        Args:
            text: any text.
            note: counts a removal and returns its mark.
            cut: whether the text has places where something was cut out, perhaps of a value.
        """
        self._refresh()
        return self.known.remove(text, note, cut=cut)

    def _refresh(self) -> None:
        # Comparing the mapping beneath `os.environ` takes 2 µs, decoding all of it 100.
        source: Any = os.environ if self._environment is None else self._environment
        raw = getattr(source, "_data", source)
        if raw == self._seen:
            return
        # pytest itself names the test and its phase there, so that something changes all the time.
        # What stands in a node id is no variable of the user's.
        changed = [each for each in raw.items() if self._seen.get(each[0]) != each[1]]
        self._seen = dict(raw)
        self.known.add(
            (f"env:{name}", secret_value)
            for name, text in (map(os.fsdecode, each) for each in changed)
            if name != _CURRENT_TEST
            for secret_value in secret_values(name, text)
        )


def secret_values(name: str, text: str) -> list[str]:
    """Return what of an environment variable is secret: all, the password of a URL, or nothing."""
    passwords = [found for found in url_passwords(text) if not is_ordinary(found)]
    is_secret = _SECRET_NAME.search(name) is not None and _NOT_THE_SECRET.search(name) is None
    if is_secret and "://" not in text and not is_ordinary(text):
        passwords.append(text)
        # Keys and the like are shown a line at a time, too.
        passwords += [line for line in text.split("\n") if len(line) >= 16 and line != text]
    return [each.strip() for each in passwords]


def is_ordinary(text: str) -> bool:
    """Return whether the text stands in others' texts, too: a word, a small number, a path."""
    text = text.strip()
    return (
        not SHORTEST_VALUE <= len(text) <= _LONGEST_VALUE
        or text.lower() in _ORDINARY
        or _PLAIN_WORD.fullmatch(text) is not None
        or _PATH.fullmatch(text) is not None
        or len(set(text)) < _FEWEST_DIFFERENT
    )
