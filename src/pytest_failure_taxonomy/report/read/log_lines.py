"""Open a log of any size and encoding, and read the lines that can matter, in bounded memory.

Only a few lines of a log say why a run failed. They are recognised by their first byte or by one
search for a few words, and only these are decoded and cleaned. A reader that is in the middle of
something asks for all lines until it is done.
"""

from __future__ import annotations

import codecs
import math
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple, Protocol

from pytest_failure_taxonomy.errors import LogError

CHUNK_BYTES: Final = 1 << 20
MAX_STREAM_BYTES: Final = 1 << 30
"""More is read only of a file that says that it has more: a pipe may never end."""
MAX_LINE_BYTES: Final = 32_768
"""Of a longer line, the first and the last half of this are read."""
TAIL_BYTES: Final = 65_536
"""How much of the end is always kept, whatever is in it."""

STDIN: Final = "-"

_HALF: Final = MAX_LINE_BYTES // 2
_FIRST_BYTES: Final = frozenset(bytes([byte]) for byte in b"=_!+[EFIN.\x1b")
"""How lines of pytest's output begin that matter, and coloured ones."""
_NUMBERED: Final = re.compile(
    rb"[0-9]+ (?:[a-z]+(?: in |, )|workers? \[)"
    rb"|[0-9-]{10}T\S+ [^\n]{0,4}?"
    rb"(?:[=_!+\[EFIN.>\x1b]|[0-9]+ (?:[a-z]+(?: in |, )|workers? \[))"
)
"""Lines that begin with a digit and matter: counts, and lines that a CI system has timestamped."""
_DIGITS: Final = frozenset(bytes([byte]) for byte in b"0123456789")
_WORDS: Final = re.compile(
    rb"::|%\]|rror|ERROR|INTERNAL|passed|test session|Exception"
    rb"|FAIL|failed|Fatal|fatal|Timeout|node down|crashed|collect|Traceback"
    rb"|GZA_FAILURE|maximum allowed|no tests ran|exit code|Killed|fault|Terminated|Abort|panic"
    rb"|Docker|docker|daemon|Podman|ssh: |npm ERR|No solution|Failed|timed out|Permission denied"
    rb"|Max retries|Credentials|Caused by|key verification|kex_"
    rb"|usage:|\.py [.FEsxXRup]|Z [0-9=_!+\[FIN.>\x1b]"
)
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, None),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and encodings. UTF-32-LE's begins with UTF-16-LE's, so it comes before it."""
_ESCAPE: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])"
)
_STAMP: Final = re.compile(
    # `gh run view --log` puts the names of job and step before the timestamp.
    r"(?:[^\t]{1,200}\t[^\t]{1,200}\t)?\ufeff?"
    r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})\]?(?: [0-9]{2}[OE][ +])? ?"
)
"""The timestamp of a line by GitHub, GitLab (with number and name of the stream) and Jenkins."""


class Line(NamedTuple):
    """One line of a log."""

    number: int
    """The line number in the log, counted from 1."""
    text: str
    """Without colours, timestamp, NULs and line ending."""


class Reader(Protocol):
    """An object that reads the lines of a log one by one."""

    wants_all: bool
    """It needs every line for now, not only those that look as if they mattered."""

    def feed(self, line: Line) -> None:
        """Take the next line."""
        ...


class Tail:
    """The end of a log."""

    def __init__(self) -> None:
        self._kept = b""
        self.line_count = 0
        self.byte_count = 0

    def add(self, block: bytes) -> None:
        """Add the next whole lines."""
        self.byte_count += len(block)
        self.line_count += block.count(b"\n")
        self._kept = (self._kept + block)[-TAIL_BYTES:]

    @property
    def is_all(self) -> bool:
        """Tell whether all of the log is kept."""
        return self.byte_count <= TAIL_BYTES

    @property
    def lines(self) -> list[Line]:
        """The last lines that are not blank; the first one may be cut."""
        raw = self._kept.splitlines() if b"\n" not in self._kept else self._kept.split(b"\n")[:-1]
        first = self.line_count - len(raw) + 1
        lines = (Line(number, clean(each)) for number, each in enumerate(raw, first))
        return [line for line in lines if line.text.strip()]


@contextmanager
def open_log(path: str | os.PathLike[str]) -> Iterator[Iterator[bytes]]:
    """Open a log and yield its content in chunks, as `chunks_of` does.

    Raises:
        LogError: The file doesn't exist, is a folder, or can't be read.
    """
    shown = os.fspath(path)
    try:
        status = os.stat(path)
        if _is_endless(status):
            raise LogError(f"{shown}: this is a device or a socket; give the file of a log")
        wait = 0 if stat.S_ISFIFO(status.st_mode) else getattr(os, "O_NONBLOCK", 0)
        with open(
            path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | wait)
        ) as file:
            yield chunks_of(file, name=shown, most=max(status.st_size, MAX_STREAM_BYTES))
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


def _is_endless(status: os.stat_result) -> bool:
    """Tell whether a file is a device that has no end, or can't be read at all."""
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev
    kinds = (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISDIR)
    return not is_null and not any(is_kind(status.st_mode) for is_kind in kinds)


