"""Pass on what a command writes to pipes, and keep the end of it, which may say why it failed.

Terminals and files are left to the command as they are: a terminal can't be passed on unseen, and a
file can be read afterwards. A pipe of our own in front of a pipe makes no difference to the
command. It neither loses output nor waits for a reader: what is not passed on when the command has
ended, because somebody else writes on or nobody reads, is left to a forked process.
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
from typing import Final

KEPT_BYTES: Final = 262_144
"""How much of the end of each pipe's output is kept."""
_STEP_BYTES: Final = 4_096
"""POSIX's PIPE_BUF on Linux: a pipe that can be written to takes as much without waiting."""
_READ_BYTES: Final = 65_536
_LAST_SECONDS: Final = 0.25
"""How long is waited at the end for a reader that is slow."""
_DRAIN_SECONDS: Final = 2.0
"""How long the passing on may take after the end of the command."""
_OUTPUTS: Final = (1, 2)


class _Pipe:
    """Our pipe in front of one of the user's."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.descriptors = tuple(descriptors)
        """Of the command: stdout, stderr, or both."""
        self.reading, self.writing = os.pipe()
        self.pending = b""
        self.kept = bytearray()
        self.is_open = True

    @property
    def is_done(self) -> bool:
        return not self.is_open and not self.pending

    def watch(self, poll: select.poll) -> None:
        """Ask to read or, while something is left to be written, to write."""
        if self.pending:
            poll.register(self.descriptors[0], select.POLLOUT)
        elif self.is_open:
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
                self.close()
        elif self.is_open and self.reading in ready:
            data = os.read(self.reading, _READ_BYTES)
            if not data:
                self.close()
            self.pending = data
            self.kept += data
            del self.kept[:-KEPT_BYTES]

    def close(self) -> None:
        """Read no more."""
        if self.is_open:
            os.close(self.reading)
            self.is_open = False

    def close_writing(self) -> None:
        """Leave the writing to the command."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


class OutputRelay:
    """Our pipes in front of those that stdout and stderr are, if any."""

    def __init__(self) -> None:
        self._pipes: list[_Pipe] = []
        self._thread: threading.Thread | None = None
        self._waking = (-1, -1)
        pipes = [number for number in _OUTPUTS if _is_pipe(number)]
        if len(pipes) == len(_OUTPUTS) and os.path.sameopenfile(*_OUTPUTS):
            self._pipes.append(_Pipe(pipes))
        else:
            self._pipes.extend(_Pipe([number]) for number in pipes)

    @property
    def file_actions(self) -> list[tuple[int, int, int]]:
        """What `os.posix_spawn` has to do for the command."""
        return [
            (os.POSIX_SPAWN_DUP2, pipe.writing, descriptor)
            for pipe in self._pipes
            for descriptor in pipe.descriptors
        ]

    @property
    def ends(self) -> list[bytes]:
        """The end of what was written to each pipe, that of stderr last."""
        return [bytes(pipe.kept) for pipe in self._pipes]

    def start(self) -> None:
        """Begin to pass on; the command has been started."""
        for pipe in self._pipes:
            pipe.close_writing()
        if self._pipes:
            self._waking = os.pipe()
            self._thread = threading.Thread(target=self._work, name="output relay", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Pass on what is left; the command has ended, or could not be started."""
        for pipe in self._pipes:
            pipe.close_writing()
        if self._thread is not None:
            os.write(self._waking[1], b"x")
            self._thread.join()
            self._thread = None
            for descriptor in self._waking:
                os.close(descriptor)
            if not all(pipe.is_done for pipe in self._pipes):
                self._leave_to_a_fork()
        for pipe in self._pipes:
            pipe.close()

    def _work(self) -> None:
        with suppress(OSError):
            while not all(pipe.is_done for pipe in self._pipes):
                ready = self._wait(None, self._waking[0])
                if self._waking[0] in ready:
                    break
            # What the command has written is in the pipe; others may write for ever.
            until = time.monotonic() + _DRAIN_SECONDS
            while ready := self._wait(_LAST_SECONDS if self._has_pending() else 0.0):
                for pipe in self._pipes:
                    pipe.pass_on(ready)
                if time.monotonic() > until:
                    break

    def _has_pending(self) -> bool:
        return any(pipe.pending for pipe in self._pipes)

    def _wait(self, seconds: float | None, waking: int | None = None) -> dict[int, int]:
        """Wait until something can be passed on; pass it on if somebody may wake us."""
        poll = select.poll()
        for pipe in self._pipes:
            pipe.watch(poll)
        if waking is not None:
            poll.register(waking, select.POLLIN)
        ready = dict(poll.poll(None if seconds is None else seconds * 1_000))
        if waking is not None:
            for pipe in self._pipes:
                pipe.pass_on(ready)
        return ready

    def _leave_to_a_fork(self) -> None:
        """Let another process pass on what comes later; it ends when nobody can write any more."""
        with suppress(OSError):
            if os.fork():
                return
            try:
                self._stay()
            finally:
                os._exit(0)

    def _stay(self) -> None:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        used = {pipe.reading for pipe in self._pipes if pipe.is_open}
        last = 2
        for number in [*sorted(used), os.sysconf("SC_OPEN_MAX")]:
            os.closerange(last + 1, min(number, 65_536))
            last = number
        while not all(pipe.is_done for pipe in self._pipes):
            ready = self._wait(None)
            for pipe in self._pipes:
                pipe.pass_on(ready)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False
