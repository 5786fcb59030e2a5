"""Record how each test of a run ended, if the history or known failures need it."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.redaction.secrets import NodeIds
from pytest_failure_taxonomy.taxonomy.evidence import MAX_TESTS, TestOutcome, TestRun


class _TestState:
    """One test, as far as it is known."""

    __slots__ = ("has_failed_before", "outcome", "seconds", "start", "worker")

    def __init__(self, start: float | None, worker: str | None) -> None:
        self.outcome: TestOutcome | None = None
        self.has_failed_before = False
        self.seconds = 0.0
        self.start = start
        self.worker = worker


class EveryTest:
    """A plugin that keeps how each test ended, in the process that writes the report.

    It is there where that was asked for: for the history and known failures. One call a
    phase.
    """

    def __init__(self, faults: Faults, nodeids: NodeIds, started_at: float) -> None:
        """Begin.

        Args:
            faults: of the run.
            nodeids: takes secrets out of node ids.
            started_at: when the run began, in seconds of `time.time()`.
        """
        self._faults = faults
        self._nodeids = nodeids
        self._started_at = started_at
        self._tests: dict[str, _TestState] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to its test."""
        try:
            test = self._tests.get(report.nodeid)
            if test is None:
                start = getattr(report, "start", None)
                worker = getattr(report, "worker_id", None)
                test = self._tests[report.nodeid] = _TestState(start, worker)
            test.seconds += report.duration
            if report.outcome == "passed":
                if report.when == "call" and not hasattr(report, "context"):
                    passed: TestOutcome = (
                        "xpassed" if hasattr(report, "wasxfail") else "passed"
                    )
                    test.outcome = "flaky" if test.has_failed_before else passed
            elif hasattr(report, "context"):
                pass  # after a failed subtest its test's own follows
            elif str(report.outcome) == "rerun":  # pytest-rerunfailures
                test.outcome = "failed"
                test.has_failed_before = True
            elif report.outcome == "skipped":
                test.outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
            elif report.when == "call":
                test.outcome = "failed"
            elif test.outcome != "failed" or test.has_failed_before:
                test.outcome = "error"
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self._faults.add("pytest_runtest_logreport", error)

    def tests(self) -> tuple[TestRun, ...] | None:
        """Return the tests that have ended, by their start; `None` if too many.

        A test that was tried again and never passed has failed.
        """
        if len(self._tests) > MAX_TESTS:
            return None
        ended = {
            name: test for name, test in self._tests.items() if test.outcome is not None
        }
        shown = self._nodeids.show_all(list(ended))
        runs = [
            TestRun(
                nodeid=nodeid,
                outcome=test.outcome or "failed",
                start_seconds=None
                if test.start is None
                else max(0.0, test.start - self._started_at),
                duration_seconds=test.seconds,
                worker=test.worker,
            )
            for nodeid, test in zip(shown, ended.values(), strict=True)
        ]
        return tuple(sorted(runs, key=lambda run: run.start_seconds or 0.0))
