"""Note the timers of pytest-timeout, whose thread method leaves no other trace of itself."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.recorder.record.layout import TIMER_METHODS
from pytest_failure_taxonomy.recorder.record.writer import Record


def knows_timers(manager: pytest.PytestPluginManager) -> bool:
    """Tell whether pytest-timeout is there, by the hook that it brings.

    Its name among the plugins depends on how it was loaded.
    """
    return hasattr(manager.hook, "pytest_timeout_set_timer")


class TimerRecorder:
    """A plugin that notes when a test's timer is armed and when it is cancelled."""

    def __init__(self, record: Record, faults: Faults) -> None:
        self.faults = faults
        self._record = record
        self._clock = time.monotonic_ns

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    @guarded
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        """Note that a test has a limit from now on."""
        del item
        if settings.method in TIMER_METHODS:
            self._record.arm_timer(self._clock(), float(settings.timeout), settings.method)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    @guarded
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        """Note that it has none any more."""
        del item
        self._record.arm_timer(0, 0.0, "")


def faulthandler_exit_seconds(config: pytest.Config) -> float | None:
    """Return after how many seconds in one test faulthandler would end the process, if it would."""
    with suppress(KeyError, ValueError, TypeError):
        if config.getini("faulthandler_exit_on_timeout"):
            return float(config.getini("faulthandler_timeout") or 0) or None
    return None
