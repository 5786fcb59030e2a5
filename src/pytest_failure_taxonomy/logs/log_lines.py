"""Open a log of any size and encoding, and read what can matter, in bounded memory.

Only a few lines of a log say why a run failed. One search of each block finds them, by
how they begin and by a few words, and only these are decoded and cleaned. A reader that
is in the middle of something asks for all lines until it is done. The search for a
marker alone decodes none of them.
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
from pytest_failure_taxonomy.logs.prefixes import remove_prefixes
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
"""Of a longer line, both ends are read, half of this each, with a mark between them."""
TAIL_BYTES: Final = 65_536
"""How much of the end is always stored, whatever is in it."""
MAX_TAIL_LINES: Final = 2_000
"""Lines of it that are read."""

MAX_BEFORE_FAILURE: Final = 40
"""Lines that are stored from before the end of a command that failed."""

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
"""How lines of pytest's output begin that matter, and coloured ones; also where a CI
system has put a timestamp before them."""
_WORDS: Final = (
    r"::|%\]|rror|ERROR|INTERNAL|passed|test session|Exception|FAIL|failed|Fatal|fatal"
    r"|Timeout|node down|crashed|collect|Traceback|GZA_FAILURE|maximum allowed"
    r"|no tests ran|exit code|Killed|fault|Terminated|Abort|panic|Docker|docker|daemon"
    r"|Podman|ssh: |npm ERR|No solution|Failed|timed out|Permission denied|Max retries"
    r"|Credentials|Caused by|key verification|kex_|found|No such file|No module"
    r"|space left|connect to |ECONN|ENOSPC|Disk quota|disk quota|recognized as"
    r"|EOF while|passing|failing|Ran [0-9]|Tests run|exited with|\[group\]Run|display"
    r"|resol|annot find|annot open|ould not |NOT_FOUND|Missing X|aborted|defined"
    r"|unknown |nrecogni|Reason: |Dubious|issues|tests |matching|dial tcp|Failure to"
    r"|Unable to|No output has|exceeded|longer than|Tests  |TOTAL: "
    r"|\.[A-Za-z]{1,6}: ?[0-9]+[:,]|\.py [.FEsxXRup]|oo long|verloaded|ontext|EXHAUSTED"
    r"|API key|credentials|redits|disconnected|llama|litellm|reduce the length|xception"
    r"|toomany|browsers|checksum of|cache key|canceled|Because |Interrupt|\^C"
    r"|HTTP Request: |success|received|requires|module provides|too many"
    r"|- [^ ]+\.py:[0-9]+ |go\.mod|flaky|xecutable|ERESOLVE|'resolved'|API Error"
    r"|xec format|No rule to make|NotFound|npm ci|lockfile|over its|budget|dubious"
    r"|shutdown signal|pull access|with arch|missing dependencies|Limit|limit|Patch"
    "|patch|Hunk|hunk|\u2715|\u2716|\u2717|\u2718|\u274c|\u25cf|usage:|rootdir: "
    r"|plugins: |import file mismatch| functions are not |Z [0-9=_!+\[FIN.>\x1b]"
)
"""What is in lines that matter: patterns whose first letter stands for itself."""


def _group_by_first_letter(patterns: str) -> bytes:
    """Return the same alternatives, grouped by the letter that they begin with.

    At each place of a text, `re` tries all alternatives: here only a few dozen groups,
    of which most fail at once by their letter.
    """
    groups: dict[str, list[str]] = {}
    for pattern in patterns.split("|"):
        length = 2 if pattern.startswith("\\") else 1
        groups.setdefault(pattern[:length], []).append(pattern[length:])
    grouped = [f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items()]
    return "|".join(grouped).encode()


_MATTERS: Final = re.compile(
    rb"(?:\n(?:%(beginning)b)|\r(?:%(beginning)b)|%(words)b)[^\n]*"
    % {b"beginning": _BEGINNING, b"words": _group_by_first_letter(_WORDS)}
)
"""A line that matters, from the newline before it or from the word in it."""
_COMMAND_FAILED: Final = re.compile(rb"exit(?:ed with (?:code .?)?[1-9]| code [1-9])")
BYTES_A_LINE: Final = 64
"""The least average length of the lines of a block that are all looked at. Only
repetitions fill a block with more lines; of those, the first and the last are."""
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
"""Byte order marks and encodings. That of UTF-32-LE begins with that of UTF-16-LE, so
it comes first."""
_ESCAPE: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[()*+][0-9A-Za-z]"
    "|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])"
)
_STAMP: Final = re.compile(
    # `gh run view --log` puts the names of job and step before the timestamp.
    r"(?:[^\t]{1,200}\t[^\t]{1,200}\t)?\ufeff?"
    r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})\]?(?: [0-9]{2}[OE][ +])? ?"
)
"""The timestamp of a line by GitHub, GitLab (with number and name of the stream) and
Jenkins."""
_FIRST_OF_STAMP: Final = frozenset("0123456789[\ufeff")
_NEWLINE: Final = ord("\n")


class Reader(Protocol):
    """An object that reads the lines of a log one by one."""

    wants_all: bool
    """It needs every line for now, not only those that look as if they mattered."""

    def feed(self, line: OutputLine) -> None:
        """Take the next line, without its colours, timestamp, NULs and line ending."""
        ...


class Tail:
    """The end of a log."""

    def __init__(self) -> None:
        self._bytes = b""
        self._lines: list[OutputLine] | None = None
        self.has_failure = False
        """A CI system says that a command failed."""
        self.before_failure: list[OutputLine] = []
        """The last lines before a CI system first says that a command failed."""
        self.line_count = 0
        self.byte_count = 0

    def add(self, block: bytes) -> None:
        """Add the next whole lines."""
        self.byte_count += len(block)
        self.line_count += block.count(b"\n")
        self._bytes = (self._bytes + block[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._lines = None

    @property
    def is_all(self) -> bool:
        """Tell whether this is all of the log."""
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
        lines = _number_lines(raw, first)
        missing = count - len(lines)
        earlier = self._last_lines()[-missing:] if missing > 0 else []
        self.before_failure = earlier + lines

    def _last_lines(self) -> list[OutputLine]:
        raw = self._bytes.split(b"\n")[:-1]
        if not self.is_all:  # the first line is cut
            raw = raw[1:] or [_CUT_MARK + raw[0]]
        raw = raw[-MAX_TAIL_LINES:]
        return _number_lines(raw, self.line_count - len(raw) + 1)


def _number_lines(raw: Sequence[bytes], first: int) -> list[OutputLine]:
    """Return lines as they are shown.

    Args:
        raw: the lines.
        first: the number of the first one.
    """
    return [OutputLine(number, clean(line)) for number, line in enumerate(raw, first)]


@contextmanager
def open_log(path: str | os.PathLike[str]) -> Iterator[Iterator[bytes]]:
    """Open a log and yield its content as `chunks_of` does; the text `-` is stdin.

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
        is_device = stat.S_ISCHR(status.st_mode)
        is_null = is_device and status.st_rdev == os.stat(os.devnull).st_rdev
        is_pipe = stat.S_ISFIFO(status.st_mode)
        name = name_of_special_file(status.st_mode)
        if name is not None and not is_null and not is_pipe:  # a device may have no end
            raise LogError(f"{where}: is {name} and not a file; {_RIGHT}")
        # If a pipe takes the file's place only now, opening it must not wait for ever.
        wait = 0 if is_pipe else getattr(os, "O_NONBLOCK", 0)
        opener = lambda name, flags: os.open(name, flags | wait)  # noqa: E731 - brief
        with open(path, "rb", buffering=0, opener=opener) as file:
            most = max(status.st_size, MAX_STREAM_BYTES)
            yield chunks_of(file, name=where, most=most)
    except (OSError, ValueError) as error:
        raise LogError(f"{shown(where)}: {why_unread(error)}; {_RIGHT}") from None


