"""What another process has seen of the memory of a run, and its place in the evidence."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.record.layout import MEMORY
from pytest_failure_taxonomy.record.parsing import parse
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.kernel_log import find_oom_victim
from pytest_failure_taxonomy.taxonomy.evidence import (
    MemorySample,
    MemoryUse,
    OomKill,
    ProcessExit,
    RunContext,
    RunEvidence,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

MAX_MEMORY_BYTES: Final = 64 * 1024
"""Four times what the watcher writes."""


@value
class ProcessPeak:
    """The most resident memory that a process was seen to use."""

    pid: int
    peak_rss_bytes: int


@value
class MemorySeen:
    """What `watcher.memory` has seen of a run; all sizes are in bytes."""

    at_ns: int = 0
    """When it looked last, on the monotonic clock; 0 for never."""
    limit_bytes: int | None = None
    cgroup_peak_bytes: int | None = None
    used_bytes: int | None = None
    rss_bytes: int | None = None
    total_rss_bytes: int | None = None
    processes: tuple[ProcessPeak, ...] = ()


def read_memory(folder: Folder) -> MemorySeen | None:
    """Return what the record in a folder has of it; `None` if nothing can be read."""
    with suppress(OSError):
        return parse_memory(folder.read(MEMORY, MAX_MEMORY_BYTES))
    return None


def parse_memory(content: bytes) -> MemorySeen | None:
    """Return what was seen, from JSON; `None` for what can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        seen = parse(MemorySeen, json.loads(content))
        numbers = (*_numbers(seen), *(each.peak_rss_bytes for each in seen.processes))
        return seen if min(numbers) >= 0 else None
    return None


def _numbers(seen: MemorySeen) -> list[int]:
    return [each for each in to_dict(seen).values() if isinstance(each, int)]


def peak_of(seen: MemorySeen | None, process_id: int | None) -> int | None:
    """Return the most resident memory that a process was seen to use."""
    for each in seen.processes if seen is not None else ():
        if each.pid == process_id:
            return each.peak_rss_bytes
    return None


def with_memory(end: ProcessExit, seen: MemorySeen | None) -> ProcessExit:
    """Return the end of a process with what was last seen of its memory."""
    if seen is None or not seen.at_ns:
        return end
    sample = MemorySample(
        used_bytes=seen.used_bytes,
        limit_bytes=seen.limit_bytes,
        rss_bytes=seen.rss_bytes,
        total_rss_bytes=seen.total_rss_bytes,
    )
    return replace(end, memory=sample)


def with_peaks(run: RunEvidence, seen: MemorySeen | None) -> RunEvidence:
    """Return the evidence with the peaks of workers that did not say theirs."""
    workers = (
        worker
        if worker.peak_rss_bytes is not None
        else replace(worker, peak_rss_bytes=peak_of(seen, worker.process_id))
        for worker in run.workers
    )
    return run if seen is None else replace(run, workers=tuple(workers))


def context_with_memory(
    context: RunContext, end: ProcessExit, seen: MemorySeen | None, process_id: int
) -> RunContext:
    """Return the context with the memory that the run of a process used until its end."""
    if seen is None:
        return context
    last = None if end.oom_kill is None else end.oom_kill.rss_bytes
    peaks = [each for each in (peak_of(seen, process_id), last) if each is not None]
    use = MemoryUse(
        limit_bytes=seen.limit_bytes,
        cgroup_peak_bytes=_peak_of_group(end, seen),
        peak_rss_bytes=max(peaks, default=None),
    )
    if use == MemoryUse():
        return context
    return replace(context, environment=replace(context.environment, memory=use))


def _peak_of_group(end: ProcessExit, seen: MemorySeen) -> int | None:
    """Return the most that the control group used: all of it, if a process was killed for that."""
    is_full = end.oom_kill is not None and end.oom_kill.limit_bytes == seen.limit_bytes
    return seen.limit_bytes if is_full else seen.cgroup_peak_bytes


def oom_kill_of(process_id: int, since_ns: int, until_ns: int) -> OomKill | None:
    """Return what the kernel's log says of a process that it killed for want of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)
