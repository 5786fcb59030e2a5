"""Take secrets out of what was seen, before it goes anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy.recorder.suspicion import Suspicion, is_suspicious_name
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
        self._suspicion = Suspicion()

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
            if not self._patterns and not self._elsewhere and self._suspicion.is_none_of((text,)):
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
        if self._redactor is None and self._suspicion.is_none_of(texts):
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
            known = self._suspicion.variables.items()
            self.learn({name: held for name, held in known if os.environ.get(name) != held})
        return self._redactor


def changed_secrets(before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that may be secret and were not so before."""
    return {
        encodable(name): encodable(value)
        for name, value in os.environ.items()
        if before.get(name) != value and is_suspicious_name(name)
    }


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
        elif each is not None and hasattr(each, "__slots__"):
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
