"""The causes of a report as cards, its failures and tests in few bytes, and its timing.

That is when each test ran and where, how long the workers were idle, and where the time went. A
card can be read without the script. The script finds in the JSON what a card has no room for,
such as the traceback of each failure, and what it filters by.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar

from pytest_failure_taxonomy.report.frames import Code, code_of, line_class
from pytest_failure_taxonomy.report.model import (
    CollectionError,
    Failure,
    FailureReport,
    InternalError,
    Worker,
)
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    Failing,
    RunSummary,
    owner_of,
    place_words,
    raised_words,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value
from pytest_failure_taxonomy.taxonomy.words import seconds_words
from pytest_failure_taxonomy.text import UNSEEN, first_line, safe_text

_T = TypeVar("_T")

_MAX_SAID: Final = 300
_MAX_ERRORS: Final = 5
"""Errors outside of tests whose code one card shows."""
_DIGITS: Final = 3
_MAX_NUMBER: Final = 2**53
"""No browser knows larger whole numbers exactly, and no run has counted so far."""


@value
class UnlistedTest:
    """A test of a cause of which the report has the name alone."""

    nodeid: str
    reason: str
    kind: str


_Member = Failing | UnlistedTest


@value
class _Shown:
    """What the script may find of a failure, in this order; what says nothing is left out."""

    id: tuple[int, str]
    """The number of the file, and the rest of the node id."""
    run: str = ""
    """The command that runs it again."""
    owner: str | None
    type: str | None = None
    said: str = ""
    message: str | None = None
    place: str | None = None
    origin: str | None = None
    own: tuple[int, ...] = ()
    """The numbers of the lines of the user's own code."""
    traceback: tuple[int, ...] = ()
    """The numbers of all lines."""
    seconds: float | None = None
    attempts: int | None = None
    shown: bool | None = None
    """Whether the card has its code."""
    phase: str | None = None
    reason: str | None = None
    kind: str | None = None
    worker: str | None = None
    marker: str | None = None
    rule: str | None = None
    only: bool | None = None
    """Whether the report has the name alone."""


@value
class Row:
    """One line of a card."""

    number: int
    """Of the failure in the script's JSON."""
    nodeid: str
    note: str
    """The phase, if it isn't the test's call, and how long it took."""
    said: str
    """What was raised, where the failures of one cause differ in it."""


@value
class Card:
    """What the page shows of a cause."""

    cause: CauseSummary | None
    """`None` for failures that are of none."""
    title: str
    """Empty where the headline has it."""
    times: int
    shown: tuple[Code, ...]
    """The code of the first failure that has some, and of errors outside of tests."""
    rows: tuple[Row, ...]
    unnamed: int
    """Failures that the report doesn't list."""
    command: str
    """What runs it again; empty where nothing does."""


