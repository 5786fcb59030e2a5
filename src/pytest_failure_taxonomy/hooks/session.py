"""The hooks of a session. Each records one fact and decides nothing.

Three of them are called for every test and have to be quick: a test that passes only
changes numbers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Final, cast

import pytest

from pytest_failure_taxonomy.hooks import exceptions
from pytest_failure_taxonomy.hooks.attribution import marker_in_output_of
from pytest_failure_taxonomy.hooks.failures import (
    MAX_NOTED,
    NOTHING,
    Described,
    EventLog,
    ExceptionMemory,
)
from pytest_failure_taxonomy.hooks.guard import (
    Faults,
    defer_sigint,
    guarded,
    guarded_hook,
)
from pytest_failure_taxonomy.hooks.last_words import TerminalWatch
from pytest_failure_taxonomy.hooks.origin import own_place_of
from pytest_failure_taxonomy.hooks.progress import Progress
from pytest_failure_taxonomy.redaction.secrets import NodeIds, Secrets, search_again
from pytest_failure_taxonomy.survive.facts import ProcessEnd, Snapshot, facts_of
from pytest_failure_taxonomy.survive.layout import END_MESSAGE, IN_CALL, IN_TEARDOWN
from pytest_failure_taxonomy.survive.writer import Record
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.deaths import is_ended_by_limit
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.values import replace

_WORDS_OF_XDIST: Final = "Different tests were collected between "
"""How the reports begin by which xdist's schedulers refuse to start, one for each
worker that differs from the first; it is the same in all versions since 1.2."""
_PHASES: Final = frozenset({"setup", "call", "teardown"})
_BEFORE_TEARDOWN: Final = frozenset({"setup", "call"})
_OF_DOCTESTS: Final = frozenset({"doctest", "_pytest.doctest"})
"""Modules of the exceptions by which doctests fail, of which pytest shows no
traceback."""
_TestReport: Final = pytest.TestReport

UNDESCRIBED: Final = "it could not be described; the faults in the report say why"
"""Stands for the message of a failure whose description has failed."""


class SessionRecorder:
    """A plugin that records a session, in the only process or in xdist's controller."""

    def __init__(
        self,
        config: pytest.Config,
        faults: Faults,
        record: Record,
        *,
        started_ns: int,
        markers: Mapping[str, FailureReason],
        secrets: Secrets,
    ) -> None:
        self.faults = faults
        self.secrets = secrets
        self.nodeids = NodeIds(secrets)
        self.progress = Progress(record, started_ns, self.nodeids.show_all)
        self.log = EventLog(record, secrets, self.nodeids, faults)
        self.exceptions = ExceptionMemory(config, faults, secrets.learn)
        self.ledger = self.exceptions.ledger
        self.ledger.secrets = secrets
        self.ledger.tell = self.log.add_change
        self.ledger.tell_peak = record.set_peak
        self.death: evidence.WorkerEnd | None = None
        """How the worker ended whose report comes next."""
        self.early_warnings: list[warnings.WarningMessage] = []
        """The first ones of the collection and before it."""
        self.empty: list[str] = []
        """Node ids of what was collected and has nothing in it."""
        self.should_fail = ""
        self.last_words = ""
        """What a plugin wrote on the terminal while it changed the session's status."""
        self.uncounted = 0
        """Failures that the session has counted, and that no report was of."""
        self._failed_reports = 0
        """Those that came by, counted before anything is done that may fail."""
        self._exempt_reports = 0
        """Those of them that pytest's session does not count."""
        self._awaiting: pytest.TestReport | None = None
        """The report of a failed test that is not recorded yet: it waits for the
        exception, which pytest passes to another hook. Whatever fails meanwhile, the
        next hook records it."""
        self._superseded: set[str] = set()
        """Tests that are going to be run again and have not started yet."""
        self._with_failed_subtests: set[str] = set()
        """Tests that have a failed subtest."""
        self.status: int | None = None
        """The session's own exit status, once it is known."""
        self._markers = markers
        self._config = config
        self._rootdir = config.rootpath
        self.record = record

    # These three are called for every test. They contain what `guarded` does, because
    # its wrapper would cost as much as their own work.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test starts."""
        try:
            self.progress.start(nodeid)
            self.ledger.start(nodeid)
            if self._awaiting is not None:
                self._await_no_more()
            if self._superseded:
                self._superseded.discard(nodeid)
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logstart", error)

    # Last: the terminal's own hook turns a pass into a failure if a subtest has failed.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how a phase of a test ended."""
        try:
            passed = report.outcome == "passed"
            if not passed and report.outcome == "failed":
                self._failed_reports += 1
                self._exempt_reports += hasattr(report, "wasxfail")
            when = report.when
            nodeid = report.nodeid
            if self._awaiting is not None:
                self._await_no_more()
            if not passed or hasattr(report, "wasxfail"):
                self._record_other_than_passed(report)
            elif when == "call" and not hasattr(report, "context"):
                self.progress.count_pass(nodeid)
            # Last, because it keeps what was counted, too.
            if when in _BEFORE_TEARDOWN and type(report) is _TestReport:
                is_called = passed and when == "setup"
                self.progress.advance(nodeid, IN_CALL if is_called else IN_TEARDOWN)
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logreport", error)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record that a test has ended."""
        try:
            if self._awaiting is not None:
                self._await_no_more()
            self.progress.finish(nodeid)
            self.exceptions.forget()
            if not self.progress.is_distributed:
                self.ledger.finish(nodeid)
        except BaseException as error:  # noqa: BLE001 - as in guard.guarded
            self.faults.add("pytest_runtest_logfinish", error)

    # The other hooks are called now and then.

    @guarded
    @defer_sigint
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record which tests are selected to run."""
        self.progress.select([item.nodeid for item in session.items])

    @guarded
    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Record how many tests were left out by options."""
        self.progress.count("deselected", len(items))

    # First: the debugger of `--pdb` waits for the user in this hook.
    @guarded_hook(tryfirst=True)
    def pytest_exception_interact(
        self,
        node: pytest.Item | pytest.Collector,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport | pytest.CollectReport,
    ) -> None:
        """Record the exception behind a failure.

        pytest calls this hook after `pytest_runtest_logreport`. For collectors, and for
        tests under pytest-rerunfailures, it is called before the report.
        """
        if isinstance(node, pytest.Collector):
            self.exceptions.see_collector(node, call, report)
        elif report is not self._awaiting:
            self.exceptions.see_test(node, call)
        elif call.excinfo is not None:
            described = self.exceptions.explain_test(node, call.excinfo.value, report)
            self._record_failure(report, described)

    @guarded
    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Compare the sides of a failing assertion; leave its words to others."""
        self.exceptions.see_comparison(op, left, right)

    @guarded_hook(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a node that could not be collected."""
        if report.skipped:
            self.progress.count("skipped")
        if not report.failed:
            if report.passed and not report.result:
                self.empty.append(report.nodeid)
            return
        self._failed_reports += 1
        self.progress.count("errors")
        if self.log.mismatch is not None and is_of_mismatch(report):
            self.log.recorded += 1
            return  # it names a worker, and no node that could not be collected
        bare = evidence.CollectionFailure(nodeid=report.nodeid, message=UNDESCRIBED)
        self.log.add_collection_failure(
            bare, partial(self._describe_collection, report)
        )

    def _describe_collection(
        self, report: pytest.CollectReport
    ) -> evidence.CollectionFailure:
        described = self.exceptions.take_collector(report)
        exception = described.exception
        place = described.place
        if exception is None:
            message = exceptions.shown_message(report.longrepr)
            place = exceptions.shown_place(report.longrepr, self._rootdir)
        elif (
            exception.type == pytest.Collector.CollectError.__qualname__
        ):  # pytest's own type
            message = exception.message
        else:
            message = f"{exception.type}: {exception.message}"
        return evidence.CollectionFailure(
            nodeid=report.nodeid,
            message=message,
            exception=exception,
            location=place,
            traceback=exceptions.shown_text(report.longrepr),
        )

    def _describe_failure(
        self,
        bare: evidence.TestFailure,
        report: pytest.TestReport,
        described: Described,
        death: evidence.WorkerEnd | None,
    ) -> evidence.TestFailure:
        shown = report.longrepr
        traces = None if death is None else death.traces
        text = place = None
        if len(self.log.failures) < evidence.MAX_LISTED:
            parts = [exceptions.shown_text(shown)]
            if bare.part == "subtest":
                parts.insert(0, getattr(report, "head_line", None))
            if traces is not None:
                parts += traces.stack, traces.output
                place = traces.location
            text = "\n\n".join(filter(None, parts)) or None
            place = place or exceptions.shown_place(shown, self._rootdir)
            place = place or _locate_test(report, described.exception)
        return replace(
            bare,
            message=exceptions.shown_message(shown),
            exception=described.exception,
            attributed=described.attributed,
            marker=marker_in_output_of(report, self._markers),
            limit=death.limit
            if death is not None and is_ended_by_limit(death)
            else None,
            stall=None if death is None else death.stall,
            location=place,
            traceback=text,
        )

    @guarded
    def pytest_keyboard_interrupt(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Record Ctrl+C, `pytest.exit`, and other exceptions that stop a session."""
        error = excinfo.value
        is_exit = issubclass(type(error), pytest.exit.Exception)
        message = exceptions.message_of(error)
        if is_exit and message == END_MESSAGE:
            return  # the stall is told
        where = own_place_of(error, self._rootdir)
        kind = "Exit" if is_exit else "Interrupted"
        if type(error) is KeyboardInterrupt:
            kind = "KeyboardInterrupt"
            message = f"{kind} at {where.path}:{where.line}" if where else kind
        self.interrupt(kind, message, where)

    @guarded_hook(tryfirst=True)
    def pytest_internalerror(
        self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        """Record an error of pytest's own or of a plugin's hook."""
        self.record_error(
            "internal",
            excinfo.value,
            formatted=exceptions.shown_exception(excrepr),
            traceback=exceptions.shown_text(excrepr),
        )

    @guarded
    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str
    ) -> None:
        """Count a warning as pytest's last line does; keep those before the tests."""
        self.progress.count("warnings")
        if when != "runtest" and len(self.early_warnings) < MAX_NOTED:
            self.early_warnings.append(warning_message)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(
        self, session: pytest.Session
    ) -> Generator[None, None, None]:
        """Record the session's status and `shouldfail` after all other plugins."""
        before = session.exitstatus
        with self.faults.catch("what the last test left"):
            self.ledger.changes()
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        # Of a red session the terminal prints each failure here, and no plugin made it
        # red.
        is_green = before == pytest.ExitCode.OK and not session.testsfailed
        writer = getattr(reporter, "_tw", None) if is_green else None  # not public
        watch = TerminalWatch(writer)
        try:
            return (yield)
        except pytest.exit.Exception as error:
            self.interrupt("Exit", exceptions.message_of(error), None)
            raise
        finally:
            self.should_fail = str(session.shouldfail or "")
            counted = self._failed_reports - self._exempt_reports
            self.uncounted = session.testsfailed - counted
            self.status = int(session.exitstatus)
            last_words = watch.stop()
            if self.status and session.exitstatus != before:
                self.last_words = last_words

    # The rest is called at the end of a run.

    def record_error(
        self,
        origin: evidence.ErrorOrigin,
        error: BaseException,
        *,
        message: str | None = None,
        formatted: str = "",
        traceback: str | None = None,
    ) -> None:
        """Record an error outside of tests; `message` replaces the exception's."""

        def describe() -> evidence.RunError:
            words = message or exceptions.words_of(
                error, self._rootdir, formatted=formatted
            )
            return evidence.RunError(
                origin=origin,
                message=words,
                traceback=traceback,
                exception=self.exceptions.describe_error(error, formatted),
            )

        named = exceptions.name_exception(error)
        bare = evidence.RunError(
            origin=origin,
            message=named.type,
            exception=named,
        )
        self.log.add_error(bare, describe)

    def interrupt(
        self, exception: Any, message: str, where: evidence.Location | None
    ) -> None:
        """Record an early end of the session, or of a worker's session."""
        self.log.add_interruption(
            evidence.Interruption(
                exception=exception,
                message=message,
                location=where,
            )
        )

    def evidence(
        self,
        exit_seen: evidence.ProcessExit,
        *,
        stage: Stage = Stage.FINAL_TEST,
        strict_baseline: bool = False,
        workers: tuple[evidence.WorkerEnd, ...] = (),
    ) -> evidence.RunEvidence:
        """Return all that was seen of the run, without secrets in node ids.

        Args:
            exit_seen: how the process is going to end.
            stage: of the pipeline that the run is part of.
            strict_baseline: a failure of a baseline is one of the project.
            workers: how those of xdist ended.
        """
        with self.faults.catch("the end of the last failure"):
            self._await_no_more()
        log = self.log
        progress = self.progress
        lost = max(0, self._failed_reports - log.recorded)
        uncounted = max(0, self.uncounted)
        if uncounted and log.errors:
            # A hook has raised on its way to ours, so that a report did not come by.
            lost = lost + uncounted
            uncounted = 0
        snapshot = snapshot_of(
            progress,
            log,
            lost=lost,
            stage=stage,
            strict_baseline=strict_baseline,
            rootdir=str(self._rootdir),
            workers=workers,
            should_fail=self.should_fail,
            last_words=self.secrets.redact(self.last_words),
            uncounted=uncounted,
            changes=self.ledger.changes(),
        )
        end = ProcessEnd(exit=exit_seen, ended_ns=progress.clock())
        facts = facts_of(snapshot, end)
        if log.known_at_first not in (None, self.secrets.known):
            facts = search_again(facts, self.secrets)
        return self.nodeids.show_at_end(facts)

    def _record_other_than_passed(self, report: pytest.TestReport) -> None:
        outcome = cast("str", report.outcome)
        if outcome == "failed":
            self._awaiting = report
            described = self.exceptions.take_test(report)
            is_here = report.when in _PHASES and not hasattr(report, "node")
            # Where this process ran the test, its exception is still to come.
            if described.exception is not None or not is_here:
                self._record_failure(report, described)
        elif (
            outcome == "rerun"
        ):  # pytest-rerunfailures; its failed subtests no longer count
            nodeid = report.nodeid
            worker = _worker_of(report)
            self.progress.count_rerun(nodeid, getattr(report, "rerun", None))
            self.log.write("rerun", nodeid=nodeid, worker=worker)
            if nodeid in self._with_failed_subtests:
                self._with_failed_subtests.discard(nodeid)
                self.progress.count("failed", -self.log.remove_subtests(nodeid, worker))
            self._superseded.add(nodeid)
        elif hasattr(report, "context") and self._hides_subtests:
            return
        elif hasattr(report, "wasxfail"):
            self._count_result(report, "xfailed" if outcome == "skipped" else "xpassed")
        elif outcome == "skipped":
            self._count_result(report, "skipped")

    def _count_result(self, report: pytest.TestReport, name: str) -> None:
        if not hasattr(report, "context"):  # a subtest's is not its test's
            self.progress.set_result(report.nodeid, name)
        self.progress.count(name)

    def _await_no_more(self) -> None:
        """Record a failure without an exception: a test passed unexpectedly."""
        if self._awaiting is not None:
            self._record_failure(self._awaiting, NOTHING)

    def _record_failure(self, report: pytest.TestReport, described: Described) -> None:
        """Record a failure in one event: a second would cost as much again."""
        self._awaiting = None
        nodeid = report.nodeid
        shown = report.longrepr
        is_subtest = hasattr(report, "context")
        part: evidence.Part = "test"
        if is_subtest:
            part = "subtest"
            if nodeid in self._superseded:
                self.log.recorded += 1
                return
            self._with_failed_subtests.add(nodeid)
        elif (
            isinstance(shown, str)
            and shown.startswith("contains ")
            and "failed subtest" in shown
        ):
            part = "sum"
            # In this process it had passed when pytest's session counted.
            self._exempt_reports += not hasattr(report, "node")
        crashed = report.when not in _PHASES
        forked = crashed and is_of_forked_test(report)
        death = None
        if crashed and not forked:
            death = self.death
        phase: evidence.Phase = "call"
        if report.when in _PHASES:
            phase = report.when
        elif not forked:  # its worker has died, and the phase is the last one known
            phase = self.progress.phase_of(nodeid) or "call"
        result = "failed" if phase == "call" or crashed else "errors"
        self.progress.set_result(nodeid, result)
        if crashed:
            self.progress.finish(nodeid)  # its worker can't say that it has
        raised = described.exception
        bare = evidence.TestFailure(
            nodeid=nodeid,
            phase=phase,
            message=UNDESCRIBED,
            exception=raised
            and replace(
                raised,
                message="",
                facts=(),
                chain=(),
            ),
            part=part,
            crashed=crashed,
            forked=forked,
            duration_seconds=None
            if crashed
            else float(report.duration),  # unittest says 0
            attempts=1 + self.progress.reruns.get(nodeid, 0),
            worker=_worker_of(report),
        )
        describe = partial(self._describe_failure, bare, report, described, death)
        before = self.log.recorded
        try:
            self.log.add_failure(bare, describe)
        finally:
            if self.log.recorded > before:
                self.progress.count(result)

    @cached_property
    def _hides_subtests(self) -> bool:
        """Whether pytest's summary line leaves out subtests that did not fail."""
        with suppress(AttributeError, ValueError):  # pytest < 9 has no such verbosity
            return self._config.get_verbosity(pytest.Config.VERBOSITY_SUBTESTS) == 0
        return False


def snapshot_of(
    progress: Progress, log: EventLog, *, lost: int = 0, **fields: Any
) -> Snapshot:
    """Return the content of this process's record, from memory.

    Args:
        progress: has the numbers.
        log: has the events.
        lost: failed reports that could not be recorded.
        fields: the other fields of the snapshot.
    """
    counters = progress.counters
    counters["failed"] += lost
    return Snapshot(
        nodeids=progress.nodeids,
        counters=counters,
        in_flight=progress.in_flight(),
        not_run=progress.not_started(),
        starts=progress.starts,
        plan=progress.plan,
        processes=progress.processes,
        failures=log.failures,
        recovered=frozenset(progress.recovered),
        collection_failures=tuple(log.collection_failures.values()),
        errors=tuple(log.errors),
        interruptions=tuple(log.interruptions),
        mismatch=log.mismatch,
        missing={"failure": lost},
        **fields,
    )


def is_of_mismatch(report: pytest.CollectReport) -> bool:
    """Tell whether xdist says by a report that its workers collected different tests.

    The report is one of a node that could not be collected, and the node is a worker.
    """
    return isinstance(report.longrepr, str) and report.longrepr.startswith(
        _WORDS_OF_XDIST
    )


def _locate_test(
    report: pytest.TestReport, raised: evidence.RaisedException | None
) -> evidence.Location:
    """Return where a test is defined; for a doctest, where the failed example is."""
    path, line, _ = report.location
    path = path.replace("\\", "/")
    line = None if line is None else line + 1
    frame = None
    if raised and raised.module in _OF_DOCTESTS:
        frame = raised.frame
    if frame is not None and frame.path == path and frame.line is not None:
        line = frame.line
    return evidence.Location(path=path, line=line)


def exit_code_of(status: int) -> int:
    """Return the exit code that a shell shows when a process ends with this status."""
    return status & (0xFF if os.name == "posix" else 0xFFFF_FFFF)


def is_of_forked_test(report: pytest.TestReport) -> bool:
    """Tell whether pytest-forked reports a crash, and not xdist a worker's death.

    Reports that come from a worker have its id; the one that the controller makes up
    does not.
    """
    return not hasattr(report, "node") or hasattr(report, "worker_id")


def _worker_of(report: pytest.TestReport) -> str | None:
    node = getattr(report, "node", None)
    if node is None:
        return None
    return str(node.gateway.id)
