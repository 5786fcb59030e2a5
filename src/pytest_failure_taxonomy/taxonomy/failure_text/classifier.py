"""Classify a failure of which only a text is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from pytest_failure_taxonomy.taxonomy.failure_text.exception_types import (
    failure_type_of_heads,
)
from pytest_failure_taxonomy.taxonomy.recovery import FailureType

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.failure_text.heads import Head
    from pytest_failure_taxonomy.taxonomy.failure_text.phrases import Patterns

MAX_WIDER_TEXT: Final = 200_000
"""Characters at the start and at the end of a text that are searched for our own patterns."""

_LETTERS: Final = bytes(
    ord(chr(each).lower()) if chr(each).isascii() and chr(each).isalpha() else ord(" ")
    for each in range(256)
)
"""A translation of bytes that leaves the words of a text, in lower case, and blanks."""


class EarlierAttempt(Protocol):
    """An earlier attempt; any object with these two attributes will do."""

    @property
    def subtask_id(self) -> str:
        """The subtask that was attempted."""

    @property
    def approach(self) -> str:
        """What was tried, in words."""


History = Sequence[str] | Sequence[EarlierAttempt]


def classify_failure(
    error: str,
    subtask_id: str,
    *,
    history: History | None = None,
    approach: str | None = None,
) -> FailureType:
    """Return the failure type of what a failed command printed.

    The exception that a traceback names decides first; of a chain it is the last one. Then come the
    diagnostics of compilers and test runners, the published phrases in their order, our own
    phrases, and last the earlier attempts.

    Args:
        error: What was printed: a message, a traceback, a compiler's or a test runner's output.
        subtask_id: The subtask that failed.
        history: Earlier attempts, the oldest first: either approaches as strings, all of this
            subtask, or objects with `subtask_id` and `approach`; those of other subtasks are
            ignored.
        approach: What this attempt tried; without it no repetition can be found.

    Raises:
        TypeError: `error` is not a string, or `history` is one.
    """
    if not isinstance(error, str):
        raise TypeError(f"error: {error!r} is not a string; give what was printed")
    if isinstance(history, str):
        raise TypeError("history: got a string; give a list of strings or of attempts")
    found = _by_text(error)
    if found is not FailureType.UNKNOWN or not history or approach is None:
        return found
    from pytest_failure_taxonomy.taxonomy.recovery import is_circular_fix

    approaches = [
        each if isinstance(each, str) else each.approach
        for each in history
        if isinstance(each, str) or each.subtask_id == subtask_id
    ]
    is_circular = is_circular_fix(approach, approaches)
    return FailureType.CIRCULAR_FIX if is_circular else FailureType.UNKNOWN


def _by_text(text: str) -> FailureType:
    from pytest_failure_taxonomy.taxonomy.failure_text import phrases
    from pytest_failure_taxonomy.taxonomy.failure_text.heads import deciding_heads

    heads = deciding_heads(text)
    typed = failure_type_of_heads(heads)
    if typed is not None and typed is not FailureType.UNKNOWN:
        return typed
    excerpt = _Excerpt(text)
    if excerpt.has(phrases.DIAGNOSTICS):
        return FailureType.BROKEN_BUILD
    if typed is not None:
        return typed
    if excerpt.has(phrases.REFUSALS):
        return FailureType.BROKEN_BUILD
    if excerpt.has(phrases.VERDICTS):
        return FailureType.VERIFICATION_FAILED
    return _by_phrases(text.lower(), excerpt, heads)


def _by_phrases(lowered: str, excerpt: _Excerpt, heads: tuple[Head, ...]) -> FailureType:
    """Search for the published phrases in their order, and for ours between and after them."""
    from pytest_failure_taxonomy.taxonomy.failure_text import phrases

    published = None
    is_possible = any(part in lowered for part in phrases.PARTS_OF_PHRASES)
    if is_possible and any(phrase in lowered for _, each in phrases.PHRASES for phrase in each):
        meant = re.sub(phrases.FALSE_FRIENDS, " ", lowered, flags=re.MULTILINE)
        published = next(
            (kind for kind, each in phrases.PHRASES if any(one in meant for one in each)), None
        )
    if published is FailureType.BROKEN_BUILD:
        return published
    if excerpt.has(phrases.TALLIES):
        return FailureType.VERIFICATION_FAILED
    is_limited = excerpt.has(phrases.RATE_LIMITS)
    if not is_limited and excerpt.has(phrases.OVERFLOWS):
        return FailureType.CONTEXT_EXHAUSTED
    ignored = FailureType.CONTEXT_EXHAUSTED if is_limited else None
    is_crash = heads != () and phrases.CRASHES.issuperset(heads)
    if published not in (None, ignored) and not (is_crash or excerpt.has(phrases.CRASH_REPORTS)):
        return published
    found = next((each for each, wider in phrases.WIDER_PHRASES if excerpt.has(wider)), None)
    return FailureType.UNKNOWN if found in (None, ignored) else found


class _Excerpt:
    """The start and the end of a text, to be searched for patterns."""

    def __init__(self, text: str) -> None:
        if len(text) > 2 * MAX_WIDER_TEXT:
            text = f"{text[:MAX_WIDER_TEXT]}\n{text[-MAX_WIDER_TEXT:]}"
        # With a newline in front, each line has one before it.
        self._text = f"\n{text}"
        self._lowered = self._text.lower()
        self._words = frozenset(text.encode("utf-8", "replace").translate(_LETTERS).split())

    def has(self, patterns: Patterns) -> bool:
        """Tell whether one of the patterns is in the text."""
        text = self._lowered if patterns.in_lower_case else self._text
        return any(
            words in text and (not expression or _compiled(expression).search(text) is not None)
            for word, group in _by_word(patterns)
            if not word or word in self._words
            for words, expression in group
        )


@cache
def _by_word(patterns: Patterns) -> tuple[tuple[bytes, tuple[tuple[str, str], ...]], ...]:
    """Group patterns by a word that a text must contain, empty if there is none."""
    groups: dict[bytes, list[tuple[str, str]]] = {}
    for words, expression in (*((each, "") for each in patterns.words), *patterns.expressions):
        lowered = words.lower().encode()
        inner = re.findall(rb"(?<=[^a-z])[a-z]{2,}(?=[^a-z])", lowered)
        word = max(inner or re.findall(rb"[a-z]+", lowered), key=len, default=b"")
        groups.setdefault(word, []).append((words, expression))
    return tuple((word, tuple(group)) for word, group in groups.items())


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    # `re` finds a literal newline much faster than it tries `^` at each character.
    if expression.startswith("^"):
        expression = rf"\n{expression[1:]}"
    return re.compile(expression, re.MULTILINE)
