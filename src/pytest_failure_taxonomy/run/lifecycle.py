"""One run from its start to its report: record, judge, build, write, and print the verdict.

Only this module knows all the parts. `plugin` imports it when the report is on.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder import other_plugins
from pytest_failure_taxonomy.recorder.guard import Faults, defer_sigint, guarded
from pytest_failure_taxonomy.recorder.machine import (
    ci_job,
    describe_environment,
    find_commit,
    memory_use,
)
from pytest_failure_taxonomy.recorder.progress import ActivityRecorder, EveryTest
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.recorder.startup_errors import exit_code_of, record_startup_error
from pytest_failure_taxonomy.recorder.worker import (
    WorkerRecorder,
    is_followed,
    is_worker,
    may_be_worker,
)
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.render.terminal import (
    Line,
    notice,
    problem_line,
    verdict_lines,
    watcher_lines,
)
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.report.text import ShownPaths, safe_text
from pytest_failure_taxonomy.rules.attribute import attribute
from pytest_failure_taxonomy.run import additions
from pytest_failure_taxonomy.run.past_runs import PastRuns
from pytest_failure_taxonomy.run.report_file import (
    CrashRecord,
    Observer,
    ReportFile,
    call_after_fork,
)
from pytest_failure_taxonomy.run.settings import Settings, read_settings
from pytest_failure_taxonomy.run.terminal import (
    is_on_gitlab,
    lines_of_causes,
    link_targets,
    print_lines,
    show_faces,
    tells_causes,
    verbosity,
)
from pytest_failure_taxonomy.system.interpreter import interpreter_as_it_was, isolate_module
from pytest_failure_taxonomy.system.process import die_with_parent
from pytest_failure_taxonomy.system.streams import write_words
from pytest_failure_taxonomy.taxonomy.evidence import (
    Completeness,
    Environment,
    GitState,
    ProcessExit,
    Repository,
    RunContext,
    RunEvidence,
    Surroundings,
    WatcherState,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import and_more
from pytest_failure_taxonomy.watcher.crash_output import LeftByWorkers
from pytest_failure_taxonomy.watcher.mailbox import (
    claim_mailbox,
    release_mailbox,
    send_to_supervisor,
)
from pytest_failure_taxonomy.watcher.stalls.in_pytest import (
    StalledRun,
    StallThread,
    is_program,
    record_left_threads,
)
from pytest_failure_taxonomy.watcher.start import has_observers, is_observable, is_watchable

os = isolate_module(os)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.recorder.controller import ControllerRecorder

RUN = pytest.StashKey["Run | None"]()
"""The run of a config; `None` if its settings leave no place for a report."""

MAX_ERROR: Final = 4_000
"""Characters of a usage error. It has a line for each problem, whatever a path or a value contains.
"""

_VARIABLES: Final = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""Environment variables from which pytest takes options and plugins."""


def begin(config: pytest.Config, *, requested: bool = True) -> None:
    """Begin to record a run, and write a first report that says that it is running.

    On an xdist worker, only record what the controller can't see.

    Args:
        config: of the run.
        requested: this process was asked for a report. If not, its controller may have been.

    Raises:
        pytest.UsageError: if the settings are invalid.
    """
    if may_be_worker():
        start = _WorkerStart(requested=requested)
        config.pluginmanager.register(start, "failure_taxonomy_worker")
    elif requested:
        _begin_run(config)


@defer_sigint
@interpreter_as_it_was()
def _begin_run(config: pytest.Config) -> None:
    config.stash[RUN] = None
    try:
        settings = read_settings(config)
        run = Run(config, settings)
        run.announce()
    except SettingsError as error:
        raise _usage_error(error.args) from error
    config.stash[RUN] = run
    config.pluginmanager.register(run, "failure_taxonomy_run")
    config.pluginmanager.register(run.session, "failure_taxonomy_session")
    _follow_process(config, run.session.record, run.faults, run.hand_over).begin()
    for warning in settings.warnings:
        run.faults.note(warning)
    if settings.problems:
        raise _usage_error(settings.problems)


