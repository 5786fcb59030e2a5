"""One run from its start to its report: record, judge, build, write, and print the verdict.

Only this module knows all the parts. `plugin` imports it when the report is on.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.faces import show_faces
from pytest_failure_taxonomy.faces import terminal as face
from pytest_failure_taxonomy.faces.terminal import verdict_lines
from pytest_failure_taxonomy.hooks import printing, progress
from pytest_failure_taxonomy.hooks.guard import (
    Faults,
    defer_sigint,
    guarded,
    guarded_hook,
)
from pytest_failure_taxonomy.hooks.last_words import words_of_unmeasured
from pytest_failure_taxonomy.hooks.printing import print_lines
from pytest_failure_taxonomy.hooks.report_file import ReportFile
from pytest_failure_taxonomy.hooks.session import (
    UNDESCRIBED,
    SessionRecorder,
    exit_code_of,
)
from pytest_failure_taxonomy.hooks.settings import Settings, read_settings
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.build import (
    OWN_NAME,
    build_report,
    fit_benches,
    removed_from,
)
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.survive import machine
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.survive.start_watcher import (
    HAS_OBSERVERS,
    StalledRun,
    is_program,
)
from pytest_failure_taxonomy.survive.writer import Record
from pytest_failure_taxonomy.system.interpreter import (
    call_after_fork,
    interpreter_as_it_was,
    isolate_package,
    write_words,
)
from pytest_failure_taxonomy.system.process import die_with_parent
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    words_of_fork,
    words_of_uncounted,
)
from pytest_failure_taxonomy.text import (
    CLOSED_FIELDS,
    ShownPaths,
    change_texts,
    encodable,
    safe_text,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.controller import ControllerRecorder
    from pytest_failure_taxonomy.hooks.every_test import EveryTest
    from pytest_failure_taxonomy.hooks.past_runs import PastRuns
    from pytest_failure_taxonomy.hooks.stall_thread import StallThread

RUN = pytest.StashKey["Run | None"]()
"""The run of a config; `None` if its settings leave no place for a report."""

MAX_ERROR: Final = 4_000
"""Characters of a usage error. It has a line for each problem, whatever a path or a value contains.
"""

_BENCH_PLUGIN: Final = "failure_taxonomy_bench_session"
"""The name of the plugin that runs cases; it is registered with the first task class."""
_HOOK: Final = "the hook pytest_failure_taxonomy_report"
_END: Final = "the end of the run"
_NOTHING_COVERED: Final = "coverage 0.00 %"

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
    if _may_be_worker():
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
    except SettingsError as error:
        raise _usage_error(error.args) from error
    config.stash[RUN] = run
    config.pluginmanager.register(run, "failure_taxonomy_run")
    config.pluginmanager.register(run.session, "failure_taxonomy_session")
    _follow_process(
        config, run.session.record, run.faults, run.report_file.hand_over
    ).begin()
    isolate_package()
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
        if _may_be_worker():
            return
        with suppress(pytest.UsageError):  # pytest is about to report the first error
            begin(config)
    run = config.stash[RUN]
    if run is not None and not run.has_main:
        run.finish_with(error)


class Run:
    """A plugin that follows one run, in the process that writes its report."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        """Write the first report, which replaces that of an earlier run, and begin the record.

        Raises:
            SettingsError: if the report can't be written to the path that the user gave.
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
        """Whether pytest's main hook has been called, which `pytest_cmdline_main` wraps."""
        self._is_finished = False
        self._speaks_last = False
        self._accepts_failures = False
        self._controller: ControllerRecorder | None = None
        self._stall_thread: StallThread | None = None
        self._stalled: StalledRun | None = None
        self._every_test: EveryTest | None = None
        self._variables = {} if settings.prove is None else dict(os.environ)
        self._secrets = Secrets(settings.redact)
        self._past_runs: PastRuns | None = None
        if settings.history is not None or settings.known is not None:
            # At the start: later a test may have patched what it imports.
            from pytest_failure_taxonomy.hooks.past_runs import PastRuns

            self._past_runs = PastRuns(settings)
        self.report_file = ReportFile(settings, self._id)
        try:
            if not getattr(config.known_args_namespace, "collectonly", False):
                self._begin_on_disk()
            if settings.mailbox is not None:
                from pytest_failure_taxonomy.survive.mailbox import claim_mailbox

                claim_mailbox(
                    settings.mailbox,
                    report=str(self.report_file.path),
                    run_id=self._id,
                    record=self.report_file.record_files,
                )
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
        if self._past_runs is not None or settings.faces.junit or settings.faces.html:
            started_at = self._started_at.timestamp()
            from pytest_failure_taxonomy.hooks.every_test import EveryTest

            self._every_test = EveryTest(self.faults, self.session.nodeids, started_at)
            config.pluginmanager.register(
                self._every_test, "failure_taxonomy_every_test"
            )
        call_after_fork(self.report_file.leave_to_parent)

    def _begin_on_disk(self) -> None:
        """Write the first report, begin the record, and start the watcher."""
        settings = self._settings
        if self.report_file.is_watched:
            watcher = evidence.WatcherState(active=True)
            self._environment = replace(self._environment, watcher=watcher)
        header = {
            "started_ns": self._started_ns,
            "stage": settings.stage,
            "strict_baseline": settings.strict_baseline,
            "faulthandler_exit_seconds": progress.faulthandler_exit_seconds(
                self._config
            ),
            "rules": settings.rules,
            # A pattern that matches itself shows a secret, and the record has no such secret.
            "redact": [
                each for each in settings.redact if self._secrets.redact(each) == each
            ],
            "context": self._context(None),
            "path": self._path,
        }
        self.report_file.open(self._running_report(), header)
        why_not = self.report_file.watch()
        if why_not is not None:
            self._record_no_watcher(why_not)
            self.report_file.correct(self._running_report())

    def _record_no_watcher(self, why_not: str) -> None:
        watcher = evidence.WatcherState(active=False, why_not=why_not)
        self._environment = replace(self._environment, watcher=watcher)
        self.report_file.record.write("watcher", watcher=watcher)

    def _running_report(self) -> dict[str, Any]:
        nothing_seen = evidence.RunEvidence(
            stage=self._settings.stage,
            finished=False,
            exit=evidence.ProcessExit(code=None, source="none"),
        )
        return self._build(nothing_seen, "running", None)

    @guarded_hook(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Register the recorders of workers and of timers, if there will be any."""
        self.session.progress.plan = machine.plan_of(self._config)
        manager = self._config.pluginmanager
        if manager.has_plugin("dsession"):
            from pytest_failure_taxonomy.hooks.controller import ControllerRecorder
            from pytest_failure_taxonomy.survive.crash_output import LeftByWorkers

            left = LeftByWorkers(
                self._config.rootpath,
                self._secrets.redact,
                progress.stderr_of_faulthandler(self._config),
            )
            watcher_id = self.report_file.watcher_id
            self._controller = ControllerRecorder(
                self._config, self.session, left, watcher_id
            )
            manager.register(self._controller, "failure_taxonomy_controller")
        record = self.report_file.record
        if self.report_file.watcher_id is not None:
            self._stalled = StalledRun(
                self._config, record, ends=self._settings.ends_stalled
            )
            manager.register(self._stalled, "failure_taxonomy_stalled_run")
        elif (
            self._controller is None
            and self._settings.stall_seconds
            and not HAS_OBSERVERS
        ):
            from pytest_failure_taxonomy.hooks.stall_thread import StallThread

            seconds, place = (
                self._settings.stall_seconds,
                (self.report_file.path, self._id),
            )
            self._stall_thread = StallThread(self._config, self.session, seconds, place)
            manager.register(self._stall_thread, "failure_taxonomy_stall_thread")
            self._stall_thread.start()
        isolate_package()

    @guarded
    def pytest_collection_finish(self) -> None:
        """Prepare for tests that hang in a loop of asyncio, if any of them has imported it."""
        self.report_file.begin_to_tell_tasks()

    @guarded
    def pytest_plugin_registered(self, plugin: object, plugin_name: str) -> None:
        """Record where benches keep their runs, in case this process dies."""
        if plugin_name == _BENCH_PLUGIN:
            kept = _kept_in(plugin)
            if kept is not None:
                self.report_file.record.write("benches", **kept)

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
        self.finish(
            evidence.ProcessExit(code=exit_code_of(int(status or 0)), source="pytest")
        )
        return pytest.ExitCode.OK if self._accepts_failures else status

    def finish_with(self, error: BaseException) -> None:
        """Finish a run that an error ends, of which pytest or Python is about to tell."""
        self._speaks_last = is_program()
        end = evidence.ProcessExit(code=None, source="none")
        with suppress(
            OSError, MemoryError
        ):  # a test has used up all descriptors, or all memory
            with interpreter_as_it_was():
                from pytest_failure_taxonomy.hooks.startup_errors import (
                    record_startup_error,
                )

            end = record_startup_error(self.session, error, self._config)
        self.finish(end)

    def finish(self, exit_seen: evidence.ProcessExit) -> None:
        """Judge the run, write its report and print the verdict; further calls do nothing.

        A forked child of a test may come to the end of the session, too; there it does nothing.
        """
        if self._is_finished or os.getpid() != self._process_id:
            return
        self._is_finished = True
        self.faults.is_over = True
        with interpreter_as_it_was():
            try:
                self._finish(exit_seen)
            except BaseException as error:  # noqa: BLE001 - the user's exit status stands
                self.faults.add(_END, error)

    def _finish(self, exit_seen: evidence.ProcessExit) -> None:
        duration = (self._clock() - self._started_ns) / 1e9
        if self._controller:
            self._controller.catch_up()
        seen = self._evidence(exit_seen, duration)
        record = self.report_file.record
        record.write(
            "end", should_fail=seen.should_fail, coverage=seen.coverage, gate=seen.gate
        )
        record.finish(seen.exit.code or 0)
        if self.report_file.has_lost_watcher():
            self._record_no_watcher("it was ended before pytest was")
        with suppress(
            Exception
        ):  # a test may have patched anything; the rest is enough
            self._environment = replace(self._environment, memory=machine.memory_use())
            thread = self._stall_thread
            observed = (
                self.report_file.read_observed() if thread is None else thread.stop()
            )
            if self._stalled is not None and self._stalled.ended is not None:
                observed = self._stalled.ended
            if observed is not None:
                from pytest_failure_taxonomy.survive.facts import with_stalls

                seen = with_stalls(
                    seen, observed, ended_ns=self._clock(), is_over=False
                )
            # Past the properties: a class of the user's may have others.
            staying = [
                each for each in threading.enumerate() if not vars(each)["_daemonic"]
            ]
            if len(staying) > 1:
                from pytest_failure_taxonomy.hooks.stall_thread import (
                    record_left_threads,
                )

                record_left_threads(record, self._config.rootpath, self._secrets.redact)
        try:
            report = self._final_report(seen, duration)
        except OSError as error:  # no file can be opened, not even to import a module
            print_lines(
                self._config, [face.problem_line(self.report_file.give_up(error))]
            )
            return
        known = self._secrets.known
        self._add_benches(report)
        try:
            if self._past_runs is not None:
                with self.faults.catch("the history"):
                    self._past_runs.add_to(report)
            self._add_extensions(report)
        finally:  # a hook may end the process
            if self._secrets.known != known:
                _search_again(report, self._secrets.redact)
            problem = self.report_file.close(report)
            if self._settings.mailbox is not None:
                from pytest_failure_taxonomy.survive.mailbox import release_mailbox

                release_mailbox(self._settings.mailbox)
        self._show(seen, report, problem)

    def _add_benches(self, report: dict[str, Any]) -> None:
        benches = self._config.pluginmanager.get_plugin(_BENCH_PLUGIN)
        if benches is None:
            return
        with self.faults.catch("the reports of benches"):
            reports = [each.model_dump(mode="json") for each in benches.reports()]
            report["bench"] = fit_benches(self._secrets.redact_json(reports))

    def _add_extensions(self, report: dict[str, Any]) -> None:
        """Add what the implementations of our hook return to the report, without secrets.

        An invalid answer becomes a fault. If two answers have the same key, the first one counts.
        """
        hook = self._config.hook.pytest_failure_taxonomy_report
        if not hook.get_hookimpls():
            return
        extensions = report["extensions"]
        before = Counter(removed_from(json.dumps(extensions)))
        try:
            answers = hook(report=json.loads(json.dumps(report)))
        except BaseException as error:  # noqa: BLE001 - foreign
            self.faults.add(_HOOK, error)
            answers = []
        for answer in answers:
            try:
                if not isinstance(answer, dict):
                    name = type(answer).__name__
                    raise TypeError(
                        f"{name} returned; a dict with one key of your own is right"
                    )
                added = change_texts(
                    json.loads(json.dumps(answer, allow_nan=False)), encodable
                )
                if OWN_NAME in added:
                    raise ValueError(
                        f"the name {OWN_NAME} is taken; use one of your own"
                    )
                extensions |= self._secrets.redact_json(added) | extensions
            except (TypeError, ValueError, RecursionError) as error:
                self.faults.add(_HOOK, error)
        removed = Counter(removed_from(json.dumps(extensions)))
        removed.subtract(before)
        if +removed:
            report["redacted"] = dict(Counter(report["redacted"]) + removed)
        if self.faults.messages:
            report["faults"] = list(self.faults.messages)

    def _show(
        self, seen: evidence.RunEvidence, report: dict[str, Any], problem: str | None
    ) -> None:
        """Write the report's other formats, and print the verdict."""
        config, settings = self._config, self._settings
        kept = {} if settings.faces.html is None else _kept_cases(config, report)
        annotations: list[str] = []
        faults = show_faces(report, settings.faces, annotations.append, kept)
        started_in = config.invocation_params.dir
        paths = ShownPaths(str(config.rootpath), str(started_in))
        path = "" if problem else self.report_file.path_from(started_in)
        shown = (
            f"{path} ({self.report_file.moved})"
            if path and self.report_file.moved
            else path
        )
        level = printing.verbosity(config)
        tells = level > -2 and settings.summary != "off"
        lines: list[face.Line] = []
        if tells:
            lines = verdict_lines(
                report,
                shown,
                paths=paths,
                quiet=level < 0,
                problem=problem,
                listed=printing.lines_of_causes(report, paths, settings.summary, level),
                is_folded=printing.is_on_gitlab(),
            )
            if problem is None:  # without a report there is nothing to complete
                lines += face.watcher_lines(report)
            if self._past_runs is not None:
                lines += self._past_runs.lines(report, path)
            faults += self._remarks(seen)
        lines += map(face.notice, faults if level > -2 else ())
        if self._accepts_failures and (
            not tells or config.pluginmanager.is_blocked("terminal")
        ):
            # Nothing turns a failed run green without a word.
            write_words(
                sys.stderr, f"failure taxonomy: {safe_text(accepted_words(report))}\n"
            )

        def speak() -> None:
            if os.getpid() == self._process_id:  # a fork has the same to do at its end
                links = partial(
                    printing.link_targets, report, paths, self.report_file.path, shown
                )
                print_lines(config, lines, links if tells else None)
                print_lines(config, [face.Line(text=each) for each in annotations])

        # What ends pytest before or outside of its session it tells after its last hook.
        if self._speaks_last:
            atexit.register(speak)
        else:
            speak()
        failed = (
            report["verdict"] and report["failures"] and report["exit"]["code"] == 1
        )
        if settings.prove and failed and problem is None:
            from pytest_failure_taxonomy.hooks.proving import prove_at_exit

            # What is appended to files of others stands there already.
            faces = replace(settings.faces, summary=None, output=None)
            place = (self.report_file.path, settings.prove, started_in)
            prove_at_exit(
                *place,
                self._variables,
                settings.history,
                lambda report: show_faces(report, faces, kept=kept),
            )

    def _remarks(self, seen: evidence.RunEvidence) -> list[str]:
        """Return what else is to be said of the run."""
        remarks = [] if self.report_file.remains is None else [self.report_file.remains]
        if seen.failures:  # else it stands beside the counts
            if seen.uncounted:
                remarks.append(words_of_uncounted(seen.uncounted))
            remarks += map(words_of_fork, seen.forked)
        return remarks

    def _evidence(
        self, exit_seen: evidence.ProcessExit, duration: float
    ) -> evidence.RunEvidence:
        """Return all that was seen of the session, and how it ends."""
        seen = self.session.evidence(
            exit_seen,
            stage=self._settings.stage,
            strict_baseline=self._settings.strict_baseline,
            workers=self._controller.ends() if self._controller else (),
        )
        if seen.exit.code != 0 or seen.failures or self._settings.history is not None:
            with suppress(Exception):  # a test may have patched anything
                self._environment, self._commit = machine.look_closer(
                    self._environment, self._commit, self._config.rootpath, self._path
                )
        coverage = self._config.pluginmanager.get_plugin(
            "_cov"
        )  # pytest-cov, if it measures
        if coverage is not None and not seen.should_fail:
            shortfall = _coverage_shortfall(coverage)
            if shortfall.startswith(_NOTHING_COVERED):
                with suppress(Exception):  # a foreign object
                    shortfall += words_of_unmeasured(coverage, self._config)
            # It counts as a failure of the session.
            uncounted = max(0, seen.uncounted - bool(shortfall))
            seen = replace(seen, coverage=shortfall, uncounted=uncounted)
        if seen.exit.code == pytest.ExitCode.NO_TESTS_COLLECTED:
            with suppress(Exception):  # a setting may have any value
                from pytest_failure_taxonomy.hooks.nothing_ran import why_nothing_ran

                why = why_nothing_ran(
                    self._config,
                    self.session.early_warnings,
                    self.session.empty,
                    deselected=seen.counts.deselected,
                )
                seen = replace(seen, nothing_ran=self._secrets.redact(why))
        bench = self._config.pluginmanager.get_plugin(_BENCH_PLUGIN)
        if bench is not None:
            seen = replace(seen, gate=bench.why_gate_failed)
        if self._every_test is not None:
            seen = replace(seen, tests=self._every_test.tests())
        if self._past_runs is not None:

            def build(run: evidence.RunEvidence) -> dict[str, Any]:
                return self._build(self._attributed(run), "full", duration)

            with self.faults.catch("the comparison with known failures"):
                # Its exit code is 0 then if all that failed is known and that was asked.
                accepted = self._past_runs.accept(seen, build)
                self._accepts_failures = accepted.exit != seen.exit
                return accepted
        return seen

    def _attributed(self, seen: evidence.RunEvidence) -> evidence.RunEvidence:
        """Return the run with what the user's rules and then the table of libraries say of it."""
        if self._settings.rules:
            with self.faults.catch("the user's rules"):
                from pytest_failure_taxonomy.rules.matching import apply_rules

                seen, faults = apply_rules(seen, self._settings.rules)
                for fault in faults:
                    self.faults.note(fault)
        with self.faults.catch("the table of libraries"):
            seen = name_libraries(seen)
        return seen  # noqa: RET504 - as it was, if that has failed

    def _final_report(
        self, seen: evidence.RunEvidence, duration: float
    ) -> dict[str, Any]:
        """Build the report; without what is said of failures if it can't be built with that."""
        try:
            return self._build(self._attributed(seen), "full", duration)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - the counts are true, and the run is red
            self.faults.add(_END, error)
        bare = [
            evidence.TestFailure(
                nodeid=failure.nodeid, phase=failure.phase, message=UNDESCRIBED
            )
            for failure in seen.failures
        ]
        return self._build(replace(seen, failures=tuple(bare)), "full", duration)

    @cached_property
    def _environment(self) -> evidence.Environment:
        """Read once, at the start: a test may change or patch what it is read from."""
        plugins = self._config.pluginmanager.list_plugin_distinfo()
        environment = describe_environment(
            pytest.__version__, [each for _, each in plugins]
        )
        return replace(environment, git=self._commit[0])

    @cached_property
    def _commit(self) -> machine.Commit:
        """Read at the start where the run goes into the history: that starts git."""
        if self._settings.history is None:
            return None, None
        return machine.find_commit(self._config.rootpath, machine.ci_job())

    def _build(
        self,
        seen: evidence.RunEvidence,
        completeness: evidence.Completeness,
        duration: float | None,
    ) -> dict[str, Any]:
        return build_report(
            seen,
            judge(seen),
            self._context(duration),
            completeness=completeness,
            faults=self.faults.messages,
            redaction=self._secrets,
        )

    @cached_property
    def _surroundings(self) -> evidence.Surroundings:
        """Read once, at the start: a test may patch what it is read from."""
        invocation, rootdir = self._config.invocation_params, self._config.rootpath
        has_cache = self._config.pluginmanager.has_plugin("cacheprovider")
        return evidence.Surroundings(
            variables=tuple(filter(os.environ.get, _VARIABLES)),
            cache=has_cache
            or "no:cacheprovider" in " ".join(map(str, invocation.args)),
            folder=None if invocation.dir == rootdir else str(invocation.dir),
            root=machine.find_root(rootdir),
            python=evidence.python_options(" ".join(sys.orig_argv[1:])),
            path=machine.find_path_of_start(invocation.dir, rootdir),
        )

    def _context(self, duration: float | None) -> evidence.RunContext:
        args = [str(arg) for arg in self._config.invocation_params.args]
        started_at = self._started_at.isoformat(timespec="milliseconds")
        return evidence.RunContext(
            id=self._id,
            started_at=started_at.replace("+00:00", "Z"),
            duration_seconds=duration,
            args=self._secrets.redact_arguments(args),
            rootdir=str(self._config.rootpath),
            environment=self._environment,
            shard=self._settings.shard,
            repository=self._commit[1],
            attempt=self._settings.attempt,
            history=None if self._past_runs is None else self._past_runs.url_for_record,
            faces=self._settings.faces,
            surroundings=self._surroundings,
        )


def _kept_cases(config: pytest.Config, report: dict[str, Any]) -> dict[str, Any]:
    """Return what the HTML page shows of the cases of benches, by run id."""
    session = config.pluginmanager.get_plugin(_BENCH_PLUGIN)
    kept = None if session is None else _kept_in(session)
    if not report["bench"] or kept is None:
        return {}
    from pytest_failure_taxonomy.bench.kept.shown import page_runs

    try:
        return page_runs(report["bench"], Path(kept["folder"]))
    except Exception:  # noqa: BLE001 - the page is there without them
        return {}


def _kept_in(session: Any) -> dict[str, str] | None:
    """Return where a session of benches keeps its runs; `None` if it keeps none.

    Whoever completes the report of a pytest that died reads them there.
    """
    runs = session.storage
    if not runs.folder or runs.is_temporary:
        return None
    return {"folder": runs.folder, "session": runs.name}


def _search_again(report: dict[str, Any], redact: Callable[[str], str]) -> None:
    """Remove secrets that extensions and benches have made known, and count all again."""
    foreign = change_texts(report["extensions"], redact)
    kept = {
        "order": report["order"],
        "extensions": foreign,
    }  # numbers hold none but by chance
    report |= change_texts(report, redact, CLOSED_FIELDS) | kept
    report["redacted"] = {}
    report["redacted"] = dict(Counter(removed_from(json.dumps(report))))


def _coverage_shortfall(plugin: Any) -> str:
    """Return a sentence if pytest-cov measured too little coverage, else an empty string.

    None of what is read here is public, so any surprise counts as no shortfall.

    Args:
        plugin: the plugin object of pytest-cov.
    """
    try:
        from coverage.results import should_fail_under  # what pytest-cov asks

        total, required = float(plugin.cov_total), float(plugin.options.cov_fail_under)
        if not should_fail_under(
            total, required, int(plugin.options.cov_precision or 0)
        ):
            return ""
    except Exception:  # noqa: BLE001 - a foreign object, which may do whatever it likes
        return ""
    # As pytest-cov shows it, with more digits where it would look as if it were enough.
    digits = next((n for n in range(2, 9) if round(total, n) < required), 2)
    return f"coverage {total:.{digits}f} % is below the required {required:g} %"


def _follow_process(
    config: pytest.Config, record: Record, faults: Faults, hand_over: progress.HandOver
) -> progress.ActivityRecorder:
    """Record what this process is doing, and keep what it leaves when it crashes."""
    activity = progress.ActivityRecorder(config, record, faults)
    config.pluginmanager.register(activity, "failure_taxonomy_activity")
    dump = progress.CrashDump(config, record, faults, hand_over)
    config.pluginmanager.register(dump, "failure_taxonomy_crash_dump")
    call_after_fork(dump.leave_to_parent)
    return activity


def _may_be_worker() -> bool:
    """Tell whether this process looks like an xdist worker, before it has a `workerinput`.

    The environment is not enough: a pytest that a test starts inherits it. execnet, by which xdist
    runs its workers, executes them in a module named `__channelexec__`.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return False
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no other way to see the callers
    while frame is not None and frame.f_globals.get("__name__") != "__channelexec__":
        frame = frame.f_back
    return frame is not None


class _WorkerStart:
    """A plugin that begins when it is certain whether this is an xdist worker."""

    def __init__(self, *, requested: bool) -> None:
        self._requested = requested

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, Any, Any]:
        """Begin as a worker or, in a pytest that a test of a worker runs, as a run of its own."""
        given = getattr(config, "workerinput", None)
        if given is not None:
            from pytest_failure_taxonomy.hooks.worker import (
                OUTPUT_KEY,
                WorkerRecorder,
            )

            if self._requested or OUTPUT_KEY in given:  # its controller records the run
                recorder = WorkerRecorder(config)
                config.pluginmanager.register(recorder, "failure_taxonomy_recorder")
                _follow_process(
                    config, recorder.record, recorder.faults, recorder.hand_over
                )
                isolate_package()
            return (yield)
        if not self._requested:
            return (yield)
        _begin_run(config)
        run = config.stash[RUN]
        # It was registered too late for this call of the hook.
        return (yield from run.pytest_cmdline_main()) if run is not None else (yield)
