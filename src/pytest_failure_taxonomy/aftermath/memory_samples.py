"""Look once a second how much memory a run uses: for the watcher, in hardly any time and memory.

The kernel itself keeps the peak of each process, so that few looks are enough; what a process used
last can't be read any more once it has been killed.
"""

from __future__ import annotations

import time

from pytest_failure_taxonomy.system.memory import children_of, find_control_group, memory_of

PERIOD_SECONDS = 1.0
SHARE_OF_A_CORE = 0.001
"""How much of a core the looks may take; with many processes there are fewer looks."""
MAX_PROCESSES = 256
"""Processes that one look reads, and whose peaks are kept."""


class MemorySampler:
    """Remember how much memory a process and its descendants used."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._group = find_control_group()
        self._peaks: dict[int, int] = {}
        self._peak_of_group = 0
        self._used: int | None = None
        self._rss: int | None = None
        self._total: int | None = None
        self._at_ns = 0
        self._due = 0.0

    def wait_seconds(self) -> float:
        """Return how long to wait for the next look."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> None:
        """Look once, if it is time."""
        if self.wait_seconds() > 0:
            return
        before = time.process_time()
        try:
            self._look()
        finally:
            cost = time.process_time() - before
            self._due = time.monotonic() + max(PERIOD_SECONDS, cost / SHARE_OF_A_CORE)

    def _look(self) -> None:
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
        if rss is None:  # it has ended: what was seen before is the last
            return
        self._at_ns = time.monotonic_ns()
        self._used, self._rss, self._total = used, rss, total
        self._peak_of_group = max(self._peak_of_group, used or 0)

    def seen(self) -> dict[str, object]:
        """Return what was seen, as JSON holds it; see `recorder.record.samples`."""
        peak = self._group.peak_bytes if self._group is not None else None
        return {
            "at_ns": self._at_ns,
            "limit_bytes": None if self._group is None else self._group.limit_bytes,
            "cgroup_peak_bytes": peak or self._peak_of_group or None,
            "used_bytes": self._used,
            "rss_bytes": self._rss,
            "total_rss_bytes": self._total,
            "processes": [
                {"pid": process_id, "peak_rss_bytes": peak_rss}
                for process_id, peak_rss in sorted(self._peaks.items())
            ],
        }