def _usage_error(problems: Sequence[str]) -> pytest.UsageError:
    """Return the error that lists problems one a line, as `failure-taxonomy validate` does."""
    lines: list[str] = []
    left = MAX_ERROR
    for number, problem in enumerate(problems):
        if left <= 0:
            lines.append(and_more(len(problems) - number).strip())
            break
        lines.append(safe_text(problem, left))
        left -= len(lines[-1])
    return pytest.UsageError("\n".join(lines))


def startup_failed(config: pytest.Config, error: BaseException) -> None:
    """Report a run that ended before pytest's main hook was called."""
    if RUN not in config.stash:
        if may_be_worker():
            return
        with suppress(pytest.UsageError):  # pytest is about to report the first error
            begin(config)
    run = config.stash[RUN]
    if run is not None and not run.has_main:
        run.finish_with(error)


class Run:
    """A plugin that follows one run, in the process that writes its report."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.faults = Faults(config)
        self.session: SessionRecorder
        """Set by `announce`."""
        self.has_main = False
        """Whether pytest's main hook has been called, which `pytest_cmdline_main` wraps."""
        self._config = config
        self._settings = settings
        self._controller: ControllerRecorder | None = None
        self._stall_thread: StallThread | None = None
        self._stalled: StalledRun | None = None
        self._secrets = Secrets(settings.redact)
        self._id = os.urandom(16).hex()
        self._report_file = ReportFile(settings, self._id)
        self._past_runs = PastRuns(settings)
        self._every_test: EveryTest | None = None
        self._accepts_failures = False
        self._process_id = os.getpid()
        self._is_finished = False
        self._speaks_last = False
        self._clock = time.monotonic_ns
        self._started_ns = self._clock()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")

    def announce(self) -> None:
        """Write the first report, which replaces that of an earlier run, and begin the record.

        Raises:
            SettingsError: if the report can't be written to the path that the user gave.
        """
        try:
            if not getattr(self._config.known_args_namespace, "collectonly", False):
                self._begin_on_disk()
            if self._settings.mailbox is not None:
                claim_mailbox(
                    self._settings.mailbox,
                    report=str(self._report_file.path),
                    run_id=self._id,
                    record=self._crash_record.files,
                )
                die_with_parent()
        except SettingsError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's run goes on
            self._report_file.discard()
            self.faults.add("the start of the run", error)
        record = self._crash_record.record
        self.session = SessionRecorder(
            self._config,
            self.faults,
            record,
            started_ns=self._started_ns,
            markers=self._settings.markers,
            secrets=self._secrets,
        )
        faces = self._settings.faces
        if self._past_runs.wants_every_test or faces.junit or faces.html:
            started_at = datetime.fromisoformat(self._started_at).timestamp()
            self._every_test = EveryTest(self.faults, self.session.nodeids, started_at)
            self._config.pluginmanager.register(self._every_test, "failure_taxonomy_every_test")
        call_after_fork(self.session.progress.detach, self._crash_record.leave_to_parent)

    def _begin_on_disk(self) -> None:
        """Write the first report, begin the record, and start the watcher."""
        is_watched = self._settings.watcher and is_watchable()
        is_observed = self._settings.observer and is_observable()
        observer = Observer(
            seconds=self._settings.stall_seconds if is_observed else 0.0,
            ends_stalled=self._settings.ends_stalled,
            is_program=is_program(),
        )
        if is_watched:
            self._environment = replace(self._environment, watcher=WatcherState(active=True))
        header = {
            "started_ns": self._started_ns,
            "stage": self._settings.stage,
            "strict_baseline": self._settings.strict_baseline,
            "faulthandler_exit_seconds": other_plugins.faulthandler_exit_seconds(self._config),
            "rules": self._settings.rules,
            # A pattern that matches itself shows a secret, and the record has no such secret.
            "redact": [
                each for each in self._settings.redact if self._secrets.redact(each) == each
            ],
            "context": self._context(None),
        }
        self._report_file.open(self._running_report(), header)
        libraries: Sequence[str] = ()
        if self._settings.faces.html is not None:
            from pytest_failure_taxonomy.report.render import LIBRARIES

            libraries = LIBRARIES["html"]
        why_not = self._crash_record.watch(
            completes=is_watched, observer=observer, libraries=libraries
        )
        if why_not is not None:
            self._record_no_watcher(why_not)
            self._report_file.correct(self._running_report())

    def _record_no_watcher(self, why_not: str) -> None:
        watcher = WatcherState(active=False, why_not=why_not)
        self._environment = replace(self._environment, watcher=watcher)
        self._crash_record.record_watcher(watcher)

    @property
    def _crash_record(self) -> CrashRecord:
        return self._report_file.crash_record

    def _running_report(self) -> dict[str, Any]:
        evidence = RunEvidence(
            stage=self._settings.stage, finished=False, exit=ProcessExit(code=None, source="none")
        )
        return self._build(evidence, "running", None)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_sessionstart(self) -> None:
        """Register the recorders of workers and of timers, if there will be any."""
        manager = self._config.pluginmanager
        if manager.has_plugin("dsession"):
            from pytest_failure_taxonomy.recorder.controller import ControllerRecorder

            left = LeftByWorkers(
                self._config.rootpath,
                self._secrets.redact,
                other_plugins.stderr_of_faulthandler(self._config),
            )
            self._controller = ControllerRecorder(
                self._config,
                self.session,
                self.faults,
                left,
                watcher_id=self._crash_record.watcher_id,
            )
            manager.register(self._controller, "failure_taxonomy_controller")
        if self._crash_record.watcher_id is not None:
            self._stalled = StalledRun(
                self._config, self._crash_record.record, ends=self._settings.ends_stalled
            )
            manager.register(self._stalled, "failure_taxonomy_stalled_run")
        elif self._controller is None and self._settings.stall_seconds and not has_observers():
            self._stall_thread = StallThread(
                self._config,
                self._settings.stall_seconds,
                self.session.progress,
                self._crash_record.record,
                redact=self._secrets.redact,
                report=self._report_file.path,
                run_id=self._id,
            )
            manager.register(self._stall_thread, "failure_taxonomy_stall_thread")
            self._stall_thread.start()
        _record_timers(self._config, self._crash_record.record, self.faults)

    @pytest.hookimpl
    @guarded
    def pytest_plugin_registered(self, plugin: object, plugin_name: str) -> None:
        """Record where benches keep their runs, in case this process dies."""
        if plugin_name == additions.BENCH_PLUGIN and self.session is not None:
            kept = additions.kept_in(plugin)
            if kept is not None:
                self._crash_record.record.write("benches", **kept)

    @pytest.hookimpl
    @guarded
    def pytest_report_header(self) -> list[str]:
        """Say before the first test what the run goes without."""
        return [f"failure taxonomy: {each}" for each in self._settings.warnings]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, Any]:
        """Finish the run when pytest's main hook returns or raises."""
        self.has_main = True
        try:
            status = yield
        except BaseException as error:
            self.finish_with(error)
            raise
        self.finish(ProcessExit(code=exit_code_of(int(status or 0)), source="pytest"))
        return pytest.ExitCode.OK if self._accepts_failures else status

    def hand_over(self, descriptors: Mapping[str, int]) -> bool:
        """Give descriptors to the process that sees the end of this one, if there is one."""
        if self._settings.mailbox is not None:
            return send_to_supervisor(self._settings.mailbox, self._id, descriptors)
        return self._crash_record.hand_over(descriptors)

    def finish_with(self, error: BaseException) -> None:
        """Finish a run that an error ends, of which pytest or Python is about to tell."""
        self._speaks_last = is_program()
        self.finish(record_startup_error(self.session, error, self._config))

    def finish(self, exit_seen: ProcessExit) -> None:
        """Judge the run, write its report and print the verdict; further calls do nothing.

        A forked child of a test may come to the end of the session, too; there it does nothing.
        """
        if self._is_finished or os.getpid() != self._process_id:
            return
        self._is_finished = True
        self.faults.session_is_over()
        with interpreter_as_it_was():
            try:
                self._finish(exit_seen)
            except BaseException as error:  # noqa: BLE001 - the user's exit status stands
                self.faults.add("the end of the run", error)

    def _finish(self, exit_seen: ProcessExit) -> None:
        duration = (self._clock() - self._started_ns) / 1e9
        if self._controller:
            self._controller.catch_up()
        evidence = self._evidence(exit_seen, duration)
        code = evidence.exit.code or 0
        self._crash_record.record_end(code, evidence.should_fail, evidence.coverage)
        if self._crash_record.has_lost_watcher():
            self._record_no_watcher("it was ended before pytest was")
        with suppress(Exception):  # a test may have patched anything; the rest is enough
            self._environment = replace(self._environment, memory=memory_use())
            thread = self._stall_thread
            observed = self._crash_record.read_observed() if thread is None else thread.stop()
            if self._stalled is not None and self._stalled.ended is not None:
                observed = self._stalled.ended
            if observed is not None:
                from pytest_failure_taxonomy.record.observed import with_stalls

                evidence = with_stalls(evidence, observed, ended_ns=self._clock(), is_over=False)
            if threading.active_count() > 1:
                record = self._crash_record.record
                record_left_threads(record, self._config.rootpath, self._secrets.redact)
        try:
            evidence, faults = attribute(evidence, self._settings.rules)
            for fault in faults:
                self.faults.note(fault)
            report = self._build(evidence, "full", duration)
        except OSError as error:  # no file can be opened, not even to import a module
            print_lines(self._config, [problem_line(self._report_file.give_up(error))])
            return
        known = self._secrets.known
        redact = self._secrets.redact_json
        additions.add_benches(self._config, report, self.faults, redact)
        try:
            self._past_runs.add_to(report)
            additions.add_extensions(self._config, report, self.faults, redact)
        finally:  # a hook may end the process
            if self._secrets.known != known:
                additions.search_again(report, self._secrets.redact)
            problem = self._report_file.close(report)
            if self._settings.mailbox is not None:
                release_mailbox(self._settings.mailbox)
        self._show(report, problem)

    def _show(self, report: dict[str, Any], problem: str | None) -> None:
        """Write the report's other formats, and print the verdict."""
        config, settings = self._config, self._settings
        kept = {} if settings.faces.html is None else additions.kept_cases(config, report)
        annotations, faults = show_faces(report, settings.faces, kept)
        started_in = config.invocation_params.dir
        paths = ShownPaths(str(config.rootpath), str(started_in))
        shown = "" if problem else self._report_file.shown_path(started_in)
        level = verbosity(config)
        tells = level > -2 and settings.summary != "off"
        lines: list[Line] = []
        if tells:
            is_long = tells_causes(settings.summary, level)
            lines = verdict_lines(
                report,
                shown,
                paths=paths,
                quiet=level < 0,
                problem=problem,
                listed=lines_of_causes(report, paths) if is_long else (),
                is_folded=is_on_gitlab(),
            )
            if problem is None:  # without a report there is nothing to complete
                lines += watcher_lines(report)
            path = "" if problem else self._report_file.path_from(started_in)
            lines += self._past_runs.lines(report, path)
            if self._report_file.remains is not None:
                faults.append(notice(self._report_file.remains))
        lines += faults if level > -2 else []
        if self._accepts_failures and (not tells or config.pluginmanager.is_blocked("terminal")):
            # Nothing turns a failed run green without a word.
            write_words(sys.stderr, f"failure taxonomy: {safe_text(accepted_words(report))}\n")

        def speak() -> None:
            if os.getpid() == self._process_id:  # a fork has the same to do at its end
                links = partial(link_targets, report, paths, self._report_file.path, shown)
                print_lines(config, lines, links if tells else None)
                print_lines(config, annotations)

        # What ends pytest before or outside of its session it tells after its last hook.
        if self._speaks_last:
            atexit.register(speak)
        else:
            speak()

    def _evidence(self, exit_seen: ProcessExit, duration: float) -> RunEvidence:
        """Return all that was seen of the session, and how it ends."""
        evidence = self.session.evidence(
            stage=self._settings.stage,
            strict_baseline=self._settings.strict_baseline,
            exit_seen=exit_seen,
            workers=self._controller.ends() if self._controller else (),
        )
        coverage = self._config.pluginmanager.get_plugin("_cov")  # pytest-cov, if it measures
        if coverage is not None and not evidence.should_fail:
            evidence = replace(evidence, coverage=other_plugins.coverage_shortfall(coverage))
        bench = self._config.pluginmanager.get_plugin(additions.BENCH_PLUGIN)
        if bench is not None and not evidence.should_fail:
            evidence = replace(evidence, should_fail=bench.why_failed)
        if self._every_test is not None:
            evidence = replace(evidence, tests=self._every_test.tests())

            def build(seen: RunEvidence) -> dict[str, Any]:
                return self._build(attribute(seen, self._settings.rules)[0], "full", duration)

            # Its exit code is 0 then if all that failed is known and that was asked.
            accepted = self._past_runs.accept(evidence, build, self.session.uncounted)
            self._accepts_failures = accepted.exit != evidence.exit
            return accepted
        return evidence

    @cached_property
    def _environment(self) -> Environment:
        """Read once, at the start: a test may change or patch what it is read from."""
        plugins = self._config.pluginmanager.list_plugin_distinfo()
        environment = describe_environment(pytest.__version__, [each for _, each in plugins])
        return replace(environment, git=self._commit[0])

    @cached_property
    def _commit(self) -> tuple[GitState | None, Repository | None]:
        """Read where the run goes into the history: that starts git."""
        if self._settings.history is None:
            return None, None
        return find_commit(self._config.rootpath, ci_job())

    def _build(
        self, evidence: RunEvidence, completeness: Completeness, duration: float | None
    ) -> dict[str, Any]:
        return build_report(
            evidence,
            judge(evidence),
            self._context(duration),
            completeness=completeness,
            faults=self.faults.messages,
            redaction=self._secrets,
        )

    def _context(self, duration: float | None) -> RunContext:
        args = [str(arg) for arg in self._config.invocation_params.args]
        return RunContext(
            id=self._id,
            started_at=self._started_at.replace("+00:00", "Z"),
            duration_seconds=duration,
            args=self._secrets.redact_arguments(args),
            rootdir=str(self._config.rootpath),
            environment=self._environment,
            shard=self._settings.shard,
            repository=self._commit[1],
            attempt=self._settings.attempt,
            history=self._past_runs.url_for_record,
            faces=self._settings.faces,
            surroundings=Surroundings(
                variables=tuple(name for name in _VARIABLES if os.environ.get(name)),
                cache=self._config.pluginmanager.has_plugin("cacheprovider")
                or any("no:cacheprovider" in arg for arg in args),
            ),
        )


