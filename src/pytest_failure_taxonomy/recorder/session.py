"""The hooks of a session: each records one fact and decides nothing.

Five of them are called for every test, so they are kept to what must be done there: a passing
test leaves a number behind and nothing else.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from pytest_failure_taxonomy.recorder import longrepr
from pytest_failure_taxonomy.recorder.describe import describe_exception, message_of, place_of
from pytest_failure_taxonomy.recorder.exceptions import ExceptionMemory
from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.recorder.selection import Selection
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Counts,
    ErrorOrigin,
    InFlightTest,
    Interruption,
    Location,
    Phase,
    ProcessExit,
    RunError,
    RunEvidence,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.stages import Stage

MAX_DETAILED_FAILURES: Final = 1_000
"""Failures whose text and place are kept; the report lists no more than that."""

_PHASES: Final = frozenset({"setup", "call", "teardown"})
_PHASE_AFTER: Final[dict[str | None, Phase]] = {
    None: "setup",
    "setup": "call",
    "call": "teardown",
    "teardown": "teardown",
}
_TestReport: Final = pytest.TestReport


class SessionRecorder:
    """A plugin that records a session: in one process, or on the controller of several."""

    def __init__(self, config: pytest.Config, faults: Faults) -> None:
        self.faults = faults
        self.exceptions = ExceptionMemory(config.rootpath)
        self.selection = Selection()
        self.deselected = 0
        self.should_fail = ""
        self.failures: list[TestFailure] = []
        self.collection_failures: dict[str, CollectionFailure] = {}
        self.errors: list[RunError] = []
        self.interruptions: list[Interruption] = []
        self._config = config
        self._rootdir = config.rootpath
        # Held here because a test may replace the function in its module (freezegun, pyfakefs).
        self._clock = time.monotonic_ns
        self._in_flight: dict[str, list[Any]] = {}
        """Node id: start in nanoseconds, last phase that has been reported, worker."""
        self._last_failed: pytest.TestReport | None = None
        self._passed = 0
        self._other: Counter[str] = Counter()
        self._reruns: Counter[str] = Counter()
        self._passed_at_last: set[str] = set()

    # What is called for every test. The guard is written out in these three, because a wrapper
    # around each would cost as much as what they do.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test is in flight."""
        try:
            self._in_flight[nodeid] = [self._clock(), None, None]
            self.selection.start(nodeid)
        except Exception as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logstart", error)

    # Last, because the terminal's own hook may turn a pass into a failure (core subtests do).
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how a phase of a test ended."""
        try:
            when = report.when
            flight = self._in_flight.get(report.nodeid)
            if flight is not None and type(report) is _TestReport and when in _PHASES:
                flight[1] = when
            if report.outcome != "passed" or hasattr(report, "wasxfail"):
                self._record_other_than_passed(report)
            elif when == "call" and not hasattr(report, "context"):
                self._passed += 1
                if self._reruns and report.nodeid in self._reruns:
                    self._passed_at_last.add(report.nodeid)
        except Exception as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logreport", error)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record that a test is in flight no more."""
        try:
            self._in_flight.pop(nodeid, None)
            self.exceptions.forget()
        except Exception as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logfinish", error)

    # What is called now and then.

    @guarded
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record which tests are selected to run."""
        self.selection = Selection([item.nodeid for item in session.items])

    @guarded
    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Record how many tests were left out by options."""
        self.deselected += len(items)

    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_exception_interact(
        self,
        node: pytest.Item | pytest.Collector,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport | pytest.CollectReport,
    ) -> None:
        """Record what was raised; pytest calls this for failures alone.

        For a node that could not be collected, and for an attempt that pytest-rerunfailures looks
        at, that is before the report comes by; for any other test right after.
        """
        if isinstance(node, pytest.Collector):
            self.exceptions.see_collector(node, call)
        elif report is not self._last_failed:
            self.exceptions.see_test(node, call)
        elif call.excinfo is not None:
            exception = describe_exception(call.excinfo.value)
            self.failures[-1] = replace(self.failures[-1], exception=exception)

    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a node that could not be collected, once however many workers say so."""
        if report.skipped:
            self._other["skipped"] += 1
        if not report.failed:
            return
        self._other["errors"] += 1
        exception, place = self.exceptions.take_collector(report)
        self.collection_failures.setdefault(
            report.nodeid,
            CollectionFailure(
                nodeid=report.nodeid,
                message=f"{exception.type}: {exception.message}"
                if exception
                else longrepr.message_of(report.longrepr),
                exception=exception,
                location=place if exception else longrepr.place_of(report.longrepr, self._rootdir),
                traceback=longrepr.text_of(report.longrepr),
            ),
        )

    @guarded
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record Ctrl+C, `pytest.exit`, and the exceptions by which pytest and xdist stop."""
        error = excinfo.value
        where = place_of(error, self._rootdir)
        if isinstance(error, pytest.exit.Exception):
            self._interrupt("Exit", str(error.msg), where)
        elif type(error) is KeyboardInterrupt:
            at = f" at {where.path}:{where.line}" if where else ""
            self._interrupt("KeyboardInterrupt", f"KeyboardInterrupt{at}", where)
        else:
            self._interrupt("Interrupted", message_of(error), where)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_internalerror(
        self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Record an error of pytest's own or of a plugin's hook."""
        self.record_error("internal", excinfo.value, traceback=str(excrepr))

    @guarded
    def pytest_warning_recorded(self) -> None:
        """Count a warning as pytest's last line does."""
        self._other["warnings"] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Record what the session says of itself after all other plugins have had their say."""
        try:
            return (yield)
        except pytest.exit.Exception as error:
            self._interrupt("Exit", str(error.msg), None)
            raise
        finally:
            self.should_fail = str(session.shouldfail or "")

    # What is known at the end.

    def record_error(
        self,
        origin: ErrorOrigin,
        error: BaseException,
        *,
        message: str | None = None,
        traceback: str | None = None,
    ) -> None:
        """Record an error outside of any test; `message` replaces the exception's own words."""
        if message is None:
            text = message_of(error)
            name = type(error).__qualname__
            message = f"{name}: {text}" if text else name
        self.errors.append(RunError(origin=origin, message=message, traceback=traceback))

    def evidence(
        self,
        *,
        stage: Stage,
        strict_baseline: bool,
        exit_seen: ProcessExit,
        workers: tuple[WorkerEnd, ...],
    ) -> RunEvidence:
        """Return all that was recorded, with how the run ended."""
        return RunEvidence(
            stage=stage,
            strict_baseline=strict_baseline,
            exit=exit_seen,
            should_fail=self.should_fail,
            counts=self.counts(),
            failures=tuple(self.failures),
            collection_failures=tuple(self.collection_failures.values()),
            errors=tuple(self.errors),
            interruptions=tuple(self.interruptions),
            in_flight=self.in_flight(),
            not_run=self.selection.not_started(),
            workers=workers,
        )

    def counts(self) -> Counts:
        """Return the numbers of the run so far."""
        failed = {failure.nodeid for failure in self.failures}
        return Counts(
            collected=len(self.selection),
            deselected=self.deselected,
            passed=self._passed,
            flaky=len(self._passed_at_last - failed),
            rerun=self._reruns.total(),
            **self._other,
        )

    def in_flight(self) -> tuple[InFlightTest, ...]:
        """Return the tests that have started and not finished, in order of start."""
        now = self._clock()
        return tuple(
            InFlightTest(
                nodeid=nodeid,
                phase=_PHASE_AFTER[reported],
                worker=worker,
                elapsed_seconds=(now - start) / 1e9,
            )
            for nodeid, (start, reported, worker) in self._in_flight.items()
        )

    def assign_worker(self, nodeid: str, worker: str) -> None:
        """Record which worker runs a test that is in flight."""
        flight = self._in_flight.get(nodeid)
        if flight is not None:
            flight[2] = worker

    def _interrupt(self, exception: Any, message: str, where: Location | None) -> None:
        self.interruptions.append(
            Interruption(exception=exception, message=message, location=where)
        )

    def _record_other_than_passed(self, report: pytest.TestReport) -> None:
        outcome = cast("str", report.outcome)
        if outcome == "failed":
            self._record_failure(report)
        elif outcome == "rerun":  # pytest-rerunfailures
            self._reruns[report.nodeid] += 1
        elif hasattr(report, "context") and self._hides_subtests():
            return
        elif hasattr(report, "wasxfail"):
            self._other["xfailed" if outcome == "skipped" else "xpassed"] += 1
        elif outcome == "skipped":
            self._other["skipped"] += 1

    def _hides_subtests(self) -> bool:
        """Tell whether pytest's last line leaves out subtests that did not fail."""
        with suppress(AttributeError, ValueError):  # pytest < 9 has no such verbosity
            return self._config.get_verbosity(pytest.Config.VERBOSITY_SUBTESTS) == 0
        return False

    def _record_failure(self, report: pytest.TestReport) -> None:
        exception = self.exceptions.take_test(report)
        phase = self._phase_of(report)
        crashed = report.when not in _PHASES
        if crashed:
            self._in_flight.pop(report.nodeid, None)  # its worker can't say that it finished
        self._other["failed" if phase == "call" or crashed else "errors"] += 1
        node = getattr(report, "node", None)
        failure = TestFailure(
            nodeid=report.nodeid,
            phase=phase,
            message=longrepr.message_of(report.longrepr),
            exception=exception,
            crashed=crashed,
            duration_seconds=None if crashed else report.duration,
            attempts=1 + self._reruns[report.nodeid] if self._reruns else 1,
            worker=None if node is None else node.gateway.id,
            **self._details(report),
        )
        self.failures.append(failure)
        self._last_failed = report

    def _details(self, report: pytest.TestReport) -> dict[str, Any]:
        if len(self.failures) >= MAX_DETAILED_FAILURES:
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
        flight = self._in_flight.get(report.nodeid)
        return "call" if flight is None else _PHASE_AFTER[flight[1]]


def _place_of_definition(report: pytest.TestReport) -> Location | None:
    path, line, _ = report.location
    return Location(path=path.replace("\\", "/"), line=None if line is None else line + 1)
