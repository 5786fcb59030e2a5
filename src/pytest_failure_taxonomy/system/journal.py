"""A file to which whole lines are appended, by one process or several, and what reads it again.

A process may die at any time, and a disk fill up: then a line is torn, and the next one has to
begin anew.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from pytest_failure_taxonomy.system.files import identity_of, move_high
from pytest_failure_taxonomy.system.interpreter import isolate_module

os = isolate_module(os)


class KeptDescriptor:
    """A descriptor that is kept open while tests run.

    It has a number so high that programs don't get it. A test may close it nevertheless and open a
    file of its own under that number: ask `is_open` before it is used.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor."""
        self.descriptor = move_high(descriptor)
        self.identity = identity_of(os.fstat(self.descriptor))

    def is_open(self) -> bool:
        """Tell whether the descriptor is still that of the file."""
        try:
            return identity_of(os.fstat(self.descriptor)) == self.identity
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor, unless it is another file's by now."""
        if self.is_open():
            with suppress(OSError):
                os.close(self.descriptor)
        self.descriptor = -1


class Journal(KeptDescriptor):
    """The end of a file that was opened with `O_APPEND`, to which this process appends."""

    _is_torn = False

    def append(self, lines: bytes) -> None:
        """Append whole lines, by one system call where the disk has room for them.

        Raises:
            OSError: they could not be written, or only the beginning of them.
        """
        rest = b"\n" + lines if self._is_torn else lines
        while rest:
            written = os.write(self.descriptor, rest)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]
            self._is_torn = bool(rest)

    def end_line(self) -> None:
        """End a last line that another process, which is gone, may have torn.

        The descriptor has to be open for reading, too.

        Raises:
            OSError: the file can't be read or written.
        """
        size = os.lseek(self.descriptor, 0, os.SEEK_END)
        if size:
            os.lseek(self.descriptor, size - 1, os.SEEK_SET)
            self._is_torn = os.read(self.descriptor, 1) != b"\n"


def whole_lines(file: BinaryIO, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield each line from an offset on, and the offset at which it begins.

    One at a time: a hostile file may have more than fit into memory. A last line without an end is
    left out: it is torn, or still being written.
    """
    file.seek(offset)
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield offset, line
        offset += len(line)
