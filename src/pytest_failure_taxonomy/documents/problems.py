"""Collect what is wrong with a file, so that all of it is said at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pytest_failure_taxonomy.errors import FailureTaxonomyError

MAX_PROBLEMS: Final = 100
"""Problems of one file that are listed."""
_MAX_WORD: Final = 60
_MAX_LINE: Final = 300


class Problems:
    """The problems of one file, each with its line where it has one."""

    def __init__(self, where: str, error: type[FailureTaxonomyError]) -> None:
        """Take the name of the file, and the error that its problems make."""
        self._where = shown(where)
        self._error = error
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, line: int | None, what: str) -> None:
        """Take a problem in words: what is wrong; what would be right."""
        self._found.append((line or 0, what))

    def as_error(self) -> FailureTaxonomyError:
        """Return the error that says them all, in the order of their lines."""
        found = sorted(self._found, key=lambda problem: problem[0])
        lines = [
            f"{self._where}:{line}: {what}" if line else f"{self._where}: {what}"
            for line, what in found[:MAX_PROBLEMS]
        ]
        if len(found) > MAX_PROBLEMS:
            lines.append(f"{self._where}: ... and {len(found) - MAX_PROBLEMS} more problems")
        return self._error("\n".join(lines))


def quoted(text: str) -> str:
    """Return a text in quotes as a terminal shows it, cut where it is long."""
    return repr(text if len(text) <= _MAX_WORD else f"{text[: _MAX_WORD - 1]}…")


def shown(text: str) -> str:
    """Return a text as one line that a terminal shows, cut where it is long."""
    cut = text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 1]}…"
    return cut if cut.isprintable() else repr(cut)[1:-1]


def closest(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word that a wrong one was probably meant to be; case doesn't count."""
    import difflib

    by_lower_case = {word.lower(): word for word in allowed}
    close = difflib.get_close_matches(given.lower()[:_MAX_WORD], by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[close[0]] if close else None


def right_words(given: str, allowed: Iterable[str], *, otherwise: str) -> str:
    """Ask whether the closest allowed word was meant, or say something else where none is close."""
    meant = closest(given, allowed)
    return otherwise if meant is None else f"did you mean {meant}?"
