"""Open a log of any size and encoding, and hand out its bytes in pieces."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from pytest_failure_taxonomy.errors import LogError

CHUNK_BYTES: Final = 1 << 20

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, None),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""How a text begins that says its encoding. UTF-16's little mark begins UTF-32's, so it is last."""


@contextmanager
def open_log(path: str | os.PathLike[str]) -> Iterator[Iterator[bytes]]:
    """Open a log and give its content in pieces, as UTF-8 where it says what it is.

    Raises:
        LogError: it is not there, is a folder, or can't be read.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb", buffering=0) as file:
            yield chunks_of(file)
    except IsADirectoryError:
        raise LogError(f"{shown}: this is a folder; give the file of a log") from None
    except FileNotFoundError:
        raise LogError(f"{shown}: there is no such file; give the file of a log") from None
    except ValueError as error:
        raise LogError(f"{shown!r}: no path: {error}; give the file of a log") from None
    except OSError as error:
        raise LogError(
            f"{shown}: the log can't be read: {error.strerror}; give a file that can be"
        ) from None


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file's content in pieces; what has a byte order mark becomes UTF-8 without it."""
    first = _read_full(file, 4)
    mark, encoding = next(
        ((mark, name) for mark, name in _BYTE_ORDER_MARKS if first.startswith(mark)), (b"", None)
    )
    pieces = _pieces(first[len(mark) :], file)
    if encoding is None:
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def chunks_of_text(text: str) -> Iterator[bytes]:
    """Yield a text in pieces of UTF-8."""
    for start in range(0, len(text), CHUNK_BYTES):
        yield text[start : start + CHUNK_BYTES].encode("utf-8", "replace")


def _pieces(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    if first:
        yield first
    while piece := file.read(CHUNK_BYTES):
        yield piece


def _read_full(file: BinaryIO, count: int) -> bytes:
    """Return the first bytes, though a pipe may give them one by one."""
    read = b""
    while len(read) < count and (more := file.read(count - len(read))):
        read += more
    return read
