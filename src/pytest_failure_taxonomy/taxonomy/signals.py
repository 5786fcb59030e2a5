"""The names of signals, and which of them mean a crash."""

from __future__ import annotations

import signal
from typing import Final

CRASH_SIGNALS: Final = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"})
"""Signals that a process earns by its own fault; others come from outside."""


def signal_name(number: int) -> str:
    """Return the name of a signal, `SIG<number>` for one that this system does not know."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def signal_of_exit_code(code: int) -> str | None:
    """Return the name of the signal that an exit code above 128 stands for in a shell."""
    name = signal_name(code - 128) if code > 128 else ""
    return name if name in signal.Signals.__members__ else None
