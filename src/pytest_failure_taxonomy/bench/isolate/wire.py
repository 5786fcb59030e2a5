"""The protocol between a client and a process that runs cases."""

from __future__ import annotations

import json
import marshal
import struct
from collections.abc import Iterator, Mapping
from typing import Any

REQUEST = struct.Struct("<cIdI")
"""To the server: code, number of the case, its limit in seconds (0: none), length of the body."""

HELLO, GRADE, CANCEL = b"h", b"g", b"c"

REPLY = struct.Struct("<cIiI")
"""From the server: code, number of the case, wait status of its process, length of the body."""

READY = b"r"
"""It is loaded; the body is a JSON object of `has_threads`, whether it has started some, and its
`version`."""
BROKEN = b"b"
"""The rubric can't be loaded; the body is a JSON object like that of `RAISED`."""
ANSWERED = b"a"
"""The body is a complete `MESSAGE`."""
NO_ANSWER = b"n"
"""The process ended without a complete message."""
TIMED_OUT = b"t"
"""The process was killed at its time limit."""
TOO_LARGE = b"l"
"""The process wrote more than the limit."""
NOT_STARTED = b"s"
"""No process or pipe could be created; the body says why."""
SPENT = b"u"
"""The system has spent something; the body is lines as `pack_spent` writes them."""

MESSAGE = struct.Struct("<8scBII")
"""From a child, on its own descriptor: its token, code, whether it can run another case, length of
the body, length of what it printed; then both. The token tells our messages from what a rubric may
write there itself."""

VERDICT = b"v"
"""The body is the verdict as JSON."""
RAISED = b"e"
"""The body is a JSON object of `reason`, `type`, `message` and `traceback`."""
ANSWER = b"w"
"""The body is a JSON object with the output and the transcript of a system."""
OUTPUT = b"o"
"""The body is the standard output of a script, unchecked."""

LENGTH = struct.Struct("<I")
"""To a child that runs one case after another: the length of the body that follows."""

MAX_VERDICT_BYTES = 1 << 20
MAX_PRINTED_BYTES = 64 << 10
TOKEN_BYTES = 8

MESSAGE_OVERHEAD_BYTES = MESSAGE.size + 2 * MAX_PRINTED_BYTES
"""More than a message adds to its body."""

MARK = "FAILURE_TAXONOMY_ISOLATED"
"""The environment variable that identifies the processes of a server that died."""


def is_complete(message: bytes | bytearray) -> bool:
    """Return whether these bytes are one complete `MESSAGE`."""
    if len(message) < MESSAGE.size:
        return False
    *_, body_bytes, printed_bytes = MESSAGE.unpack_from(message)
    return len(message) == MESSAGE.size + int(body_bytes) + int(printed_bytes)


def is_free(message: bytes) -> bool:
    """Return whether the child that sent a `MESSAGE` can run another case."""
    _, _, is_able, _, _ = MESSAGE.unpack_from(message)
    return bool(is_able)


def pack_case(case: Mapping[str, object], output: object) -> bytes:
    """Return what the process of a case reads by `read_case`: case and output, as JSON has them.

    Reading JSON would cost each fork 0.2 ms, for the memory that the parser touches first. So this
    process reads it, which has read some before, and the fork gets the values.

    Raises:
        TypeError: JSON can't represent them.
        ValueError: Likewise.
        RecursionError: They are nested too deep.
    """
    text = json.dumps([case, output])
    try:
        return marshal.dumps(tuple(json.loads(text)))
    except ValueError:  # nested too deep for `marshal`, which no JSON parser minds
        return text.encode()


def read_case(body: bytes) -> Any:
    """Return the case and the output that `pack_case` has packed."""
    if body.startswith(b"["):
        return json.loads(body)
    return marshal.loads(body)  # noqa: S302 - it comes from our client alone


def pack_spent(
    cost_usd: float, usage: Mapping[str, float], seconds: float | None = None
) -> bytes:
    """Return the line by which a system's process tells what it has just spent.

    Args:
        cost_usd: In US dollars.
        usage: Other amounts by name.
        seconds: How long the call took that has just ended; `None` if it goes on.
    """
    return f"{json.dumps([cost_usd, dict(usage), seconds])}\n".encode()


def pack_script(token: bytes, output: bytes, errors: bytes) -> bytes:
    """Return what a script printed to stdout and stderr as a `MESSAGE`."""
    errors = errors[:MAX_PRINTED_BYTES]
    head = MESSAGE.pack(token, OUTPUT, 0, len(output), len(errors))
    return head + output + errors


class Inbox:
    """Splits a stream into messages."""

    def __init__(self, head: struct.Struct) -> None:
        """Create an empty inbox.

        Args:
            head: The header of each message; its last field is the length of the body.
        """
        self._head = head
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[tuple[bytes, int, float], bytes]]:
        """Yield each complete message: the first three fields of its header, and its body."""
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
