"""A case that runs in a child: what came from it so far, and what it came to."""

from __future__ import annotations

import os
import time

from . import wire

_CHUNK = 1 << 18
_EXTRA_BYTES = wire.MESSAGE.size + 2 * wire.MAX_PRINTED_BYTES


class Running:
    """A case, its process, and the pipes that it answers by."""

    def __init__(self, number: int, limit_seconds: float, folder: str) -> None:
        self.number = number
        self.folder = folder
        self.deadline = time.monotonic() + limit_seconds if limit_seconds else float("inf")
        self.token = os.urandom(wire.TOKEN_BYTES)
        self.process_id = 0
        self.is_cancelled = False
        self.has_timed_out = False
        self.received: dict[int, bytearray] = {}
        """By descriptor: the verdict's first, then a script's stderr."""
        self.ends: list[int] = []
        """The child's ends of the same pipes."""

    def open_pipes(self, count: int) -> None:
        """Make the pipes.

        Raises:
            OSError: there are no more descriptors; those made are still to be closed.
        """
        for _ in range(count):
            mine, its = os.pipe()
            os.set_blocking(mine, False)
            self.received[mine] = bytearray()
            self.ends.append(its)

    def read(self, descriptor: int, most: int) -> bool | None:
        """Take what the child has written; return whether there may be more, `None` at the end.

        Beyond the limit all is taken, so that the child need not wait, and one byte is kept.
        """
        try:
            data = os.read(descriptor, _CHUNK)
        except OSError:
            return False
        received = self.received[descriptor]
        received += data[: max(0, most + _EXTRA_BYTES + 1 - len(received))]
        return True if data else None

    def close_pipes(self, most: int) -> None:
        """Take what is left in the pipes, though others may hold their ends, and close them."""
        for descriptor in self.received:
            while self.read(descriptor, most):
                pass
            os.close(descriptor)

    def outcome(self, status: int, most: int) -> tuple[bytes, bytes]:
        """Return what the client is told of a case whose process has ended."""
        received, *errors = (bytes(each) for each in self.received.values())
        if self.has_timed_out and os.WIFSIGNALED(status):
            return wire.TIMED_OUT, b""
        if len(received) > most + _EXTRA_BYTES:
            return wire.TOO_LARGE, b""
        if errors:
            printed = errors[0][: wire.MAX_PRINTED_BYTES]
            head = wire.MESSAGE.pack(self.token, wire.OUTPUT, len(received), len(printed))
            return wire.ANSWERED, head + received + printed
        if len(received) >= wire.MESSAGE.size and received.startswith(self.token):
            _, _, body_bytes, printed_bytes = wire.MESSAGE.unpack_from(received)
            if len(received) == wire.MESSAGE.size + body_bytes + printed_bytes:
                return wire.ANSWERED, received
        return wire.NO_ANSWER, b""
