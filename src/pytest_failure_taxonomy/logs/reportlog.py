"""Make a report of pytest-reportlog's file: one JSON object a line, as things happen.

It is the only foreign format that a dying pytest leaves behind. If the last line,
`SessionFinish`, is missing, pytest has died or still runs.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.documents.content import (
    MAX_WORD,
    parse_json,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.foreign import ForeignObject
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import telling_line
from pytest_failure_taxonomy.text import safe_text

MAX_LOG_BYTES: Final = 256 * 1024 * 1024
"""About 100,000 tests. Lines are read one by one; most of each is dropped at once."""
NOTE: Final = "made of a pytest-reportlog file: tests that never started are not in it"
NOTE_OF_DEATH: Final = (
    "the log has no SessionFinish: pytest died or still runs; what it died of, and a "
    "test that was in its setup, can't be known"
)

_RIGHT: Final = "give the file that `pytest --report-log=FILE` writes"
_MARK: Final = "$report_type"
_CRASHED: Final = "???"
"""The phase of xdist's report of a test whose worker has died."""
_WORKER: Final = re.compile(r"worker '(\w{1,20})' crashed")
_SEPARATOR: Final = "_ " * 20


def read_run(path: Path) -> foreign.ForeignRun:
    """Return the run in a log.

    Raises:
        ReportError: it is no such log, is cut off, or has two runs.
    """
    content = read_input(path, _RIGHT, limit=MAX_LOG_BYTES)
    log = _Log(path)
    for number, line in enumerate(BytesIO(content), 1):
        where = f"{path}: line {number}"
        if line.strip():
            entry = _parse_entry(where, line, is_first=number == 1)
            log.add(where, entry)
    if not log.pytest_version:
        raise refusal(path, "it is empty", _RIGHT)
    return log.run(content)


def _parse_entry(where: str, line: bytes, *, is_first: bool) -> ForeignObject:
    try:
        entry = ForeignObject(parse_json(line))
    except WrongError as error:
        if not is_first and not line.endswith(b"\n"):
            what = "it is cut off: pytest is writing it, or was stopped while it was"
            right = "remove that line, and the others say how far the run has come"
            raise refusal(where, what, right) from None
        right = foreign.hint_for(line) or _RIGHT
        raise refusal(where, error.what, right) from None
    if not entry.text(_MARK):
        hint = foreign.hint_for(line) if is_first else ""
        what = f"it has no `{_MARK}`"
        raise refusal(where, what, hint or _RIGHT)
    return entry


