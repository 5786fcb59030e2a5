"""Take secrets out of what was seen, before it goes anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy.report.text import change_texts, encodable
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

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
_SUSPICIOUS: Final = re.compile(
    "[A-Za-z]{20}|[A-Za-z0-9]{0,15}[0-9][A-Za-z0-9]{15}|[A-Za-z0-9]{15}[0-9]"
    "|://"
    r"|(?:pass\w{0,12}|pwd|token|secret|key|auth\w{0,12}|cred\w{0,12}|cookie|bearer|private)"
    r"[\"'\])]{0,2}[\s=:,]",
    re.IGNORECASE,
)
"""No text without any of this holds a secret of a known form. Longer runs are left to who knows."""
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
        self._redact: Redact | None = None
        self._elsewhere: dict[str, str] = {}
        self._redact_elsewhere: Redact | None = None
        self._environment: dict[Any, Any] = {}
        self._values: tuple[str, ...] = ()

    def learn(self, environment: Mapping[str, str]) -> None:
        """Know the secrets of another process's environment, too."""
        if environment.items() <= self._elsewhere.items():
            return
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        self._elsewhere |= environment
        self._redact_elsewhere = Redactor(environment=self._elsewhere).redact

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""
        if self._redact is None:
            if not self._patterns and not self._elsewhere and self._is_plain(text):
                return text
            try:
                self._redact = _load(self._patterns).redact
            except Exception:  # noqa: BLE001 - no file can be opened, say; then nothing is told
                return UNSEARCHABLE
        if self._redact_elsewhere is not None:
            text = self._redact_elsewhere(text)
        return self._redact(text)

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value without its secrets, also those that only their keys give away."""
        return change_texts(_load(self._patterns).redact_json(value), self.redact)

    def _is_plain(self, text: str) -> bool:
        if _RUN_ID.fullmatch(text):
            return True
        if len(text) > _MAX_PLAIN or _SUSPICIOUS.search(text) is not None:
            return False
        # Comparing the mapping beneath `os.environ` is quick, going through all of it is not.
        environment = getattr(os.environ, "_data", os.environ)
        if environment != self._environment:
            self._environment = dict(environment)
            self._values = tuple(
                value
                for name, value in os.environ.items()
                if len(value) >= _SHORTEST_VALUE and _is_suspicious(name)
            )
        return not any(value in text for value in self._values)


def changed_secrets(before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that may be secret and were not so before."""
    return {
        encodable(name): encodable(value)
        for name, value in os.environ.items()
        if before.get(name) != value and _is_suspicious(name)
    }


def _is_suspicious(name: str) -> bool:
    return name not in _FOLDERS and any(each in name.upper() for each in _SUSPICIOUS_NAMES)


def redacted(one: T, redact: Redact) -> T:
    """Return a value with every text in it redacted, those of the values in it included."""
    changes = {
        name: changed
        for name, each in to_dict(one).items()
        if name not in _KEPT and (changed := _redacted(each, redact)) is not each
    }
    return replace(one, **changes) if changes else one


def _redacted(each: Any, redact: Redact) -> Any:
    if type(each) is str:  # no enum
        shown = redact(each)
        return each if shown == each else shown
    if hasattr(each, "__slots__"):
        return redacted(each, redact)
    return each


def _load(patterns: tuple[str, ...]) -> Redactor:
    from pytest_failure_taxonomy.redaction.redactor import Redactor

    redactor = Redactor(patterns)
    redactor.redact("it loads the rest with the first text")
    return redactor
