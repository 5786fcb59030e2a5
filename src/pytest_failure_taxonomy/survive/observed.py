"""What another process has seen of a run while it lived: what was stalled, and its memory.

Both are files of the record that the watcher writes. A test may have written anything into
them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.report.codec import RECORD
from pytest_failure_taxonomy.survive.facts import Observed, ProcessEnd
from pytest_failure_taxonomy.survive.layout import MEMORY, OBSERVED, OBSERVED_NEW
from pytest_failure_taxonomy.survive.reader import RecordedRun
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.kernel_log import find_oom_victim
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict
from pytest_failure_taxonomy.taxonomy.words import words_at

MAX_OBSERVED_BYTES: Final = 8 * 1024 * 1024
"""The stacks of a hundred workers take a quarter of it."""
MAX_MEMORY_BYTES: Final = 64 * 1024
"""Four times what the watcher writes."""
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


def words_of_stall(stall: evidence.SeenStall) -> str:
    """Return the line that tells of what makes no progress."""
    state, seconds = stall.stall.state, stall.stall.seconds
    what, at = words_of_subject(stall), f", {stall.place}" if stall.place else ""
    if state == "polling":
        return f"polling for {seconds:.0f} s: {what}{at}"
    if state == "busy":
        return f"still running {seconds:.0f} s: {what}{at}"
    return f"stalled {seconds:.0f} s: {what} {words_at(state, stall.stall.where)}"


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
        return RECORD.decode_known(Observed, json.loads(content))
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


# Its memory.


def read_memory(folder: Folder) -> evidence.MemorySeen | None:
    """Return what the record in a folder has of it; `None` if nothing can be read."""
    with suppress(OSError):
        return parse_memory(folder.read(MEMORY, MAX_MEMORY_BYTES))
    return None


def parse_memory(content: bytes) -> evidence.MemorySeen | None:
    """Return what was seen, from JSON; `None` for what can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        seen = RECORD.decode(evidence.MemorySeen, json.loads(content))
        numbers = [each for each in to_dict(seen).values() if isinstance(each, int)]
        numbers += [each.peak_rss_bytes for each in seen.processes]
        return seen if min(numbers) >= 0 else None
    return None


def oom_kill_of(
    process_id: int, since_ns: int, until_ns: int
) -> evidence.OomKill | None:
    """Return what the kernel's log says of a process that it killed for want of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return evidence.OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)


def context_of(run: RecordedRun, end: ProcessEnd) -> evidence.RunContext:
    """Return the context of a run, with its duration if the time of its end is known."""
    since = run.header.started_ns
    duration = None if end.ended_ns is None else max(0, end.ended_ns - since) / 1e9
    environment = run.header.context.environment
    for watcher in run.named(
        "watcher"
    ):  # the watcher starts after the header is written
        environment = replace(environment, watcher=watcher)
    if (memory := end.exit.memory) is not None:
        kill = end.exit.oom_kill
        # All of the group was used, if a process was killed for that.
        is_full = kill is not None and kill.limit_bytes == memory.limit_bytes
        last = 0 if kill is None else kill.rss_bytes
        use = evidence.MemoryUse(
            limit_bytes=memory.limit_bytes,
            cgroup_peak_bytes=memory.limit_bytes
            if is_full
            else memory.cgroup_peak_bytes,
            peak_rss_bytes=max(memory.peak_of(run.header.process.pid) or 0, last)
            or None,
        )
        if use != evidence.MemoryUse():
            environment = replace(environment, memory=use)
    return replace(
        run.header.context, duration_seconds=duration, environment=environment
    )
