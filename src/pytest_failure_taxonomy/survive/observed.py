"""What another process saw of a running pytest: what was stalled, and its memory.

Both are files of the record that the watcher writes. A test may have written anything
into them.
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
_VERBS: Final[dict[evidence.StallState, str]] = {
    "polling": "polling for",
    "busy": "still running",
}
"""What is done by something that does anything."""


def words_of_subject(stall: evidence.SeenStall) -> str:
    """Name what is stalled: a test with its phase (unless `call`), a hook, a worker."""
    if stall.what == "test":
        phase = stall.phase or "call"
        return str(stall.nodeid) if phase == "call" else f"{stall.nodeid} ({phase})"
    name = stall.name or _WORDS[stall.what]
    if stall.worker:
        return f"{name} ({stall.worker})"
    return name


def words_of_stall(stall: evidence.SeenStall) -> str:
    """Return the line about what makes no progress."""
    state = stall.stall.state
    words = words_of_subject(stall)
    verb = _VERBS.get(state)
    if verb is None:
        verb = "stalled"
        words = f"{words} {words_at(state, stall.stall.where)}"
    elif stall.place:
        words = f"{words}, {stall.place}"
    left = stall.stall.left and f"; still running: {stall.stall.left}"
    return f"{verb} {stall.stall.seconds:.0f} s: {words}{left}"


def read_observed(folder: Folder) -> Observed:
    """Return it from the record in a folder; nothing if it can't be read."""
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
    """Return it from the record in a folder; `None` if nothing can be read."""
    with suppress(OSError):
        return parse_memory(folder.read(MEMORY, MAX_MEMORY_BYTES))
    return None


def parse_memory(content: bytes) -> evidence.MemorySeen | None:
    """Return it from JSON; `None` if that can't be understood."""
    with suppress(ValueError, TypeError, RecursionError):
        memory = RECORD.decode(evidence.MemorySeen, json.loads(content))
        fields = to_dict(memory).values()
        numbers = [number for number in fields if isinstance(number, int)]
        numbers += [process.peak_rss_bytes for process in memory.processes]
        if min(numbers) >= 0:
            return memory
        return None
    return None


def oom_kill_of(
    process_id: int, since_ns: int, until_ns: int
) -> evidence.OomKill | None:
    """Return the kernel's log of a process that it killed for lack of memory."""
    victim = find_oom_victim(process_id, since_ns / 1e9, until_ns / 1e9)
    if victim is None:
        return None
    return evidence.OomKill(rss_bytes=victim.rss_bytes, limit_bytes=victim.limit_bytes)


def context_of(run: RecordedRun, end: ProcessEnd) -> evidence.RunContext:
    """Return a run's context, with its duration if the time of its end is known."""
    header = run.header
    memory = end.exit.memory
    environment = header.context.environment
    duration = None
    if end.ended_ns is not None:
        duration = max(0, end.ended_ns - header.started_ns) / 1e9
    # The watcher starts after the header is written.
    watcher = run.last_of("watcher", environment.watcher)
    environment = replace(environment, watcher=watcher)
    if memory is not None:
        use = _describe_memory(memory, end.exit.oom_kill, header.process.pid)
        if use != evidence.MemoryUse():
            environment = replace(environment, memory=use)
    return replace(header.context, duration_seconds=duration, environment=environment)


def _describe_memory(
    memory: evidence.MemorySeen, kill: evidence.OomKill | None, process_id: int
) -> evidence.MemoryUse:
    group_peak = memory.cgroup_peak_bytes
    own_peak = memory.peak_of(process_id) or 0
    if kill is not None:
        own_peak = max(own_peak, kill.rss_bytes)
        # All of the group was used, if a process was killed for that.
        if kill.limit_bytes == memory.limit_bytes:
            group_peak = memory.limit_bytes
    return evidence.MemoryUse(
        limit_bytes=memory.limit_bytes,
        cgroup_peak_bytes=group_peak,
        peak_rss_bytes=own_peak or None,
    )
