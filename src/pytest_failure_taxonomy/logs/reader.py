"""Read the lines of a log that can matter, with their numbers, in bounded memory.

Of a log of any size only a few lines say why a run failed. They are picked by their first byte and
by one search for a handful of words; only those are decoded and cleaned. A reader that is in the
middle of something asks for all lines until it is through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

MAX_LINE_BYTES: Final = 32_768
"""Of a longer line the first and the last half of that are read."""
TAIL_BYTES: Final = 65_536
"""How much of the end is always kept, whatever its lines look like."""

_HALF: Final = MAX_LINE_BYTES // 2
_FIRST_BYTES: Final = frozenset(bytes([byte]) for byte in b"=_!+[EFIN.\x1b")
"""How the lines of pytest's output that matter begin, and those that a terminal has coloured."""
_NUMBERED: Final = re.compile(
    rb"[0-9]+ (?:[a-z]+(?: in |, )|workers? \[)"
    rb"|[0-9-]{10}T\S+ [^\n]{0,4}?"
    rb"(?:[=_!+\[EFIN.>\x1b]|[0-9]+ (?:[a-z]+(?: in |, )|workers? \[))"
)
"""Lines that begin with a digit and matter: counts, and what a CI system has put a time before."""
_DIGITS: Final = frozenset(bytes([byte]) for byte in b"0123456789")
_WORDS: Final = re.compile(
    rb"::|%\]|rror|ERROR|INTERNAL|passed|test session|Exception"
    rb"|FAIL|failed|Fatal|fatal|Timeout|node down|crashed|collect|Traceback"
    rb"|GZA_FAILURE|maximum allowed|no tests ran|exit code|Killed|fault|Terminated|Abort|panic"
    rb"|usage:|\.py [.FEsxXRup]|Z [0-9=_!+\[FIN.>\x1b]"
)
_ESCAPE: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])"
)
_STAMP: Final = re.compile(
    # `gh run view --log` puts the names of job and step before the time.
    r"(?:[^\t]{1,200}\t[^\t]{1,200}\t)?\ufeff?"
    r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})\]?(?: [0-9]{2}[OE][ +])? ?"
)
"""A time before each line, as GitHub, GitLab (with the number and name of its stream) and Jenkins
write it."""


class Line(NamedTuple):
    """One line of a log."""

    number: int
    """Counted from 1, in the log as it is."""
    text: str
    """Without colours, time stamps, NULs and its end."""


class Reader(Protocol):
    """Whoever the lines are for."""

    wants_all: bool
    """Each line matters just now."""

    def feed(self, line: Line) -> None:
        """Take the next line."""
        ...


class Tail:
    """Keep the end of a log."""

    def __init__(self) -> None:
        self._kept = b""
        self.line_count = 0
        self.byte_count = 0

    def add(self, block: bytes) -> None:
        """Take the next whole lines."""
        self.byte_count += len(block)
        self.line_count += block.count(b"\n")
        self._kept = (self._kept + block)[-TAIL_BYTES:]

    @property
    def is_all(self) -> bool:
        """Tell whether nothing was before what is kept."""
        return self.byte_count <= TAIL_BYTES

    @property
    def lines(self) -> list[Line]:
        """The last lines that hold anything; the first one may be cut."""
        raw = self._kept.splitlines() if b"\n" not in self._kept else self._kept.split(b"\n")[:-1]
        first = self.line_count - len(raw) + 1
        lines = (Line(number, clean(each)) for number, each in enumerate(raw, first))
        return [line for line in lines if line.text.strip()]


def read_log(chunks: Iterable[bytes], *readers: Reader) -> Tail:
    """Give the lines of a log that matter to its readers, and return its end."""
    tail = Tail()
    for block in _whole_lines(chunks):
        number = tail.line_count
        if b"\x00" in block:  # UTF-16 that does not say so
            block = block.replace(b"\x00", b"")  # noqa: PLW2901 - the same lines
        tail.add(block)
        for raw in block[:-1].split(b"\n"):
            number += 1
            if not (_is_telling(raw) or _is_asked_for(readers)):
                continue
            line = Line(number, clean(raw))
            for reader in readers:
                reader.feed(line)
    return tail


def clean(raw: bytes) -> str:
    """Return a line as it was meant: decoded, without colours, a time before it, and NULs."""
    if len(raw) > MAX_LINE_BYTES:
        raw = raw[:_HALF] + raw[-_HALF:]
    text = raw.replace(b"\x00", b"").decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    stamp = _STAMP.match(text)
    if stamp is not None:
        text = text[stamp.end() :]
    return text.rstrip("\r\n")


def _is_telling(raw: bytes) -> bool:
    first = raw[:1]
    if first in _FIRST_BYTES or (first in _DIGITS and _NUMBERED.match(raw)):
        return True
    return _WORDS.search(raw) is not None


def _is_asked_for(readers: tuple[Reader, ...]) -> bool:
    return any(reader.wants_all for reader in readers)


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces that end with a line's end; a line without end is cut in its middle."""
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
