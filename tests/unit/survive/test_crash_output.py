"""What a dead process has left: its stacks only if it crashed, its output without secrets, cut."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.survive.crash_output import (
    MAX_OUTPUT_CHARACTERS,
    LeftByWorkers,
    last_output,
    read_traces,
    show_dump,
)
from pytest_failure_taxonomy.survive.layout import CRASH
from pytest_failure_taxonomy.system.files import make_folder
from pytest_failure_taxonomy.taxonomy.evidence import (
    Left,
    Location,
    ProcessExit,
    Traces,
)

ROOT: Final = Path("/project")
DUMP: Final = (
    b"Fatal Python error: Segmentation fault\n\n"
    b"Thread 0x0001 (most recent call first):\n"
    b'  File "/project/other.py", line 9 in wait\n\n'
    b"Current thread 0x0002 (most recent call first):\n"
    b'  File "/usr/lib/python3.13/ctypes/__init__.py", line 538 in string_at\n'
    b'  File "/project/tests/test_x.py", line 4 in test_x\n'
)


def as_it_is(text: str) -> str:
    """Remove no secret."""
    return text


def end(code: int | None = None, signal: str | None = None) -> ProcessExit:
    """Return the end of a process."""
    return ProcessExit(code=code, signal=signal, source="watcher")


@pytest.mark.parametrize(
    ("seen", "is_crash"),
    [
        (end(139, "SIGSEGV"), True),
        (end(134, "SIGABRT"), True),
        (end(139), True),
        (end(), True),
        (end(137, "SIGKILL"), False),
        (end(143, "SIGTERM"), False),
        (end(1), False),
        (end(0), False),
    ],
)
def test_stacks_count_after_a_crash(seen: ProcessExit, is_crash: bool) -> None:
    """A child that was forked in C may have written to the file of a process that did not crash."""
    traces = read_traces(Left(dump=DUMP), seen, ROOT, as_it_is)
    if not is_crash:
        assert traces is None
        return
    assert traces is not None
    assert traces.location == Location(path="tests/test_x.py", line=4)
    assert traces.stack is not None
    assert "string_at" in traces.stack.splitlines()[1]
    assert "other.py" not in traces.stack, "another thread"


@pytest.mark.parametrize("dump", [b"", b"\0\0", b"what a test has written \xff\n"])
def test_what_is_no_stack(dump: bytes) -> None:
    """What can't be understood is nothing."""
    assert read_traces(Left(dump=dump), end(139, "SIGSEGV"), ROOT, as_it_is) is None


@pytest.mark.parametrize(
    ("stdout", "stderr", "shown"),
    [
        (b"", b"", None),
        (b" \n", b"\n\n", None),
        (b"a\nb\n", b"", "captured stdout:\na\nb"),
        (b"", b"\xff\n", "captured stderr:\n\ufffd"),
        (b"a\n", b"b\n", "captured stdout:\na\ncaptured stderr:\nb"),
    ],
)
def test_the_output(stdout: bytes, stderr: bytes, shown: str | None) -> None:
    """Each stream that has something stands below its name."""
    assert last_output(stdout, stderr, as_it_is) == shown


def test_the_output_is_cut_at_its_beginning() -> None:
    """The last 4 KiB stay, whole lines of them, and a short stream leaves room for the other."""
    lines = "".join(f"line {number:05}\n" for number in range(10_000)).encode()
    both = last_output(lines, lines, as_it_is)
    one = last_output(lines, b"short\n", as_it_is)
    for output in (both, one):
        assert output is not None
        assert MAX_OUTPUT_CHARACTERS - 100 < len(output) <= MAX_OUTPUT_CHARACTERS
        assert all(
            len(each) == 10 for each in output.splitlines() if each.startswith("line")
        )
    assert one is not None
    assert one.endswith("line 09999\ncaptured stderr:\nshort")
    endless = last_output(b"x" * 100_000, b"", as_it_is)
    assert endless is not None
    assert 3_000 < len(endless) <= MAX_OUTPUT_CHARACTERS


def test_a_secret_is_removed_before_the_cut() -> None:
    """What is cut off must not leave half of a secret."""
    text = b"secret" * 3 + b"\n" + b"x" * (MAX_OUTPUT_CHARACTERS - 40)
    output = last_output(text, b"", lambda each: each.replace("secret", "-"))
    assert output is not None
    assert "s" not in output.partition("\n")[2].replace("-", "")


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe can't be waited for")
def test_stderr_that_nobody_reads() -> None:
    """The stacks are shown as far as there is room, and nobody waits for long."""
    reading, writing = os.pipe()
    try:
        show_dump(b"x" * 1_000_000, writing, seconds=0.01)
        assert set(os.read(reading, 1 << 20)) == {ord("x")}
    finally:
        os.close(reading)
    show_dump(b"x", writing, seconds=0.01)  # a broken pipe
    os.close(writing)
    show_dump(b"x", writing, seconds=0.01)  # closed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_worker(tmp_path: Path) -> None:
    """Its files are read after its death, though their names are gone; only files without a name
    are read of its descriptors.
    """
    reading, writing = os.pipe()
    try:
        with (
            make_folder(tmp_path / "gw0") as folder,
            tempfile.TemporaryFile() as stdout,
            open(tmp_path / "named", "w+b") as named,
        ):
            named.write(b"not ours\n")
            named.flush()
            (tmp_path / "gw0" / CRASH).write_bytes(DUMP + bytes(100))
            left = LeftByWorkers(ROOT, as_it_is, writing)
            assert left.shows_crashes
            left.follow("gw0", os.getpid(), folder, (stdout.fileno(), named.fileno()))
            left.follow("gw1", os.getpid(), folder, (0, -1))
            os.unlink(tmp_path / "gw0" / CRASH)
            stdout.write(b"hello\n")
            stdout.flush()
        traces = left.read("gw0", end(139, "SIGSEGV"))
        assert traces is not None
        assert traces.location == Location(path="tests/test_x.py", line=4)
        assert traces.output == "captured stdout:\nhello"
        assert os.read(reading, 1 << 16) == DUMP
        assert left.read("gw0", end(139, "SIGSEGV")) is None, "read once"
        assert left.read("gw1", end(1)) is None
        assert left.read("gw9", end(1)) is None
    finally:
        os.close(reading)
        os.close(writing)
    without = LeftByWorkers(ROOT, as_it_is, None)
    assert not without.shows_crashes


def test_nothing_left_is_none() -> None:
    """A process that has left nothing has no traces."""
    assert read_traces(Left(), end(1), ROOT, as_it_is) is None
    assert Traces() == Traces(stack=None, location=None, output=None)
