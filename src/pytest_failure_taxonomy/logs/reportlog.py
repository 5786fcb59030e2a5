"""Make a report of what pytest-reportlog writes: one JSON object a line, as things happen.

It is the one foreign format that a dying pytest leaves behind. A log without its last line,
`SessionFinish`, tells of a death, or of a pytest that still runs.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.documents.content import (
    MAX_WORD,
    parse_json,
    read_input,
    refusal,
)
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.foreign import number_at, text_at
from pytest_failure_taxonomy.report.build import object_at, objects_at, texts_at
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.words import telling_line
from pytest_failure_taxonomy.text import safe_text

MAX_LOG_BYTES: Final = 256 * 1024 * 1024
"""About 100,000 tests. Lines are read one by one, and most of each is dropped at once."""
NOTE: Final = "made of a pytest-reportlog file: tests that never started are not in it"
NOTE_OF_DEATH: Final = (
    "the log has no SessionFinish: pytest died or still runs; what it died of, and a test that was "
    "in its setup, can't be known"
)

_RIGHT: Final = "give the file that `pytest --report-log=FILE` writes"
_MARK: Final = "$report_type"
_CRASHED: Final = "???"
"""The phase of xdist's report of a test whose worker has died."""
_WORKER: Final = re.compile(r"worker '(\w{1,20})' crashed")
_SEPARATOR: Final = "_ " * 20
_MOST_NAMED: Final = 5
_MOST_LINES: Final = 10**7


def read_run(path: Path) -> foreign.ForeignRun:
    """Return what a log tells; a `ReportError` if it is none, is cut off, or has two runs."""
    content = read_input(path, _RIGHT, limit=MAX_LOG_BYTES)
    log = _Log(path)
    for number, line in enumerate(BytesIO(content), 1):
        if line.strip():
            log.take(number, _entry(path, number, line))
    if not log.pytest_version:
        raise refusal(path, "it is empty", _RIGHT)
    return log.told(content)


def _entry(path: Path, number: int, line: bytes) -> dict[str, Any]:
    where = f"{path}: line {number}"
    try:
        entry = parse_json(line)
    except WrongError as error:
        if number > 1 and not line.endswith(b"\n"):
            raise refusal(
                where,
                "it is cut off: pytest is writing it, or was stopped while it was",
                "remove that line, and the others say how far the run has come",
            ) from None
        raise refusal(where, error.what, foreign.hint_for(line) or _RIGHT) from None
    if not isinstance(entry, dict) or not text_at(entry, _MARK):
        hint = foreign.hint_for(line) if number == 1 else ""
        raise refusal(where, f"it has no `{_MARK}`", hint or _RIGHT)
    return entry


