"""Collect the problems of a file, so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.taxonomy.words import and_more

MAX_PROBLEMS: Final = 100
"""The maximal number of problems that are listed for one file."""
_MAX_WORD: Final = 60
_MAX_LINE: Final = 300


class WrongError(ValueError):
    """A value can't be used; the message says what is wrong; what would be right."""


class Problems:
    """The problems of one file, each with its line if it has one."""

    def __init__(self, where: str, error: type[FailureTaxonomyError]) -> None:
        """Take the name of the file, and the class of the error for its problems."""
        self._where = shown(where)
        self._error = error
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, line: int | None, what: str) -> None:
        """Add a problem in words: what is wrong; what would be right."""
        self._found.append((line or 0, what))

    def as_error(self) -> FailureTaxonomyError:
        """Return the error that lists all problems in the order of their lines."""
        found = sorted(self._found, key=lambda problem: problem[0])
        lines = [
            f"{self._where}:{line}: {what}" if line else f"{self._where}: {what}"
            for line, what in found[:MAX_PROBLEMS]
        ]
        if more := and_more(len(found) - MAX_PROBLEMS):
            lines.append(f"{self._where}: ...{more} problems")
        return self._error("\n".join(lines))


def quoted(text: str) -> str:
    """Return a string in quotes, escaped for a terminal and shortened."""
    return repr(text if len(text) <= _MAX_WORD else f"{text[: _MAX_WORD - 1]}…")


def shown(text: str) -> str:
    """Return a string as one line, escaped for a terminal and shortened."""
    cut = text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 1]}…"
    return cut if cut.isprintable() else repr(cut)[1:-1]


def nearest(given: str, allowed: Iterable[str], *, count: int = 3) -> list[str]:
    """Return the allowed words that are most similar to a wrong one; case doesn't count."""
    import difflib

    by_lower_case = {word.lower(): word for word in allowed}
    close = difflib.get_close_matches(given.lower()[:_MAX_WORD], by_lower_case, n=count, cutoff=0.6)
    return [by_lower_case[word] for word in close]


def closest(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word that is most similar to a wrong one, if any; case doesn't count."""
    return next(iter(nearest(given, allowed, count=1)), None)


def right_words(given: str, allowed: Iterable[str], *, otherwise: str) -> str:
    """Return the question whether the closest allowed word was meant, or `otherwise`."""
    meant = closest(given, allowed)
    return otherwise if meant is None else f"did you mean {meant}?"
