"""Run code that a system has written, with its tests, in a process of its own.

It is for rubrics, so it imports only the standard library.
"""

from __future__ import annotations

import marshal
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from threading import Thread
from typing import IO, Final, Literal, cast

from pytest_failure_taxonomy.bench.isolate import processes, wire
from pytest_failure_taxonomy.bench.isolate.child import Printed, write_all
from pytest_failure_taxonomy.bench.isolate.code_program import (
    HEAD_BYTES,
    SOURCE_FILE,
    TOKEN_BYTES,
)
from pytest_failure_taxonomy.bench.isolate.environment import rubric_environment
from pytest_failure_taxonomy.taxonomy.values import value

DEFAULT_MEMORY_MB: Final = 1024
_PROGRAM: Final = os.path.join(os.path.dirname(__file__), "code_program.py")
_MAX_ANSWER_BYTES: Final = 1 << 14
_MAX_LINE: Final = 200
_CHUNK: Final = 1 << 16
_SECONDS_FOR_STACK: Final = 0.2
_SECONDS_FOR_OUTPUT: Final = 0.5
_STACK: Final = "Fatal Python error: "
_PLACE: Final = re.compile(rf'File "{SOURCE_FILE}", line (\d+)')

Ending = Literal[
    "passed", "assertion", "exception", "syntax", "timeout", "killed", "left"
]


@value
class CodeResult:
    """How code ended, and why."""

    ended: Ending
    """One of seven words.

    - `passed`: it ran to its last line.
    - `assertion`, `exception`: it raised an `AssertionError`, or another exception.
    - `syntax`: it is no Python.
    - `timeout`: it was not done in time.
    - `killed`: a signal ended it, or it raised `MemoryError`.
    - `left`: it ended before its last line, whatever the exit code.
    """
    detail: str = ""
    """The last line of the traceback, or another reason, and the line of the source."""
    output: str = ""
    """What it wrote to stdout and stderr: the first 64 KiB."""

    @property
    def passed(self) -> bool:
        """Whether it ran to its last line."""
        return self.ended == "passed"


def run_code(
    source: str, *, seconds: float, memory_mb: int = DEFAULT_MEMORY_MB
) -> CodeResult:
    """Run Python code in a new interpreter, as `__main__`; return how it ended.

    The code has an empty folder, an empty stdin, and the environment of a rubric
    without what `rubric_env` adds. Its process group is killed when it has ended. This
    protects from accidents, not from hostile code, which can forge a result.

    Args:
        source: The code, with the tests at its end.
        seconds: How long it may take; less than the rubric may.
        memory_mb: The address space that it may use, in MiB.

    Raises:
        TypeError: The source is no text.
        ValueError: A limit is no number above 0.
        OSError: No process can be started.
    """
    if not isinstance(source, str):
        # A system may return None.
        kind = type(source).__name__  # type: ignore[unreachable]  # typed callers
        raise TypeError(f"run_code: the source is of type {kind}; give a text")
    if not 0 < seconds < math.inf or memory_mb < 1:
        raise ValueError(
            f"run_code: seconds={seconds!r}, memory_mb={memory_mb!r}; give numbers"
            " above 0"
        )
    folder = tempfile.mkdtemp(prefix="code-")
    try:
        return _run(source, seconds, memory_mb, folder)
    finally:
        processes.remove_folder(folder)


def _run(source: str, seconds: float, memory_mb: int, folder: str) -> CodeResult:
    token = os.urandom(TOKEN_BYTES)
    text = source.encode("utf-8", "surrogatepass")
    limits = processes.limits_of_case(memory_mb, seconds)
    body = marshal.dumps((os.getpid(), limits, text))
    message = len(body).to_bytes(HEAD_BYTES, "big") + body + token
    printed = Printed()
    process = _start(folder)
    # By a thread: Windows can't wait for several pipes.
    reader = Thread(target=_drain, args=(process.stderr, printed), daemon=True)
    is_late = False
    try:
        reader.start()
        with suppress(OSError), _pipe(process.stdin) as given:  # or it is dead
            write_all(given.fileno(), message)
        is_late = not _has_ended(process, seconds)
        if is_late and os.name == "posix":
            os.kill(process.pid, signal.SIGABRT)  # faulthandler writes where it is
            _has_ended(process, _SECONDS_FOR_STACK)
    finally:
        _kill(process)
        process.wait()
    answer = _read_answer(_pipe(process.stdout))
    # A process that has left the group may hold the pipe.
    reader.join(_SECONDS_FOR_OUTPUT)
    output, stack, rest = printed.take().decode("utf-8", "replace").partition(_STACK)
    place = _PLACE.search(rest)
    line = int(place[1]) if place else 0
    if answer.startswith(token):
        ended, number, words = answer[TOKEN_BYTES:].decode().split("\n", 2)
        line = int(number)
    elif is_late:
        ended, words = "timeout", f"not done after {seconds:g} s"
    else:
        ended = "killed" if process.returncode < 0 else "left"
        words = f"{processes.how_it_ended(process.returncode)} before its last line"
    if not is_late:
        output += stack + rest
    return CodeResult(
        ended=cast("Ending", ended), detail=words + _place(source, line), output=output
    )


def _start(folder: str) -> subprocess.Popen[bytes]:
    work = os.path.join(folder, "work")  # so that `../x` is still inside
    os.mkdir(work, 0o700)
    environment = rubric_environment(os.environ, work)
    # By this mark, a case's processes are found if their server dies.
    environment[wire.MARK] = os.environ.get(wire.MARK, "")
    return subprocess.Popen(  # noqa: S603 - to run code is what it is for
        [sys.executable, "-P", _PROGRAM],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=work,
        env=environment,
        start_new_session=True,
    )


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    return cast("IO[bytes]", end)  # `Popen` was asked for it


def _drain(source: IO[bytes], printed: Printed) -> None:
    with source, suppress(OSError):
        while data := source.read(_CHUNK):
            printed.add(data)


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process; return whether it has ended in time."""
    with suppress(AttributeError, OSError):  # without it, `wait` looks again and again
        descriptor = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(math.ceil(seconds * 1000)))
        finally:
            os.close(descriptor)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, before another can have its number."""
    if os.name == "posix":
        processes.kill_group(process.pid)
    else:
        process.kill()


def _read_answer(source: IO[bytes]) -> bytes:
    """Return what is in the pipe, though forks of the process may still hold it."""
    with source, suppress(BlockingIOError):
        if os.name == "posix":
            os.set_blocking(source.fileno(), False)
        return source.read(_MAX_ANSWER_BYTES) or b""
    return b""


def _place(source: str, line: int) -> str:
    """Return the number and text of a line, in brackets; empty if there is none."""
    lines = source.split("\n")
    if not 0 < line <= len(lines):
        return ""
    text = lines[line - 1].strip()[:_MAX_LINE].encode("utf-8", "backslashreplace")
    return f" (line {line}: {text.decode()})"
