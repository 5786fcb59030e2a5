"""Find the last marker of a log.

The log is read once, forwards, in chunks. The start of an unfinished line is carried over to the
next chunk, up to the length of a marker's line, so neither memory nor time depends on how long the
lines are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from pytest_failure_taxonomy.report.read.log_lines import chunks_of_text, open_log
from pytest_failure_taxonomy.taxonomy.reasons import (
    MARKER_BLANKS,
    MARKER_COLOUR,
    MARKER_START,
    UNKNOWN_MARKER,
    validate_marker,
)
from pytest_failure_taxonomy.taxonomy.values import value

MAX_MARKER_LINE_BYTES: Final = 4_096
"""The longest line of a marker, with its blanks and its line ending."""

_START: Final = MARKER_START.encode()
_BLANKS: Final = f"(?:[{MARKER_BLANKS}]|{MARKER_COLOUR})*+".encode()


@value
class FoundMarker:
    """A marker and its place."""

    name: str
    """As written."""
    reason: str
    """The same if it is a known one, else `UNKNOWN`."""
    line: int
    """The line number, counted from 1."""


def find_marker(text_or_path: str | os.PathLike[str], *, known: Iterable[str] = ()) -> str:
    """Return the reason of the last marker in a failed task's output.

    Args:
        text_or_path: The output, or the path of a file with it. A `str` is always the output; a
            path is a `pathlib.Path` or another `os.PathLike`.
        known: Reasons that are valid besides `MAX_TURNS`, `TEST_FAILURE` and `UNKNOWN`.

    Returns:
        The reason; `UNKNOWN` if it is not a known one, or if there is no marker.

    Raises:
        LogError: The file can't be read.
        TypeError: The argument is neither, for example bytes.
    """
    found = locate_marker(text_or_path, known=known)
    return UNKNOWN_MARKER if found is None else found.reason


def locate_marker(
    text_or_path: str | os.PathLike[str], *, known: Iterable[str] = ()
) -> FoundMarker | None:
    """Return the last marker with its line, `None` if there is none.

    Takes and raises the same as `find_marker`.
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
    """Return the last marker of a log that comes in chunks."""
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
    """Yield blocks of whole lines, each with the number of lines before it.

    Lines that are too long for a marker may be cut.
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
    """Return what is kept of an unfinished line; one that is too long for a marker becomes `x`."""
    if is_long or len(line) > MAX_MARKER_LINE_BYTES:
        return b"x", True
    return line, False


@cache
def _pattern() -> re.Pattern[bytes]:
    """Return the pattern of a marker, with the newline before it.

    The search for its first byte is fast, and nothing in it backtracks.
    """
    return re.compile(rb"\n%b%b([A-Za-z0-9_]++)\]%b(?=\n)" % (_BLANKS, re.escape(_START), _BLANKS))
