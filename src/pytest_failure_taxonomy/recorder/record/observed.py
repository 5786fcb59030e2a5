"""What another process has seen of a run while it lived: a file of the record, and evidence.

The file is written by the watcher, and a test may have written anything into it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final, Literal

from pytest_failure_taxonomy.recorder.record.layout import OBSERVED, OBSERVED_NEW
from pytest_failure_taxonomy.recorder.record.parsing import parse
from pytest_failure_taxonomy.system.own_files import Folder
from pytest_failure_taxonomy.taxonomy.evidence import (
    Activity,
    InFlightTest,
    Phase,
    RunEvidence,
    Stall,
    StalledActivity,
    StalledTest,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

MAX_OBSERVED_BYTES: Final = 8 * 1024 * 1024
"""The stacks of a hundred workers take a quarter of it."""
_SLACK_NS: Final = 1_000_000_000
"""By how much two measurements of a test's start may differ."""


@value
class ObservedStall:
    """A stall that was seen, and may have ended since."""

    what: Literal["test"] | Activity
    stall: Stall
    began_ns: int
    """When the last progress was seen, on the monotonic clock."""
    seen_ns: int
    """When it was looked at."""
    worker: str | None = None
    nodeid: str | None = None
    """Of the test."""
    phase: Phase | None = None
    name: str | None = None
    """What is being imported or called."""
    place: str | None = None
    """Where it is, and in which function: `tests/conftest.py:217 in wait_for_log`."""
    told: int = 0
    """How many times the limit had passed when the user was last told; 0 for never."""


@value
class Observed:
    """What another process has seen of a run while it lived."""

    stalls: tuple[ObservedStall, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be seen."""


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
    if not observed.stalls:
        return evidence
    activities = stalled_activities(observed, ended_ns, is_over=is_over)
    was_idle = not evidence.in_flight and not evidence.counts.ran
    was_interrupted = not evidence.finished or bool(evidence.interruptions)
    in_flight = {test.nodeid for test in evidence.in_flight}
    return replace(
        evidence,
        ended_tests=tuple(
            StalledTest(nodeid=each.nodeid, stall=each.stall)
            for each in observed.stalls
            if each.stall.is_ended and each.worker is None
            if each.nodeid is not None and each.nodeid not in in_flight
        ),
        in_flight=tuple(_with_stall(test, observed, ended_ns) for test in evidence.in_flight),
        stalls=tuple(
            each
            for each in activities
            if is_over
            or each.stall.is_ended
            or (was_interrupted and (each.what != "collection" or was_idle))
        ),
    )


def stalled_activities(
    observed: Observed, ended_ns: int | None, *, is_over: bool
) -> tuple[StalledActivity, ...]:
    """Return what was stalled and is no test."""
    return tuple(
        StalledActivity(
            what=each.what,
            stall=_until(each, ended_ns),
            worker=each.worker,
            name=each.name,
        )
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
    for each in observed.stalls:
        if (each.what, each.nodeid, each.worker) != ("test", test.nodeid, test.worker):
            continue
        if each.phase == test.phase and _began_before(test, each, ended_ns):
            place = test.location or each.stall.location
            return replace(test, stall=_until(each, ended_ns), location=place)
    return test


def _began_before(test: InFlightTest, seen: ObservedStall, ended_ns: int | None) -> bool:
    """Tell whether it is the same run of a test, rather than a later one."""
    if ended_ns is None or test.elapsed_seconds is None:
        return True
    return ended_ns - test.elapsed_seconds * 1e9 <= seen.began_ns + _SLACK_NS


def _until(seen: ObservedStall, ended_ns: int | None) -> Stall:
    if ended_ns is None:
        return seen.stall
    since = max(0, ended_ns - seen.seen_ns) / 1e9
    return replace(seen.stall, seconds=round(seen.stall.seconds + since, 3))
