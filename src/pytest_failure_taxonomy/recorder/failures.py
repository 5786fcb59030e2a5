"""Tests that failed: their reports, and what was raised, which pytest tells apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder import longrepr
from pytest_failure_taxonomy.recorder.exceptions import ExceptionMemory
from pytest_failure_taxonomy.recorder.facts import Facts
from pytest_failure_taxonomy.recorder.markers import Markers
from pytest_failure_taxonomy.recorder.progress import Progress
from pytest_failure_taxonomy.taxonomy.evidence import (
    MAX_LISTED,
    Attribution,
    Location,
    Part,
    Phase,
    RaisedException,
    TestFailure,
    TimeLimit,
)

_PHASES: Final = frozenset({"setup", "call", "teardown"})


class Failures:
    """Record each failure once, and whole: a second write would cost as much as the first."""

    def __init__(
        self,
        facts: Facts,
        progress: Progress,
        exceptions: ExceptionMemory,
        markers: Markers,
        rootdir: Path,
    ) -> None:
        self.awaiting: pytest.TestReport | None = None
        """A failed test's report, until pytest tells what was raised or goes on without a word."""
        self.limit_of_crash: TimeLimit | None = None
        """The limit that was running when the worker went down whose report comes next."""
        self.superseded: set[str] = set()
        """Tests whose last attempt is made again and has not begun yet."""
        self._subtests: set[str] = set()
        """Tests of which a subtest has failed."""
        self._facts = facts
        self._progress = progress
        self._exceptions = exceptions
        self._markers = markers
        self._rootdir = rootdir

    def see(self, report: pytest.TestReport) -> None:
        """Record a failure, or wait for what was raised where this process ran the test."""
        exception, said = self._exceptions.take_test(report)
        if exception is None and report.when in _PHASES and not hasattr(report, "node"):
            self.awaiting = report
        else:
            self._record(report, exception, said)

    def explain(self, node: pytest.Item, error: BaseException) -> None:
        """Record the failure that was waited for, with what was raised."""
        report, self.awaiting = self.awaiting, None
        if report is not None:
            self._record(report, *self._exceptions.explain_test(node, error, report))

    def await_no_more(self) -> None:
        """Record a failure by which nothing was raised: a test that passed and should not have."""
        report, self.awaiting = self.awaiting, None
        if report is not None:
            self._record(report, None, None)

    def supersede(self, report: pytest.TestReport) -> None:
        """Count an attempt that is made again; what its subtests were counts no more."""
        nodeid = report.nodeid
        self._progress.count_rerun(nodeid, getattr(report, "rerun", None))
        self._facts.note_rerun(nodeid, _worker_of(report))
        if nodeid in self._subtests:
            self._subtests.discard(nodeid)
            count = self._facts.take_back_subtests(nodeid, _worker_of(report))
            self._progress.take_back("failed", count)
        self.superseded.add(nodeid)

    def _record(
        self,
        report: pytest.TestReport,
        exception: RaisedException | None,
        said: Attribution | None,
    ) -> None:
        part = _part_of(report)
        if part == "subtest":
            if report.nodeid in self.superseded:
                return
            self._subtests.add(report.nodeid)
        crashed = report.when not in _PHASES
        forked = crashed and is_of_forked_test(report)
        phase = "call" if forked else self._phase_of(report)
        if crashed:
            self._progress.finish(report.nodeid)  # its worker can't say that it has
        self._progress.count("failed" if phase == "call" or crashed else "errors")
        failure = TestFailure(
            nodeid=report.nodeid,
            phase=phase,
            message=longrepr.message_of(report.longrepr),
            exception=exception,
            attributed=said,
            marker=self._markers.in_output_of(report),
            part=part,
            crashed=crashed,
            forked=forked,
            limit=self.limit_of_crash if crashed and not forked else None,
            duration_seconds=None if crashed else report.duration,
            attempts=self._progress.attempts(report.nodeid),
            worker=_worker_of(report),
            **self._details(report),
        )
        self._facts.add_failure(failure)

    def _details(self, report: pytest.TestReport) -> dict[str, Any]:
        if len(self._facts.failures) >= MAX_LISTED:
            return {}
        text = longrepr.text_of(report.longrepr)
        head = getattr(report, "head_line", None) if hasattr(report, "context") else None
        return {
            "location": longrepr.place_of(report.longrepr, self._rootdir)
            or _place_of_definition(report),
            "traceback": f"{head}\n\n{text}" if head else text,
        }

    def _phase_of(self, report: pytest.TestReport) -> Phase:
        """Return the report's phase; of a test whose worker died, the one it was known to be in."""
        if report.when in _PHASES:
            return report.when
        return self._progress.phase_of(report.nodeid) or "call"


def is_of_forked_test(report: pytest.TestReport) -> bool:
    """Tell whether pytest-forked reports a crash, and not xdist that a worker went down.

    What a worker has reported bears its name; what the controller makes up of it does not.
    """
    return not hasattr(report, "node") or hasattr(report, "worker_id")


def _part_of(report: pytest.TestReport) -> Part:
    if hasattr(report, "context"):
        return "subtest"
    text = report.longrepr
    is_sum = isinstance(text, str) and text.startswith("contains ") and "failed subtest" in text
    return "sum" if is_sum else "test"


def _worker_of(report: pytest.TestReport) -> str | None:
    node = getattr(report, "node", None)
    return None if node is None else str(node.gateway.id)


def _place_of_definition(report: pytest.TestReport) -> Location | None:
    path, line, _ = report.location
    return Location(path=path.replace("\\", "/"), line=None if line is None else line + 1)
