"""Open a log of any size and encoding, and read what can matter, in bounded memory.

Only a few lines of a log say why a run failed. They are found by one search of each block for how
they begin and for a few words, and only these are decoded and cleaned. A reader that is in the
middle of something asks for all lines until it is done. Who looks for a marker alone reads none of
them.
"""

from __future__ import annotations

import codecs
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final, Protocol

from pytest_failure_taxonomy.documents.content import STDIN, open_stdin, why_unread
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.prefixes import without_prefixes
from pytest_failure_taxonomy.system.files import name_of_special_file
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine
from pytest_failure_taxonomy.taxonomy.judgement import (
    MARKER_START,
    UNKNOWN_MARKER,
    marker_on_line,
    validate_marker,
)

CHUNK_BYTES: Final = 1 << 20
MAX_STREAM_BYTES: Final = 1 << 30
"""More is read only of a file that says that it has more: a pipe may never end."""
MAX_LINE_BYTES: Final = 4_096
"""Of a longer line, the first and the last half of this are read, with a mark between them."""
TAIL_BYTES: Final = 65_536
"""How much of the end is always kept, whatever is in it."""
MAX_TAIL_LINES: Final = 2_000
"""Lines of it that are kept."""

MAX_BEFORE_FAILURE: Final = 40
"""Lines that are kept from before the end of a command that failed."""

MAX_MARKER_LINE_BYTES: Final = 4_096
"""The longest line of a marker, with its blanks and its line ending."""

_RIGHT: Final = "give the file of a log"
_CUT_MARK: Final = "\u2026".encode()
_HALF: Final = (MAX_LINE_BYTES - len(_CUT_MARK)) // 2
_BEGINNING: Final = (
    rb"[=_!+\[EFIN.\x1b$]|(?:not )?ok|[0-9]+ (?:[a-z]+(?: in |, )|workers? \[)"
    rb"|[0-9]+[.)] | [ ]*(?:[0-9]+[.)] |\[-\])"
    rb"|[0-9][0-9-]{9}T\S+ [^\n]{0,4}?"
    rb"(?:[=_!+\[EFIN.>\x1b]|[0-9]+ (?:[a-z]+(?: in |, )|workers? \[)|[0-9]+\) )"
)
"""How lines of pytest's output begin that matter, and coloured ones; also where a CI system has put
a timestamp before them."""
_WORDS: Final = (
    *("::", r"%\]", "rror", "ERROR", "INTERNAL", "passed", "test session", "Exception"),
    *("FAIL", "failed", "Fatal", "fatal", "Timeout", "node down", "crashed", "collect"),
    *("Traceback", "GZA_FAILURE", "maximum allowed", "no tests ran", "exit code"),
    *("Killed", "fault", "Terminated", "Abort", "panic", "Docker", "docker", "daemon"),
    *("Podman", "ssh: ", "npm ERR", "No solution", "Failed", "timed out"),
    *("Permission denied", "Max retries", "Credentials", "Caused by"),
    *("key verification", "kex_", "found", "No such file", "No module", "space left"),
    *("connect to ", "ECONN", "ENOSPC", "Disk quota", "disk quota", "recognized as"),
    *("EOF while", "passing", "failing", "Ran [0-9]", "Tests run", "exited with"),
    *(r"\[group\]Run", "display", "resol", "annot (?:find|open)", "ould not "),
    *("NOT_FOUND", "Missing X", "aborted", "defined", "unknown ", "nrecogni"),
    *("Reason: ", "Dubious", "issues", "tests ", "matching", "dial tcp", "Failure to"),
    *("Unable to", "No output has", "exceeded", "longer than", "Tests  ", "TOTAL: "),
    *(r"\.[A-Za-z]{1,6}: ?[0-9]+[:,]", r"\.py [.FEsxXRup]"),
    *("oo long", "verloaded", "ontext", "EXHAUSTED"),
    *("API key", "credentials", "redits", "disconnected"),
    *("llama", "litellm", "reduce the length", "xception"),
    *("toomany", "browsers", "checksum of", "cache key"),
    *("canceled", "Because ", "Interrupt", r"\^C"),
    *("HTTP Request: ", "success", "received", "requires"),
    *("module provides", "too many", r"- [^ ]+\.py:[0-9]+ ", r"go\.mod"),
    *("flaky", "xecutable", "ERESOLVE", "'resolved'"),
    *("API Error", "xec format", "No rule to make", "NotFound"),
    *("npm ci", "lockfile", "over its", "budget"),
    *("dubious", "shutdown signal", "pull access", "with arch"),
    *("missing dependencies", "Limit", "limit", "Patch"),
    *("patch", "Hunk", "hunk"),
    *("\u2715", "\u2716", "\u2717", "\u2718", "\u274c", "\u25cf"),
    *(
        "usage:",
        "rootdir: ",
        "plugins: ",
        "import file mismatch",
        " functions are not ",
    ),
    r"Z [0-9=_!+\[FIN.>\x1b]",
)
"""What is in lines that matter, as patterns that begin with a letter that stands for itself."""


