"""The causes of a report as cards, and its failures and tests in few bytes for the page's script.

A card can be read without the script. The script finds in the JSON what a card has no room for,
such as the traceback of each failure, and what it filters by.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.limits import OWN_NAME
from pytest_failure_taxonomy.report.render.html.timing import Timing
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    RunSummary,
    place_words,
    raised_words,
)
from pytest_failure_taxonomy.report.text import first_line, safe_text
from pytest_failure_taxonomy.taxonomy.words import seconds_words

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
_UNSAFE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)
"""Whatever `safe_text` escapes, but for the ends of lines."""

LINE_CLASSES: Final = ("", "error", "minus", "plus", "hint", "here", "place", "rule")
"""The classes of a traceback's lines; a page refers to them by number."""
_ERROR, _MINUS, _PLUS, _HINT, _HERE, _PLACE, _RULE = range(1, len(LINE_CLASSES))
_MARKED: Final = (
    (re.compile(r"E {2,}\+ +(?:where|and) "), _ERROR),  # how pytest says what a name stands for
    (re.compile(r"E {2,}-(?: |$)"), _MINUS),
    (re.compile(r"E {2,}\+(?: |$)"), _PLUS),
    (re.compile(r"E {2,}\? "), _HINT),
    (re.compile(r"E(?: |$)"), _ERROR),
    (re.compile(r">(?! +(?:available fixtures|use 'pytest --fix))"), _HERE),
    (re.compile(r"[^\s:][^:]*:\d+: |  File \""), _PLACE),
    (re.compile(r"(?:_ ){4}|_{8}"), _RULE),
)

_FRAME: Final = re.compile(r"(?!E |>)((?:[A-Za-z]:)?[^\s:][^:]*):(\d+): ?(in .+)?")
"""Of pytest: below the code of a long entry, above that of a short one, which names a function."""
_NATIVE_FRAME: Final = re.compile(r'  File "([^"]+)", line (\d+)')
_CHAINED: Final = re.compile("The above exception was|During handling of")
_OF_LIBRARY: Final = re.compile(
    r"^<frozen |[/\\]Lib[/\\]|"
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib(?:64)?[/\\]python3[^/\\]*)[/\\]"
)


class Row(NamedTuple):
    """A test of a card."""

    number: int
    """Of its failure in the JSON."""
    file: str
    rest: str
    note: str
    """Phase and time."""
    said: str
    """What was raised, where the failures of one cause differ in it."""


class Card(NamedTuple):
    """One cause, or the failures of none."""

    title: str
    times: int
    fix: str | None = None
    codes: str = ""
    remarks: Sequence[str] = ()
    """Who has to mend it, and since when it fails."""
    state: str | None = None
    """What the history says, in one word."""
    code: Sequence[Code] = ()
    rows: Sequence[Row] = ()
    unnamed: int = 0
    """Failures of which the report doesn't have the names."""
    command: str = ""
    """Runs its first test alone."""

    @property
    def is_bare(self) -> bool:
        """It has nothing but what the headline says, and can stand below it."""
        return not (self.title or self.code or self.rows)


