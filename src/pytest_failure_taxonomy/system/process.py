"""Processes of this machine: their identity, limits, memory, parents and children.

Most of it is read from `/proc`, which only Linux has; elsewhere the functions return no answer.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.system.proc import fields_of, read_text

_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_OPTIONS_WITH_A_VALUE: Final = frozenset({"-k", "--kill-after", "-s", "--signal"})

_SHELLS: Final = frozenset({"bash", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})
_OPTIONS_WITH_A_FILE: Final = frozenset({"--init-file", "--rcfile"})

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_PTRACER: Final = 0x59616D61
"""From linux/prctl.h."""

_RESTARTED: Final = (
    "futex", "do_wait", "pipe_", "unix_stream_", "sk_wait", "tcp_", "inet_csk_", "locks_", "flock_"
)  # fmt: skip
"""How the functions of Linux begin in which locks, children, pipes and sockets are waited for."""

_MAX_COMMAND_BYTES: Final = 1024 * 1024

MAX_ANCESTORS: Final = 12
"""Ancestors among which a `timeout` command is looked for."""


def read_identity(process_id: int) -> dict[str, Any]:
    """Return what distinguishes a process from a later one with the same id.

    Returns:
        `pid`, `start_ticks` (its start in clock ticks since the boot) and `boot_id`; the last two
        are `None` if they can't be read.
    """
    fields = fields_of(process_id)
    return {
        "pid": process_id,
        "start_ticks": int(fields[19]) if fields else None,
        "boot_id": read_text("/proc/sys/kernel/random/boot_id").strip() or None,
    }


def is_alive(identity: dict[str, Any]) -> bool:
    """Tell whether the process with an identity still runs; a zombie does not."""
    now = read_identity(identity["pid"])
    is_same = now["start_ticks"] in (None, identity["start_ticks"])
    return is_same and now["boot_id"] == identity["boot_id"] and has_process(identity["pid"])


def has_process(process_id: int) -> bool:
    """Tell whether any process with a number runs; a zombie does not."""
    fields = fields_of(process_id)
    if fields:
        return fields[0] not in (b"Z", b"X")
    if os.path.exists("/proc/self/stat") or process_id <= 0:
        return False
    if sys.platform == "win32":
        return _is_alive_on_windows(process_id)
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_alive_on_windows(process_id: int) -> bool:
    """Ask Windows. There `os.kill` with signal 0 would send a Ctrl+C."""
    import ctypes

    synchronize, timed_out = 0x0010_0000, 0x102  # winnt.h, winbase.h
    kernel: Any = getattr(ctypes, "windll").kernel32  # noqa: B009 - typed on Windows alone
    handle = kernel.OpenProcess(synchronize, False, process_id)  # noqa: FBT003 - a C function
    if not handle:
        return False
    try:
        return int(kernel.WaitForSingleObject(handle, 0)) == timed_out
    finally:
        kernel.CloseHandle(handle)


def enclosing_limits(process_id: int) -> list[dict[str, Any]]:
    """Return the limits of the GNU `timeout` commands that a process runs under.

    Returns:
        For each: `pid`, `budget_seconds`, and `started_ns` on the monotonic clock, to a precision
        of one clock tick (10 ms).
    """
    suspended_seconds = 0.0  # start times count that since the boot, the monotonic clock does not
    with suppress(AttributeError, OSError):
        clocks = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
        suspended_seconds = time.clock_gettime(clocks[0]) - time.clock_gettime(clocks[1])
    found = []
    fields = fields_of(process_id)
    for _ in range(MAX_ANCESTORS):
        if not fields:
            break
        process_id = int(fields[1])
        fields = fields_of(process_id)
        if not fields or name_of(process_id) != "timeout":
            continue
        if budget := _timeout_budget(command_of(process_id)):
            seconds = int(fields[19]) / os.sysconf("SC_CLK_TCK") - suspended_seconds
            started_ns = int(seconds * 1e9)
            found.append({"pid": process_id, "budget_seconds": budget, "started_ns": started_ns})
    return found


def _timeout_budget(arguments: list[str]) -> float | None:
    """Return the seconds that a `timeout` command allows, or `None` if there is no limit."""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _OPTIONS_WITH_A_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            found = _DURATION.fullmatch(argument)
            return float(found.group(1)) * _UNITS[found.group(2)] or None if found else None
    return None


def name_of(process_id: int) -> str | None:
    """Return the name of a process, as `ps` shows it; `None` if it is gone."""
    return read_text(f"/proc/{process_id}/comm").strip() or None


def command_of(process_id: int) -> list[str]:
    """Return the words of a process's command line; none of them if it is gone."""
    return read_text(f"/proc/{process_id}/cmdline", _MAX_COMMAND_BYTES).split("\0")


def catches(process_id: int, number: int) -> bool | None:
    """Tell whether a process has a handler for a signal; `None` if that can't be known."""
    status = read_text(f"/proc/{process_id}/status")
    found = re.search(r"^SigCgt:\s*([0-9a-f]{1,32})$", status, re.MULTILINE)
    return None if found is None else bool(int(found[1], 16) >> (number - 1) & 1)


def is_restarted(process_id: int) -> bool:
    """Tell whether the main thread waits in a system call that goes on after a signal's handler.

    Calls that sleep or poll don't; nor is it known of those that have no name here.
    """
    return read_text(f"/proc/{process_id}/wchan").startswith(_RESTARTED)


def descendants(process_id: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    parents: dict[int, list[int]] = {}
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            fields = fields_of(int(entry)) if entry.isdigit() else []
            if fields:
                parents.setdefault(int(fields[1]), []).append(int(entry))
    found = []
    waiting = [process_id]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def outlives_this_process(descriptor: int) -> bool:
    """Tell whether a stream surely stays open for others when this process has ended.

    A terminal is hung up when the leader of its session ends: by `ssh -t host pytest` that is this
    process, and by `docker run -it image sh -c "pytest"` one that ends right after it. An
    interactive shell goes on.
    """
    if not os.isatty(descriptor) or not hasattr(os, "getsid"):
        return True
    return is_interactive_shell(command_of(os.getsid(0)))


def is_interactive_shell(command: list[str]) -> bool:
    """Tell whether a command line is that of a shell without a script or a command to execute."""
    if os.path.basename(command[0]).lstrip("-") not in _SHELLS:
        return False
    before = ""
    for word in filter(None, command[1:]):
        if before not in _OPTIONS_WITH_A_FILE and (
            not word.startswith("-") or re.fullmatch("-[a-z]*c[a-z]*", word)
        ):
            return False
        before = word
    return True


def die_with_parent() -> None:
    """Have the system end this process when its parent is killed (Linux).

    Nobody would see how this process ends then.
    """
    parent = os.getppid()
    if _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM)) and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, so that they can be found and ended (Linux)."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def has_to_allow_reading() -> bool:
    """Tell whether a process of the same user may read this one's memory only once it is named.

    That is the security module Yama's scope 1. In scope 0 it needs no permission, and in the
    others none is enough.
    """
    return read_text("/proc/sys/kernel/yama/ptrace_scope").strip() == "1"


def allow_to_read(process_id: int) -> bool:
    """Allow a process and its children to read the memory of this one."""
    return _prctl(_PR_SET_PTRACER, process_id)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False
