"""What other plugins do that changes how a run ends, and where they write when it does.

pytest-cov adds one to the session's count of failed tests, and only its own object says why.
pytest's own plugin has faulthandler write to a copy of stderr, where no other process could read
it. It is moved to a file only where another process reads that file when this one has died, and
writes what it reads to stderr.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.record import layout
from pytest_failure_taxonomy.record.write import Record
from pytest_failure_taxonomy.recorder.guard import Faults, guarded
from pytest_failure_taxonomy.system.files import Identity, identity_of
from pytest_failure_taxonomy.system.interpreter import isolate_module

os = isolate_module(os)

_NONE: Final = -1

HandOver = Callable[[Mapping[str, int]], bool]
"""Gives descriptors to the process that outlives this one; tells whether there is such a one."""


class CrashDump:
    """A plugin that moves faulthandler's output while a session goes on."""

    def __init__(
        self, config: pytest.Config, record: Record, faults: Faults, hand_over: HandOver
    ) -> None:
        self.faults = faults
        self._config = config
        self._record = record
        self._hand_over = hand_over
        self._file = _NONE
        self._identity: Identity = (0, 0)

    # Last: pytest's own plugin enables faulthandler in this hook.
    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_configure(self) -> None:
        """Give the descriptors away, and move faulthandler's output if somebody has got them."""
        if self._record.folder is None:
            return
        given = captured_files(self._config)
        terminal = stderr_of_faulthandler(self._config)
        file = _NONE
        if terminal is not None and faulthandler.is_enabled():
            with suppress(OSError):
                file = self._record.open_crash()
                given |= {layout.CRASH_FILE: file, layout.TERMINAL: terminal}
        if self._hand_over(given) and file != _NONE:
            faulthandler.enable(file=file)
            self._file, self._identity = file, identity_of(os.fstat(file))
        elif file != _NONE:
            os.close(file)

    # Last: pytest's own plugin disables faulthandler in this hook, or puts it back.
    @pytest.hookimpl(trylast=True)
    @guarded
    def pytest_unconfigure(self) -> None:
        """Close the file, to which nothing is written any more."""
        file, self._file = self._file, _NONE
        if file != _NONE:
            with suppress(OSError):
                if identity_of(os.fstat(file)) == self._identity:  # a test may have closed it
                    os.close(file)

    def leave_to_parent(self) -> None:
        """Have a forked child write to stderr: its crash is not that of this process."""
        terminal = stderr_of_faulthandler(self._config)
        if self._file != _NONE and terminal is not None and faulthandler.is_enabled():
            with suppress(OSError, ValueError):
                faulthandler.enable(file=terminal)


def stderr_of_faulthandler(config: pytest.Config) -> int | None:
    """Return the descriptor of stderr that pytest's faulthandler plugin has, if it is loaded."""
    with suppress(ImportError, AttributeError):
        from _pytest.faulthandler import fault_handler_stderr_fd_key

        return config.stash.get(fault_handler_stderr_fd_key, None)
    return None


def captured_files(config: pytest.Config) -> dict[str, int]:
    """Return the descriptors of the files into which pytest captures stdout and stderr.

    There are none with `-s` and `--capture=sys`. None of what is read here is public.
    """
    found: dict[str, int] = {}
    manager: Any = config.pluginmanager.get_plugin("capturemanager")
    capturing = getattr(manager, "_global_capturing", None)
    for name, stream in ((layout.STDOUT, "out"), (layout.STDERR, "err")):
        with suppress(AttributeError, OSError, ValueError):
            descriptor = getattr(capturing, stream).tmpfile.fileno()
            os.fstat(descriptor)
            found[name] = descriptor
    return found


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
