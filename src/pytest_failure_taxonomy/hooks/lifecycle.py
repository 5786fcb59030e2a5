"""Follow a run from start to report: record, judge, build, write, print.

`start` imports it when the report is on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.faces.terminal import problem_line
from pytest_failure_taxonomy.hooks import additions, progress, showing
from pytest_failure_taxonomy.hooks.guard import Faults, guarded, guarded_hook
from pytest_failure_taxonomy.hooks.integrity import IntegrityCheck
from pytest_failure_taxonomy.hooks.last_words import add_coverage
from pytest_failure_taxonomy.hooks.printing import print_lines
from pytest_failure_taxonomy.hooks.report_file import ReportFile
from pytest_failure_taxonomy.hooks.run_context import (
    add_watcher,
    complete_context,
    start_context,
)
from pytest_failure_taxonomy.hooks.session import (
    UNDESCRIBED,
    SessionRecorder,
    exit_code_of,
)
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.survive import machine
from pytest_failure_taxonomy.survive.start_watcher import (
    HAS_OBSERVERS,
    StalledRun,
    is_program,
)
from pytest_failure_taxonomy.system.interpreter import (
    call_after_fork,
    interpreter_as_it_was,
    isolate_package,
)
from pytest_failure_taxonomy.system.process import die_with_parent
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.amendments import (
    Amendment,
    ReportSection,
    SectionPlace,
)
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import KnownFailures, Stage
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.controller import ControllerRecorder
    from pytest_failure_taxonomy.hooks.every_test import EveryTest
    from pytest_failure_taxonomy.hooks.stall_thread import StallThread
    from pytest_failure_taxonomy.report.model import FailureReport

_END: Final = "the end of the run"
_NOT_CERTIFIED: Final = 1
"""As for failed tests; a number, because somebody may have changed pytest's own."""


