"""The marks where secrets were removed, and the marks of what others cut out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol


class Note(Protocol):
    """Takes note of one removal."""

    def __call__(self, name: str, removed: str = "", /) -> str:
        """Count a removal under an id, learn what was removed, and return its mark."""


class Removal(NamedTuple):
    """What is to be removed from a text."""

    start: int
    end: int
    name: str
    """The id in its mark; empty for what goes without one."""
    secret: str
    """What is to be learnt; empty where the text doesn't show all of it."""


_CHARACTERS_OF_A_PLACE: Final = 100
"""Characters that a search reads in the time that it takes to judge a place."""
_CHARACTERS_OF_A_LOOK: Final = 20
"""The same to see that there is nothing to judge."""
_FREE: Final = 400 * _CHARACTERS_OF_A_PLACE
_MOST_JUDGED: Final = 1.5
"""How often each character of a text is judged at most, on the average: a place in 70
characters, beside those that are free. Of 4,500 files of source code, the worst has one
in 150."""


class Search:
    """A search of texts in linear time, whatever they hold.

    Where a secret may be, a few characters are judged, and the same ones again for each
    place that is near: `key=key=key=…`. So what is judged is counted, and a text is
    searched only as far as it is in proportion. Nobody knows what is in the rest, which
    is removed.

    Args:
        note: counts a removal and returns its mark.
    """

    def __init__(self, note: Note) -> None:
        self.note = note
        self._judged = 0

    def remove(self, text: str, removals: Iterable[Removal]) -> str:
        """Return the text with a mark for each removal; they are in order and apart."""
        parts = []
        done = self._judged = 0
        try:
            for start, end, name, secret in removals:
                mark = self.note(name, secret) if name else ""
                parts += [text[done:start], mark]
                done = end
        except _TooManyPlacesError as error:
            return "".join(
                [*parts, text[done : error.start], self.note("unsearchable")]
            )
        return "".join([*parts, text[done:]]) if parts else text

    def remove_matches(
        self,
        text: str,
        expression: re.Pattern[str],
        removal_of: Callable[[re.Match[str]], Removal | None],
    ) -> str:
        """Return the text with a mark for each match that is to be removed."""

        def removals() -> Iterator[Removal]:
            for match in expression.finditer(text):
                self.judge(*match.span())
                if removal := removal_of(match):
                    yield removal

        return self.remove(text, removals())

    def judge(self, start: int, end: int) -> None:
        """Count a place that is judged."""
        self._count(start, _CHARACTERS_OF_A_PLACE + end - start)

    def look(self, start: int) -> None:
        """Count a place that is looked at."""
        self._count(start, _CHARACTERS_OF_A_LOOK)

    def _count(self, start: int, characters: int) -> None:
        self._judged += characters
        if self._judged > _FREE + _MOST_JUDGED * start:
            raise _TooManyPlacesError(start)


class _TooManyPlacesError(Exception):
    def __init__(self, start: int) -> None:
        self.start = start


def make_removal(match: re.Match[str], group: str | int, name: str) -> Removal:
    """Return the removal of what a group of an expression has matched."""
    return Removal(*match.span(group), name, match[group])


MARK: Final = re.compile(r"\[REDACTED:[A-Za-z0-9_:. -]{1,120}\]")

# `saferepr` and `reprlib` put three dots where they cut, terminals an ellipsis, and
# `report.text.cap` a line of its own.
CUT: Final = r"(?:\n?\.\.\. \[truncated: \d{1,12} characters\] \.\.\.\n?|\.{3,}+|…)"
_DOTS: Final = r"\.\.\.(?: \[truncated: \d{1,12} characters\] \.\.\.\n?|\.*+)"
_CUT_BY_DOTS: Final = re.compile(_DOTS)
_CUT_EXPRESSION: Final = re.compile(rf"{_DOTS}|…++")


def find_places(text: str, word: str) -> Iterator[int]:
    """Yield where a word stands in a text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def find_cuts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a cut begins and ends, for each one in the text."""
    # Dots alone are found much faster than dots or an ellipsis.
    expression = _CUT_EXPRESSION if "…" in text else _CUT_BY_DOTS
    for cut in expression.finditer(text):
        start, end = cut.span()
        # The mark of `cap` has a line of its own, and the newline before belongs to it.
        is_mark = cut.group().startswith("... [")
        if is_mark and text[start - 1 : start] == "\n":
            start -= 1
        yield start, end
