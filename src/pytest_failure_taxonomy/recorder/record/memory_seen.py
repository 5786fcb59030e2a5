"""What another process has seen of the memory of a run, and its place in the evidence."""

from __future__ import annotations

from typing import Any

from pytest_failure_taxonomy.recorder.record.parsing import ParseError, parse
from pytest_failure_taxonomy.system.kernel_log import find_oom_victim
from pytest_failure_taxonomy.taxonomy.evidence import (
    MemorySample,
    MemoryUse,
    OomKill,
    ProcessExit,
    RunContext,
    RunEvidence,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value


@value
class ProcessPeak:
    """The most resident memory that a process was seen to use."""

    pid: int
    peak_rss_bytes: int


@value
class MemorySeen:
    """What `aftermath.memory_samples` has seen of a run; all sizes are in bytes."""

    at_ns: int = 0
    """When it looked last, on the monotonic clock; 0 for never."""
    limit_bytes: int | None = None
    cgroup_peak_bytes: int | None = None
    used_bytes: int | None = None
    rss_bytes: int | None = None
    total_rss_bytes: int | None = None
    processes: tuple[ProcessPeak, ...] = ()


def parse_memory(sent: Any) -> MemorySeen | None:
    """Return what was seen, from JSON; `None` for what can't be understood."""
    if sent is None:
        return None
    try:
        return parse(MemorySeen, sent)
    except ParseError:
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
    peaks = {each.pid: each.peak_rss_bytes for each in seen.processes} if seen else {}
    if not peaks or not run.workers:
        return run
    workers = (
        worker
        if worker.peak_rss_bytes is not None or worker.process_id not in peaks
        else replace(worker, peak_rss_bytes=peaks[worker.process_id])
        for worker in run.workers
    )
    return replace(run, workers=tuple(workers))


def context_with_memory(
    context: RunContext, end: ProcessExit, seen: MemorySeen | None, process_id: int
) -> RunContext:
    """Return the context with the memory that the run of a process used until its end."""
    if seen is None:
        return context
    peaks = [each.peak_rss_bytes for each in seen.processes if each.pid == process_id]
    if end.oom_kill is not None:
        peaks.append(end.oom_kill.rss_bytes)
    use = MemoryUse(
        limit_bytes=seen.limit_bytes,
        cgroup_peak_bytes=seen.cgroup_peak_bytes,
        peak_rss_bytes=max(peaks, default=None),
    )
    if use == MemoryUse():
        return context
    return replace(context, environment=replace(context.environment, memory=use))


def oom_kill_of(process_id: int, since_ns: int, until_ns: int) -> OomKill | None:
    """Return what the kernel's log says of a process that it killed for want of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)
