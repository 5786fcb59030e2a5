"""Lines of a log: cleaned, numbered as they are, in bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs import log_lines
from pytest_failure_taxonomy.logs.log_lines import (
    MAX_LINE_BYTES,
    TAIL_BYTES,
    chunks_of,
    clean,
    open_log,
    read_log,
)
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/random", "/dev/full"])
@pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")
def test_a_log_that_never_ends(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is refused at once, and a pipe once it has brought too much."""
    with pytest.raises(LogError, match=f"{path}: is a device"), open_log(path):
        pass
    monkeypatch.setattr(log_lines, "MAX_STREAM_BYTES", 3 * log_lines.CHUNK_BYTES)
    with open("/dev/zero", encoding="latin-1") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with (
            pytest.raises(LogError, match="stdin: it doesn't end"),
            open_log("-") as chunks,
        ):
            list(chunks)
    with open_log("/dev/null") as chunks:
        assert list(chunks) == []


class All:
    """A reader that keeps every line."""

    wants_all = True

    def __init__(self) -> None:
        self.lines: list[OutputLine] = []

    def feed(self, line: OutputLine) -> None:
        """Keep it."""
        self.lines.append(line)


CLEANED: Final = (
    (b"plain\r", "plain"),
    (b"\x1b[31m\x1b[1mred\x1b[0m", "red"),
    (b"\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    (b"2026-01-01T00:00:00.0000000Z E   x", "E   x"),
    (b"2026-01-01T00:00:00.000000Z 01O E   x", "E   x"),
    (b"[2026-01-01T00:00:00.000Z] E   x", "E   x"),
    (b"test\tRun pytest\t2026-01-01T00:00:00.0000000Z E   x", "E   x"),
    (b"2026-01-01T00:00:00Z     indented", "    indented"),
    (b"f\x00a\x00i\x00l", "fail"),
    (b"\xff\xfe\xfd", "\ufffd\ufffd\ufffd"),
    (b"20 passed", "20 passed"),
)


@pytest.mark.parametrize(("raw", "expected"), CLEANED)
def test_clean_line(raw: bytes, expected: str) -> None:
    """Colours, the time that a CI system writes, NULs and line ends are no part of a line."""
    assert clean(raw) == expected


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 40))
def test_lines_keep_their_numbers(lines: list[bytes], size: int) -> None:
    """However a log is cut to pieces, each line comes once and under its number."""
    raw = b"\n".join(line.replace(b"\n", b"") for line in lines)
    reader = All()
    tail = read_log(
        (raw[start : start + size] for start in range(0, len(raw), size)), reader
    )
    expected = raw.removesuffix(b"\n").split(b"\n") if raw else []
    assert [line.text for line in reader.lines] == [clean(line) for line in expected]
    assert [line.number for line in reader.lines] == list(range(1, len(expected) + 1))
    shown = [line.text for line in reader.lines if line.text.strip()]
    assert [line.text for line in tail.lines] == shown


@given(st.binary(), st.sampled_from([b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"]))
def test_any_bytes(raw: bytes, mark: bytes) -> None:
    """Any bytes are a log, whatever encoding they claim to be."""
    reader = All()
    read_log(chunks_of(io.BytesIO(mark + raw)), reader)
    assert all("\n" not in line.text for line in reader.lines)


def test_long_line_takes_no_memory() -> None:
    """Of 50 MB on one line the two ends are kept."""

    def pieces() -> Iterator[bytes]:
        yield b"begin "
        for _ in range(50):
            yield b"x" * 1_000_000
        yield b" end"

    reader = All()
    tracemalloc.start()
    try:
        read_log(pieces(), reader)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (line,) = reader.lines
    assert line.text.startswith("begin x")
    assert line.text.endswith("x end")
    assert len(line.text) <= MAX_LINE_BYTES
    assert peak < 10_000_000


def test_tail_is_bounded() -> None:
    """Of the end a fixed amount is kept, with the numbers of the whole log."""
    tail = read_log([b"line\n" * 100_000])
    assert not tail.is_all
    assert tail.lines[-1] == OutputLine(100_000, "line")
    assert sum(len(line.text) + 1 for line in tail.lines) <= TAIL_BYTES
