"""The marker by which an agent says in its output that it has given up, and why.

A marker is a line of its own: `[GZA_FAILURE:REASON]`. It is one more reason beside what was
observed, and never takes the place of an exit code, a time limit or a crash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

MARKER_START: Final = "[GZA_FAILURE:"
MARKER_BLANKS: Final = " \t\r"
"""What may stand on a marker's line beside it."""
MARKER_COLOUR: Final = r"\x1b\[[0-9;:]*+m"
"""How a terminal is told a colour, as a pattern: no more than a blank beside a marker."""

UNKNOWN_MARKER: Final = "UNKNOWN"

MARKER_REASONS: Final[Mapping[str, FailureReason]] = MappingProxyType(
    {
        "MAX_TURNS": FailureReason.AGENT_GAVE_UP,
        "TEST_FAILURE": FailureReason.TESTS_FAILED,
        UNKNOWN_MARKER: FailureReason.UNKNOWN,
    }
)
"""The markers that every configuration knows. One that a user adds stands for `UNKNOWN`."""


def marker_on_line(line: str) -> str | None:
    """Return what the marker on a line says, known or not; `None` where the line is none."""
    if MARKER_START not in line:
        return None
    text = (_colour().sub(" ", line) if "\x1b" in line else line).strip(MARKER_BLANKS + "\n")
    if not text.startswith(MARKER_START) or not text.endswith("]"):
        return None
    name = text[len(MARKER_START) : -1]
    is_word = name.isascii() and name.replace("_", "a").isalnum()
    return name if is_word else None


@cache
def _colour() -> re.Pattern[str]:
    return re.compile(MARKER_COLOUR)


def validate_marker(name: str, known: Iterable[str] = ()) -> str:
    """Return the marker's word where it is a known one, else `UNKNOWN`.

    Args:
        name: as it was written; case matters.
        known: words that are valid beside the three of `MARKER_REASONS`.
    """
    return name if name in MARKER_REASONS or name in set(known) else UNKNOWN_MARKER
