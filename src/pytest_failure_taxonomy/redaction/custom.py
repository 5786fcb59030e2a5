"""The user's own patterns: checked when they are read, and unable to hang the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pytest_failure_taxonomy.redaction.marks import MARK, Note

Spans = Sequence[tuple[int, int]]
Guard = Callable[[str, str], Spans | None]
"""Searches for a pattern in a text, and returns what `find_spans` would, or None if that took too
long. It runs `find_spans` where it can be stopped: in a second interpreter."""

_ESCAPE_OR_CLASS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d*,\d*\}|\{\d{3,}\}")
_REPEATED_GROUP: Final = re.compile(r"\)(?:[*+]|\{)")
_BACKWARDS: Final = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")

_MOST_WITHOUT_GUARD: Final = {0: 10_000_000, 1: 10_000, 2: 400}
"""Characters of a line that a pattern may see without a guard, by its unbounded repeats. A search
takes about that number to the power of repeats plus one."""


class CustomPatterns:
    """The patterns of `--failure-taxonomy-redact`, in their order."""

    def __init__(self, patterns: Sequence[str], guard: Guard | None) -> None:
        self._patterns = tuple(patterns)
        self._guard = guard

    def remove(self, text: str, note: Note) -> str:
        """Return the text without what the patterns match; marks in it stay whole.

        A text that a pattern could not be searched in, in time, is replaced as a whole.
        """
        for number, pattern in enumerate(self._patterns, start=1):
            parts = []
            position = 0
            for found in [*MARK.finditer(text), None]:
                end = found.start() if found else len(text)
                removed = self._without(text[position:end], pattern, number, note)
                if removed is None:
                    note(f"pattern-{number}")
                    return f"[REDACTED: pattern {number} took too long]"
                parts.append(removed)
                if found:
                    parts.append(found.group())
                    position = found.end()
            text = "".join(parts)
        return text

    def _without(self, text: str, pattern: str, number: int, note: Note) -> str | None:
        if not text:
            return text
        spans = self._guard(pattern, text) if self._guard else _spans_of_lines(pattern, text)
        if spans is None:
            return None
        parts = []
        position = 0
        for start, end in spans:
            if start >= position and end > start:
                parts += [text[position:start], note(f"pattern-{number}")]
                position = end
        return "".join([*parts, text[position:]])


def check_patterns(patterns: Sequence[str]) -> list[str]:
    """Return what is wrong with the user's patterns, one sentence each, in their order."""
    return [problem for pattern in patterns for problem in _problems(pattern)]


def find_spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """Return where the pattern matches, or its group `secret` or 1 if it has groups."""
    compiled = re.compile(pattern)
    names = list(compiled.groupindex)
    group: int | str = names[0] if names else 1 if compiled.groups else 0
    return [
        found.span(group if found.start(group) >= 0 else 0) for found in compiled.finditer(text)
    ]


def _problems(pattern: str) -> Iterator[str]:
    where = repr(pattern)
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield f"{where}: is no regular expression: {error}; special characters need a backslash"
        return
    if compiled.search("") is not None:
        yield f"{where}: matches the empty text; it must name at least one character to remove"


def _spans_of_lines(pattern: str, text: str) -> Spans | None:
    """Search line by line, as far as that ends in a bearable time."""
    most = _longest_line(pattern)
    spans = []
    start = 0
    for line in text.splitlines(keepends=True):
        if len(line) > most:
            return None
        spans += [(start + begin, start + end) for begin, end in find_spans(pattern, line)]
        start += len(line)
    return spans


def _longest_line(pattern: str) -> int:
    plain = _ESCAPE_OR_CLASS.sub("x", pattern)
    if _REPEATED_GROUP.search(plain) or _BACKWARDS.search(pattern):
        return 16
    return _MOST_WITHOUT_GUARD.get(len(_UNBOUNDED.findall(plain)), 40)
