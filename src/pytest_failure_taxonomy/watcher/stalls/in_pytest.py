"""What a pytest does for the process that looks at it from outside: see `inspect.py`.

Nothing here runs for a test. The record is told once where the user reads, which signals this
process reacts to, and when a debugger waits for the user.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.record.layout import (
    END_MESSAGE,
    IS_COLOURED,
    IS_SHOWN,
    TELLS_WORK,
)
from pytest_failure_taxonomy.record.write import DiskRecord, Record
from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.record.observed import Observed

_STARTS: Final = frozenset({"console_main", "_console_main"})
"""The functions of pytest that are a whole program."""
_CALLED: Final = frozenset({"main", "_main"})
"""Those that these call, and other programs, too."""
_END_OFFSET: Final = 11
"""Of the signal that ends a stalled session, from SIGRTMIN on; see `record/stack_dumps.py`."""
_STDERR: Final = 2


@value
class Terminal:
    """Where the user reads what pytest writes to standard error."""

    descriptor: int
    is_coloured: bool


def find_terminal(config: pytest.Config) -> Terminal | None:
    """Return where the user reads: pytest's capture keeps a copy of the real standard error.

    With `-qq` nothing is to be printed, and the answer is `None`.
    """
    if config.get_verbosity() < -1:
        return None
    capture = config.pluginmanager.get_plugin("capturemanager")
    kept = getattr(getattr(capture, "_global_capturing", None), "err", None)
    descriptor = getattr(kept, "targetfd_save", None)
    if not isinstance(descriptor, int):
        descriptor = _STDERR
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    is_coloured = reporter is not None and bool(reporter._tw.hasmarkup)  # noqa: SLF001 - there is no public way
    return Terminal(
        descriptor=descriptor,
        is_coloured=is_coloured and not os.environ.get("NO_COLOR") and os.isatty(descriptor),
    )


class StalledRun:
    """A plugin that tells the record what somebody who looks at the run must know."""

    def __init__(self, config: pytest.Config, record: Record, *, ends: bool) -> None:
        """Begin, and be ready to end the session if `ends`."""
        self._config = config
        self._record = record
        self._process_id = os.getpid()
        self.ended: Observed | None = None
        """What was stalled when the watcher ended the session; `None` if it did not."""
        with suppress(OSError, ValueError, AttributeError):
            terminal = find_terminal(config)  # where the user reads
            if terminal is not None:
                flags = IS_SHOWN | IS_COLOURED if terminal.is_coloured else IS_SHOWN
                if os.environ.get("CI") or config.get_verbosity() > 0:
                    flags |= TELLS_WORK
                number = terminal.descriptor
                record.set_terminal(os.fstat(number), number, flags)
        if ends and threading.current_thread() is threading.main_thread():
            # The signal by which the watcher ends a stalled session.
            with suppress(OSError, ValueError, AttributeError):
                number = int(signal.SIGRTMIN) + _END_OFFSET
                if signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, self._end)
                    record.set_end_signal(number)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a session that the watcher has ended end with 1, whatever a test has made of that."""
        if self.ended is not None:
            session.exitstatus = 1

    def pytest_enter_pdb(self) -> None:
        """Record that a debugger waits for the user."""
        with suppress(Exception):  # the debugger is the user's
            self._record.set_debugger(waits=True)

    def pytest_leave_pdb(self) -> None:
        """Record that it no longer does."""
        with suppress(Exception):
            self._record.set_debugger(waits=False)

    def _end(self, number: int, _: FrameType | None) -> None:
        if os.getpid() != self._process_id:
            return
        observed = self._read_observed()
        if not any(each.stall.is_ended for each in observed.stalls):  # it is not the watcher's
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.ended = observed
        session: Any = self._config.pluginmanager.get_plugin("session")
        if session is not None:  # a test may catch the exception, and must be the last one then
            session.shouldfail = END_MESSAGE
        raise pytest.exit.Exception(END_MESSAGE, 1)

    def _read_observed(self) -> Observed:
        """Return what the watcher has seen: later, a test that goes on is no longer stalled."""
        from pytest_failure_taxonomy.record.observed import Observed, read_observed

        if isinstance(self._record, DiskRecord):
            with suppress(OSError), self._record.opened() as folder:
                return read_observed(folder)
        return Observed()


def is_program() -> bool:
    """Tell whether pytest is all that this process does, rather than called by another program.

    Then the process is to end soon after the session.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no other way to see the callers
    is_called = False
    while frame is not None:
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__")
        if module == "_pytest.config":
            if name in _STARTS:
                return True
            is_called = is_called or name in _CALLED
        elif is_called:
            return False
        frame = frame.f_back
    return False
