"""What a rubric prints, kept in memory up to a limit."""

from __future__ import annotations

import io
import sys

from . import wire


class Printed:
    """The first bytes that were printed, and how many more there were."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._dropped = 0

    def add(self, data: bytes | bytearray | memoryview) -> int:
        """Keep what there is room for; return how many bytes were given."""
        given = len(data)
        room = wire.MAX_PRINTED_BYTES - len(self._kept)
        self._kept += data[:room]
        self._dropped += max(0, given - room)
        return given

    def content(self) -> bytes:
        """Return what was kept, and a line on what was not."""
        if not self._dropped:
            return bytes(self._kept)
        return bytes(self._kept) + f"\n({self._dropped:,} more bytes were dropped)\n".encode()


class _Stream(io.RawIOBase):
    """A binary stream into `Printed` that says it is one of the process's own."""

    def __init__(self, printed: Printed, descriptor: int) -> None:
        super().__init__()
        self._printed = printed
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the descriptor that a subprocess may be given in its place: the null device."""
        return self._descriptor

    def write(self, data: object, /) -> int:
        return self._printed.add(memoryview(data).cast("B"))  # type: ignore[arg-type]  # any buffer


def capture() -> Printed:
    """Have this process print into memory from now on."""
    printed = Printed()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            _Stream(printed, descriptor),  # type: ignore[type-var]  # it is all that is called
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return printed