class _Running:
    """One test on one worker, as far as the log has come."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.nodeid = text_at(entry, "nodeid")
        self.worker = text_at(entry, "worker_id") or None
        self.path, self.line = self.nodeid.partition("::")[0] or None, None
        match entry.get("location"):
            case [str(path), int(line), *_] if (
                0 <= line < _MOST_LINES
            ):  # pytest counts from 0
                self.path, self.line = path.replace("\\", "/"), int(line) + 1
        self.start = (
            number_at(entry, "start") or None
        )  # 0 is xdist's, of a worker that died
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
        return (
            "setup" in self.phases
            and "teardown" not in self.phases
            and not self.crashed
        )

    def take(self, entry: dict[str, Any], phase: ev.Phase) -> None:
        """Add a phase."""
        self.phases.add(phase)
        self.seconds += number_at(entry, "duration") or 0.0
        said = text_at(entry, "outcome")
        if said == "rerun":
            self.is_run_again = True
            self.outcome = "failed"
        elif said == "failed":
            self.add_failure(entry, phase)
            is_failed = phase == "call" or self.outcome == "failed"
            self.outcome = "failed" if is_failed else "error"
        elif said == "skipped":
            self.outcome = "xfailed" if "wasxfail" in entry else "skipped"
        elif said == "passed" and phase == "call":
            unexpected = "wasxfail" in entry
            self.outcome = (
                "flaky" if self.attempts > 1 else "xpassed" if unexpected else "passed"
            )

    def told(self, first_start: float | None) -> foreign.Attempted:
        """Return the test as it is now."""
        since = None
        if self.start is not None and first_start is not None:
            since = max(0.0, self.start - first_start)
        run = ev.TestRun(
            nodeid=self.nodeid,
            outcome="in_flight" if self.is_open else self.outcome or "in_flight",
            start_seconds=since,
            duration_seconds=self.seconds,
            worker=self.worker,
        )
        return foreign.attempted(
            run, self.failed, path=self.path, line=self.line, attempts=self.attempts
        )

    def add_failure(
        self, entry: dict[str, Any], phase: ev.Phase, **others: Any
    ) -> None:
        """Add the failure that a report tells."""
        longrepr = entry.get("longrepr")
        text = _text_of(longrepr)
        crash = object_at(longrepr, "reprcrash") if isinstance(longrepr, dict) else {}
        message = text_at(crash, "message") or telling_line(text)
        self.failed.append(foreign.Failed(phase, message, text, **others))


class _Log:
    """A log, taken line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pytest_version = ""
        self._exit_code: int | None = None
        self._is_finished = False
        self._tests: dict[tuple[str, str | None], _Running] = {}
        self._collectors: dict[str, ev.CollectionFailure] = {}
        self._warnings = 0
        self._rerun = 0
        self._stop = 0.0
        self._unknown: dict[str, int] = {}

    def take(self, number: int, entry: dict[str, Any]) -> None:
        """Add a line."""
        sort = text_at(entry, _MARK)
        if not self.pytest_version and sort != "SessionStart":
            raise self._refusal(number, f"it begins with {safe_text(sort, MAX_WORD)}")
        if sort == "SessionStart":
            if self.pytest_version:
                raise self._refusal(
                    number, "a second run begins here", "give a file for each run"
                )
            self.pytest_version = text_at(entry, "pytest_version") or "unknown"
        elif sort == "SessionFinish":
            code = entry.get("exitstatus")
            if type(code) is not int:
                raise self._refusal(number, "its `exitstatus` is no integer")
            self._exit_code, self._is_finished = code, True
        elif sort == "CollectReport":
            self._take_collector(entry)
        elif sort == "WarningMessage":
            self._warnings += 1
        elif sort == "SubTestReport" or "_subtest.context" in entry:
            self._take_subtest(entry)
        elif sort == "TestReport":
            self._take_phase(number, entry)
        else:
            self._unknown[sort] = self._unknown.get(sort, 0) + 1

    def told(self, content: bytes) -> foreign.ForeignRun:
        """Return the run, as far as the log has come."""
        tests = list(self._tests.values())
        starts = [test.start for test in tests if test.start is not None]
        first = min(starts, default=None)
        notes = [NOTE if self._is_finished else NOTE_OF_DEATH]
        if self._unknown:
            names = ", ".join(
                safe_text(name, MAX_WORD) for name in [*self._unknown][:_MOST_NAMED]
            )
            count = sum(self._unknown.values())
            notes.append(f"{count} lines of unknown types are left out: {names}")
        return foreign.ForeignRun(
            evidence=foreign.evidence_of_tests(
                ev.ProcessExit(
                    code=self._exit_code,
                    source="pytest" if self._is_finished else "none",
                ),
                [test.told(first) for test in tests],
                [*self._collectors.values()],
                finished=self._is_finished,
                in_flight=tuple(
                    ev.InFlightTest(
                        nodeid=test.nodeid,
                        # The phase after the last one that was reported.
                        phase="teardown" if "call" in test.phases else "call",
                        worker=test.worker,
                        elapsed_seconds=None,
                    )
                    for test in tests
                    if test.is_open
                ),
                counted={"warnings": self._warnings, "rerun": self._rerun},
            ),
            content=content,
            environment={"pytest": self.pytest_version},
            started_at=foreign.time_from(first, self.path),
            duration_seconds=None if first is None else max(0.0, self._stop - first),
            notes=tuple(notes),
        )

    def _take_collector(self, entry: dict[str, Any]) -> None:
        if text_at(entry, "outcome") == "failed":
            nodeid, text = text_at(entry, "nodeid"), _text_of(entry.get("longrepr"))
            self._collectors[nodeid] = foreign.collection_failure_of(nodeid, text)

    def _take_phase(self, number: int, entry: dict[str, Any]) -> None:
        self._stop = max(self._stop, number_at(entry, "stop") or 0.0)
        when = text_at(entry, "when")
        if when == _CRASHED:
            self._take_crash(entry)
            return
        phase = foreign.PHASES.get(when)
        if phase is None:
            raise self._refusal(
                number, f"there is no phase {safe_text(when, MAX_WORD)!r}"
            )
        test = self._test_of(entry)
        if phase == "setup" and test.is_run_again:
            test.begin_again()
            self._rerun += 1
        elif phase in test.phases:
            nodeid = safe_text(test.nodeid, 200)
            raise self._refusal(
                number,
                f"the {phase} of {nodeid} stands twice, as in two runs",
                "give one run",
            )
        test.take(entry, phase)

    def _take_subtest(self, entry: dict[str, Any]) -> None:
        if text_at(entry, "outcome") == "failed":
            test = self._test_of(entry)
            test.add_failure(entry, "call", is_subtest=True)
            test.outcome = test.outcome or "failed"

    def _take_crash(self, entry: dict[str, Any]) -> None:
        """Take xdist's own report of a test; its worker has died."""
        nodeid = text_at(entry, "nodeid")
        named = _WORKER.search(_text_of(entry.get("longrepr")))
        worker = named[1] if named else None
        running = [
            test
            for test in self._tests.values()
            if test.nodeid == nodeid and test.is_open
        ]
        test = running[0] if running else self._test_of({**entry, "worker_id": worker})
        test.crashed = True
        if text_at(entry, "outcome") == "rerun":
            test.is_run_again = True
            return
        test.add_failure(entry, "call", crashed=True)
        test.outcome = "failed"

    def _test_of(self, entry: dict[str, Any]) -> _Running:
        key = text_at(entry, "nodeid"), text_at(entry, "worker_id") or None
        test = self._tests.get(key)
        if test is None:
            test = self._tests[key] = _Running(entry)
        return test

    def _refusal(self, number: int, what: str, right: str = _RIGHT) -> ReportError:
        return refusal(f"{self.path}: line {number}", what, right)


def _text_of(longrepr: Any) -> str:
    """Return a serialised traceback as pytest shows it; it may be a text already."""
    if isinstance(longrepr, str):
        return longrepr
    if not isinstance(longrepr, dict):
        return ""
    chain = longrepr.get("chain")
    found = chain if isinstance(chain, list) else []
    links = [each for each in found if isinstance(each, list) and each]
    lines: list[str] = []
    for traceback, *others in links or [[longrepr.get("reprtraceback")]]:
        told = traceback if isinstance(traceback, dict) else {}
        for index, entry in enumerate(objects_at(told, "reprentries")):
            shown = object_at(entry, "data")
            if index and text_at(shown, "style") == "long":
                lines += [_SEPARATOR, ""]
            lines += [line.rstrip("\n") for line in texts_at(shown, "lines")]
            place = object_at(shown, "reprfileloc")
            if text_at(place, "path"):
                head = text_at(place, "message").partition("\n")[0]
                lines += ["", f"{place['path']}:{place.get('lineno')}: {head}"]
        if text_at(told, "extraline"):
            lines.append(told["extraline"])
        lines += [f"\n{other}\n" for other in others if isinstance(other, str)]
    return "\n".join(lines).strip("\n")