class Table:
    """Texts that stand once, however often they are used."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one where it has none."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Rows:
    """Makes the cards and the JSON of a page.

    Tracebacks of one cause have most of their lines in common, so each different line stands once.
    """

    def __init__(self, report: dict[str, Any], summary: RunSummary) -> None:
        """Make them of a report and of what is to be said of it."""
        self._files, self._lines, self._workers = Table(), Table(), Table()
        self.again = reproduction_of(report)
        self._tests = report["tests"]
        self._failures: list[dict[str, Any]] = []
        self._told: set[int] = set()
        self._running = {each["nodeid"] for each in report["in_flight"]}
        self.cards = [
            self._card(cause, is_only=summary.causes_count == 1) for cause in summary.causes
        ]
        entries = [*report["failures"], *report["collection_errors"], *report["internal_errors"]]
        if rest := [each for each in entries if id(each) not in self._told]:
            title = "other failures" if self.cards else "what failed"
            self.cards.append(self._filled(Card(title=title, times=len(rest)), rest))

    def as_json(self, timing: Timing) -> dict[str, Any]:
        """Return what the script shows: tables of texts, failures and tests."""
        tests = None if self._tests is None else [self._test(each) for each in self._tests]
        return {
            "failures": self._failures,
            "tests": tests,
            "files": self._files.texts,
            "workers": self._workers.texts,
            "lines": self._lines.texts,
            "classes": [line_class(line) for line in self._lines.texts],
            "names": LINE_CLASSES,
            "lanes": [[lane.name, lane.death] for lane in timing.lanes],
            "running": [list(each) for each in timing.running],
            "end": timing.end,
            "death": timing.death,
        }

    def _card(self, cause: CauseSummary, *, is_only: bool) -> Card:
        """Return a cause's card. Of the only cause the headline says what it is."""
        passed = cause.last_passed_commit
        seen = ("" if is_only else cause.history, passed and f"last passed at {passed[:12]}")
        remarks = (
            f"owner: {cause.owner}" if cause.owner else "",
            "" if is_only else cause.about,
            ", ".join(filter(None, seen)),
        )
        card = Card(
            title="" if is_only else cause.text,
            times=cause.count,
            fix=cause.fix,
            codes="" if is_only else cause.codes.strip("[]"),
            remarks=[each for each in remarks if each],
            state=cause.state if any(seen) else None,
            command=self.again.command(cause.nodeids[0]) if cause.nodeids else "",
        )
        nodeids = dict.fromkeys(cause.nodeids)
        # Two causes can have failures of one fingerprint, such as two hosts that one function asks.
        members = [
            each
            for each in cause.failures
            if id(each) not in self._told and each.get("nodeid") in (None, *nodeids)
        ]
        listed = {*self._running, *(each.get("nodeid") for each in members)}
        about = {"reason": cause.reason, "kind": cause.kind, "owner": cause.owner, "only": True}
        alone = ({"nodeid": each, **about} for each in nodeids if each not in listed)
        return self._filled(card, [*members, *alone])

    def _filled(self, card: Card, members: list[dict[str, Any]]) -> Card:
        """Return a card with failures, and with the code of the first that has some."""
        self._told.update(map(id, members))
        tests = [each for each in members if "nodeid" in each]
        example = next((each for each in tests if each.get("traceback")), None)
        errors = [each for each in members if "nodeid" not in each][:_MAX_ERRORS]
        shown = [each for each in (example, *errors) if each is not None]
        first = len(self._failures)
        self._failures += (self._failure(each, is_shown=each is example) for each in tests)
        added = self._failures[first:]
        differs = len({each["said"] for each in added if "said" in each}) > 1
        return card._replace(
            code=[
                code_of(each["traceback"] or each["message"], each.get("location"))
                for each in shown
            ],
            rows=[
                Row(
                    number,
                    *_split(test["nodeid"]),
                    note=_note(test),
                    said=failure.get("said", "") if differs else "",
                )
                for number, (test, failure) in enumerate(zip(tests, added, strict=True), first)
            ],
            unnamed=max(0, card.times - len(members)) if tests else 0,
            command=added[0].get("run", "") if added else card.command,
        )

    def _failure(self, failure: dict[str, Any], *, is_shown: bool) -> dict[str, Any]:
        """Return what the script shows of a failure, a collection error or a name alone."""
        file, rest = _split(failure["nodeid"])
        if is_collection := "message" in failure:
            failure = {**failure, **_COLLECTION}
        origin, raised = failure.get("origin"), failure.get("exception")
        traceback, attempts = failure.get("traceback"), failure.get("attempts", 1)
        location = failure.get("location")
        code = code_of(traceback, location)
        message = failure.get("message") or (raised["message"] if raised else None)
        fields = {
            "id": [self._files.number(file), rest],
            "run": self.again.command(file if is_collection else failure["nodeid"]),
            "owner": origin["owner"] if origin else failure.get("owner"),
            "type": failure.get("failure_type"),
            "said": _said(raised, traceback or message or ""),
            "message": None if traceback else message,
            "place": place_words(location) if location else None,
            "origin": _origin(origin),
            "own": self._numbers(code.own if code.whole else ""),
            "traceback": self._numbers(code.whole or code.own),
            "seconds": _rounded(failure.get("duration_seconds")),
            "attempts": attempts if attempts > 1 else None,
            "shown": is_shown or None,
            **{name: failure.get(name) for name in _AS_IT_IS},
        }
        return {name: each for name, each in fields.items() if each not in (None, "", [])}

    def _numbers(self, text: str) -> list[int]:
        return [self._lines.number(line) for line in text.splitlines()]

    def _test(self, test: dict[str, Any]) -> list[Any]:
        file, rest = _split(test["nodeid"])
        return [
            self._files.number(file),
            rest,
            test["outcome"],
            _rounded(test["start_seconds"]),
            _rounded(test["duration_seconds"]),
            self._workers.number(test["worker"] or ""),
        ]


