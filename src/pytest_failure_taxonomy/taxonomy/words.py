"""Numbers with their nouns, as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


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