class _RunningTest:
    """One test on one worker, as far as the log has come."""

    def __init__(self, entry: ForeignObject, worker: str) -> None:
        self.nodeid = entry.text("nodeid")
        self.worker = worker or None
        self.path = self.nodeid.partition("::")[0]
        self.line: int | None = None
        match entry.items("location"):
            case [str(path), int(line), *_] if 0 <= line < foreign.MAX_LINES:
                self.path = path.replace("\\", "/")
                self.line = int(line) + 1  # pytest counts from 0
        # xdist gives 0 where a worker has died.
        self.start = entry.number("start") or None
        self.phases: set[str] = set()
        self.is_run_again = False
        self.crashed = False
        self.attempts = 1
        self.seconds = 0.0
        self.outcome: ev.TestOutcome | None = None
        self.failed: list[foreign.Failed] = []

    def begin_again(self) -> None:
        """Forget the attempt before."""
        self.attempts += 1
        self.phases.clear()
        self.failed.clear()
        self.is_run_again = False
        self.outcome = None

    @property
    def is_open(self) -> bool:
        """Whether it has begun and not ended."""
        if self.crashed or "teardown" in self.phases:
            return False
        return "setup" in self.phases

    def add_phase(self, entry: ForeignObject, phase: ev.Phase) -> None:
        """Add the report of a phase."""
        self.phases.add(phase)
        self.seconds += entry.number("duration") or 0.0
        is_expected_to_fail = "wasxfail" in entry
        match entry.text("outcome"):
            case "rerun":
                self.is_run_again = True
                self.outcome = "failed"
            case "failed":
                self.add_failure(entry, phase)
                is_failed = phase == "call" or self.outcome == "failed"
                self.outcome = "failed" if is_failed else "error"
            case "skipped":
                self.outcome = "xfailed" if is_expected_to_fail else "skipped"
            case "passed" if phase == "call":
                self.outcome = "xpassed" if is_expected_to_fail else "passed"
                if self.attempts > 1:
                    self.outcome = "flaky"

    def describe(self, first_start: float | None) -> foreign.Attempted:
        """Return the test as it is now."""
        outcome = None if self.is_open else self.outcome
        run = ev.TestRun(
            nodeid=self.nodeid,
            outcome=outcome or "in_flight",
            start_seconds=foreign.seconds_between(first_start, self.start),
            duration_seconds=self.seconds,
            worker=self.worker,
        )
        return foreign.describe_attempt(
            run,
            self.failed,
            path=self.path or None,
            line=self.line,
            attempts=self.attempts,
        )

    def in_flight(self) -> ev.InFlightTest:
        """Return it as a test that ran, in the phase after the last reported one."""
        return ev.InFlightTest(
            nodeid=self.nodeid,
            phase="teardown" if "call" in self.phases else "call",
            worker=self.worker,
            elapsed_seconds=None,
        )

    def add_failure(
        self,
        entry: ForeignObject,
        phase: ev.Phase,
        *,
        crashed: bool = False,
        is_subtest: bool = False,
    ) -> None:
        """Add the failure that a report describes."""
        text = _traceback_of(entry)
        crash = entry.child("longrepr").child("reprcrash")
        failed = foreign.Failed(
            phase=phase,
            message=crash.text("message") or telling_line(text),
            text=text,
            crashed=crashed,
            is_subtest=is_subtest,
        )
        self.failed.append(failed)