@contextmanager
def open_argument(path: str) -> Iterator[Iterator[bytes]]:
    """Open a log that an argument names, stdin for `-`; as `open_log`, which it may raise from."""
    if path != STDIN:
        with open_log(path) as chunks:
            yield chunks
        return
    if sys.stdin is None:
        raise LogError("stdin: it is closed; give a file")
    try:
        yield chunks_of(sys.stdin.buffer, name="stdin", most=MAX_STREAM_BYTES)
    except OSError as error:
        raise LogError(f"stdin: it can't be read: {error.strerror}; give a file") from None


def chunks_of(file: BinaryIO, *, name: str = "the log", most: float = math.inf) -> Iterator[bytes]:
    """Yield a file's content in chunks; text with a byte order mark becomes UTF-8 without it.

    Args:
        file: is read to its end.
        name: of it, for the message of the error.
        most: bytes that it may have.

    Raises:
        LogError: it has more.
    """
    first = _read_full(file, 4)
    mark, encoding = next(
        ((mark, name) for mark, name in _BYTE_ORDER_MARKS if first.startswith(mark)), (b"", None)
    )
    pieces = _pieces(first[len(mark) :], file, name, most)
    if encoding is None:
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def chunks_of_text(text: str) -> Iterator[bytes]:
    """Yield a text in chunks of UTF-8."""
    for start in range(0, len(text), CHUNK_BYTES):
        yield text[start : start + CHUNK_BYTES].encode("utf-8", "replace")


def _pieces(first: bytes, file: BinaryIO, name: str, most: float) -> Iterator[bytes]:
    if first:
        yield first
    while piece := file.read(CHUNK_BYTES):
        most -= len(piece)
        if most < 0:
            raise LogError(f"{name}: it doesn't end; give a file, or the end of it by tail -c 1G")
        yield piece


def _read_full(file: BinaryIO, count: int) -> bytes:
    """Return the first bytes, even if a pipe delivers them one by one."""
    read = b""
    while len(read) < count and (more := file.read(count - len(read))):
        read += more
    return read


def read_log(chunks: Iterable[bytes], *readers: Reader) -> Tail:
    """Feed the lines of a log that can matter to readers, and return its end."""
    tail = Tail()
    for block in _whole_lines(chunks):
        number = tail.line_count
        if b"\x00" in block:  # UTF-16 without a byte order mark
            block = block.replace(b"\x00", b"")  # noqa: PLW2901 - the same lines
        tail.add(block)
        for raw in block[:-1].split(b"\n"):
            number += 1
            if not (_can_matter(raw) or any(reader.wants_all for reader in readers)):
                continue
            line = Line(number, clean(raw))
            for reader in readers:
                reader.feed(line)
    return tail


def clean(raw: bytes) -> str:
    """Decode a line, and remove its colours, timestamp, NULs and line ending."""
    if len(raw) > MAX_LINE_BYTES:
        raw = raw[:_HALF] + raw[-_HALF:]
    text = raw.replace(b"\x00", b"").decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    stamp = _STAMP.match(text)
    if stamp is not None:
        text = text[stamp.end() :]
    return text.rstrip("\r\n")


def _can_matter(raw: bytes) -> bool:
    first = raw[:1]
    if first in _FIRST_BYTES or (first in _DIGITS and _NUMBERED.match(raw)):
        return True
    return _WORDS.search(raw) is not None


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces that end with a newline; the middle of a very long line is dropped."""
    carried = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield carried + chunk[:end]
            carried = b""
        carried += chunk[end:]
        if len(carried) > MAX_LINE_BYTES:
            carried = carried[:_HALF] + carried[-_HALF:]
    if carried:
        yield carried + b"\n"
