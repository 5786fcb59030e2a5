"""What a client and a process that runs rubrics say to each other, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterator

REQUEST = struct.Struct("<cIdI")
"""To the server: what, number of the case, its limit in seconds (0: none), bytes that follow."""

HELLO, GRADE, CANCEL = b"h", b"g", b"c"

REPLY = struct.Struct("<cIiI")
"""From the server: what, number of the case, its process's wait status, bytes that follow."""

READY = b"r"
"""The rubric is loaded."""
BROKEN = b"b"
"""It can't be loaded; the bytes are a JSON object like that of `RAISED`."""
ANSWERED = b"a"
"""A whole message of `MESSAGE` came."""
NO_ANSWER = b"n"
"""The process ended and gave none."""
TIMED_OUT = b"t"
"""The process was killed, its time was up."""
TOO_LARGE = b"l"
"""It gave more than `MAX_VERDICT_BYTES`."""
NOT_STARTED = b"s"
"""There was no process or pipe to be had; the bytes say why."""

MESSAGE = struct.Struct("<8scII")
"""From a child, on its own descriptor: the token it was given, what, bytes of the body, bytes of
what it printed; then both. The token tells our words from what a rubric writes there itself."""

VERDICT = b"v"
"""The body is the verdict as JSON."""
RAISED = b"e"
"""The body is a JSON object of `reason`, `type`, `message` and `traceback`."""
OUTPUT = b"o"
"""The body is the standard output of a script, of which nothing is known."""

MAX_VERDICT_BYTES = 1 << 20
MAX_PRINTED_BYTES = 64 << 10
TOKEN_BYTES = 8

MARK = "FAILURE_TAXONOMY_ISOLATED"
"""The variable by which the processes of one server are found when it can't find them any more."""


class Inbox:
    """Cuts a stream into its messages."""

    def __init__(self, head: struct.Struct) -> None:
        """Begin with nothing received.

        Args:
            head: of each message; its last field is the number of bytes that follow.
        """
        self._head = head
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[tuple[bytes, int, float], bytes]]:
        """Yield each message that is whole now: the first three fields of its head, its body."""
        received = self._received
        received += data
        size = self._head.size
        while len(received) >= size:
            *fields, length = self._head.unpack_from(received)
            if len(received) < size + length:
                return
            body = bytes(received[size : size + length])
            del received[: size + length]
            what, number, third = fields
            yield (what, number, third), body
