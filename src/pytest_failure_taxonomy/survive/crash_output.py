"""Read what a dead process left: where it crashed, and its last output.

faulthandler writes the stacks of a crash to a file of the record. The user sees them on
stderr, as without this plugin, because whoever reads the file writes them there. What a
test has written is in the files of pytest's capture.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.survive.layout import (
    CRASH,
    CRASH_FILE,
    MAX_DUMP_BYTES,
    STDERR,
    STDOUT,
)
from pytest_failure_taxonomy.system.files import READ, Folder, move_high
from pytest_failure_taxonomy.taxonomy.evidence import Left, ProcessExit, Traces
from pytest_failure_taxonomy.taxonomy.judgement import (
    CRASH_SIGNALS,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.values import replace

MAX_OUTPUT_CHARACTERS: Final = 4 * 1024
MAX_OUTPUT_BYTES: Final = 64 * 1024
"""How much is searched for secrets, so that no secret is cut before it is found."""
MAX_STACK_CHARACTERS: Final = 5_500
"""With the output it fits into one traceback of the report."""
SHOWN_SECONDS: Final = 1.0
"""How long to wait for a reader of stderr that reads nothing."""

_PIPE_BYTES: Final = 4096
"""A pipe or terminal that can be written to takes so many bytes at once (PIPE_BUF)."""


def read_left(descriptors: Iterable[tuple[str, int | None]]) -> Left:
    """Read what a process has left, and close the descriptors of it.

    Args:
        descriptors: each behind its letter, as in `layout`.
    """
    contents = {
        letter: read_and_close(descriptor) for letter, descriptor in descriptors
    }
    return Left(
        dump=contents.get(CRASH_FILE, b"").rstrip(b"\0"),
        stdout=contents.get(STDOUT, b""),
        stderr=contents.get(STDERR, b""),
    )


def read_traces(
    left: Left, end: ProcessExit | None, rootdir: Path, redact: Callable[[str], str]
) -> Traces | None:
    """Return the traces of a process that died, or `None` if there are none.

    Args:
        left: what it has left.
        end: how it ended. A dump counts only if that may have been a crash: a child
            that was forked by a library in C writes to the same file. `None` for a
            crash. The stacks at a SIGTERM tell the place alone.
        rootdir: the root folder of the run.
        redact: removes secrets from a text.
    """
    is_crash = bool(left.dump)
    if end is not None and (end.signal is not None or end.code is not None):
        number = end.signal or signal_of_exit_code(end.code or 0)
        is_crash = is_crash and number in CRASH_SIGNALS
    dump = left.dump if is_crash else b""
    if not dump and end is not None and end.stacks and end.signal == "SIGTERM":
        dump = end.stacks.encode()
    stack = location = None
    if dump:
        # Here, because it takes long to import, and most deaths are no crashes.
        from pytest_failure_taxonomy.survive.stalls.stacks import parse_faulthandler

        stacks = parse_faulthandler(dump[:MAX_DUMP_BYTES].decode("utf-8", "replace"))
        if stacks is not None:
            crashed = stacks.current or stacks.main
            location = crashed.own_place(rootdir)
            if is_crash:
                shown = replace(stacks, threads=(crashed,))
                stack = shown.text(MAX_STACK_CHARACTERS)
    output = last_output(left.stdout, left.stderr, redact)
    traces = Traces(
        output=output,
        stack=stack,
        location=location,
    )
    return None if traces == Traces() else traces


def last_output(
    stdout: bytes, stderr: bytes, redact: Callable[[str], str]
) -> str | None:
    """Return the last captured output of both streams, each below its name."""
    texts = {
        "captured stdout:\n": _clean_end(stdout, redact),
        "captured stderr:\n": _clean_end(stderr, redact),
    }
    titles = sum(len(title) + 1 for title in texts)
    room = MAX_OUTPUT_CHARACTERS - titles
    blocks = []
    for title, text in texts.items():
        if not text.strip():
            continue
        # What one of them does not need is for the other.
        others = sum(map(len, texts.values())) - len(text)
        block = _end_of(text, max(room // 2, room // 2 * 2 - others))
        blocks.append(title + block)
    return "\n".join(blocks) or None


def _clean_end(content: bytes, redact: Callable[[str], str]) -> str:
    text = content[-MAX_OUTPUT_BYTES:].decode("utf-8", "replace")
    if text:
        return redact(text).rstrip("\n")
    return ""


def _end_of(text: str, characters: int) -> str:
    """Return the end of a text, from the beginning of a line if there is one."""
    if len(text) <= characters:
        return text
    end = text[-characters:]
    head, newline, rest = end.partition("\n")
    if newline and rest.strip() and len(head) < characters // 2:
        return rest
    return end


class LeftByWorkers:
    """What xdist workers of this machine leave when they die; read by their controller.

    Their files are opened while they live: a worker's captured output has no name on
    any disk, and a test may remove the folder of the record.
    """

    def __init__(
        self, rootdir: Path, redact: Callable[[str], str], terminal: int | None
    ) -> None:
        """Follow no worker yet.

        Args:
            rootdir: the root folder of the run.
            redact: removes secrets from a text.
            terminal: a descriptor of stderr, for the stacks of crashes; `None` if
                faulthandler is not enabled.
        """
        self.shows_crashes = terminal is not None
        self._rootdir = rootdir
        self._redact = redact
        self._terminal = terminal
        self._files: dict[str, dict[str, int | None]] = {}

    def follow(
        self, worker: str, process_id: int, folder: Folder, capture: tuple[int, int]
    ) -> None:
        """Open the files of a worker.

        Args:
            worker: its id.
            process_id: of its process.
            folder: with its record.
            capture: its descriptors of the files with its captured stdout and stderr, 0
                for none.
        """
        files = _open_streams(process_id, capture)
        if self.shows_crashes:
            with suppress(OSError):
                files[CRASH_FILE] = move_high(folder.open_file(CRASH, os.O_RDONLY))
        self._files[worker] = files

    def read(self, worker: str, end: ProcessExit) -> Traces | None:
        """Return the traces of a dead worker, and show the user its crash's stacks."""
        if worker not in self._files:
            return None
        left = read_left(self._files.pop(worker).items())
        if self._terminal is not None:
            show_dump(left.dump, self._terminal)
        return read_traces(left, end, self._rootdir, self._redact)