class _Log:
    """A log, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pytest_version = ""
        self._exit_code: int | None = None
        self._tests: dict[tuple[str, str], _RunningTest] = {}
        self._collectors: dict[str, ev.CollectionFailure] = {}
        self._warnings = 0
        self._rerun = 0
        self._stop = 0.0

    def add(self, where: str, entry: ForeignObject) -> None:
        """Add a line; one of an unknown type is skipped."""
        sort = entry.text(_MARK)
        if not self.pytest_version and sort != "SessionStart":
            what = f"it begins with {safe_text(sort, MAX_WORD)}"
            raise refusal(where, what, _RIGHT)
        match sort:
            case "SessionStart":
                if self.pytest_version:
                    what = "a second run begins here"
                    right = "give a file for each run"
                    raise refusal(where, what, right)
                self.pytest_version = entry.text("pytest_version") or "unknown"
            case "SessionFinish":
                code = entry.field("exitstatus")
                if type(code) is not int:
                    what = "its `exitstatus` is no integer"
                    raise refusal(where, what, _RIGHT)
                self._exit_code = code
            case "CollectReport":
                self._add_collector(entry)
            case "WarningMessage":
                self._warnings += 1
            case _ if sort == "SubTestReport" or "_subtest.context" in entry:
                self._add_subtest(entry)
            case "TestReport":
                self._add_phase(where, entry)

    def run(self, content: bytes) -> foreign.ForeignRun:
        """Return the run, as far as the log has come."""
        tests = self._tests.values()
        starts = filter(None, [test.start for test in tests])
        first = min(starts, default=None)
        is_finished = self._exit_code is not None
        source = "pytest" if is_finished else "none"
        evidence = foreign.evidence_of_tests(
            ev.ProcessExit(code=self._exit_code, source=source),
            [test.describe(first) for test in tests],
            list(self._collectors.values()),
            rerun=self._rerun,
        )
        in_flight = (test.in_flight() for test in tests if test.is_open)
        evidence = replace(
            evidence,
            finished=is_finished,
            in_flight=tuple(in_flight),
            counts=replace(evidence.counts, warnings=self._warnings),
        )
        return foreign.ForeignRun(
            evidence=evidence,
            content=content,
            pytest_version=self.pytest_version,
            started_at=foreign.choose_time(first, self.path),
            duration_seconds=foreign.seconds_between(first, self._stop),
            notes=(NOTE if is_finished else NOTE_OF_DEATH,),
        )

    def _add_collector(self, entry: ForeignObject) -> None:
        if entry.text("outcome") == "failed":
            nodeid = entry.text("nodeid")
            text = _traceback_of(entry)
            failure = foreign.collection_failure_of(nodeid, text)
            self._collectors[nodeid] = failure

    def _add_phase(self, where: str, entry: ForeignObject) -> None:
        stop = entry.number("stop") or 0.0
        self._stop = max(self._stop, stop)
        when = entry.text("when")
        if when == _CRASHED:
            self._add_crash(entry)
            return
        phase = foreign.PHASES.get(when)
        if phase is None:
            what = f"there is no phase {safe_text(when, MAX_WORD)!r}"
            raise refusal(where, what, _RIGHT)
        test = self._test_of(entry)
        if phase == "setup" and test.is_run_again:
            test.begin_again()
            self._rerun += 1
        elif phase in test.phases:
            nodeid = safe_text(test.nodeid, 200)
            what = f"the {phase} of {nodeid} stands twice, as in two runs"
            raise refusal(where, what, "give one run")
        test.add_phase(entry, phase)

    def _add_subtest(self, entry: ForeignObject) -> None:
        if entry.text("outcome") == "failed":
            test = self._test_of(entry)
            test.add_failure(entry, "call", is_subtest=True)
            test.outcome = test.outcome or "failed"

    def _add_crash(self, entry: ForeignObject) -> None:
        """Add xdist's own report of a test, whose worker has died."""
        nodeid = entry.text("nodeid")
        # It names the worker in its words alone: the open test is the one that died.
        for test in self._tests.values():
            if test.nodeid == nodeid and test.is_open:
                break
        else:
            match = _WORKER.search(_traceback_of(entry))
            worker = match[1] if match else ""
            test = self._test_of(entry, worker)
        test.crashed = True
        if entry.text("outcome") == "rerun":
            test.is_run_again = True
            return
        test.add_failure(entry, "call", crashed=True)
        test.outcome = "failed"

    def _test_of(self, entry: ForeignObject, worker: str | None = None) -> _RunningTest:
        if worker is None:
            worker = entry.text("worker_id")
        key = entry.text("nodeid"), worker
        if key not in self._tests:
            self._tests[key] = _RunningTest(entry, worker)
        return self._tests[key]


def _traceback_of(entry: ForeignObject) -> str:
    """Return the `longrepr` of a report as pytest shows it; it may be a text."""
    text = entry.text("longrepr")
    if text:
        return text
    longrepr = entry.child("longrepr")
    # Of a chain each link is a traceback, a place, and the words that lead to the next.
    links = [
        link for link in longrepr.items("chain") if isinstance(link, list) and link
    ]
    if not links:
        links = [[longrepr.field("reprtraceback")]]
    lines: list[str] = []
    for first, *others in links:
        traceback = ForeignObject(first)
        frames = traceback.children("reprentries")
        for index, frame in enumerate(frames):
            lines += _lines_of(frame.child("data"), is_first=index == 0)
        if extra_line := traceback.text("extraline"):
            lines.append(extra_line)
        for words in others:
            if isinstance(words, str):
                lines.append(f"\n{words}\n")
    return "\n".join(lines).strip("\n")


def _lines_of(shown: ForeignObject, *, is_first: bool) -> list[str]:
    """Return the lines of one frame of a traceback."""
    lines = []
    if not is_first and shown.text("style") == "long":
        lines += [_SEPARATOR, ""]
    for line in shown.texts("lines"):
        lines.append(line.rstrip("\n"))
    place = shown.child("reprfileloc")
    if path := place.text("path"):
        number = place.field("lineno")
        message = place.text("message").partition("\n")[0]
        lines += ["", f"{path}:{number}: {message}"]
    return lines
