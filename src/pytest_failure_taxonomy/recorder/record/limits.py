"""From what was noted of a test to the time limits that it was under."""

from __future__ import annotations

from pytest_failure_taxonomy.recorder.record.reader import Timer
from pytest_failure_taxonomy.taxonomy.evidence import TimeLimit


def limits_of_test(
    nodeid: str,
    *,
    elapsed_seconds: float,
    ended_ns: int,
    timer: Timer | None,
    faulthandler_seconds: float | None,
) -> tuple[TimeLimit, ...]:
    """Return the limits that could have ended the process in which a test was running.

    Args:
        nodeid: the test.
        elapsed_seconds: how long it had run; faulthandler's limit is one of the whole test.
        ended_ns: when the process ended, on the monotonic clock of the same boot.
        timer: the timer of pytest-timeout that was armed then.
        faulthandler_seconds: when faulthandler would have ended the process, if it would.
    """
    found: list[tuple[str, float, float]] = []
    if timer is not None:
        elapsed = (ended_ns - timer.armed_ns) / 1e9
        found.append((f"pytest-timeout ({timer.method})", timer.budget_seconds, elapsed))
    if faulthandler_seconds:
        found.append(("faulthandler_timeout", faulthandler_seconds, elapsed_seconds))
    return tuple(
        TimeLimit(owner=owner, budget_seconds=budget, elapsed_seconds=elapsed, nodeid=nodeid)
        for owner, budget, elapsed in found
    )
