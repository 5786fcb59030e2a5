"""Write our words to stdout and stderr, so that what can't be written changes nothing else.

A stream can be closed, a full disk, or a pipe that nobody reads any more. Python keeps what it
could not write, tries again at its end, and then changes the exit status to 120. So the words go
to the descriptor itself, past the stream's buffer.
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from typing import IO, Final

WAIT_SECONDS: Final = 5.0
"""How long to wait for room where the other side has made the stream non-blocking."""


def write_words(stream: IO[str] | None, text: str) -> OSError | None:
    """Write text at once, behind what was written before.

    Args:
        stream: stdout or stderr as `sys` has it; `None` where it was closed from the start.
        text: whole lines. What the stream's encoding lacks is written as an escape.

    Returns:
        Why it could not be written; `None` if it was.
    """
    try:
        if stream is None:
            raise ValueError("the stream is closed")
        _write(stream, text)
    except OSError as error:
        return error
    except ValueError as error:  # it was closed, by the start or since
        return OSError(errno.EBADF, str(error))
    return None


def drop_unwritten(stream: IO[str] | None) -> None:
    """Write what is left in a stream's buffer, or give it up where it can't be written.

    For a process that is about to end: the stream leads nowhere afterwards.
    """
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            descriptor = stream.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _write(stream: IO[str], text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    content = text.encode(encoding, "backslashreplace")
    descriptor = _descriptor_of(stream)
    if descriptor is None:
        stream.write(content.decode(encoding))
        stream.flush()
        return
    stream.flush()
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], WAIT_SECONDS)[1]:
                raise


def _descriptor_of(stream: IO[str]) -> int | None:
    """Return the descriptor to write to, `None` where the stream itself knows better how."""
    if os.name == "nt":  # it turns the ends of lines, and speaks to the console in UTF-16
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # a host's own object: a notebook, a capture
        return None
