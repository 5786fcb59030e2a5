"""The user's own patterns: checked when they are read, and stopped when their time is up.

They are searched by the library `regex`, whose searches take a time limit; those of `re` can't be
stopped. It is imported only where there is such a pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import process_time
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.redaction.marks import MARK, Note

if TYPE_CHECKING:
    import regex

SECONDS_PER_TEXT: Final = 1.0
"""Of the process's time, for one pattern in one text. Others take a thousandth of that."""
SECONDS_PER_RUN: Final = 10.0
"""For one pattern in all texts of a run."""


class CustomPatterns:
    """The patterns of `--failure-taxonomy-redact`, in their order."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile them; `check_patterns` has found nothing wrong with them."""
        self._patterns = [_Pattern(number, each) for number, each in enumerate(patterns, start=1)]

    def remove(self, text: str, note: Note) -> str:
        """Return the text without what the patterns match; marks in it stay whole.

        Where a pattern's time is up, all goes that it has not been searched in.
        """
        for pattern in self._patterns:
            text = pattern.remove(text, note)
        return text

    def match_any(self, text: str) -> bool:
        """Return whether one of the patterns matches in the text, or could not be searched."""
        return any(pattern.is_found(text) for pattern in self._patterns)


class _Pattern:
    def __init__(self, number: int, pattern: str) -> None:
        self._number = number
        self._compiled = _compile(pattern)
        names = list(self._compiled.groupindex)
        self._group: int | str = names[0] if names else 1 if self._compiled.groups else 0
        self._seconds_left = SECONDS_PER_RUN

    def is_found(self, text: str) -> bool:
        return next(self._spans(text), None) is not None

    def remove(self, text: str, note: Note) -> str:
        parts = []
        position = 0
        for found in [*MARK.finditer(text), None]:
            end = found.start() if found else len(text)
            if end > position:
                parts.append(self._without(text[position:end], note))
            if found:
                parts.append(found.group())
                position = found.end()
        return "".join(parts)

    def _without(self, text: str, note: Note) -> str:
        parts = []
        position = 0
        for start, end in self._spans(text):
            if end < 0:
                note(f"pattern-{self._number}")
                parts.append(f"[REDACTED: pattern {self._number} took too long]")
                position = len(text)
            elif start >= position and end > start:
                parts += [text[position:start], note(f"pattern-{self._number}", text[start:end])]
                position = end
        return "".join([*parts, text[position:]])

    def _span_of(self, found: regex.Match[str]) -> tuple[int, int]:
        return found.span(self._group if found.start(self._group) >= 0 else 0)

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the pattern matches, or its group; at last an end of -1 if time was up."""
        limit = min(SECONDS_PER_TEXT, self._seconds_left)
        if limit <= 0:
            yield 0, -1
            return
        began = process_time()
        spans: list[tuple[int, int]] = []
        try:
            # What was found before the time was up is kept.
            spans.extend(map(self._span_of, self._compiled.finditer(text, timeout=limit)))
        except TimeoutError:
            spans.append((0, -1))
        self._seconds_left -= process_time() - began
        yield from spans


def check_patterns(patterns: Sequence[str]) -> list[str]:
    """Return what is wrong with the user's patterns, one sentence each, in their order."""
    return [problem for pattern in patterns for problem in _problems(pattern)]


def _compile(pattern: str) -> regex.Pattern[str]:
    import regex

    # As `re` reads it, and without its cache, which the user's tests may fill or clear.
    return regex.compile(pattern, regex.VERSION0, cache_pattern=False)


def _problems(pattern: str) -> Iterator[str]:
    import regex

    where = repr(pattern)
    try:
        compiled = _compile(pattern)
        matches_nothing = compiled.search("", timeout=SECONDS_PER_TEXT) is not None
    except (regex.error, ValueError, OverflowError, RecursionError, TimeoutError) as error:
        yield f"{where}: is no regular expression: {error}; special characters need a backslash"
        return
    if matches_nothing:
        yield f"{where}: matches the empty text; it must name at least one character to remove"
