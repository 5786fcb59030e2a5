"""Record what a command prints to a pipe, socket or terminal, and relay it (Linux).

Our pipe stands in front of one of the user's, and a pseudo-terminal in front of a
terminal, so that the command still sees one and shows its colours. stdin stays the
user's: Ctrl+C and typed text reach the command as ever. A thread passes the bytes on as
they come.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

HEAD_BYTES: Final = 262_144
"""How much of the beginning of what a command prints is kept."""
TAIL_BYTES: Final = 2_097_152
"""How much of its end, at least; it may be twice as much."""
_MAX_LINE_BYTES: Final = 32_768
"""A longer piece of a line may be parted by lines of the other stream."""
_STEP_BYTES: Final = 4_096
"""POSIX's PIPE_BUF on Linux: a pipe that can be written to takes as much without
waiting."""
_READ_BYTES: Final = 65_536
_LAST_SECONDS: Final = 0.25
"""How long is waited at the end for a reader that is slow."""
_DRAIN_SECONDS: Final = 2.0
"""How long the passing on may take after the end of the command."""
_OUTPUTS: Final = (1, 2)


class KeptOutput:
    """The beginning and the end of what a command has printed, in whole lines."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._is_full = False
        """Of the beginning, all is kept."""

    def add(self, lines: bytes) -> None:
        """Keep whole lines, or a piece of a very long one."""
        if not self._is_full and len(self._head) + len(lines) <= HEAD_BYTES:
            self._head += lines
            return
        self._is_full = True
        self._tail += lines
        if len(self._tail) > 2 * TAIL_BYTES:  # rarely, as all of it is moved
            start = len(self._tail) - TAIL_BYTES
            end_of_line = self._tail.find(b"\n", start, start + _MAX_LINE_BYTES)
            del self._tail[: end_of_line + 1 or start]

    @property
    def pieces(self) -> tuple[bytes, bytes]:
        """The recorded output; only if there was too much, its middle is missing."""
        return bytes(self._head), bytes(self._tail)


