"""When each test ran and where, how long the workers were idle, and where the time went."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.words import counted, seconds_words

_MAX_LISTED: Final = 10
_DIGITS: Final = 3
_AT_THE_END: Final = "running at the end"


class Lane(NamedTuple):
    """One process that ran tests."""

    name: str
    words: str
    first: float
    """When its first test began."""
    busy: float
    idle: float
    death: float | None
    """When it died, while others went on."""


class Running(NamedTuple):
    """A test that was running at the end: where, since when, until when, and its node id."""

    lane: str
    start: float
    end: float
    nodeid: str


class Share(NamedTuple):
    """How much of the time something took."""

    name: str
    seconds: float
    percent: float
    note: str = ""


class Timing(NamedTuple):
    """What is known of the time of a run."""

    is_known: bool
    lacks: str
    """What is missing and why, in words."""
    lanes: list[Lane]
    running: list[Running]
    end: float
    death: float | None
    longest: list[Share]
    files: list[Share]
    parts: list[Share]


def timing_of(report: dict[str, Any]) -> Timing:
    """Return where the time of a run went, as far as it has a list of its tests."""
    tests = [
        each
        for each in report["tests"] or ()
        if None not in (each["start_seconds"], each["duration_seconds"])
        and each["outcome"] != "in_flight"
    ]
    # When the run ended, in seconds after its start.
    ends = [each["start_seconds"] + each["duration_seconds"] for each in tests]
    elapsed = [each["elapsed_seconds"] or 0.0 for each in report["in_flight"]]
    end = float(max(report["run"]["duration_seconds"] or 0.0, *ends, *elapsed, 0.0))
    running = [
        Running(
            test["worker"] or "",
            round(max(0.0, end - test["elapsed_seconds"]), _DIGITS),
            round(end, _DIGITS),
            test["nodeid"],
        )
        for test in report["in_flight"]
        if test["elapsed_seconds"] is not None
    ]
    lanes = _lanes(report, tests, running, end)
    lacks = "" if lanes else "No test has run."
    if report["tests"] is None and report["completeness"] == "full":
        lacks = (
            "This report has no list of all tests. A run has one where it writes this page itself "
            "(--failure-taxonomy-html), and where it keeps a history."
        )
    elif report["tests"] is None:
        lacks = (
            "This report has no list of all tests: what a run leaves that died names its failures "
            "and the tests that were running."
        )
    return Timing(
        is_known=bool(lanes),
        lacks=lacks,
        lanes=lanes,
        running=running,
        end=round(end, _DIGITS),
        death=round(end, _DIGITS) if report["completeness"] == "reconstructed" else None,
        longest=_longest(report),
        files=_files(report),
        parts=_parts(tests, lanes, end),
    )


def _lanes(
    report: dict[str, Any], tests: list[dict[str, Any]], running: list[Running], end: float
) -> list[Lane]:
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in tests:
        start = each["start_seconds"]
        spans[each["worker"] or ""].append((start, start + each["duration_seconds"]))
    for test in running:
        spans[test.lane].append((test.start, test.end))
    died = {
        each["id"]
        for each in report["workers"]
        if each["exit"]["signal"] or each["exit"]["code"] or each["crashed_on"]
    }
    if report["completeness"] != "full":
        died = set()  # all of it has died
    has_all = report["tests"] is not None
    return [
        _lane(name, sorted(spans[name]), end, is_dead=name in died, has_all=has_all)
        for name in sorted(spans, key=_natural)
    ]


def _natural(name: str) -> tuple[list[int], str]:
    """Sort `gw2` before `gw10`."""
    return [int(digits[:18]) for digits in re.findall("[0-9]+", name)], name


def _lane(
    name: str, spans: list[tuple[float, float]], end: float, *, is_dead: bool, has_all: bool
) -> Lane:
    """Return a lane; between its first test and its end it was idle where it ran none."""
    busy, until = 0.0, 0.0
    for start, stop in spans:
        busy += max(0.0, stop - max(start, until))
        until = max(until, stop)
    idle = max(0.0, (until if is_dead else end) - spans[0][0] - busy)
    count = counted(len(spans), "test")
    words = f"{count}, {seconds_words(busy)} busy, {seconds_words(idle)} idle"
    if not has_all:
        words = f"{count} running at the end"
    if is_dead:
        words += f", died after {seconds_words(until)}"
    death = round(until, _DIGITS) if is_dead else None
    first, busy, idle = (round(each, _DIGITS) for each in (spans[0][0], busy, idle))
    return Lane(name, words, first, busy, idle, death)


def _longest(report: dict[str, Any]) -> list[Share]:
    timed = [
        (each["duration_seconds"], each["nodeid"], each["outcome"])
        for each in report["tests"] or ()
        if each["duration_seconds"] is not None and each["outcome"] != "in_flight"
    ]
    timed += [
        (each["elapsed_seconds"], each["nodeid"], _AT_THE_END)
        for each in report["in_flight"]
        if each["elapsed_seconds"] is not None
    ]
    total = sum(seconds for seconds, _, _ in timed)
    longest = sorted(timed, key=lambda each: (-each[0], *each[1:]))
    return [_share(nodeid, seconds, total, how) for seconds, nodeid, how in longest[:_MAX_LISTED]]


def _files(report: dict[str, Any]) -> list[Share]:
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for each in report["tests"] or ():
        file = each["nodeid"].partition("::")[0]
        seconds[file] += each["duration_seconds"] or 0.0
        counts[file] += 1
    total = sum(seconds.values())
    longest = sorted(seconds, key=lambda file: (-seconds[file], file))
    return [
        _share(file, seconds[file], total, f"{counts[file]:,}") for file in longest[:_MAX_LISTED]
    ]


def _parts(tests: list[dict[str, Any]], lanes: list[Lane], end: float) -> list[Share]:
    """Return the time before the first test, of tests, idle, and after the last test."""
    if not tests or not end:
        return []
    count = len(lanes)
    before = sum(lane.first for lane in lanes) / count
    busy = sum(lane.busy for lane in lanes) / count
    rest = max(0.0, end - before - busy)
    each_of = "" if count == 1 else f"on average of {count} workers"
    return [
        _share("before the first test", before, end, each_of),
        _share("in tests", busy, end, each_of),
        _share("between tests and after the last", rest, end, each_of),
    ]


def _share(name: str, seconds: float, total: float, note: str = "") -> Share:
    percent = round(100 * seconds / total, 1) if total else 0.0
    return Share(name, round(seconds, _DIGITS), min(100.0, percent), note)
