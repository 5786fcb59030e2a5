"""Begin to record a pytest process: a run of its own, or a worker of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.hooks import progress
from pytest_failure_taxonomy.hooks.guard import Faults, defer_sigint
from pytest_failure_taxonomy.hooks.lifecycle import Run
from pytest_failure_taxonomy.hooks.settings import read_settings
from pytest_failure_taxonomy.survive.writer import Record
from pytest_failure_taxonomy.system.interpreter import (
    call_after_fork,
    interpreter_as_it_was,
    isolate_package,
)
from pytest_failure_taxonomy.taxonomy.words import and_more
from pytest_failure_taxonomy.text import safe_text

RUN = pytest.StashKey[Run | None]()
"""The run of a config; `None` if its settings leave no place for a report."""

MAX_ERROR: Final = 4_000
"""Characters of a usage error.

It has a line for each problem, whatever a path or a value contains.
"""


def begin(config: pytest.Config, *, requested: bool = True) -> None:
    """Begin to record a run, and write a first report that says that it is running.

    On an xdist worker, only record what the controller can't see.

    Args:
        config: of the run.
        requested: this process was asked for a report; else a controller may be.

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
    config.pluginmanager.register(run.integrity, "failure_taxonomy_integrity")
    if settings.retried is not None:
        from pytest_failure_taxonomy.hooks.retried import SelectRetried, keep_files

        keep_files(config, settings.retried)
        select = SelectRetried(settings.retried.nodeids)
        config.pluginmanager.register(select, "failure_taxonomy_retried")
    record, hand_over = run.session.record, run.report_file.hand_over
    _follow_process(config, record, run.faults, hand_over).begin()
    isolate_package()
    for warning in settings.warnings:
        run.faults.note(warning)
    if settings.problems:
        raise _usage_error(settings.problems)


def _usage_error(problems: Sequence[str]) -> pytest.UsageError:
    """Return the error that lists problems one a line, as `validate` does."""
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
    """Tell whether this process looks like an xdist worker, without `workerinput`.

    The environment is not enough: a pytest that a test starts inherits it. execnet, by
    which xdist runs its workers, executes them in a module named `__channelexec__`.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return False
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to callers
    while frame is not None and frame.f_globals.get("__name__") != "__channelexec__":
        frame = frame.f_back
    return frame is not None


class _WorkerStart:
    """A plugin that begins when it is certain whether this is an xdist worker."""

    def __init__(self, *, requested: bool) -> None:
        self._requested = requested

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, Any, Any]:
        """Begin as a worker, or as a run of its own inside of a worker's test."""
        workerinput = getattr(config, "workerinput", None)
        if workerinput is not None:
            from pytest_failure_taxonomy.hooks.worker import (
                OUTPUT_KEY,
                WorkerRecorder,
            )

            # Its controller records the run.
            if self._requested or OUTPUT_KEY in workerinput:
                recorder = WorkerRecorder(config)
                config.pluginmanager.register(recorder, "failure_taxonomy_recorder")
                config.pluginmanager.register(
                    recorder.integrity, "failure_taxonomy_integrity"
                )
                if retried := workerinput.get("failure_taxonomy_retried"):
                    from pytest_failure_taxonomy.hooks.retried import SelectRetried

                    select = SelectRetried(retried)
                    config.pluginmanager.register(select, "failure_taxonomy_retried")
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
