"""Remove what a program puts before each line of another program's output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged_table

MAX_LAYERS: Final = 2
"""Prefixes that are taken off, one after the other: that of a CI system, and that of a program."""
MIN_LINES: Final = 5
MIN_SHARE: Final = 0.6
"""What share of the lines, and of how many at least, has a prefix if it is one."""
MAX_SAMPLED: Final = 200
"""Lines from the beginning and as many from the end of the first block that are looked at."""

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
        found = [match[0] for match in map(self.marks.match, lines) if match]
        is_repeated = len(set(found)) <= len(found) / 2
        return len(found) >= MIN_SHARE * len(lines) and (is_repeated or not self.few)

    def taken_off(self, block: bytes) -> bytes:
        """Return whole lines without it."""
        return self.pattern.sub(b"\n", b"\n" + block)[1:]


@cache
def prefixes() -> tuple[Prefix, ...]:
    """Return what can stand before each line, in the order in which it is looked for."""
    found = []
    for row in packaged_table("prefixes")["prefix"]:
        pattern = row["pattern"].replace("$", r"(?=\r?\n)").encode()
        marks = row.get("marks", row["pattern"]).replace("$", r"\r?$").encode()
        found.append(
            Prefix(
                pattern=re.compile(rb"\n%b(?:%b)%b" % (_COLOURS, pattern, _RESET)),
                marks=re.compile(rb"%b(?:%b)" % (_COLOURS, marks)),
                few=row.get("few", False),
            )
        )
    return tuple(found)


def without_prefixes(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same lines without the prefixes that most of the first ones have.

    Args:
        blocks: whole lines.
    """
    rest = iter(blocks)
    first = next(rest, b"")
    before = _prefixes_of(first)
    for block in chain([first], rest):
        for prefix in before:
            block = prefix.taken_off(block)  # noqa: PLW2901 - the same lines
        yield block


def _prefixes_of(block: bytes) -> list[Prefix]:
    """Return the prefixes of most lines of a block, the outer one first."""
    size = MAX_SAMPLED * _SAMPLED_BYTES
    lines = block[:size].split(b"\n")[:MAX_SAMPLED]
    if len(block) > size:
        lines += block[-size:].split(b"\n")[1:][-MAX_SAMPLED:]
    lines = [line[:_SAMPLED_BYTES] for line in lines if line.strip()]
    found: list[Prefix] = []
    while len(found) < MAX_LAYERS and len(lines) >= MIN_LINES:
        prefix = next((each for each in prefixes() if each.is_before(lines)), None)
        if prefix is None or prefix in found:
            break
        found.append(prefix)
        lines = [prefix.taken_off(line + b"\n")[:-1] for line in lines]
        lines = [line for line in lines if line.strip()]
    return found
