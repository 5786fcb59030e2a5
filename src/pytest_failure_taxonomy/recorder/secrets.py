"""Take secrets out of what was seen, before it goes anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy.report.limits import Redaction
from pytest_failure_taxonomy.report.text import change_texts, encodable
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.redactor import Redactor

Redact = Callable[[str], str]
"""Return a text without its secrets."""

T = TypeVar("T")

_KEPT: Final = frozenset(
    {
        *("nodeid", "phase", "worker", "kind", "source", "type", "module", "raised_in"),
        *("path", "function", "entry", "leaf"),
    }
)
"""Names, which hold no secret, and what a reader compares with other fields. They are searched when
the report is built, as everything is."""

UNSEARCHABLE: Final = "[REDACTED:unsearchable]"
"""Stands for a text that can't be searched."""

_MAX_PLAIN: Final = 200
_HEADS: Final = (
    *("pass", "pwd", "token", "secret", "key", "auth", "cred", "cookie", "bearer", "private"),
)
_NAMED: Final = re.compile(
    r"(?:pass\w{0,12}|pwd|token|secret|key|auth\w{0,12}|cred\w{0,12}|cookie|bearer|private)"
    r"[\"'\])]{0,2}[\s=:,]",
    re.IGNORECASE,
)
_RANDOM: Final = re.compile(
    "[A-Za-z]{20}|[A-Za-z0-9]{0,15}[0-9][A-Za-z0-9]{15}|[A-Za-z0-9]{15}[0-9]"
)
"""A text that has neither a word with a name before it, nor a password in a URL, nor what looks
random holds no secret of a known form. Longer texts are left to who knows."""
_ALPHANUMERIC: Final = bytes(97 if chr(code).isalnum() else 32 for code in range(128)).ljust(256)
_SHORTEST_RANDOM: Final = b"a" * 16
_RUN_ID: Final = re.compile("[0-9a-f]{32}")
_SHORTEST_VALUE: Final = 6
_SUSPICIOUS_NAMES: Final = ("PASS", "PWD", "TOKEN", "SECRET", "KEY", "AUTH", "CRED")
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""What the shell says of where it is and was."""


class Secrets:
    """Take the secrets out of the texts of one run.

    What knows them all is loaded with the first text that could hold one: a run that passes has
    nothing to show but its arguments.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Begin without having loaded anything.

        Args:
            patterns: the user's own regular expressions.
        """
        self._patterns = tuple(patterns)
        self._redactor: Redactor | None = None
        self._elsewhere: dict[str, str] = {}
        self._redact_elsewhere: Redact | None = None
        self._environment: dict[Any, Any] = {}
        self._values: frozenset[str] = frozenset()

    def learn(self, environment: Mapping[str, str]) -> None:
        """Know the secrets of another process's environment, too."""
        if environment.items() <= self._elsewhere.items():
            return
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        self._elsewhere |= environment
        self._redact_elsewhere = Redactor(environment=self._elsewhere).redact

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""
        if self._redactor is None:
            if not self._patterns and not self._elsewhere and self._is_plain(text):
                return text
            try:
                self._load()
            except Exception:  # noqa: BLE001 - no file can be opened, say; then nothing is told
                return UNSEARCHABLE
        if self._redact_elsewhere is not None:
            text = self._redact_elsewhere(text)
        return self._load().redact(text)

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether it is sure that none of the texts holds a secret: all are searched at once.

        A user's pattern may ask for a text's start or end, so then they have to be looked at one by
        one; nor are the secrets of other processes' environments looked for here.
        """
        if self._patterns or self._elsewhere:
            return False
        if self._redactor is None and all(self._is_plain(text) for text in texts):
            return True
        try:
            return self._load().holds_none(texts)
        except Exception:  # noqa: BLE001 - then each of them will tell
            return False

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value without its secrets, also those that only their keys give away."""
        return change_texts(self._load().redact_json(value), self.redact)

    def _load(self) -> Redactor:
        if self._redactor is None:
            from pytest_failure_taxonomy.redaction.redactor import Redactor

            redactor = Redactor(self._patterns)
            redactor.redact("it loads the rest with the first text")
            self._redactor = redactor
        return self._redactor

    def _is_plain(self, text: str) -> bool:
        if _RUN_ID.fullmatch(text):
            return True
        if len(text) > _MAX_PLAIN or _is_suspicious_text(text):
            return False
        # Comparing the mapping beneath `os.environ` is quick, going through all of it is not.
        environment = getattr(os.environ, "_data", os.environ)
        if environment != self._environment:
            self._learn_changes(environment)
        return not any(value in text for value in self._values)

    def _learn_changes(self, environment: Mapping[Any, Any]) -> None:
        """Know the values that may be secret, those that are gone again included."""
        known = self._environment
        # pytest itself names the test and its phase there, so that something changes all the time.
        changed = [each for each in environment.items() if known.get(each[0]) != each[1]]
        self._environment = dict(environment)
        self._values |= {
            value
            for name, value in (map(os.fsdecode, each) for each in changed)
            if len(value) >= _SHORTEST_VALUE and _is_suspicious_name(name)
        }


def changed_secrets(before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that may be secret and were not so before."""
    return {
        encodable(name): encodable(value)
        for name, value in os.environ.items()
        if before.get(name) != value and _is_suspicious_name(name)
    }


def _is_suspicious_text(text: str) -> bool:
    """Tell whether a text may hold a secret; the expressions are tried where they may match.

    They take a hundred times as long as looking for a word, or for a run of letters and digits.
    """
    lower = text.lower()
    if "://" in text or (any(head in lower for head in _HEADS) and _NAMED.search(text)):
        return True
    runs = text.encode("latin-1", "replace").translate(_ALPHANUMERIC)
    return _SHORTEST_RANDOM in runs and _RANDOM.search(text) is not None


def _is_suspicious_name(name: str) -> bool:
    return name not in _FOLDERS and any(each in name.upper() for each in _SUSPICIOUS_NAMES)


def redacted(one: T, redaction: Redaction) -> T:
    """Return a value with every text in it redacted, those of the values in it included."""
    texts: list[str] = []
    _gather(one, texts)
    if redaction.holds_none(texts):
        return one
    changed: T = _redacted(one, redaction.redact)
    return changed


def _gather(one: Any, texts: list[str]) -> None:
    for name in _searched(one.__class__):
        each = getattr(one, name)
        if type(each) is str:  # no enum
            texts.append(each)
        elif hasattr(each, "__slots__"):
            _gather(each, texts)


def _redacted(one: Any, redact: Redact) -> Any:
    changes: dict[str, Any] = {}
    for name in _searched(one.__class__):
        each = getattr(one, name)
        if type(each) is str:
            changes[name] = redact(each)
        elif hasattr(each, "__slots__"):
            changes[name] = _redacted(each, redact)
    return replace(one, **changes)


@cache
def _searched(kind: Any) -> tuple[str, ...]:
    """Return the fields of a value that may hold a secret."""
    return tuple(name for name in kind.__slots__ if name not in _KEPT)