def _follow_process(
    config: pytest.Config, record: Record, faults: Faults, hand_over: other_plugins.HandOver
) -> ActivityRecorder:
    """Record what this process is doing, and keep what it leaves when it crashes."""
    activity = ActivityRecorder(config, record, faults)
    config.pluginmanager.register(activity, "failure_taxonomy_activity")
    dump = other_plugins.CrashDump(config, record, faults, hand_over)
    config.pluginmanager.register(dump, "failure_taxonomy_crash_dump")
    call_after_fork(dump.leave_to_parent)
    return activity


def _record_timers(config: pytest.Config, record: Record, faults: Faults) -> None:
    if other_plugins.knows_timers(config.pluginmanager):
        timers = other_plugins.TimerRecorder(record, faults)
        config.pluginmanager.register(timers, "failure_taxonomy_timers")


class _WorkerStart:
    """A plugin that begins when it is certain whether this is an xdist worker."""

    def __init__(self, *, requested: bool) -> None:
        self._requested = requested

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, Any, Any]:
        """Begin as a worker or, in a pytest that a test of a worker runs, as a run of its own."""
        if is_worker(config):
            if self._requested or is_followed(config):
                recorder = WorkerRecorder(config)
                config.pluginmanager.register(recorder, "failure_taxonomy_recorder")
                _follow_process(config, recorder.record, recorder.faults, recorder.hand_over)
                _record_timers(config, recorder.record, recorder.faults)
            return (yield)
        if not self._requested:
            return (yield)
        _begin_run(config)
        run = config.stash[RUN]
        # It was registered too late for this call of the hook.
        return (yield from run.pytest_cmdline_main()) if run is not None else (yield)
