"""Write text to stdout and stderr without an effect on the exit status.

A stream may be closed, on a full disk, or a pipe without a reader. Python keeps what it could not
write, tries again when it exits, and changes the exit status to 120. So the text goes to the
descriptor, past the buffer of the stream.
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from typing import IO, Final

WAIT_SECONDS: Final = 5.0
"""How long to wait for room in a non-blocking stream."""


def write_words(stream: IO[str] | None, text: str) -> OSError | None:
    """Write text at once, after what was written before.

    Args:
        stream: `sys.stdout` or `sys.stderr`, which is `None` if it was closed from the start.
        text: whole lines. Characters that the encoding lacks are written as escapes.

    Returns:
        The error if the text could not be written.
    """
    if stream is None:
        return OSError(errno.EBADF, "the stream is closed")
    try:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        content = text.encode(encoding, "backslashreplace")
        descriptor = _descriptor_of(stream)
        if descriptor is None:
            stream.write(content.decode(encoding))
        stream.flush()
        while descriptor is not None and content:
            try:
                content = content[os.write(descriptor, content) :]
            except BlockingIOError:
                if not select.select([], [descriptor], [], WAIT_SECONDS)[1]:
                    raise
    except OSError as error:
        return error
    except ValueError as error:  # the stream is closed
        return OSError(errno.EBADF, str(error))
    return None


def drop_unwritten(stream: IO[str] | None) -> None:
    """Flush a stream or, if that fails, discard what it still gets.

    For a process that is about to end.
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


def _descriptor_of(stream: IO[str]) -> int | None:
    """Return the descriptor to write to; `None` if the stream itself has to be used."""
    if os.name == "nt":  # the stream converts line ends, and writes UTF-16 to the console
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # the object of a notebook, say
        return None
