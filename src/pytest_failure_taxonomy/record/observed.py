"""What another process has seen of a run while it lived: a file of the record, and evidence.

The file is written by the watcher, and a test may have written anything into it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.record.layout import OBSERVED, OBSERVED_NEW
from pytest_failure_taxonomy.record.parsing import parse
from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.taxonomy.evidence import (
    Activity,
    InFlightTest,
    RunEvidence,
    SeenStall,
    Stall,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

MAX_OBSERVED_BYTES: Final = 8 * 1024 * 1024
"""The stacks of a hundred workers take a quarter of it."""
_SLACK_NS: Final = 1_000_000_000
"""By how much two measurements of a test's start may differ."""


@value
class Observed:
    """What another process has seen of a run while it lived."""

    stalls: tuple[SeenStall, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen."""


_WORDS: Final[dict[Activity, str]] = {
    "collection": "the collection",
    "session": "the end of the session",
    "shutdown": "the interpreter's end",
    "controller": "xdist's controller",
}


def words_of_subject(stall: SeenStall) -> str:
    """Name what is stalled: a test, and its phase if that is not the call; a hook, a worker."""
    if stall.what == "test":
        phase = "" if stall.phase in ("call", None) else f" ({stall.phase})"
        return f"{stall.nodeid}{phase}"
    worker = f" ({stall.worker})" if stall.worker else ""
    return f"{stall.name or _WORDS[stall.what]}{worker}"


def times_of_limit(stall: SeenStall, limit_seconds: float) -> int:
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
    evidence: RunEvidence, observed: Observed, *, ended_ns: int | None, is_over: bool
) -> RunEvidence:
    """Return the evidence with what was stalled at the end.

    Args:
        evidence: of the run.
        observed: what was seen before its end. A test that went on since is not stalled.
        ended_ns: when the run ended, on the monotonic clock; `None` if unknown.
        is_over: the session has ended, so that nothing but the interpreter's end can be stalled.
    """
    was_idle = not evidence.in_flight and not evidence.counts.ran
    was_interrupted = not evidence.finished or bool(evidence.interruptions)
    in_flight = {test.nodeid for test in evidence.in_flight}
    return replace(
        evidence,
        ended_tests=tuple(
            each
            for each in observed.stalls
            if each.stall.is_ended and each.worker is None
            if each.nodeid is not None and each.nodeid not in in_flight
        ),
        in_flight=tuple(_with_stall(test, observed, ended_ns) for test in evidence.in_flight),
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
) -> tuple[SeenStall, ...]:
    """Return what was stalled and is no test."""
    return tuple(
        replace(each, stall=_until(each, ended_ns))
        for each in observed.stalls
        if each.what != "test" and (each.what == "shutdown") == is_over
    )


def stall_of_worker(observed: Observed, worker: str) -> Stall | None:
    """Return the stall for which a worker was ended, or `None`."""
    for each in observed.stalls:
        if each.worker == worker and each.stall.is_ended:
            return each.stall
    return None


def _with_stall(test: InFlightTest, observed: Observed, ended_ns: int | None) -> InFlightTest:
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


def _until(seen: SeenStall, ended_ns: int | None) -> Stall:
    since = max(0, (ended_ns or 0) - seen.seen_ns) / 1e9
    return replace(seen.stall, seconds=round(seen.stall.seconds + since, 3))
