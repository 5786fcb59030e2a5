"""Numbers with their nouns, as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_WHOLE_SECONDS: Final = 10
_MINUTE: Final = 60
_HOUR: Final = 3600


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 test`, `12,345 tests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def noun_of_count(name: str, count: int) -> str:
    """Return what a count of a report's `summary` counts: `error` for one of the `errors`."""
    words = name.replace("_", " ")
    return words.removesuffix("s") if count == 1 else words


def counts_in_words(summary: Mapping[str, int], names: Iterable[str]) -> str:
    """Return those counts of a report's `summary` that are not 0: `2 passed, 1 error`."""
    return ", ".join(
        f"{summary[name]:,} {noun_of_count(name, summary[name])}" for name in names if summary[name]
    )


def enumerated(shown: Sequence[str], count: int) -> str:
    """Name some of so many things, and say how many more there are: `a, b and 3 more`."""
    parts = [*shown, *([f"{count - len(shown):,} more"] if count > len(shown) else [])]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def and_more(rest: int) -> str:
    """Return what is put behind some of many things: ` and 3 more`; nothing if they are all."""
    return f" and {rest:,} more" if rest > 0 else ""


def listed(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many more there are: `a, b and 3 more`."""
    return ", ".join(names[:most]) + and_more(len(names) - most)


def seconds_words(seconds: float | None) -> str:
    """Return a time in the unit that fits: `12 ms`, `3.4 s`, `2 min 5 s`; nothing for none."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _WHOLE_SECONDS:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole // _MINUTE, "min", whole % _MINUTE, "s")
    return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    rest = f" {small} {small_unit}" if small else ""
    return f"{large} {unit}{rest}"
