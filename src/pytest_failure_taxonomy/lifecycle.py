"""One run from its start to its report: record, judge, build, write, and tell the user.

This is the only place that knows all the parts. `plugin` loads it when the option is given.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.recorder.controller import ControllerRecorder
from pytest_failure_taxonomy.recorder.environment import describe_environment
from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.recorder.startup import record_startup_error
from pytest_failure_taxonomy.recorder.worker import WorkerRecorder, is_worker, may_be_worker
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.render.terminal import verdict_lines
from pytest_failure_taxonomy.report.write import fallback_path, refuse_special_file, write_report
from pytest_failure_taxonomy.settings import Settings, read_settings
from pytest_failure_taxonomy.taxonomy.evidence import (
    Completeness,
    ProcessExit,
    RunContext,
    RunEvidence,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.terminal import print_lines, verbosity

RUN = pytest.StashKey["Run | None"]()
"""The run of a config; `None` where its settings were refused."""


def begin(config: pytest.Config) -> None:
    """Begin to record a run, and put a report on disk that says that it is running.

    On an xdist worker, only let it tell the controller what that can't see.

    Raises:
        pytest.UsageError: the settings can't be used.
    """
    if may_be_worker():
        config.pluginmanager.register(_WorkerStart(), "failure_taxonomy_worker")
    else:
        _begin_run(config)


def _begin_run(config: pytest.Config) -> None:
    config.stash[RUN] = None
    try:
        run = Run(config, read_settings(config))
        run.announce()
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[RUN] = run
    config.pluginmanager.register(run, "failure_taxonomy_run")
    config.pluginmanager.register(run.session, "failure_taxonomy_session")


def startup_failed(config: pytest.Config, error: BaseException) -> None:
    """Report a run that ended before pytest's main hook was called."""
    if RUN not in config.stash:
        if may_be_worker():
            return
        try:
            begin(config)
        except pytest.UsageError:
            return
    run = config.stash[RUN]
    if run is not None and not run.has_main:
        run.finish(record_startup_error(run.session, error))


class Run:
    """A plugin that follows one run, in the process that writes its report."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.faults = Faults(config)
        self.session = SessionRecorder(config, self.faults)
        self.has_main = False
        """pytest's main hook has been called, and its end will be seen there."""
        self._config = config
        self._settings = settings
        self._path = settings.report
        self._moved = ""
        self._controller: ControllerRecorder | None = None
        self._id = os.urandom(16).hex()
        self._process_id = os.getpid()
        self._is_finished = False
        self._clock = time.monotonic
        self._started = self._clock()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")

    def announce(self) -> None:
        """Replace the report of an earlier run by one that says that this one is running.

        Raises:
            SettingsError: the report can't be written where the user wants it.
        """
        refuse_special_file(self._path)
        if getattr(self._config.known_args_namespace, "collectonly", False):
            return
        evidence = RunEvidence(
            stage=self._settings.stage, finished=False, exit=ProcessExit(code=None, source="none")
        )
        report = self._build(evidence, "running", None)
        try:
            write_report(self._path, report)
        except OSError as error:
            if self._settings.report_was_named:
                raise SettingsError(
                    f"--failure-taxonomy-report: {self._path} can't be written: {error.strerror}; "
                    "give a path in a folder that can be"
                ) from error
            self._path = fallback_path(self._path, self._id)
            self._moved = f"{self._settings.report.parent} can't be written"
            self._try_to_write(report)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_sessionstart(self) -> None:
        """Follow the workers if there will be any."""
        manager = self._config.pluginmanager
        if manager.has_plugin("dsession"):
            self._controller = ControllerRecorder(self._config, self.session, self.faults)
            manager.register(self._controller, "failure_taxonomy_controller")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, Any]:
        """See pytest's main hook end, by returning a status or by raising."""
        self.has_main = True
        try:
            status = yield
        except BaseException as error:
            self.finish(record_startup_error(self.session, error))
            raise
        self.finish(ProcessExit(code=int(status or 0), source="pytest"))
        return status

    def finish(self, exit_seen: ProcessExit) -> None:
        """Judge the run, write its report and print the verdict; the second call does nothing.

        A process that a test has forked and that goes on to the end of the session is not the run.
        """
        if self._is_finished or os.getpid() != self._process_id:
            return
        self._is_finished = True
        try:
            self._finish(exit_seen)
        except Exception as error:  # noqa: BLE001 - the user's exit status stands, whatever is wrong here
            self.faults.add("the end of the run", error)
            sys.stderr.write(f"{self.faults.messages[-1]}\n")

    def _finish(self, exit_seen: ProcessExit) -> None:
        duration = self._clock() - self._started
        evidence = self.session.evidence(
            stage=self._settings.stage,
            strict_baseline=self._settings.strict_baseline,
            exit_seen=exit_seen,
            workers=self._controller.ends() if self._controller else (),
        )
        report = self._build(evidence, "full", duration)
        self._extend(report)
        problem = self._try_to_write(report)
        shown = self._shown_path() if problem is None else ""
        level = verbosity(self._config)
        if level > -2:
            print_lines(
                self._config, verdict_lines(report, shown, quiet=level < 0, problem=problem)
            )

    def _build(
        self, evidence: RunEvidence, completeness: Completeness, duration: float | None
    ) -> dict[str, Any]:
        context = RunContext(
            id=self._id,
            started_at=self._started_at.replace("+00:00", "Z"),
            duration_seconds=duration,
            args=tuple(str(arg) for arg in self._config.invocation_params.args),
            rootdir=str(self._config.rootpath),
            environment=describe_environment(self._config),
        )
        return build_report(
            evidence,
            judge(evidence),
            context,
            completeness=completeness,
            faults=self.faults.messages,
        )

    def _extend(self, report: dict[str, Any]) -> None:
        """Let other plugins add to the report's `extensions`."""
        hook = self._config.hook.pytest_failure_taxonomy_report
        if not hook.get_hookimpls():
            return
        try:
            added: dict[str, Any] = {}
            for extension in hook(report=json.loads(json.dumps(report))):
                added |= json.loads(json.dumps(extension, allow_nan=False))
        except Exception as error:  # noqa: BLE001 - a foreign hook, anything can come out of it
            self.faults.add("the hook pytest_failure_taxonomy_report", error)
            own = report["extensions"].setdefault("pytest_failure_taxonomy", {})
            own["faults"] = list(self.faults.messages)
        else:
            report["extensions"] |= added

    def _try_to_write(self, report: dict[str, Any]) -> str | None:
        """Write the report; return what went wrong in words, or `None`."""
        try:
            write_report(self._path, report)
        except OSError as error:
            return f"could not be written to {self._path}: {error.strerror or error}"
        return None

    def _shown_path(self) -> str:
        """Return the report's path as short as it is clear from where pytest was started."""
        started_in = self._config.invocation_params.dir
        path = self._path
        shown = path.relative_to(started_in) if path.is_relative_to(started_in) else path
        return f"{shown} ({self._moved})" if self._moved else str(shown)


class _WorkerStart:
    """A plugin that waits until it is certain whether this is an xdist worker."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Begin as a worker, or as a run of its own in a pytest that a worker's test runs."""
        if is_worker(config):
            config.pluginmanager.register(WorkerRecorder(config), "failure_taxonomy_recorder")
        else:
            _begin_run(config)