def _by_first_letter(patterns: Iterable[str]) -> bytes:
    """Return one pattern for several, which tries only those that begin as the text does."""
    groups: dict[bytes, list[bytes]] = {}
    for each in patterns:
        raw = each.encode()
        length = 2 if raw.startswith(b"\\") else 1
        groups.setdefault(raw[:length], []).append(raw[length:])
    return b"|".join(
        first + b"(?:" + b"|".join(rests) + b")" for first, rests in groups.items()
    )


_MATTERS: Final = re.compile(
    rb"(?:\n(?:%(beginning)b)|\r(?:%(beginning)b)|%(words)b)[^\n]*"
    % {b"beginning": _BEGINNING, b"words": _by_first_letter(_WORDS)}
)
"""A line that matters, from the newline before it or from the word in it."""
_COMMAND_FAILED: Final = re.compile(rb"exit(?:ed with (?:code .?)?[1-9]| code [1-9])")
BYTES_A_LINE: Final = 64
"""The least length, on average over a block, of lines that are all looked at: of a block with more
of them, which only repetitions fill, the first ones and the last ones are."""
MAX_FIRST_LINES: Final = 2_000
"""Lines of a block that are looked at, however short they are."""
MAX_LAST_LINES: Final = 1_000
"""Lines of its end that are looked at in any case."""
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, None),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and encodings. UTF-32-LE's begins with UTF-16-LE's, so it comes before it."""
_ESCAPE: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[()*+][0-9A-Za-z]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])"
)
_STAMP: Final = re.compile(
    # `gh run view --log` puts the names of job and step before the timestamp.
    r"(?:[^\t]{1,200}\t[^\t]{1,200}\t)?\ufeff?"
    r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})\]?(?: [0-9]{2}[OE][ +])? ?"
)
"""The timestamp of a line by GitHub, GitLab (with number and name of the stream) and Jenkins."""
_FIRST_OF_STAMP: Final = frozenset("0123456789[\ufeff")
_NEWLINE: Final = ord("\n")


class Reader(Protocol):
    """An object that reads the lines of a log one by one."""

    wants_all: bool
    """It needs every line for now, not only those that look as if they mattered."""

    def feed(self, line: OutputLine) -> None:
        """Take the next line, which is without colours, timestamp, NULs and line ending."""
        ...


class Tail:
    """The end of a log."""

    def __init__(self) -> None:
        self._kept = b""
        self._lines: list[OutputLine] | None = None
        self.has_failure = False
        """A CI system says that a command failed."""
        self.before_failure: list[OutputLine] = []
        """The last lines before a CI system says that a command failed, the first one."""
        self.line_count = 0
        self.byte_count = 0

    def add(self, block: bytes) -> None:
        """Add the next whole lines."""
        self.byte_count += len(block)
        self.line_count += block.count(b"\n")
        self._kept = (self._kept + block[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._lines = None

    @property
    def is_all(self) -> bool:
        """Tell whether all of the log is kept."""
        return self.byte_count <= TAIL_BYTES

    @property
    def lines(self) -> list[OutputLine]:
        """The last lines that are not blank."""
        if self._lines is None:
            self._lines = [line for line in self._last_lines() if line.text.strip()]
        return self._lines

    def note_failure(self, before: bytes) -> None:
        """Note the lines before the first line that says that a command failed.

        Args:
            before: the lines of the same block before it.
        """
        self.has_failure = True
        count = MAX_BEFORE_FAILURE - 1
        raw = before.rsplit(b"\n", count + 1)[-count - 1 : -1]
        first = self.line_count + before.count(b"\n") - len(raw) + 1
        lines = _numbered(raw, first)
        earlier = self._last_lines()[len(lines) - count :] if len(lines) < count else []
        self.before_failure = earlier + lines

    def _last_lines(self) -> list[OutputLine]:
        raw = self._kept.split(b"\n")[:-1]
        if not self.is_all and len(raw) > 1:  # the first one is cut
            del raw[0]
        elif not self.is_all:
            raw = [_CUT_MARK + each for each in raw]
        raw = raw[-MAX_TAIL_LINES:]
        return _numbered(raw, self.line_count - len(raw) + 1)


def _numbered(raw: Sequence[bytes], first: int) -> list[OutputLine]:
    """Return lines as they are shown.

    Args:
        raw: the lines.
        first: the number of the first one.
    """
    return [OutputLine(number, clean(each)) for number, each in enumerate(raw, first)]


@contextmanager
def open_log(path: str | os.PathLike[str]) -> Iterator[Iterator[bytes]]:
    """Open a log and yield its content in chunks, as `chunks_of` does; the text `-` is stdin.

    Raises:
        LogError: The file doesn't exist, is a folder, or can't be read.
    """
    if path == STDIN:
        with open_stdin(LogError) as stdin:
            yield chunks_of(stdin, name="stdin", most=MAX_STREAM_BYTES)
        return
    where = os.fspath(path)
    try:
        status = os.stat(path)
        is_null = (
            stat.S_ISCHR(status.st_mode)
            and status.st_rdev == os.stat(os.devnull).st_rdev
        )
        is_pipe = stat.S_ISFIFO(status.st_mode)
        name = name_of_special_file(status.st_mode)
        if name is not None and not is_null and not is_pipe:  # a device may have no end
            raise LogError(f"{where}: is {name} and not a file; {_RIGHT}")
        wait = 0 if is_pipe else getattr(os, "O_NONBLOCK", 0)
        with open(
            path,
            "rb",
            buffering=0,
            opener=lambda name, flags: os.open(name, flags | wait),
        ) as file:
            yield chunks_of(
                file, name=where, most=max(status.st_size, MAX_STREAM_BYTES)
            )
    except (OSError, ValueError) as error:
        raise LogError(f"{shown(where)}: {why_unread(error)}; {_RIGHT}") from None


def chunks_of(
    file: BinaryIO, *, name: str = "the log", most: float = math.inf
) -> Iterator[bytes]:
    """Yield a file's content in chunks; text with a byte order mark becomes UTF-8 without it.

    Args:
        file: is read to its end.
        name: of it, for the message of the error.
        most: bytes that it may have.

    Raises:
        LogError: it has more.
    """
    first = b""
    while len(first) < 4 and (
        more := file.read(4 - len(first))
    ):  # a pipe may bring less at once
        first += more
    mark, encoding = next(
        ((mark, name) for mark, name in _BYTE_ORDER_MARKS if first.startswith(mark)),
        (b"", None),
    )
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
    piece = first[len(mark) :]
    while piece or (piece := file.read(CHUNK_BYTES)):
        most -= len(piece)
        if most < 0:
            raise LogError(
                f"{name}: it doesn't end; give a file, or the end of it by tail -c 1G"
            )
        yield (
            piece
            if decoder is None
            else decoder.decode(piece).encode("utf-8", "replace")
        )
        piece = b""
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def chunks_of_text(text: str) -> Iterator[bytes]:
    """Yield a text in chunks of UTF-8."""
    for start in range(0, len(text), CHUNK_BYTES):
        yield text[start : start + CHUNK_BYTES].encode("utf-8", "replace")


def read_log(chunks: Iterable[bytes], *readers: Reader) -> Tail:
    """Feed the lines of a log that can matter to readers, and return its end."""
    tail = Tail()
    # NULs are in UTF-16 without a byte order mark.
    blocks = (block.replace(b"\x00", b"") for block in _whole_lines(chunks))
    for block in without_prefixes(blocks):
        _read_block(block, tail, readers)
        tail.add(block)
    return tail


def _read_block(block: bytes, tail: Tail, readers: Sequence[Reader]) -> None:
    """Feed the lines of a block that can matter to readers.

    Args:
        block: whole lines.
        tail: the end of what came before them.
        readers: those to feed.
    """
    text = b"\n" + block
    number = tail.line_count + 1
    position = 1  # of the next line, which has this number
    left = max(len(block) // BYTES_A_LINE, MAX_FIRST_LINES) * len(readers)
    found = _lines_that_matter(text, position)
    start, stop = next(found)
    while True:
        wanting = [reader for reader in readers if reader.wants_all]
        if position == start or not wanting:
            number += text.count(b"\n", position, start)
            position, end, wanting = start, stop, list(readers)
            start, stop = next(found)
        else:
            end = text.find(b"\n", position)
        if position >= len(text):
            return
        raw = _shown_part(text[position:end])
        if not tail.has_failure and _COMMAND_FAILED.search(raw):
            tail.note_failure(text[1:position])
        line = OutputLine(number, _text_of(raw))
        for reader in wanting:
            reader.feed(line)
        number += 1
        position = end + 1
        left -= len(wanting)
        if left <= 0:
            left = MAX_LAST_LINES * len(readers)
            last = _start_of_last_lines(text, position)
            number += text.count(b"\n", position, last)
            position = last
            found = _lines_that_matter(text, position)
            start, stop = next(found)


def _lines_that_matter(text: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield where lines begin and end that matter, and then, for ever, the end of the text.

    Args:
        text: begins and ends with a newline.
        position: where to begin, at the start of a line.
    """
    for found in _MATTERS.finditer(text, position - 1):
        start = found.start()
        if text[start] != _NEWLINE:
            start = text.rfind(b"\n", 0, start)
        yield start + 1, found.end()
    while True:
        yield len(text), len(text)


