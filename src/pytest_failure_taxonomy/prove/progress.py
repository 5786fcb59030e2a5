"""Show what is being tried between the first line and the last."""

from __future__ import annotations

import os
import sys
import time
from typing import ClassVar, Final

from pytest_failure_taxonomy.taxonomy.words import seconds_words

_PAUSE_SECONDS: Final = 0.2
"""Between two changes of the line on a terminal."""
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A line on stderr that is written again and again; in a file a line now and then.

    Attributes:
        indent: what a line begins with.
        pause_of_lines: seconds between two lines of a file or a page of CI.
    """

    indent: ClassVar[str] = "   "
    pause_of_lines: ClassVar[float] = 15.0

    def __init__(self) -> None:
        is_dumb = os.environ.get("TERM") == "dumb"
        self._is_terminal = sys.stderr.isatty() and not is_dumb
        self._pause = _PAUSE_SECONDS if self._is_terminal else self.pause_of_lines
        self._next = time.monotonic() + self._pause

    def show(self, what: str, number: int, most: int, until: float) -> None:
        """Say what is being tried, unless it was said a moment ago.

        Args:
            what: for people: `run pair`.
            number: of the one that begins; 0 for none.
            most: how many there are at most; 0 if that isn't known.
            until: when the time for this cause is over, on the monotonic clock.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._pause
        count = f" {number:,}" if number else ""
        count += f" of at most {most:,}" if most else ""
        left = seconds_words(max(0.0, until - now))
        line = f"{self.indent}{what}{count}, {left} left"
        if self._is_terminal:
            line = f"{_CLEAR}{line}"
        self._write(line if self._is_terminal else f"{line}\n")

    def clear(self) -> None:
        """Make room for a line of the answer."""
        if self._is_terminal:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