def output_of_process(
    process_id: int, capture: tuple[int, int], redact: Callable[[str], str]
) -> str | None:
    """Return the last that a process has captured that still runs.

    Args:
        process_id: of the process.
        capture: its descriptors of the files with its captured stdout and stderr, 0 for
            none.
        redact: removes secrets from a text.
    """
    left = read_left(_open_streams(process_id, capture).items())
    return last_output(left.stdout, left.stderr, redact)


def read_and_close(descriptor: int | None) -> bytes:
    """Return the end of a file; nothing if it can't be read."""
    if descriptor is None:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, MAX_DUMP_BYTES, max(0, size - MAX_DUMP_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _open_streams(process_id: int, capture: tuple[int, int]) -> dict[str, int | None]:
    stdout, stderr = capture
    return {
        STDOUT: _open_captured(process_id, stdout),
        STDERR: _open_captured(process_id, stderr),
    }


def _open_captured(process_id: int, descriptor: int) -> int | None:
    """Open a file without a name that a process has open, or return `None`.

    The number is from a file that a test can write to.
    """
    if process_id <= 0 or descriptor <= 0:
        return None
    flags = READ & ~getattr(os, "O_NOFOLLOW", 0)  # a link of the kernel
    with suppress(OSError):
        opened = os.open(f"/proc/{process_id}/fd/{descriptor}", flags)
        status = os.fstat(opened)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            return move_high(opened)
        os.close(opened)
    return None


def show_dump(dump: bytes, descriptor: int, seconds: float = SHOWN_SECONDS) -> None:
    """Copy faulthandler's output to the user's stderr, unless nothing reads that."""
    with suppress(OSError, ValueError, AttributeError):
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        rest = memoryview(dump[:MAX_DUMP_BYTES])
        while rest and poller.poll(seconds * 1000):
            rest = rest[os.write(descriptor, rest[:_PIPE_BYTES]) :]
