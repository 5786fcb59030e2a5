"""Leave the stacks of this process where another one sees them: at a SIGTERM, and when it asks.

py-spy reads the stacks from outside, where it is installed and allowed to. Without it, faulthandler
writes them to a file when a signal asks for it. Its handler is in C and needs no GIL. It costs
nothing until then; the measurements are in docs/decisions/0018-asked-for-stacks-by-a-signal.md.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.record.layout import ASKED, DUMP_SIGNAL_AT
from pytest_failure_taxonomy.record.write import DiskRecord, Record
from pytest_failure_taxonomy.system.process import allow_to_read, catches, has_to_allow_reading

_PY_SPY: Final = "py-spy.exe" if os.name == "nt" else "py-spy"


class StackDump:
    """A file into which faulthandler writes the stacks of all threads at a signal, until `end`."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._signal: int | None = None

    def begin_at_sigterm(self, record: DiskRecord) -> None:
        """Have them written when a SIGTERM comes, even during a call into C.

        The signal's own effect and the exit status stay.
        """
        is_free = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        if is_free and hasattr(faulthandler, "register"):
            with suppress(OSError, RuntimeError):
                self._descriptor = record.open_stacks()
                faulthandler.register(
                    signal.SIGTERM, file=self._descriptor, all_threads=True, chain=True
                )
                self._signal = signal.SIGTERM

    def begin_when_asked(self, record: Record, watcher_id: int | None) -> None:
        """Let the watcher read them, and record the signal that asks for them."""
        if not isinstance(record, DiskRecord):
            return
        with suppress(OSError):
            self._descriptor = record.open_stacks(ASKED)
        self._signal = prepare_to_be_read(
            None if self._descriptor < 0 else self._descriptor, watcher_id
        )
        record.set_byte(DUMP_SIGNAL_AT, self._signal or 0)

    def end(self, *, is_child: bool = False) -> None:
        """Do nothing at the signal from now on.

        If the program has since installed a handler of its own, that stays: faulthandler would
        restore the one from before.

        Args:
            is_child: this is a forked child, which shares the file with its parent.
        """
        if self._signal is not None:
            if signal.getsignal(self._signal) == signal.SIG_DFL:
                faulthandler.unregister(self._signal)
            self._signal = None
        if self._descriptor >= 0 and not is_child:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def prepare_to_be_read(descriptor: int | None, watcher_id: int | None) -> int | None:
    """Let a watcher see the stacks of this process, as far as the system allows.

    Args:
        descriptor: of the file to which the stacks are written when the watcher asks; it has to
            stay open. `None` if there is no such file.
        watcher_id: the process that may read this one by py-spy, and the processes it starts.

    Returns:
        The signal that asks for the stacks; `None` where this program uses that signal already, or
        the system has none.
    """
    if watcher_id is not None and has_to_allow_reading() and find_py_spy() is not None:
        allow_to_read(watcher_id)
    # A process ignores SIGURG without a handler. So a test that sends it to itself ends as without
    # us; and a test that sends itself any other signal does, too.
    number = getattr(signal, "SIGURG", None)
    if descriptor is None or number is None or not hasattr(faulthandler, "register"):
        return None
    if signal.getsignal(number) != signal.SIG_DFL or catches(os.getpid(), number):
        return None  # something has a handler for it, in Python or in C
    with suppress(OSError, RuntimeError, ValueError):
        faulthandler.register(number, file=descriptor, all_threads=True, chain=False)
        return int(number)
    return None


def find_py_spy() -> str | None:
    """Return the path of py-spy: that of this environment, or else one on the search path."""
    folders = [os.path.dirname(sys.executable), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in folders:
        program = os.path.join(folder, _PY_SPY)
        if os.path.isabs(folder) and os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None