def _split(nodeid: str) -> tuple[str, str]:
    """Return the file of a node id and the rest."""
    file, colons, rest = nodeid.partition("::")
    return file, colons + rest


def _note(failure: dict[str, Any]) -> str:
    phase = failure.get("phase", "call")
    time = seconds_words(failure.get("duration_seconds"))
    return ", ".join(each for each in ("" if phase == "call" else phase, time) if each)


def _origin(origin: dict[str, Any] | None) -> str | None:
    if origin is None:
        return None
    package = f" of {origin['package']}" if origin["package"] else ""
    return f"{origin['function']} in {place_words(origin)}{package}"


def _said(raised: dict[str, Any] | None, other: str) -> str:
    if raised is None:
        return safe_text(first_line(other), _MAX_SAID)
    return safe_text(raised_words(raised), _MAX_SAID)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


class Code(NamedTuple):
    """What was raised, and where."""

    own: str
    """The user's own frames; all, if there are none."""
    whole: str
    """With the frames of libraries; empty if `own` is all."""


def shown(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report whose texts and numbers a page can show, whatever they are.

    Control characters appear as escapes. Of the extensions only our own is kept.
    """
    own = report["extensions"].get(OWN_NAME)
    kept = {OWN_NAME: own} if isinstance(own, dict) else {}
    changed: dict[str, Any] = _changed({**report, "extensions": kept})
    return changed


def shown_value(value: Any) -> Any:
    """Return any JSON value as a page can show it."""
    return _changed(value)


def _changed(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): _changed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(-_MAX_NUMBER, min(value, _MAX_NUMBER))
    return value


def _text(text: str) -> str:
    if _UNSAFE.search(text) is None:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(safe_text(line.expandtabs(), len(line) * 6 + 100) for line in lines)


def line_class(line: str) -> int:
    """Return what a line of a traceback is, as an index of `LINE_CLASSES`."""
    for pattern, found in _MARKED:
        if pattern.match(line):
            return found
    return 0


def classed_lines(text: str | None) -> list[tuple[str, str]]:
    """Return the lines of a traceback, each with its class."""
    return [(LINE_CLASSES[line_class(line)], line) for line in (text or "").splitlines()]


def code_of(traceback: str | None, location: Mapping[str, Any] | None = None) -> Code:
    """Tell the user's own frames of a traceback from those of libraries.

    Args:
        traceback: as pytest or Python shows it.
        location: the user's place that the failure has, whose file is the user's wherever it is.
    """
    own_path = None if location is None else location["path"]
    kept: list[str] = []
    is_all, has_own = True, False
    for path, lines in _entries(traceback or ""):
        is_own = path is not None and (path == own_path or _OF_LIBRARY.search(path) is None)
        is_link = path is None and any(map(_CHAINED.match, lines))
        has_own |= is_own
        is_all &= is_own or path is None
        if is_link and not has_own:
            kept = []  # what the exception was raised from, in code that is none of the user's
        else:
            kept += lines if is_own or is_link else _raised(lines)
    whole = traceback or ""
    return Code(whole, "") if is_all or not has_own else Code("\n".join(kept).strip("\n"), whole)


def _raised(lines: list[str]) -> Iterator[str]:
    """Yield what was raised in a frame, without the indent of its code."""
    raised = dedent("\n".join(line[1:] for line in lines if line[:2] in ("E", "E ")))
    yield from (f"E   {line}" for line in raised.splitlines())


def _entries(traceback: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the path and the lines of each frame of a traceback, and of what stands between."""
    path, lines = None, list[str]()
    for line in traceback.splitlines():
        frame, is_link = _FRAME.match(line), _CHAINED.match(line)
        above = _NATIVE_FRAME.match(line) or (frame if frame and frame[3] else None)
        if above or is_link or line_class(line) == _RULE:  # a new frame, or none
            yield path, lines
            path, lines = above and above[1], []
        if line_class(line) != _RULE:
            lines.append(line)
        if is_link or (frame and not above):  # the end of one
            yield frame and frame[1], lines
            path, lines = None, []
    yield path, lines