class Rows:
    """Makes the cards and the JSON of a page.

    Tracebacks of one cause have most of their lines in common, so each different line stands once:
    in a table of texts with their numbers, like the files and the workers.
    """

    def __init__(self, report: FailureReport, summary: RunSummary) -> None:
        """Make them of a report and of what is to be said of it."""
        self._files: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.again = reproduction_of(report)
        self._tests = report.tests
        self._failures: list[_Shown] = []
        self._shown: set[int] = set()
        self._running = {test.nodeid for test in report.in_flight}
        is_only = summary.causes_count == 1
        self.cards = [self._card(cause, is_only=is_only) for cause in summary.causes]
        failures: list[_Member] = [*self._not_shown(report.failures)]
        failures += self._not_shown(report.collection_errors)
        errors = self._not_shown(report.internal_errors)
        if failures or errors:
            title = "other failures" if self.cards else "what failed"
            times = len(failures) + len(errors)
            self.cards.append(self._make_card(None, title, times, failures, errors))

    def as_json(self, timing: Timing) -> dict[str, object]:
        """Return what the script shows: tables of texts, failures and tests."""
        workers: dict[str, int] = {}
        tests = []
        for test in self._tests or ():
            file, rest = _split(test.nodeid)
            row = (
                _number(self._files, file),
                rest,
                test.outcome,
                _rounded(test.start_seconds),
                _rounded(test.duration_seconds),
                _number(workers, test.worker or ""),
            )
            tests.append(row)
        return {
            "failures": list(map(_with_content, self._failures)),
            "tests": None if self._tests is None else tests,
            "files": list(self._files),
            "workers": list(workers),
            "lines": list(self._lines),
            "classes": list(map(line_class, self._lines)),
            "lanes": [[lane.name, lane.death] for lane in timing.lanes],
            "running": timing.running,
            "end": timing.end,
            "death": timing.death,
        }

    def _not_shown(self, entries: Sequence[_T]) -> list[_T]:
        return [entry for entry in entries if id(entry) not in self._shown]

    def _card(self, cause: CauseSummary, *, is_only: bool) -> Card:
        """Return a cause's card. Of the only cause the headline says what it is."""
        nodeids = dict.fromkeys(cause.nodeids)
        # Two causes can have failures of one fingerprint, such as two hosts that one function asks.
        failures: list[_Member] = [
            failure
            for failure in self._not_shown(cause.failures)
            if failure.nodeid in nodeids
        ]
        listed = {*self._running, *(failure.nodeid for failure in failures)}
        for nodeid in nodeids:
            if nodeid not in listed:
                test = UnlistedTest(nodeid=nodeid, reason=cause.reason, kind=cause.kind)
                failures.append(test)
        title = "" if is_only else cause.text
        errors = self._not_shown(cause.errors)
        card = self._make_card(cause, title, cause.count, failures, errors)
        if cause.proof_command:
            # The first test alone may well pass.
            return replace(card, command=cause.proof_command)
        if not card.rows and cause.nodeids:
            return replace(card, command=self.again.command(cause.nodeids[0]))
        return card

    def _make_card(
        self,
        cause: CauseSummary | None,
        title: str,
        times: int,
        failures: Sequence[_Member],
        errors: Sequence[InternalError],
    ) -> Card:
        """Return a card, with the code of the first failure that has some.

        Args:
            cause: whose card it is.
            title: of the card.
            times: how many failures it has, also those that the report doesn't list.
            failures: those that it lists.
            errors: what else the report lists of it.
        """
        self._shown.update(map(id, failures), map(id, errors))
        codes = []
        example = None
        for failure in failures:
            if not isinstance(failure, UnlistedTest) and failure.traceback:
                example = failure
                codes.append(code_of(failure.traceback, failure.location))
                break
        some = errors[:_MAX_ERRORS]
        codes += [code_of(error.traceback or error.message) for error in some]
        first = len(self._failures)
        owner = cause.owner if cause else None
        for failure in failures:
            shown = self._describe(failure, owner)
            if failure is example:
                shown = replace(shown, shown=True)
            self._failures.append(shown)
        described = self._failures[first:]
        # What was raised is said of each where the failures of one cause differ in it.
        differs = len({shown.said for shown in described} - {""}) > 1
        rows = []
        for number, failure in enumerate(failures):
            row = Row(
                number=first + number,
                nodeid=failure.nodeid,
                note=_note_of(failure),
                said=described[number].said if differs else "",
            )
            rows.append(row)
        return Card(
            cause=cause,
            title=title,
            times=times,
            shown=tuple(codes),
            rows=tuple(rows),
            unnamed=max(0, times - len(failures) - len(errors)) if failures else 0,
            command=described[0].run if described else "",
        )

    def _describe(self, failure: _Member, owner: str | None) -> _Shown:
        """Return what the script shows of a failure, a collection error or a name alone."""
        file, rest = _split(failure.nodeid)
        shown = _Shown(id=(_number(self._files, file), rest), owner=owner)
        if isinstance(failure, UnlistedTest):
            return replace(
                shown,
                run=self.again.command(failure.nodeid),
                reason=failure.reason,
                kind=failure.kind,
                only=True,
            )
        shown = self._with_raised(shown, failure)
        if isinstance(failure, CollectionError):
            return replace(
                shown,
                run=self.again.command(file),
                phase="collection",
                reason="INTERNAL_ERROR",
                kind="collection.error",
            )
        return replace(
            shown,
            run=self.again.command(failure.nodeid),
            seconds=_rounded(failure.duration_seconds),
            attempts=failure.attempts if failure.attempts > 1 else None,
            phase=failure.phase,
            reason=failure.reason,
            kind=failure.kind,
            worker=failure.worker,
            marker=failure.marker,
            rule=failure.rule,
        )

    def _with_raised(self, shown: _Shown, failure: Failing) -> _Shown:
        """Return what the script shows, with what was raised, where, and in whose code."""
        raised, origin, location = failure.exception, failure.origin, failure.location
        message = raised.message if raised else None
        if isinstance(failure, CollectionError):
            message = failure.message or message
        words = first_line(failure.traceback or message or "")
        if raised:
            words = raised_words(raised)
        raised_in = None
        if origin:
            package = f" of {origin.package}" if origin.package else ""
            raised_in = f"{origin.function} in {place_words(origin)}{package}"
        code = code_of(failure.traceback, location)
        return replace(
            shown,
            owner=owner_of(shown.owner, failure)[0],
            type=failure.failure_type,
            said=safe_text(words, _MAX_SAID),
            message=None if failure.traceback else message,
            place=place_words(location) if location else None,
            origin=raised_in,
            own=self._numbers(code.own if code.whole else ""),
            traceback=self._numbers(code.whole or code.own),
        )

    def _numbers(self, text: str) -> tuple[int, ...]:
        return tuple([_number(self._lines, line) for line in text.splitlines()])


def _with_content(shown: _Shown) -> dict[str, object]:
    """Return the fields that say anything, in their order."""
    empty: tuple[object, ...] = (None, "", ())
    return {name: each for name, each in to_dict(shown).items() if each not in empty}


def _note_of(failure: _Member) -> str:
    if not isinstance(failure, Failure):
        return ""
    phase = "" if failure.phase == "call" else failure.phase
    return ", ".join(filter(None, (phase, seconds_words(failure.duration_seconds))))


def _number(table: dict[str, int], text: str) -> int:
    """Return the number of a text, a new one where it has none."""
    return table.setdefault(text, len(table))