def chunks_of(
    file: BinaryIO, *, name: str = "the log", most: float = math.inf
) -> Iterator[bytes]:
    """Yield a file's content in chunks, as UTF-8 where a byte order mark tells how.

    Args:
        file: is read to its end.
        name: of it, for the message of the error.
        most: bytes that it may have.

    Raises:
        LogError: it has more.
    """
    first = b""
    # A pipe may bring fewer bytes at once than a byte order mark has.
    while len(first) < 4 and (more := file.read(4 - len(first))):
        first += more
    decoder = None
    for mark, encoding in _BYTE_ORDER_MARKS:
        if first.startswith(mark):
            first = first.removeprefix(mark)
            if encoding is not None:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
            break
    piece = first or file.read(CHUNK_BYTES)
    while piece:
        most -= len(piece)
        if most < 0:
            right = "give a file, or the end of it by tail -c 1G"
            raise LogError(f"{name}: it doesn't end; {right}")
        if decoder is not None:
            piece = decoder.decode(piece).encode("utf-8", "replace")
        yield piece
        piece = file.read(CHUNK_BYTES)
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
    for block in remove_prefixes(blocks):
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
    spans = _find_lines_that_matter(text, position)
    start, stop = next(spans)
    while True:
        wanting: Sequence[Reader] = [reader for reader in readers if reader.wants_all]
        if position == start or not wanting:
            # All readers get a line that matters, and what is before it is skipped.
            number += text.count(b"\n", position, start)
            position, end, wanting = start, stop, readers
            start, stop = next(spans)
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
            # Repetitions fill this block: go on with its end.
            left = MAX_LAST_LINES * len(readers)
            last = _find_last_lines(text, position)
            number += text.count(b"\n", position, last)
            position = last
            spans = _find_lines_that_matter(text, position)
            start, stop = next(spans)


def _find_lines_that_matter(text: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield where lines that matter begin and end, then the end of the text for ever.

    Args:
        text: begins and ends with a newline.
        position: where to begin, at the start of a line.
    """
    for match in _MATTERS.finditer(text, position - 1):
        start = match.start()
        if text[start] != _NEWLINE:
            start = text.rfind(b"\n", 0, start)
        yield start + 1, match.end()
    while True:
        yield len(text), len(text)


def _find_last_lines(text: bytes, position: int) -> int:
    """Return where the last lines of a text begin, but not before a position."""
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
    text = _cut(raw).decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    # Most lines have no timestamp, and its pattern is slow to say so.
    if text[:1] in _FIRST_OF_STAMP or "\t" in text:
        stamp = _STAMP.match(text)
        if stamp is not None:
            text = text[stamp.end() :]
    return text


def _cut(raw: bytes) -> bytes:
    """Return a line, and of one that is too long its ends, with a mark between them."""
    if len(raw) <= MAX_LINE_BYTES:
        return raw
    return raw[:_HALF] + _CUT_MARK + raw[-_HALF:]


def _shown_part(raw: bytes) -> bytes:
    """Return the part of a line after its last carriage return.

    Progress bars overwrite their states in this way, and Travis CI its own marks.
    """
    if b"\r" not in raw:
        return raw
    return raw.rstrip(b"\r").rpartition(b"\r")[2]


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield big pieces that end with a newline; cut the middle of very long lines."""
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
        text_or_path: The output, or the path of a file with it. A `str` is always the
            output; a path is a `pathlib.Path` or another `os.PathLike`.
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
            "a marker is looked for in a str or in a file, not in "
            f"{type(text_or_path).__name__}; decode bytes to a str, or give the file "
            "as a pathlib.Path"
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
