"""Look once a second how much memory a run uses: for the watcher, in hardly any time and memory.

The kernel itself keeps the peak of each process, so that few looks are enough; what a process used
last can't be read any more once it has been killed.
"""

from __future__ import annotations

import os
import stat
import time

from pytest_failure_taxonomy.system.memory import children_of, find_control_group, memory_of

PERIOD_SECONDS = 1.0
SHARE_OF_A_CORE = 0.001
"""How much of a core the looks may take; with many processes there are fewer looks."""
FILE = "memory"  # as in record/layout.py; a test compares them
_PADDED_BYTES = 16_384
"""The length of what is written, so that nothing is left of what was written before."""
MAX_PROCESSES = 256
"""Processes that one look reads, and whose peaks are kept."""


class MemorySampler:
    """Remember how much memory a process and its descendants used."""

    def __init__(self, process_id: int, folder: str | None = None) -> None:
        """Begin without a look.

        Args:
            process_id: the process.
            folder: of its record; what was seen is written into a file there.
        """
        self._process_id = process_id
        self._file = -1 if folder is None else _open_file(folder)
        self._group = find_control_group()
        self._peaks: dict[int, int] = {}
        self._peak_of_group = 0
        self._used: int | None = None
        self._rss: int | None = None
        self._total: int | None = None
        self._at_ns = 0

    def look(self) -> float:
        """Look once; return how many seconds to wait for the next look."""
        before = time.process_time()
        used = None if self._group is None else self._group.used_bytes
        rss, total, waiting, seen = None, 0, [self._process_id], 0
        while waiting and seen < MAX_PROCESSES:
            process_id = waiting.pop()
            seen += 1
            sizes = memory_of(process_id)
            if "VmRSS" not in sizes:
                continue
            total += sizes["VmRSS"]
            if process_id == self._process_id:
                rss = sizes["VmRSS"]
            if process_id in self._peaks or len(self._peaks) < MAX_PROCESSES:
                peak = max(sizes["VmRSS"], sizes.get("VmHWM", 0))
                self._peaks[process_id] = max(peak, self._peaks.get(process_id, 0))
            waiting += children_of(process_id)
        if rss is not None:  # or else it has ended: what was seen before is the last
            self._at_ns = time.monotonic_ns()
            self._used, self._rss, self._total = used, rss, total
            self._peak_of_group = max(self._peak_of_group, used or 0)
            if self._file >= 0:
                os.pwrite(self._file, self.seen().ljust(_PADDED_BYTES) + b"\n", 0)
        return max(PERIOD_SECONDS, (time.process_time() - before) / SHARE_OF_A_CORE)

    def seen(self) -> bytes:
        """Return what was seen, in JSON; see `record.memory`."""
        peak = self._group.peak_bytes if self._group is not None else None
        numbers = {
            "at_ns": self._at_ns,
            "limit_bytes": None if self._group is None else self._group.limit_bytes,
            "cgroup_peak_bytes": peak or self._peak_of_group or None,
            "used_bytes": self._used,
            "rss_bytes": self._rss,
            "total_rss_bytes": self._total,
        }
        processes = (
            _json_of({"pid": process_id, "peak_rss_bytes": peak_rss})
            for process_id, peak_rss in sorted(self._peaks.items())
        )
        return f'{_json_of(numbers)[:-1]}, "processes": [{", ".join(processes)}]}}'.encode("ascii")


def _json_of(numbers: dict[str, int | None]) -> str:
    """Return an object of numbers in JSON, whose module would take more memory than all this."""
    words = (f'"{name}": {"null" if each is None else each}' for name, each in numbers.items())
    return f"{{{', '.join(words)}}}"


def _open_file(folder: str) -> int:
    """Open the file that pytest has made; return -1 if a test has put something else there."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags)
    except OSError:
        return -1
    try:
        opened = os.open(FILE, os.O_WRONLY | os.O_NONBLOCK | flags, dir_fd=within)
    except OSError:
        return -1
    finally:
        os.close(within)
    seen = os.fstat(opened)
    if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 and seen.st_uid == os.geteuid():
        return opened
    os.close(opened)
    return -1
