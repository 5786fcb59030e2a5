"""What an xdist worker records: only what the controller could not see by itself."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.exceptions import ExceptionMemory
from pytest_failure_taxonomy.recorder.guard import Faults, guarded

OUTPUT_KEY: Final = "failure_taxonomy"
"""Our entry in the worker's output, which the controller gets when the worker's session ends."""


class WorkerRecorder:
    """A plugin that describes exceptions on the worker that saw them."""

    def __init__(self, config: pytest.Config) -> None:
        self.faults = Faults(config, is_worker=True)
        self._config = config
        self._exceptions = ExceptionMemory(config.rootpath)
        self._deselected = 0

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Hold what was raised until the report of it comes by."""
        if call.excinfo is not None:
            self._exceptions.see_test(item, call)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Let a failed report carry its exception's description."""
        if report.failed:
            self._exceptions.send_with(report)

    @guarded
    def pytest_runtest_logfinish(self) -> None:
        """Let go of exceptions that no report asked for."""
        self._exceptions.forget()

    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        """Hold why a node could not be collected until its report comes by."""
        if isinstance(node, pytest.Collector):
            self._exceptions.see_collector(node, call)

    @pytest.hookimpl(tryfirst=True)
    @guarded
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Let a failed collection's report carry its exception's description."""
        if report.failed:
            self._exceptions.send_with(report)

    @guarded
    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the tests that were left out by options; the controller never sees them."""
        self._deselected += len(items)

    @guarded
    def pytest_sessionfinish(self) -> None:
        """Hand the controller what was counted, and what failed here."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]  # xdist's
        output[OUTPUT_KEY] = {"deselected": self._deselected, "faults": self.faults.messages}


def may_be_worker() -> bool:
    """Tell whether this process looks like an xdist worker, before `workerinput` is there to say.

    The environment alone does not tell: a pytest that a test starts inherits it. xdist runs its
    workers by execnet, which executes them in a module of this name.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return False
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - callers are to be had no other way
    while frame is not None and frame.f_globals.get("__name__") != "__channelexec__":
        frame = frame.f_back
    return frame is not None


def is_worker(config: pytest.Config) -> bool:
    """Tell for certain, from `pytest_cmdline_main` on."""
    return hasattr(config, "workerinput")