def _start_of_last_lines(text: bytes, position: int) -> int:
    """Return where the last lines of a text begin, or a position if that is behind it."""
    start = len(text) - 1
    for _ in range(MAX_LAST_LINES):
        start = text.rfind(b"\n", position, start)
        if start < 0:
            return position
    return start + 1


def clean(raw: bytes) -> str:
    """Decode a line, and remove its colours, timestamp, NULs and line ending."""
    raw = raw.replace(b"\x00", b"").rstrip(b"\n")
    return _text_of(_shown_part(raw))


def _text_of(raw: bytes) -> str:
    """Decode what is shown of a line, and remove its colours and timestamp."""
    if len(raw) > MAX_LINE_BYTES:
        raw = _cut(raw)
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if text[:1] in _FIRST_OF_STAMP or "\t" in text:
        stamp = _STAMP.match(text)
        if stamp is not None:
            text = text[stamp.end() :]
    return text


def _cut(raw: bytes) -> bytes:
    """Return the ends of a line that is too long, with a mark between them."""
    if len(raw) <= MAX_LINE_BYTES:
        return raw
    return raw[:_HALF] + _CUT_MARK + raw[-_HALF:]


def _shown_part(raw: bytes) -> bytes:
    """Return what a terminal shows of a line in the end: after its last carriage return.

    Progress bars overwrite their states in this way, and Travis CI its own marks.
    """
    return raw.rstrip(b"\r").rpartition(b"\r")[2] if b"\r" in raw else raw


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield big pieces that end with a newline; the middle of a very long line is dropped."""
    carried = b""
    for chunk in _big_chunks(chunks):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield carried + chunk[:end]
            carried = b""
        carried = _cut(carried + chunk[end:])
    if carried:
        yield carried + b"\n"


def _big_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces: a pipe brings small ones."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size >= CHUNK_BYTES // 2:
            yield b"".join(pieces)
            pieces = []
            size = 0
    yield b"".join(pieces)


# Markers.

_MARKER_START: Final = MARKER_START.encode()


def find_marker(
    text_or_path: str | os.PathLike[str], *, known: Iterable[str] = ()
) -> str:
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
    name = marker_in(text_or_path)
    return UNKNOWN_MARKER if name is None else validate_marker(name, known)


def marker_in(text_or_path: str | os.PathLike[str]) -> str | None:
    """Return the last marker as it is written, `None` if there is none.

    Takes and raises the same as `find_marker`.
    """
    if isinstance(text_or_path, str):
        return last_marker(chunks_of_text(text_or_path))
    if not isinstance(text_or_path, os.PathLike):
        raise TypeError(
            f"a marker is looked for in a str or in a file, not in {type(text_or_path).__name__}; "
            "decode bytes to a str, or give the file as a pathlib.Path"
        )
    with open_log(text_or_path) as chunks:
        return last_marker(chunks)


def last_marker(chunks: Iterable[bytes]) -> str | None:
    """Return the last marker of a log that comes in chunks, as it is written."""
    name = None
    for block in _whole_lines(chunks):
        if _MARKER_START in block:
            for raw in block.split(b"\n"):
                if _MARKER_START in raw and len(raw) < MAX_MARKER_LINE_BYTES:
                    name = marker_on_line(raw.decode("utf-8", "replace")) or name
    return name