def _split(nodeid: str) -> tuple[str, str]:
    """Return the file of a node id and the rest."""
    file, colons, rest = nodeid.partition("::")
    return file, colons + rest


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def shown(content: Any) -> Any:
    """Return JSON, or a report, with texts and numbers that a page can show, whatever they are.

    Invisible characters appear as escapes.
    """
    if isinstance(content, str):
        return _visible(content) if UNSEEN.search(content) else content
    if isinstance(content, Mapping):
        return {shown(name): shown(field) for name, field in content.items()}
    if isinstance(content, tuple | list):
        return tuple(map(shown, content))
    if isinstance(content, bool | NoneType):
        return content
    if isinstance(content, int | float):
        return max(-_MAX_NUMBER, min(content, _MAX_NUMBER))
    return replace(content, **shown(to_dict(content)))


def _visible(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(
        [safe_text(line.expandtabs(), len(line) * 6 + 100) for line in lines]
    )


_MAX_LISTED: Final = 10
_AT_THE_END: Final = "running at the end"


@value
class Lane:
    """When one process ran tests."""

    name: str
    """Id of the xdist worker; empty without xdist."""
    tests: int
    first: float
    """When its first test began, in seconds after the start of the run."""
    busy: float
    idle: float
    death: float | None
    """When it died while others went on."""


class Longest(NamedTuple):
    """What took longest, with a note about each, and the time of all."""

    rows: list[tuple[float, str, str]]
    total: float


@value
class Timing:
    """Where the time of a run went, as far as it has a list of its tests."""

    lanes: tuple[Lane, ...]
    running: tuple[tuple[str, float, float, str], ...]
    """Tests at the end: where, since when, until when, and their node ids."""
    end: float
    death: float | None
    longest: Longest
    files: Longest


def timing_of(report: FailureReport) -> Timing:
    """Return where the time of a run went."""
    lasted: list[tuple[float, str, str]] = []
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    files: dict[str, list[float]] = defaultdict(list)
    for test in report.tests or ():
        seconds = test.duration_seconds
        files[test.nodeid.partition("::")[0]].append(seconds or 0.0)
        if test.outcome == "in_flight" or seconds is None:
            continue
        lasted.append((seconds, test.nodeid, test.outcome))
        if test.start_seconds is not None:
            span = (test.start_seconds, test.start_seconds + seconds)
            spans[test.worker or ""].append(span)
    running = []
    for flying in report.in_flight:
        if flying.elapsed_seconds is not None:
            running.append((flying, flying.elapsed_seconds))
            lasted.append((flying.elapsed_seconds, flying.nodeid, _AT_THE_END))
    # When the run ended, in seconds after its start.
    ends = [stop for lane in spans.values() for _, stop in lane]
    ends += [elapsed for _, elapsed in running]
    end = float(max(report.run.duration_seconds or 0.0, *ends, 0.0))
    stop = round(end, _DIGITS)
    flights = []
    for flying, elapsed in running:
        start = round(max(0.0, end - elapsed), _DIGITS)
        worker = flying.worker or ""
        flights.append((worker, start, stop, flying.nodeid))
        spans[worker].append((start, stop))
    of_files = [(sum(times), file, f"{len(times):,}") for file, times in files.items()]
    return Timing(
        lanes=tuple(_lanes(report, spans, end)),
        running=tuple(flights),
        end=stop,
        death=stop if report.completeness == "reconstructed" else None,
        longest=_longest(lasted),
        files=_longest(of_files),
    )


def _lanes(
    report: FailureReport, spans: Mapping[str, list[tuple[float, float]]], end: float
) -> Iterator[Lane]:
    """Yield the lanes of the processes; `spans` has when each of them ran a test."""
    died = set()
    if report.completeness == "full":  # else all of it has died
        died = {worker.id for worker in report.workers if _has_died(worker)}
    for name in sorted(spans, key=_numbers_in):
        busy = until = 0.0
        of_lane = sorted(spans[name])
        for start, stop in of_lane:
            busy += max(0.0, stop - max(start, until))
            until = max(until, stop)
        first = of_lane[0][0]
        is_dead = name in died
        # Between its first test and its end it was idle where it ran none.
        lane_end = until if is_dead else end
        yield Lane(
            name=name,
            tests=len(of_lane),
            first=first,
            busy=busy,
            idle=max(0.0, lane_end - first - busy),
            death=round(until, _DIGITS) if is_dead else None,
        )


def _has_died(worker: Worker) -> bool:
    return bool(worker.exit.signal or worker.exit.code or worker.crashed_on)


def _numbers_in(name: str) -> tuple[list[int], str]:
    """Return a sort key for ids of workers: `gw2` before `gw10`."""
    return [int(digits[:18]) for digits in re.findall("[0-9]+", name)], name


def _longest(timed: list[tuple[float, str, str]]) -> Longest:
    longest = sorted(timed, key=lambda row: (-row[0], *row[1:]))
    total = sum([seconds for seconds, _, _ in timed])
    return Longest(rows=longest[:_MAX_LISTED], total=total)
