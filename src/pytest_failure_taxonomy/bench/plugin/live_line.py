"""Show how far the cases are, behind a terminal's cursor, while pytest waits for one of them.

pytest writes a letter when the item of a case is over, and says nothing while the first item waits
for its case though others are done. What stands here is drawn to the right of what pytest has
written last, only as far as the line goes, and erased before pytest writes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

import pytest

_PAUSE_SECONDS: Final = 0.5
_ERASE: Final = "\x1b[K"
"""From the cursor to the end of its line."""


class LiveLine:
    """The words behind the cursor."""

    def __init__(
        self, terminal: pytest.TerminalReporter, words: Callable[[], Sequence[str]]
    ):
        self._terminal = terminal
        self._words = words
        # Of its own, since pytest captures what is written to that of `sys.stdout` in a test.
        self._descriptor = os.dup(sys.stdout.fileno())
        self._next = time.monotonic() + _PAUSE_SECONDS
        self._is_drawn = False

    @classmethod
    def begin(
        cls, config: pytest.Config, words: Callable[[], Sequence[str]]
    ) -> Self | None:
        """Begin where a person watches a terminal that nothing else writes to.

        Args:
            config: Of the run.
            words: Returns what to show, the most important first; nothing at the end.
        """
        terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        is_watched = (
            type(terminal)
            is pytest.TerminalReporter  # no other, which may draw on its own
            and terminal.isatty  # a bool, which newer versions of pytest let be called
            and terminal.hasmarkup
            and terminal.verbosity >= 0
            and sys.platform != "win32"
        )
        is_shared = config.option.capture == "no" or config.getini("log_cli")
        if not is_watched or is_shared or os.environ.get("CI"):
            return None
        with suppress(
            OSError, ValueError, AttributeError
        ):  # what a plugin made of `sys.stdout`
            return cls(terminal, words)
        return None

    @contextmanager
    def while_waiting(self) -> Iterator[None]:
        """Draw now and then until the block is over, in which pytest writes nothing."""
        is_over = threading.Event()

        def draw() -> None:
            while not is_over.wait(max(0.0, self._next - time.monotonic())):
                self.draw()

        thread = threading.Thread(target=draw, name="bench-live-line", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            self.erase()

    def draw(self) -> None:
        """Draw, if it is time again, as much as there is room for."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE_SECONDS
        writer = self._terminal._tw  # noqa: SLF001 - nothing public knows where the cursor is
        room = writer.fullwidth - writer.width_of_current_line - 2
        words = list(self._words())
        while words and len(", ".join(words)) > room - len("  []"):
            words.pop()
        self._is_drawn = bool(words)
        if words:
            text = f"  [{', '.join(words)}]"
            self._write(f"\x1b[2m{text}\x1b[0m{_ERASE}\x1b[{len(text)}D")

    def erase(self) -> None:
        """Erase it before pytest writes."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        try:
            os.write(self._descriptor, text.encode("ascii"))
        except OSError:  # the terminal is gone
            self._is_drawn = False

    def close(self) -> None:
        """Erase it for good."""
        self.erase()
        os.close(self._descriptor)
