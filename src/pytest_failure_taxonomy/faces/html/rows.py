"""The causes of a report as cards, its failures and tests in few bytes, and its timing.

That is when each test ran and where, how long the workers were idle, and where the time went. A
card can be read without the script. The script finds in the JSON what a card has no room for,
such as the traceback of each failure, and what it filters by.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from pytest_failure_taxonomy.report.frames import code_of, line_class
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    RunSummary,
    owner_of,
    place_words,
    raised_words,
)
from pytest_failure_taxonomy.text import UNSEEN, first_line, safe_text

_MAX_SAID: Final = 300
_MAX_ERRORS: Final = 5
"""Errors outside of tests whose code one card shows."""
_COLLECTION: Final = {
    "phase": "collection",
    "reason": "INTERNAL_ERROR",
    "kind": "collection.error",
}
_AS_IT_IS: Final = ("phase", "reason", "kind", "worker", "marker", "rule", "only")
_DIGITS: Final = 3
_MAX_NUMBER: Final = 2**53
"""No browser knows larger whole numbers exactly, and no run has counted so far."""


class Rows:
    """Makes the cards and the JSON of a page.

    Tracebacks of one cause have most of their lines in common, so each different line stands once:
    in a table of texts with their numbers, like the files and the workers.
    """

    def __init__(self, report: dict[str, Any], summary: RunSummary) -> None:
        """Make them of a report and of what is to be said of it."""
        self._files: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.again = reproduction_of(report)
        self._tests = report["tests"]
        self._failures: list[dict[str, Any]] = []
        self._told: set[int] = set()
        self._running = {each["nodeid"] for each in report["in_flight"]}
        self.cards = [
            self._card(cause, is_only=summary.causes_count == 1)
            for cause in summary.causes
        ]
        entries = [
            *report["failures"],
            *report["collection_errors"],
            *report["internal_errors"],
        ]
        if rest := [each for each in entries if id(each) not in self._told]:
            title = "other failures" if self.cards else "what failed"
            about = {"cause": None, "title": title, "times": len(rest)}
            self.cards.append({**about, **self._members(rest, len(rest))})

    def as_json(self, timing: dict[str, Any]) -> dict[str, Any]:
        """Return what the script shows: tables of texts, failures and tests."""
        workers: dict[str, int] = {}
        tests: list[list[Any]] = []
        for test in self._tests or ():
            file, rest = _split(test["nodeid"])
            times = (
                _rounded(test["start_seconds"]),
                _rounded(test["duration_seconds"]),
            )
            worker = _number(workers, test["worker"] or "")
            tests.append(
                [_number(self._files, file), rest, test["outcome"], *times, worker]
            )
        return {
            "failures": self._failures,
            "tests": None if self._tests is None else tests,
            "files": list(self._files),
            "workers": list(workers),
            "lines": list(self._lines),
            "classes": list(map(line_class, self._lines)),
            "lanes": [[lane["name"], lane["death"]] for lane in timing["lanes"]],
            **{name: timing[name] for name in ("running", "end", "death")},
        }

    def _card(self, cause: CauseSummary, *, is_only: bool) -> dict[str, Any]:
        """Return a cause's card. Of the only cause the headline says what it is."""
        nodeids = dict.fromkeys(cause.nodeids)
        # Two causes can have failures of one fingerprint, such as two hosts that one function asks.
        members = [
            each
            for each in cause.failures
            if id(each) not in self._told and each.get("nodeid") in (None, *nodeids)
        ]
        listed = {*self._running, *(each.get("nodeid") for each in members)}
        about = {
            "reason": cause.reason,
            "kind": cause.kind,
            "only": True,
        }
        alone = ({"nodeid": each, **about} for each in nodeids if each not in listed)
        card = {
            "cause": cause,
            "title": "" if is_only else cause.text,
            "times": cause.count,
            **self._members([*members, *alone], cause.count, cause.owner),
        }
        if cause.proof_command:
            # The first test alone may well pass.
            card["command"] = cause.proof_command
        elif not card["rows"] and cause.nodeids:
            card["command"] = self.again.command(cause.nodeids[0])
        return card

    def _members(
        self, members: list[dict[str, Any]], times: int, owner: str | None = None
    ) -> dict[str, Any]:
        """Return what a card has of failures, with the code of the first that has some.

        Args:
            members: the failures, and tests of which the report has the names alone.
            times: how many it has, also those that the report doesn't list.
            owner: of the cause.
        """
        self._told.update(map(id, members))
        tests = [each for each in members if "nodeid" in each]
        example = next((each for each in tests if each.get("traceback")), None)
        errors = [each for each in members if "nodeid" not in each][:_MAX_ERRORS]
        first = len(self._failures)
        self._failures += (
            self._failure(test, owner, is_shown=test is example) for test in tests
        )
        added = self._failures[first:]
        # What was raised is said of each where the failures of one cause differ in it.
        differs = len({each["said"] for each in added if "said" in each}) > 1
        rows = [
            {
                "number": number,
                "test": test,
                "said": failure.get("said", "") if differs else "",
            }
            for number, (test, failure) in enumerate(
                zip(tests, added, strict=True), first
            )
        ]
        return {
            "shown": [each for each in (example, *errors) if each is not None],
            "rows": rows,
            "unnamed": max(0, times - len(members)) if tests else 0,
            "command": added[0].get("run", "") if added else "",
        }

    def _failure(
        self, failure: dict[str, Any], owner: str | None, *, is_shown: bool
    ) -> dict[str, Any]:
        """Return what the script shows of a failure, a collection error or a name alone."""
        file, rest = _split(failure["nodeid"])
        if is_collection := "message" in failure:
            failure = {**failure, **_COLLECTION}
        origin, raised = failure.get("origin"), failure.get("exception")
        traceback, attempts = failure.get("traceback"), failure.get("attempts", 1)
        location = failure.get("location")
        code = code_of(traceback, location)
        message = failure.get("message") or (raised["message"] if raised else None)
        said = (
            raised_words(raised) if raised else first_line(traceback or message or "")
        )
        raised_in = None
        if origin:
            package = f" of {origin['package']}" if origin["package"] else ""
            raised_in = f"{origin['function']} in {place_words(origin)}{package}"
        fields = {
            "id": [_number(self._files, file), rest],
            "run": self.again.command(file if is_collection else failure["nodeid"]),
            "owner": owner_of(owner, failure)[0],
            "type": failure.get("failure_type"),
            "said": safe_text(said, _MAX_SAID),
            "message": None if traceback else message,
            "place": place_words(location) if location else None,
            "origin": raised_in,
            "own": self._numbers(code.own if code.whole else ""),
            "traceback": self._numbers(code.whole or code.own),
            "seconds": _rounded(failure.get("duration_seconds")),
            "attempts": attempts if attempts > 1 else None,
            "shown": is_shown or None,
            **{name: failure.get(name) for name in _AS_IT_IS},
        }
        return {
            name: each for name, each in fields.items() if each not in (None, "", [])
        }

    def _numbers(self, text: str) -> list[int]:
        return [_number(self._lines, line) for line in text.splitlines()]