class _Stream:
    """Our pipe in front of the user's, or our terminal in front of the user's."""

    def __init__(self, descriptors: Sequence[int], output: KeptOutput) -> None:
        self.descriptors = tuple(descriptors)
        """Of the command: stdout, stderr, or both."""
        self.is_terminal = os.isatty(descriptors[0])
        reading, writing = os.openpty() if self.is_terminal else os.pipe()
        # Open for as long as this object; the command has the writing end.
        self.reading = open(reading, "rb", buffering=0)  # noqa: SIM115
        self.writing = open(writing, "wb", buffering=0)  # noqa: SIM115
        self.pending = b""
        self._kept = output
        self._line = b""
        """What is not a whole line yet."""
        if self.is_terminal:
            self._copy_terminal_settings()

    @property
    def is_done(self) -> bool:
        return self.reading.closed and not self.pending

    def _copy_terminal_settings(self) -> None:
        """Copy the user's terminal, which alone turns a newline into two bytes."""
        import termios

        with suppress(OSError, termios.error):
            settings: list[Any] = termios.tcgetattr(self.descriptors[0])
            settings[1] &= ~termios.OPOST
            termios.tcsetattr(self.writing, termios.TCSANOW, settings)
        self.resize()

    def resize(self) -> None:
        """Take the size of the user's terminal."""
        import termios

        with suppress(OSError, ValueError, termios.error):
            size = termios.tcgetwinsize(self.descriptors[0])
            termios.tcsetwinsize(self.reading, size)

    def watch(self, poll: select.poll) -> None:
        """Ask to read or, while something is left to be written, to write."""
        if self.pending:
            poll.register(self.descriptors[0], select.POLLOUT)
        elif not self.reading.closed:
            poll.register(self.reading, select.POLLIN)

    def pass_on(self, ready: dict[int, int]) -> None:
        """Read or write as much as can be without waiting."""
        if self.pending and self.descriptors[0] in ready:
            try:
                written = os.write(self.descriptors[0], self.pending[:_STEP_BYTES])
                self.pending = self.pending[written:]
            except BlockingIOError:
                pass
            except OSError:  # nobody reads: the command shall notice, by SIGPIPE
                self.pending = b""
                self.reading.close()
        elif not self.reading.closed and self.reading.fileno() in ready:
            data = b""
            with suppress(OSError):  # nobody has the terminal open any more
                data = os.read(self.reading.fileno(), _READ_BYTES)
            if not data:
                self.reading.close()
            self.pending = data
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Keep whole lines, so that no line of the other stream parts them."""
        data = self._line + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > _MAX_LINE_BYTES:
            end = len(data)
        self._kept.add(data[:end])
        self._line = data[end:]

    def keep_rest(self) -> None:
        """Keep the last line, too, which has no end."""
        if self._line:
            self._kept.add(self._line + b"\n")


class OutputRelay:
    """Stand in front of stdout and stderr if they are pipes, sockets or terminals."""

    def __init__(self) -> None:
        self._streams: list[_Stream] = []
        self._thread: threading.Thread | None = None
        self._waking = (-1, -1)
        self._kept = KeptOutput()
        groups = [[number] for number in _OUTPUTS if _is_passed_on(number)]
        if len(groups) == len(_OUTPUTS) and os.path.sameopenfile(*_OUTPUTS):
            groups = [[*_OUTPUTS]]
        for numbers in groups:
            with suppress(OSError):  # without descriptors or a terminal to be had
                self._streams.append(_Stream(numbers, self._kept))

    @property
    def file_actions(self) -> list[tuple[int, int, int]]:
        """What `os.posix_spawn` has to do for the command."""
        return [
            (os.POSIX_SPAWN_DUP2, stream.writing.fileno(), descriptor)
            for stream in self._streams
            for descriptor in stream.descriptors
        ]

    @property
    def output(self) -> tuple[bytes, bytes]:
        """The beginning and the end of what was written; `finish` has been called."""
        return self._kept.pieces

    def resize(self) -> bool:
        """Take the new size of the user's terminal; return whether there is one."""
        terminals = [stream for stream in self._streams if stream.is_terminal]
        for terminal in terminals:
            terminal.resize()
        return bool(terminals)

    def start(self) -> None:
        """Begin to pass on; the command has been started."""
        for stream in self._streams:
            stream.writing.close()
        if self._streams:
            self._waking = os.pipe()
            self._thread = threading.Thread(
                target=self._work,
                name="output relay",
                daemon=True,
            )
            self._thread.start()

    def finish(self) -> None:
        """Pass on what is left; the command has ended, or could not be started."""
        for stream in self._streams:
            stream.writing.close()
        if self._thread is not None:
            os.write(self._waking[1], b"x")
            self._thread.join()
            self._thread = None
            for descriptor in self._waking:
                os.close(descriptor)
            if not all(stream.is_done for stream in self._streams):
                self._fork_relay()
        for stream in self._streams:
            stream.reading.close()
            stream.keep_rest()

    def _work(self) -> None:
        with suppress(OSError):
            while not all(stream.is_done for stream in self._streams):
                if self._waking[0] in self._pass_on(None, self._waking[0]):
                    break
            # What the command has written is in the pipe; others may write for ever.
            until = time.monotonic() + _DRAIN_SECONDS
            while time.monotonic() <= until:
                has_pending = any(stream.pending for stream in self._streams)
                if not self._pass_on(_LAST_SECONDS if has_pending else 0.0):
                    break

    def _pass_on(
        self, seconds: float | None, waking: int | None = None
    ) -> dict[int, int]:
        """Wait until there is something to pass on, or a wake-up; return it."""
        poll = select.poll()
        for stream in self._streams:
            stream.watch(poll)
        if waking is not None:
            poll.register(waking, select.POLLIN)
        ready = dict(poll.poll(None if seconds is None else seconds * 1_000))
        for stream in self._streams:
            stream.pass_on(ready)
        return ready

    def _fork_relay(self) -> None:
        """Let a fork pass on later output; it ends when nobody can write any more."""
        with suppress(OSError):
            if os.fork():
                return
            try:
                for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
                    signal.signal(getattr(signal, name), signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                last = 2
                used = {
                    stream.reading.fileno()
                    for stream in self._streams
                    if not stream.reading.closed
                }
                for number in [*sorted(used), os.sysconf("SC_OPEN_MAX")]:
                    os.closerange(last + 1, min(number, 65_536))
                    last = number
                while not all(stream.is_done for stream in self._streams):
                    self._pass_on(None)
            finally:
                os._exit(0)


def _is_passed_on(descriptor: int) -> bool:
    """Tell whether a descriptor is a pipe, a socket (Node.js) or a terminal.

    Nor is what a harness throws away lost: the null device counts, too.
    """
    with suppress(OSError):
        status = os.fstat(descriptor)
        mode = status.st_mode
        is_stream = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
        return is_stream or os.path.samestat(status, os.stat(os.devnull))
    return False
