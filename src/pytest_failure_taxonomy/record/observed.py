"""What another process has seen of a run while it lived: what was stalled, and its memory.

Both are files of the record that the watcher writes; a test may have written anything into them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.record.layout import MEMORY, OBSERVED, OBSERVED_NEW
from pytest_failure_taxonomy.record.read import parse
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.kernel_log import find_oom_victim
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

MAX_OBSERVED_BYTES: Final = 8 * 1024 * 1024
"""The stacks of a hundred workers take a quarter of it."""
MAX_MEMORY_BYTES: Final = 64 * 1024
"""Four times what the watcher writes."""
_SLACK_NS: Final = 1_000_000_000
"""By how much two measurements of a test's start may differ."""


@value
class Observed:
    """What another process has seen of a run while it lived."""

    stalls: tuple[evidence.SeenStall, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen."""


_WORDS: Final[dict[evidence.Activity, str]] = {
    "collection": "the collection",
    "session": "the end of the session",
    "shutdown": "the interpreter's end",
    "controller": "xdist's controller",
}


def words_of_subject(stall: evidence.SeenStall) -> str:
    """Name what is stalled: a test, and its phase if that is not the call; a hook, a worker."""
    if stall.what == "test":
        phase = "" if stall.phase in ("call", None) else f" ({stall.phase})"
        return f"{stall.nodeid}{phase}"
    worker = f" ({stall.worker})" if stall.worker else ""
    return f"{stall.name or _WORDS[stall.what]}{worker}"


def times_of_limit(stall: evidence.SeenStall, limit_seconds: float) -> int:
    """Return after how many limits it was to be told lately, which is 1, 2, 4, 8 and so on."""
    times = 1
    while stall.stall.seconds >= 2 * times * limit_seconds:
        times *= 2
    return times


def read_observed(folder: Folder) -> Observed:
    """Return what the record in a folder has of it; nothing if it can't be read."""
    with suppress(OSError):
        return parse_observed(folder.read(OBSERVED, MAX_OBSERVED_BYTES))
    return Observed()


def parse_observed(content: bytes) -> Observed:
    """Parse the contents of the file; nothing comes of what can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        return parse(Observed, json.loads(content), ignores_unknown=True)
    return Observed()


def encode_observed(observed: Observed) -> bytes:
    """Return the contents of the file."""
    return json.dumps(observed, default=to_dict).encode("ascii")


def write_observed(folder: Folder, content: bytes) -> None:
    """Replace the file as a whole.

    Raises:
        OSError: if it can't be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(folder.open_file(OBSERVED_NEW, flags), "wb") as file:
        file.write(content)
    folder.rename(OBSERVED_NEW, OBSERVED)


def with_stalls(
    run: evidence.RunEvidence, observed: Observed, *, ended_ns: int | None, is_over: bool
) -> evidence.RunEvidence:
    """Return the evidence with what was stalled at the end.

    Args:
        run: what else was seen of it.
        observed: what was seen before its end. A test that went on since is not stalled.
        ended_ns: when the run ended, on the monotonic clock; `None` if unknown.
        is_over: the session has ended, so that nothing but the interpreter's end can be stalled.
    """
    was_idle = not run.in_flight and not run.counts.ran
    was_interrupted = not run.finished or bool(run.interruptions)
    in_flight = {test.nodeid for test in run.in_flight}
    return replace(
        run,
        ended_tests=tuple(
            each
            for each in observed.stalls
            if each.stall.is_ended and each.worker is None
            if each.nodeid is not None and each.nodeid not in in_flight
        ),
        in_flight=tuple(_with_stall(test, observed, ended_ns) for test in run.in_flight),
        stalls=tuple(
            each
            for each in stalled_activities(observed, ended_ns, is_over=is_over)
            if is_over
            or each.stall.is_ended
            or (was_interrupted and (each.what != "collection" or was_idle))
        ),
    )


def stalled_activities(
    observed: Observed, ended_ns: int | None, *, is_over: bool
) -> tuple[evidence.SeenStall, ...]:
    """Return what was stalled and is no test."""
    return tuple(
        replace(each, stall=_until(each, ended_ns))
        for each in observed.stalls
        if each.what != "test" and (each.what == "shutdown") == is_over
    )


def stall_of_worker(observed: Observed, worker: str) -> evidence.Stall | None:
    """Return the stall for which a worker was ended, or `None`."""
    for each in observed.stalls:
        if each.worker == worker and each.stall.is_ended:
            return each.stall
    return None


def _with_stall(
    test: evidence.InFlightTest, observed: Observed, ended_ns: int | None
) -> evidence.InFlightTest:
    wanted = "test", test.nodeid, test.worker, test.phase
    for each in observed.stalls:
        if (each.what, each.nodeid, each.worker, each.phase) != wanted:
            continue
        # One that began before the test did is that of an earlier run of it.
        elapsed_ns = (test.elapsed_seconds or 0.0) * 1e9 + _SLACK_NS
        if not ended_ns or test.elapsed_seconds is None or ended_ns - elapsed_ns <= each.began_ns:
            place = test.location or each.stall.location
            return replace(test, stall=_until(each, ended_ns), location=place)
    return test


def _until(seen: evidence.SeenStall, ended_ns: int | None) -> evidence.Stall:
    since = max(0, (ended_ns or 0) - seen.seen_ns) / 1e9
    return replace(seen.stall, seconds=round(seen.stall.seconds + since, 3))


# Its memory.


@value
class ProcessPeak:
    """The most resident memory that a process was seen to use."""

    pid: int
    peak_rss_bytes: int


@value
class MemorySeen:
    """What `system.memory.MemorySampler` has seen of a run; all sizes are in bytes."""

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
        numbers = [each for each in to_dict(seen).values() if isinstance(each, int)]
        numbers += [each.peak_rss_bytes for each in seen.processes]
        return seen if min(numbers) >= 0 else None
    return None


def peak_of(seen: MemorySeen | None, process_id: int | None) -> int | None:
    """Return the most resident memory that a process was seen to use."""
    for each in seen.processes if seen is not None else ():
        if each.pid == process_id:
            return each.peak_rss_bytes
    return None


def oom_kill_of(process_id: int, since_ns: int, until_ns: int) -> evidence.OomKill | None:
    """Return what the kernel's log says of a process that it killed for want of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return evidence.OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)