def _number(table: dict[str, int], text: str) -> int:
    """Return the number of a text, a new one where it has none."""
    return table.setdefault(text, len(table))


def _split(nodeid: str) -> tuple[str, str]:
    """Return the file of a node id and the rest."""
    file, colons, rest = nodeid.partition("::")
    return file, colons + rest


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def shown(value: Any) -> Any:
    """Return a JSON value whose texts and numbers a page can show, whatever they are.

    Invisible characters appear as escapes.
    """
    if isinstance(value, str):
        lines = value.replace("\r\n", "\n").split("\n") if UNSEEN.search(value) else ()
        safe = (safe_text(line.expandtabs(), len(line) * 6 + 100) for line in lines)
        return "\n".join(safe) if lines else value
    if isinstance(value, dict):
        return {shown(name): shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(-_MAX_NUMBER, min(value, _MAX_NUMBER))
    return value


_MAX_LISTED: Final = 10
_AT_THE_END: Final = "running at the end"


def timing_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return where the time of a run went, as far as it has a list of its tests.

    Its `running` are tests at the end: where, since when, until when, and their node ids.
    """
    listed = report["tests"] or ()
    ended = [each for each in listed if each["outcome"] != "in_flight"]
    timed = [each for each in ended if each["duration_seconds"] is not None]
    tests = [each for each in timed if each["start_seconds"] is not None]
    flying = [
        each for each in report["in_flight"] if each["elapsed_seconds"] is not None
    ]
    # When the run ended, in seconds after its start.
    ends = [each["start_seconds"] + each["duration_seconds"] for each in tests]
    elapsed = [each["elapsed_seconds"] for each in flying]
    end = float(max(report["run"]["duration_seconds"] or 0.0, *ends, *elapsed, 0.0))
    running = []
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each, stop in zip(tests, ends, strict=True):
        spans[each["worker"] or ""].append((each["start_seconds"], stop))
    for each in flying:
        span = (
            round(max(0.0, end - each["elapsed_seconds"]), _DIGITS),
            round(end, _DIGITS),
        )
        running.append((each["worker"] or "", *span, each["nodeid"]))
        spans[each["worker"] or ""].append(span)
    lasted = [
        (each["duration_seconds"], each["nodeid"], each["outcome"]) for each in timed
    ]
    lasted += (
        (each["elapsed_seconds"], each["nodeid"], _AT_THE_END) for each in flying
    )
    files: dict[str, list[float]] = defaultdict(list)
    for each in listed:
        files[each["nodeid"].partition("::")[0]].append(each["duration_seconds"] or 0.0)
    of_files = [(sum(each), file, f"{len(each):,}") for file, each in files.items()]
    return {
        "lanes": _lanes(report, spans, end),
        "running": running,
        "end": round(end, _DIGITS),
        "death": round(end, _DIGITS)
        if report["completeness"] == "reconstructed"
        else None,
        "longest": _longest(lasted),
        "files": _longest(of_files),
    }


def _lanes(
    report: dict[str, Any], spans: Mapping[str, list[tuple[float, float]]], end: float
) -> list[dict[str, Any]]:
    """Return the lanes of the processes; `spans` has when each of them ran a test."""
    died = {
        each["id"]
        for each in report["workers"]
        if each["exit"]["signal"] or each["exit"]["code"] or each["crashed_on"]
        if report["completeness"] == "full"  # else all of it has died
    }
    names = sorted(
        spans,  # `gw2` before `gw10`
        key=lambda name: (
            [int(digits[:18]) for digits in re.findall("[0-9]+", name)],
            name,
        ),
    )
    lanes = []
    for name in names:
        of_lane, busy, until = sorted(spans[name]), 0.0, 0.0
        for start, stop in of_lane:
            busy += max(0.0, stop - max(start, until))
            until = max(until, stop)
        first, is_dead = of_lane[0][0], name in died
        # Between its first test and its end it was idle where it ran none.
        idle = max(0.0, (until if is_dead else end) - first - busy)
        death = round(until, _DIGITS) if is_dead else None  # while others went on
        lane = {
            "name": name,
            "tests": len(of_lane),
            "first": first,
            "busy": busy,
            "idle": idle,
        }
        lanes.append({**lane, "death": death})
    return lanes


def _longest(timed: list[tuple[float, str, str]]) -> dict[str, Any]:
    """Return what took longest, and the time of all."""
    longest = sorted(timed, key=lambda each: (-each[0], *each[1:]))
    return {
        "rows": longest[:_MAX_LISTED],
        "total": sum(seconds for seconds, _, _ in timed),
    }
