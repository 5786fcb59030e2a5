"""Find the marker in a log: the last one counts.

The log is read once, forwards, in pieces. What is not yet a whole line is carried over to the next
piece, and only as long as a marker's line may be, so that neither memory nor time depends on what
the lines look like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from pytest_failure_taxonomy.logs.source import chunks_of_text, open_log
from pytest_failure_taxonomy.taxonomy.reasons import (
    MARKER_BLANKS,
    MARKER_COLOUR,
    MARKER_START,
    UNKNOWN_MARKER,
    validate_marker,
)
from pytest_failure_taxonomy.taxonomy.values import value

MAX_MARKER_LINE_BYTES: Final = 4_096
"""A marker's line is no longer than this, its blanks and its end included."""

_START: Final = MARKER_START.encode()
_BLANKS: Final = f"(?:[{MARKER_BLANKS}]|{MARKER_COLOUR})*+".encode()


@value
class FoundMarker:
    """A marker and where it stands."""

    name: str
    """As written."""
    reason: str
    """The same where it is known, else `UNKNOWN`."""
    line: int
    """Counted from 1."""


def find_marker(text_or_path: str | os.PathLike[str], *, known: Iterable[str] = ()) -> str:
    """Return the reason that the last marker of a failed task's output gives.

    Args:
        text_or_path: the output itself, or the path of a file that has it. A `str` is always the
            output; a path is a `pathlib.Path` or another `os.PathLike`.
        known: reasons that are valid beside `MAX_TURNS`, `TEST_FAILURE` and `UNKNOWN`.

    Returns:
        The reason; `UNKNOWN` where it is not a known one, and where there is no marker.

    Raises:
        LogError: the file can't be read.
        TypeError: it is neither, as bytes are.
    """
    found = locate_marker(text_or_path, known=known)
    return UNKNOWN_MARKER if found is None else found.reason


def locate_marker(
    text_or_path: str | os.PathLike[str], *, known: Iterable[str] = ()
) -> FoundMarker | None:
    """Return the last marker with its line; `None` where there is none.

    Args and errors are those of `find_marker`.
    """
    if isinstance(text_or_path, str):
        return last_marker(chunks_of_text(text_or_path), known=known)
    if not isinstance(text_or_path, os.PathLike):
        raise TypeError(
            f"a marker is looked for in a str or in a file, not in {type(text_or_path).__name__}; "
            "decode bytes to a str, or give the file as a pathlib.Path"
        )
    with open_log(text_or_path) as chunks:
        return last_marker(chunks, known=known)


def last_marker(chunks: Iterable[bytes], *, known: Iterable[str] = ()) -> FoundMarker | None:
    """Return the last marker of a log that comes in pieces."""
    name, line = None, 0
    for lines_before, block in _blocks(chunks):
        if _START not in block:
            continue
        counted, start = 0, 0
        for match in _pattern().finditer(b"\n" + block):
            if match.end() - match.start() > MAX_MARKER_LINE_BYTES:
                continue
            counted += match.string.count(b"\n", start, match.start() + 1)
            start = match.start() + 1
            name, line = match[1].decode("ascii"), lines_before + counted
    if name is None:
        return None
    return FoundMarker(name=name, reason=validate_marker(name, known), line=line)


def _blocks(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of whole lines with the count of lines before each; the last has its end, too.

    What can't be a marker's line, for its length, may be cut.
    """
    lines, carried, is_long = 0, b"", False
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if not end:
            carried, is_long = _carry(carried + chunk, is_long=is_long)
            continue
        block = carried + chunk[:end]
        yield lines, block
        lines += block.count(b"\n")
        carried, is_long = _carry(chunk[end:], is_long=False)
    if carried:
        yield lines, carried + b"\n"


def _carry(line: bytes, *, is_long: bool) -> tuple[bytes, bool]:
    """Return what is kept of the beginning of a line: of a long one, what makes it no marker."""
    if is_long or len(line) > MAX_MARKER_LINE_BYTES:
        return b"x", True
    return line, False


@cache
def _pattern() -> re.Pattern[bytes]:
    """Return what a marker looks like with the end of the line before it.

    It begins with one fixed byte, which is searched for quickly, and nothing in it goes back.
    """
    return re.compile(rb"\n%b%b([A-Za-z0-9_]++)\]%b(?=\n)" % (_BLANKS, re.escape(_START), _BLANKS))
