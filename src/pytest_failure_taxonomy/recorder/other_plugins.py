"""What other plugins do that changes how a run ends: pytest-timeout, faulthandler and pytest-cov.

The thread method of pytest-timeout leaves no trace of its own. pytest-cov adds one to the session's
count of failed tests, and only its own object says why.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from pytest_failure_taxonomy.record.layout import TIMER_METHODS
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder.guard import Faults, guarded


def knows_timers(manager: pytest.PytestPluginManager) -> bool:
    """Tell whether pytest-timeout is loaded, by the hook that it adds.

    The name it is registered under depends on how it was loaded.
    """
    return hasattr(manager.hook, "pytest_timeout_set_timer")


class TimerRecorder:
    """A plugin that records when pytest-timeout arms and cancels the timer of a test."""

    def __init__(self, record: Record, faults: Faults) -> None:
        self.faults = faults
        self._record = record
        self._clock = time.monotonic_ns

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    @guarded
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        """Record the limit of the test that starts."""
        del item
        if settings.method in TIMER_METHODS:
            self._record.arm_timer(self._clock(), float(settings.timeout), settings.method)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    @guarded
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        """Record that no timer is armed."""
        del item
        self._record.arm_timer(0, 0.0, "")


def faulthandler_exit_seconds(config: pytest.Config) -> float | None:
    """Return the seconds in one test after which faulthandler ends the process, if it does."""
    with suppress(KeyError, ValueError, TypeError):
        if config.getini("faulthandler_exit_on_timeout"):
            return float(config.getini("faulthandler_timeout") or 0) or None
    return None


def coverage_shortfall(plugin: Any) -> str:
    """Return a sentence if pytest-cov measured too little coverage, else an empty string.

    None of what is read here is public, so any surprise counts as no shortfall.

    Args:
        plugin: the plugin object of pytest-cov.
    """
    try:
        from coverage.results import should_fail_under  # what pytest-cov asks

        total, required = float(plugin.cov_total), float(plugin.options.cov_fail_under)
        if not should_fail_under(total, required, int(plugin.options.cov_precision or 0)):
            return ""
    except Exception:  # noqa: BLE001 - a foreign object, which may do whatever it likes
        return ""
    # As pytest-cov shows it, with more digits where it would look as if it were enough.
    digits = next((n for n in range(2, 9) if round(total, n) < required), 2)
    return f"coverage {total:.{digits}f} % is below the required {required:g} %"
