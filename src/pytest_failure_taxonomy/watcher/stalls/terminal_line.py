"""Print a line where the user of a pytest reads, from another process.

While a test runs, pytest's capture has the test's output, and keeps a copy of the real standard
error. The record says which descriptor that is. Another process opens the same file through
`/proc`, writes, and closes it: it holds no pipe that somebody may be waiting for.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.record.layout import (
    IS_COLOURED,
    IS_SHOWN,
    PAGE,
    READER,
    READER_AT,
)

_PIDFD_GETFD: Final = 438
"""The number of the system call on all machines (Linux 5.6)."""
_STDERR: Final = 2
_YELLOW, _PLAIN = "\x1b[33m", "\x1b[0m"


def print_on_terminal(process_id: int, state: bytes, line: str) -> bool:
    """Print a line where the user of a process reads; tell whether that worked.

    Args:
        process_id: the pytest process.
        state: the contents of its record's state file.
        line: without control characters.
    """
    if len(state) < PAGE:
        return False
    device, inode, number, flags = READER.unpack_from(state, READER_AT)
    if not flags & IS_SHOWN:
        return False
    shown = line_of_its_own(line, is_coloured=bool(flags & IS_COLOURED))
    # Once the capture has ended, standard error is itself again.
    for each in dict.fromkeys((number, _STDERR)):
        with suppress(OSError, ValueError):
            descriptor = _open(process_id, each, (device, inode))
            try:
                return os.write(descriptor, shown) > 0
            finally:
                os.close(descriptor)
    return False


def line_of_its_own(line: str, *, is_coloured: bool) -> bytes:
    """Return what prints a line by itself, even if pytest has written half of one."""
    return f"\n{_YELLOW}{line}{_PLAIN}\n".encode() if is_coloured else f"\n{line}\n".encode()


def _open(process_id: int, number: int, identity: tuple[int, int]) -> int:
    """Open what a process has open under a number, if that is still the same file.

    Raises:
        OSError: if it is not, or can't be opened.
    """
    path = f"/proc/{process_id}/fd/{number}"
    status = os.stat(path)
    if (status.st_dev, status.st_ino) != identity:
        raise FileNotFoundError(path)
    if stat.S_ISREG(status.st_mode) and not _appends(process_id, number):
        # What is written by another opening of the file, pytest would write over.
        return _shared(process_id, number)
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags)


def _appends(process_id: int, number: int) -> bool:
    """Tell whether all that a process writes to a file goes to its end."""
    with open(f"/proc/{process_id}/fdinfo/{number}", encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "flags":
                return bool(int(value, 8) & os.O_APPEND)
    return False


def _shared(process_id: int, number: int) -> int:
    """Return a descriptor that has its position in common with that of the process.

    Raises:
        OSError: if that is not allowed.
    """
    import ctypes

    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    process = os.pidfd_open(process_id)
    try:
        descriptor = int(call(_PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor
