"""Read what any log may have: markers, and lines that look like an error's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from pytest_failure_taxonomy.logs.patterns import ERROR_WORDS
from pytest_failure_taxonomy.logs.reader import Line
from pytest_failure_taxonomy.taxonomy.reasons import marker_on_line, validate_marker

MAX_ERROR_LINES: Final = 20
"""Kept from the beginning, and as many from the end."""


class OtherOutput:
    """Note markers and lines of errors, whatever program has written them."""

    wants_all = False

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._first: list[Line] = []
        self._last: deque[Line] = deque(maxlen=MAX_ERROR_LINES)
        self.marker: str | None = None
        """The last one; `UNKNOWN` where it is not known."""
        self.marker_line: Line | None = None

    def feed(self, line: Line) -> None:
        """Take the next line."""
        name = marker_on_line(line.text)
        if name is not None:
            self.marker, self.marker_line = validate_marker(name, self._known), line
        elif ERROR_WORDS.search(line.text):
            if len(self._first) < MAX_ERROR_LINES:
                self._first.append(line)
            else:
                self._last.append(line)

    @property
    def error_lines(self) -> list[Line]:
        """The first and the last of them, in their order."""
        return [*self._first, *self._last]
