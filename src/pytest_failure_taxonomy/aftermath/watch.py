"""The process that watches pytest: run as a script by `watcher`, with the standard library alone.

It waits for one process to end, and imports the package only if there is a report to complete. It
inherits the descriptors of the record, because a test may remove the files.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from pytest_failure_taxonomy.aftermath.memory_samples import MemorySampler

_HEAD = struct.Struct("<8sIiII")  # as in record/layout.py, which is imported only when it is needed

_MAX_SECONDS = 120
"""The time for all work after pytest's end; half a million tests take a twentieth of it."""
_MAX_BYTES = 512 * 1024 * 1024  # as in record/layout.py

# linux/pidfd.h: PIDFD_GET_INFO returns the exit status of a reaped process (Linux 6.15).
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii8x")
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO.size << 16) | (0xFF << 8) | 11


def watch(
    pidfd: int,
    files: list[int],
    process_id: int,
    root: str,
    report: str,
    run_id: str,
    *others: str,
) -> None:
    """Wait for the end of a process, and complete its report unless it is complete.

    Args:
        pidfd: a descriptor of the process.
        files: descriptors of the two files of its record.
        process_id: its id.
        root: the folder of the package.
        report: the path of its report.
        run_id: the run.
        others: further folders to import from.
    """
    sys.path[:0] = [root, *others]
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    memory = Memory(process_id)
    while not poller.poll(memory.wait_ms()):
        memory.look()
    ended_ns = time.monotonic_ns()
    _end_in_time()
    status = _wait_status(pidfd, process_id)
    if _is_done(files[0], status):
        return
    from pytest_failure_taxonomy.aftermath.complete import complete_watched

    contents = [_read(file) for file in files]
    complete_watched(report, run_id, status, ended_ns, contents, memory=memory.seen())


class Memory:
    """Look now and then how much memory a run uses; a short run is not looked at."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._sampler: MemorySampler | None = None
        self._is_broken = False

    def wait_ms(self) -> float | None:
        """Return how long to wait for the next look, `None` for ever."""
        if self._is_broken:
            return None
        return 1e3 if self._sampler is None else 1e3 * self._sampler.wait_seconds()

    def look(self) -> None:
        """Look once."""
        try:
            self._begun().look()
        except Exception:  # noqa: BLE001 - without a look, but the report is completed
            self._is_broken = True

    def seen(self) -> dict[str, object] | None:
        """Return what was seen."""
        try:
            return self._begun().seen()
        except Exception:  # noqa: BLE001 - likewise
            return None

    def _begun(self) -> MemorySampler:
        if self._sampler is None:
            from pytest_failure_taxonomy.aftermath.memory_samples import MemorySampler

            self._sampler = MemorySampler(self._process_id)
        return self._sampler


def _wait_status(pidfd: int, process_id: int) -> int | None:
    """Return the status of a process that is no child, as `waitpid` would; `None` if unknown.

    While it is a zombie, `/proc` has the status. After it was reaped, the pidfd has it.
    """
    for _ in range(50):
        try:
            with open(f"/proc/{process_id}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(") ")[2].split()
            if fields[0] in "ZX" and len(fields) > 49:
                return int(fields[49])
        except (OSError, ValueError, IndexError):
            pass
        status = _status_from_pidfd(pidfd)
        if status is not None:
            return status
        time.sleep(0.002)
    return None


def _status_from_pidfd(pidfd: int) -> int | None:
    import fcntl

    asked = bytearray(_PIDFD_INFO.size)
    struct.pack_into("=Q", asked, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, asked)
    except OSError:
        return None
    answer = _PIDFD_INFO.unpack(asked)
    return int(answer[-1]) if answer[0] & _PIDFD_INFO_EXIT else None


def _is_done(state: int, status: int | None) -> bool:
    """Tell whether the report was written, and the process ended with the session's exit code."""
    head = _read(state)[: _HEAD.size]
    if len(head) < _HEAD.size:
        return False
    _, finished, code, _, written = _HEAD.unpack(head)
    return bool(finished and written) and (status is None or status == code << 8)


def _end_in_time() -> None:
    """Have the system end this process if its work takes too long.

    A test may have left anything in the record, and this process ignores the user's signals.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(_MAX_SECONDS)


def _read(descriptor: int) -> bytes:
    try:
        size = min(os.fstat(descriptor).st_size, _MAX_BYTES)
        return os.pread(descriptor, size, 0)
    except OSError:
        return b""


def _detach(keep: list[int]) -> None:
    """Detach this process from the run: from its session, signals, folder and descriptors."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    os.chdir("/")
    for low, high in zip([2, *keep], [*keep, 1 << 16], strict=True):
        os.closerange(low + 1, high)


if __name__ == "__main__":
    descriptors = [int(number) for number in sys.argv[1].split(",")]
    _detach(sorted(descriptors))
    watch(descriptors[0], descriptors[1:], int(sys.argv[2]), *sys.argv[3:])
