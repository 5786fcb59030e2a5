"""Take secrets out of a record that became known after they were written.

A value may stand bare in the text of one failure, and beside its name in that of a later one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

# Bound here, because a test may replace them in their modules and never put them back.
from json import JSONEncoder, dumps, loads
from typing import Final

from pytest_failure_taxonomy.report.text import change_texts

_AT_ONCE: Final = 1 << 20
_encode: Final = JSONEncoder(separators=(",", ":")).encode


def erase(descriptor: int, fillers: Mapping[str, str]) -> None:
    """Overwrite values in the events that are on disk, each by a filler.

    A line keeps its length and its place, so that a death at any moment leaves JSON behind.

    Args:
        descriptor: of the file, to read and to write.
        fillers: by the values; each is ASCII and has no more characters than its value.

    Raises:
        OSError: it can't be read or written.
    """
    for offset, line in _lines(descriptor):
        changed = _without(line, fillers)
        if changed != line:
            os.lseek(descriptor, offset, os.SEEK_SET)
            os.write(descriptor, changed)


def _lines(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Yield each whole line with its offset."""
    offset, rest = 0, b""
    while True:
        os.lseek(descriptor, offset + len(rest), os.SEEK_SET)
        read = os.read(descriptor, _AT_ONCE)
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            yield offset, line
            offset += len(line) + 1
        if not read:
            return


def _without(line: bytes, fillers: Mapping[str, str]) -> bytes:
    found = {value: each for value, each in fillers.items() if _as_written(value) in line}
    if not found:
        return line

    def change(text: str) -> str:
        for value, filler in found.items():
            text = text.replace(value, filler)
        return text

    with suppress(ValueError, RecursionError):
        changed = _encode(change_texts(loads(line), change)).encode("ascii")
        if len(changed) <= len(line):
            return changed.ljust(len(line))
    return line


def _as_written(value: str) -> bytes:
    return dumps(value)[1:-1].encode("ascii")
