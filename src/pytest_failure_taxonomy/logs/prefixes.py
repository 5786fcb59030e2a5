"""Remove what a program puts before each line of another program's output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged_table

MAX_LAYERS: Final = 2
"""Prefixes that are removed one after the other: a CI system's, and a program's."""
MIN_LINES: Final = 5
MIN_SHARE: Final = 0.6
"""What share of the lines, and of how many at least, has a prefix if it is one."""
MAX_SAMPLED: Final = 200
"""Lines that are looked at of the beginning of the first block, and of its end."""

_SAMPLED_BYTES: Final = 200
"""How much of each line is looked at."""
_COLOURS: Final = rb"(?:\x1b\[[0-9;]{0,20}m){0,4}"
_RESET: Final = rb"(?:\x1b\[0?m)?"


class Prefix(NamedTuple):
    """What can stand before each line."""

    pattern: re.Pattern[bytes]
    """What is taken off, from the newline before it."""
    marks: re.Pattern[bytes]
    """What shows it at the beginning of a line."""
    few: bool
    """It is one only where several lines have the same."""

    def is_before(self, lines: Sequence[bytes]) -> bool:
        """Tell whether most lines have it."""
        marks = [match[0] for match in map(self.marks.match, lines) if match]
        if len(marks) < MIN_SHARE * len(lines):
            return False
        return not self.few or len(set(marks)) <= len(marks) / 2

    def remove_from(self, block: bytes) -> bytes:
        """Return whole lines without it."""
        return self.pattern.sub(b"\n", b"\n" + block)[1:]


@cache
def prefixes() -> tuple[Prefix, ...]:
    """Return what can stand before each line, in the order of the search."""
    compiled = []
    for row in packaged_table("prefixes")["prefix"]:
        pattern = row["pattern"].replace("$", r"(?=\r?\n)").encode()
        marks = row.get("marks", row["pattern"]).replace("$", r"\r?$").encode()
        prefix = Prefix(
            pattern=re.compile(rb"\n%b(?:%b)%b" % (_COLOURS, pattern, _RESET)),
            marks=re.compile(rb"%b(?:%b)" % (_COLOURS, marks)),
            few=row.get("few", False),
        )
        compiled.append(prefix)
    return tuple(compiled)


def remove_prefixes(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same lines without the prefixes that most of the first ones have.

    Args:
        blocks: whole lines.
    """
    rest = iter(blocks)
    first = next(rest, b"")
    layers = _find_prefixes(first)
    for block in chain([first], rest):
        for prefix in layers:
            block = prefix.remove_from(block)  # noqa: PLW2901 - the same lines
        yield block


def _find_prefixes(block: bytes) -> list[Prefix]:
    """Return the prefixes of most lines of a block, the outer one first."""
    size = MAX_SAMPLED * _SAMPLED_BYTES
    lines = block[:size].split(b"\n")[:MAX_SAMPLED]
    if len(block) > size:
        lines += block[-size:].split(b"\n")[1:][-MAX_SAMPLED:]
    lines = [line[:_SAMPLED_BYTES] for line in lines if line.strip()]
    layers: list[Prefix] = []
    while len(layers) < MAX_LAYERS and len(lines) >= MIN_LINES:
        prefix = next((row for row in prefixes() if row.is_before(lines)), None)
        # What is still there after it was removed is of the lines themselves.
        if prefix is None or prefix in layers:
            break
        layers.append(prefix)
        rest = prefix.remove_from(b"".join(line + b"\n" for line in lines))
        lines = [line for line in rest.split(b"\n") if line.strip()]
    return layers