class Run:
    """A plugin that follows one run, in the process that writes its report."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        """Write the first report, replacing an earlier run's, and begin the record.

        Raises:
            SettingsError: if the path that the user gave can't be written.
        """
        self._clock = time.monotonic_ns
        self._started_ns = self._clock()
        self._started_at = datetime.now(UTC)
        self._process_id = os.getpid()
        self._id = os.urandom(16).hex()
        self._path = [entry for entry in sys.path if os.path.isabs(entry)]
        self._config = config
        self._settings = settings
        self.faults = Faults(config)
        self.has_main = False
        """Whether pytest called its main hook, which `pytest_cmdline_main` wraps."""
        self._is_finished = False
        self._speaks_last = False
        self._known: KnownFailures | None = None
        self._controller: ControllerRecorder | None = None
        self._stall_thread: StallThread | None = None
        self._stalled: StalledRun | None = None
        self._every_test: EveryTest | None = None
        self._variables = {} if settings.prove is None else dict(os.environ)
        self._secrets = Secrets(settings.redact)
        self._context: evidence.RunContext | None = None
        additions.register_neighbours(config, settings)
        if settings.known is not None:
            # At the start: later a test may have patched what it imports.
            from pytest_failure_taxonomy.hooks import known_failures  # noqa: F401
        self.report_file = ReportFile(settings, self._id)
        try:
            self._context = self._read_context()
            if not getattr(config.known_args_namespace, "collectonly", False):
                self._context = self._begin_on_disk(self._context)
            if settings.mailbox is not None:
                from pytest_failure_taxonomy.survive.mailbox import claim_mailbox

                is_claimed = claim_mailbox(
                    settings.mailbox,
                    report=str(self.report_file.path),
                    run_id=self._id,
                    record=self.report_file.record_files,
                    faces=settings.faces,
                )
                if not is_claimed:
                    self._settings = replace(settings, mailbox=None)
                elif settings.is_child:
                    die_with_parent()
        except SettingsError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's run goes on
            self.report_file.discard()
            self.faults.add("the start of the run", error)
        self.session = SessionRecorder(
            config,
            self.faults,
            self.report_file.record,
            started_ns=self._started_ns,
            markers=settings.markers,
            secrets=self._secrets,
        )
        wants_tests = settings.history is not None or settings.known is not None
        shows_tests = settings.faces.junit or settings.faces.html
        if wants_tests or shows_tests or settings.retried is not None:
            from pytest_failure_taxonomy.hooks.every_test import EveryTest

            started_at = self._started_at.timestamp()
            tests = EveryTest(self.faults, self.session.nodeids, started_at)
            config.pluginmanager.register(tests, "failure_taxonomy_every_test")
            self._every_test = tests
        self.integrity = IntegrityCheck(
            config, self.faults, is_certified=settings.certify, base=settings.base
        )
        self._is_made_red = False
        """Whether the run is not certified, although pytest ends with 0."""
        call_after_fork(self.report_file.leave_to_parent)

    def _read_context(self) -> evidence.RunContext:
        return start_context(
            self._config, self._settings, self._secrets, self._id, self._started_at
        )

    def _begin_on_disk(self, context: evidence.RunContext) -> evidence.RunContext:
        """Write the first report, begin the record, and start the watcher."""
        settings = self._settings
        if self.report_file.is_watched:
            context = add_watcher(context, evidence.WatcherState(active=True))
        # A pattern that matches itself shows a secret; the record must not have it.
        redact = [
            pattern
            for pattern in settings.redact
            if self._secrets.redact(pattern) == pattern
        ]
        header = {
            "started_ns": self._started_ns,
            "stage": settings.stage,
            "strict_baseline": settings.strict_baseline,
            "faulthandler_exit_seconds": progress.faulthandler_exit_seconds(
                self._config
            ),
            "rules": settings.rules,
            "redact": redact,
            "context": context,
            "path": self._path,
        }
        self.report_file.open(self._running_report(context), header)
        why_not = self.report_file.watch()
        if why_not is not None:
            context = self._record_no_watcher(context, why_not)
            self.report_file.correct(self._running_report(context))
        return context

    def _record_no_watcher(
        self, context: evidence.RunContext, why_not: str
    ) -> evidence.RunContext:
        watcher = evidence.WatcherState(active=False, why_not=why_not)
        self.report_file.record.write("watcher", watcher=watcher)
        return add_watcher(context, watcher)

    def _running_report(self, context: evidence.RunContext) -> FailureReport:
        nothing_seen = evidence.RunEvidence(
            stage=self._settings.stage,
            finished=False,
            exit=evidence.ProcessExit(code=None, source="none"),
        )
        return self._build(nothing_seen, context, "running")

    @guarded_hook(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Register the recorders of workers and of timers, if there will be any."""
        self.session.progress.plan = machine.plan_of(self._config)
        manager = self._config.pluginmanager
        settings, file = self._settings, self.report_file
        if manager.has_plugin("dsession"):
            from pytest_failure_taxonomy.hooks.controller import ControllerRecorder
            from pytest_failure_taxonomy.survive.crash_output import LeftByWorkers

            left = LeftByWorkers(
                self._config.rootpath,
                self._secrets.redact,
                progress.stderr_of_faulthandler(self._config),
            )
            self._controller = ControllerRecorder(
                self._config, self.session, left, file.watcher_id, self.integrity
            )
            manager.register(self._controller, "failure_taxonomy_controller")
        if file.watcher_id is not None:
            self._stalled = StalledRun(
                self._config, file.record, ends=settings.ends_stalled
            )
            manager.register(self._stalled, "failure_taxonomy_stalled_run")
        elif self._controller is None and settings.stall_seconds and not HAS_OBSERVERS:
            from pytest_failure_taxonomy.hooks.stall_thread import StallThread

            self._stall_thread = StallThread(
                self._config,
                self.session,
                settings.stall_seconds,
                (file.path, self._id),
            )
            manager.register(self._stall_thread, "failure_taxonomy_stall_thread")
            self._stall_thread.start()
        isolate_package()

    @guarded
    def pytest_collection_finish(self) -> None:
        """Prepare for tests that hang in an asyncio loop, if a test imported it."""
        self.report_file.begin_to_tell_tasks()

    @guarded
    def pytest_failure_taxonomy_section_begun(self, place: SectionPlace) -> None:
        """Record where a neighbour keeps what it has, in case this process dies."""
        self.report_file.record.write("section", **to_dict(place))

    @guarded
    def pytest_report_header(self) -> list[str]:
        """Say before the first test what the run goes without."""
        return [f"failure taxonomy: {warning}" for warning in self._settings.warnings]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, Any]:
        """Finish the run when pytest's main hook returns or raises."""
        self.has_main = True
        try:
            status = yield
        except BaseException as error:
            self.finish_with(error)
            raise
        code = exit_code_of(int(status or 0))
        self.finish(evidence.ProcessExit(code=code, source="pytest"))
        if self._known is not None and self._known.accepted:
            return pytest.ExitCode.OK
        return _NOT_CERTIFIED if self._is_made_red else status

    def finish_with(self, error: BaseException) -> None:
        """Finish a run that ends with an error, before pytest or Python shows it."""
        self._speaks_last = is_program()
        end = evidence.ProcessExit(code=None, source="none")
        # A test has used up all descriptors, or all memory.
        with suppress(OSError, MemoryError):
            with interpreter_as_it_was():
                from pytest_failure_taxonomy.hooks.startup_errors import (
                    record_startup_error,
                )

            end = record_startup_error(self.session, error, self._config)
        self.finish(end)

    def finish(self, end: evidence.ProcessExit) -> None:
        """Judge the run, write its report, print the verdict; later calls do nothing.

        A forked child of a test may reach the end of the session too; it does nothing.
        """
        if self._is_finished or os.getpid() != self._process_id:
            return
        self._is_finished = True
        self.faults.is_over = True
        with interpreter_as_it_was():
            try:
                self._finish(end)
            except BaseException as error:  # noqa: BLE001 - the exit status stands
                self.faults.add(_END, error)

    def _finish(self, end: evidence.ProcessExit) -> None:
        config, record = self._config, self.report_file.record
        duration_seconds = (self._clock() - self._started_ns) / 1e9
        if self._controller is not None:
            self._controller.catch_up()
        sections = additions.ask_sections(config, self.faults)
        run = self._evidence(end, sections)
        # An experiment may run failures again; the history compares packages.
        is_repeatable = run.exit.code != 0 or run.failures
        is_compared = self._settings.history is not None
        context = complete_context(
            self._context or self._read_context(),
            config,
            duration_seconds,
            self._path if is_repeatable or is_compared else None,
        )
        run = self._compare_with_known(run, context)
        record.write(
            "end", should_fail=run.should_fail, coverage=run.coverage, gate=run.gate
        )
        record.finish(run.exit.code or 0)  # from here on the watcher is idle
        if self.report_file.has_lost_watcher():
            context = self._record_no_watcher(context, "it was ended before pytest was")
        run = self._add_observed(run)
        try:
            report = self._final_report(run, context)
        except OSError as error:  # no file can be opened, not even to import a module
            print_lines(config, [problem_line(self.report_file.give_up(error))])
            return
        report, amendments, problem = self._write(report, sections)
        cases: dict[str, object] = {}
        if self._settings.faces.html is not None:
            cases = additions.read_cases(report, sections)
        ended = showing.EndedRun(
            run=run,
            report=report,
            problem=problem,
            known=self._known,
            amendments=amendments,
            cases=cases,
        )
        showing.show_run(
            ended,
            config,
            self._settings,
            self.report_file,
            speaks_last=self._speaks_last,
        )
        showing.prove_at_end(
            ended, config, self._settings, self.report_file, self._variables
        )

    def _evidence(
        self, end: evidence.ProcessExit, sections: Sequence[ReportSection]
    ) -> evidence.RunEvidence:
        """Return all that was seen of the session, and how it ends."""
        run = self.session.evidence(
            end,
            stage=self._settings.stage,
            strict_baseline=self._settings.strict_baseline,
            workers=() if self._controller is None else self._controller.ends(),
        )
        run = add_coverage(run, self._config)
        if run.exit.code == pytest.ExitCode.NO_TESTS_COLLECTED:
            with suppress(Exception):  # a setting may have any value
                from pytest_failure_taxonomy.hooks.nothing_ran import explain_no_tests

                why = explain_no_tests(
                    self._config,
                    self.session.early_warnings,
                    self.session.empty,
                    deselected=run.counts.deselected,
                )
                run = replace(run, nothing_ran=self._secrets.redact(why))
        reasons = [section.why_failed for section in sections if section.why_failed]
        if reasons:
            run = replace(run, gate=reasons[0])
        if self._every_test is not None:
            run = replace(run, tests=self._every_test.tests())
        with self.faults.catch("the check of integrity"):
            run = self._add_integrity(run)
        return run  # noqa: RET504 - as it was, if that has failed

    def _add_integrity(self, run: evidence.RunEvidence) -> evidence.RunEvidence:
        """Add what made a run's results; exit code 1 if that can't be certified."""
        findings, entered = self.integrity.conclude(run)
        # A baseline is to fail: what makes it red would make it a valid one.
        is_baseline = run.stage is Stage.BASELINE_RUN
        is_certified = self._settings.certify and not is_baseline
        self._is_made_red = bool(findings) and is_certified and run.exit.code == 0
        exit_seen = run.exit
        if self._is_made_red:
            exit_seen = replace(exit_seen, code=_NOT_CERTIFIED)
        return replace(
            run,
            exit=exit_seen,
            integrity=findings,
            entered=entered,
            is_certified=is_certified,
        )

    def _compare_with_known(
        self, run: evidence.RunEvidence, context: evidence.RunContext
    ) -> evidence.RunEvidence:
        """Accept known failures: exit code 0 if that was asked and all are known."""
        if self._settings.known is None:
            return run

        def ask_history() -> tuple[FailureReport, list[Amendment]]:
            report = self._build(self._attribute_failures(run), context, "full")
            amendments = additions.ask_amendments(self._config, report, is_final=False)
            return report, amendments

        with self.faults.catch("the comparison with known failures"):
            from pytest_failure_taxonomy.hooks.known_failures import compare_run

            run, self._known = compare_run(self._settings, run, ask_history)
        return run

    def _add_observed(self, run: evidence.RunEvidence) -> evidence.RunEvidence:
        """Return a run with what stalled in it; record threads that it leaves."""
        with suppress(
            Exception
        ):  # a test may have patched anything; the rest is enough
            if self._stall_thread is not None:
                observed = self._stall_thread.stop()
            else:
                observed = self.report_file.read_observed()
            if self._stalled is not None and self._stalled.ended is not None:
                observed = self._stalled.ended
            if observed is not None:
                from pytest_failure_taxonomy.survive.facts import add_stalls

                run = add_stalls(run, observed, ended_ns=self._clock(), is_over=False)
            # Past the properties: a class of the user's may have others.
            staying = [
                thread
                for thread in threading.enumerate()
                if not vars(thread)["_daemonic"]
            ]
            if len(staying) > 1:
                from pytest_failure_taxonomy.hooks.stall_thread import (
                    record_left_threads,
                )

                record_left_threads(
                    self.session, self._config.rootpath, self._secrets.redact
                )
        return run

    def _final_report(
        self, run: evidence.RunEvidence, context: evidence.RunContext
    ) -> FailureReport:
        """Build the report; without the attributions if it can't be built with them."""
        try:
            return self._build(self._attribute_failures(run), context, "full")
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - the counts are still true
            self.faults.add(_END, error)
        bare = [
            evidence.TestFailure(
                nodeid=failure.nodeid, phase=failure.phase, message=UNDESCRIBED
            )
            for failure in run.failures
        ]
        return self._build(replace(run, failures=tuple(bare)), context, "full")

    def _attribute_failures(self, run: evidence.RunEvidence) -> evidence.RunEvidence:
        """Attribute failures by the user's rules, then by the table of libraries."""
        if self._settings.rules:
            with self.faults.catch("the user's rules"):
                from pytest_failure_taxonomy.rules.matching import apply_rules

                run, faults = apply_rules(run, self._settings.rules)
                for fault in faults:
                    self.faults.note(fault)
        with self.faults.catch("the table of libraries"):
            run = name_libraries(run)
        return run  # noqa: RET504 - as it was, if that has failed

    def _build(
        self,
        run: evidence.RunEvidence,
        context: evidence.RunContext,
        completeness: evidence.Completeness,
    ) -> FailureReport:
        return build_report(
            run,
            judge(run),
            context,
            completeness=completeness,
            faults=self.faults.messages,
            redaction=self._secrets,
        )

    def _write(
        self, report: FailureReport, sections: Sequence[ReportSection]
    ) -> tuple[FailureReport, list[Amendment], str | None]:
        """Write a report with what others add; return it, and why it isn't whole."""
        config, secrets = self._config, self._secrets
        secrets_before = secrets.known
        amendments: list[Amendment] = []
        with self.faults.catch("the reports of benches"):
            report = additions.add_sections(report, sections, secrets)
        report = replace(report, known=self._known)
        try:
            with self.faults.catch("the history"):
                amendments = additions.ask_amendments(config, report, is_final=True)
                report = additions.apply_amendments(report, amendments)
            report = additions.add_extensions(config, report, self.faults, secrets)
        finally:  # a hook may end the process
            if secrets.known != secrets_before:
                report = additions.search_again(report, secrets.redact)
            problem = self.report_file.close(report)
            if self._settings.mailbox is not None:
                from pytest_failure_taxonomy.survive.mailbox import release_mailbox

                release_mailbox(
                    self._settings.mailbox,
                    report=str(self.report_file.path),
                    has_passed=report.verdict is None,
                )
        return report, amendments, problem
