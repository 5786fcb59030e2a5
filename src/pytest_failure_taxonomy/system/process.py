"""What can be known of processes on this machine: who one is, what limits it, how memory went.

All of it is Linux's `/proc`; elsewhere nothing is known and each function says so.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.system.own_files import read_file

_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_OPTIONS_WITH_A_VALUE: Final = frozenset({"-k", "--kill-after", "-s", "--signal"})

_CGROUPS: Final = "/sys/fs/cgroup/"
_MAX_BYTES: Final = 1024 * 1024

MAX_ANCESTORS: Final = 12
"""How far up to look for a `timeout`."""


def read_identity(process_id: int) -> dict[str, Any]:
    """Return what tells a process from a later one of the same number.

    Returns:
        `pid`, `start_ticks` (its start in clock ticks since the machine's) and `boot_id`; the last
        two `None` where they can't be known.
    """
    fields = _stat_fields(process_id)
    return {
        "pid": process_id,
        "start_ticks": int(fields[19]) if fields else None,
        "boot_id": _read("/proc/sys/kernel/random/boot_id").strip() or None,
    }


def is_alive(identity: dict[str, Any]) -> bool:
    """Tell whether the process of an identity still runs; a zombie does not."""
    if identity["boot_id"] != read_identity(identity["pid"])["boot_id"]:
        return False
    fields = _stat_fields(identity["pid"])
    if fields:
        return fields[0] not in "ZX" and int(fields[19]) == identity["start_ticks"]
    if os.path.exists("/proc/self/stat") or identity["pid"] <= 0:
        return False
    return _answers(identity["pid"])


def _answers(process_id: int) -> bool:
    """Tell whether there is a process of that number, where there is no `/proc`."""
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
    """Ask Windows, where `os.kill` asks nothing: its signal 0 is Ctrl+C."""
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
    """Return the budgets of the GNU `timeout` commands that a process runs under.

    Returns:
        For each: `pid`, `budget_seconds`, and `started_ns` on the monotonic clock, good to one
        clock tick of 10 ms.
    """
    found = []
    for _ in range(MAX_ANCESTORS):
        fields = _stat_fields(process_id)
        if not fields:
            break
        process_id = int(fields[1])
        if _read(f"/proc/{process_id}/comm").strip() != "timeout":
            continue
        budget = _timeout_budget(_read(f"/proc/{process_id}/cmdline").split("\0"))
        ticks = _stat_fields(process_id)
        if budget and ticks:
            seconds = int(ticks[19]) / os.sysconf("SC_CLK_TCK") - _suspended_seconds()
            found.append(
                {
                    "pid": process_id,
                    "budget_seconds": budget,
                    "started_ns": int(seconds * 1e9),
                }
            )
    return found


def oom_events_file() -> str | None:
    """Return the file in which the kernel counts this cgroup's OOM kills, if it can be read."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        base, name = _CGROUPS.rstrip("/"), "memory.events"
        if "memory" in controllers.split(","):  # version 1
            base, name = f"{_CGROUPS}memory", "memory.oom_control"
        elif controllers:
            continue
        for folder in (base + path, base):  # a container sees its own group as the root
            if _oom_count(Path(folder) / name) is not None:
                return str(Path(folder) / name)
    return None


def read_oom_count(path: str | None) -> int | None:
    """Return the count in such a file; the path of any other may come from a record as well."""
    if path is None or os.path.normpath(path) != path or not path.startswith(_CGROUPS):
        return None
    return _oom_count(Path(path))


def _oom_count(path: Path) -> int | None:
    found = re.search(r"^oom_kill ([0-9]{1,18})$", _read(str(path)), re.MULTILINE)
    return int(found.group(1)) if found else None


def _timeout_budget(arguments: list[str]) -> float | None:
    """Return the seconds that a `timeout` command allows; 0 and what can't be read are no limit."""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _OPTIONS_WITH_A_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            found = _DURATION.fullmatch(argument)
            return float(found.group(1)) * _UNITS[found.group(2)] or None if found else None
    return None


def _suspended_seconds() -> float:
    """Return how far the clock of process starts is ahead of the monotonic one.

    Process starts count the time that the machine slept, the monotonic clock does not.
    """
    with suppress(AttributeError, OSError):
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return 0.0


def _stat_fields(process_id: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` behind the name: state, parent, …, start at 19."""
    return _read(f"/proc/{process_id}/stat").rpartition(") ")[2].split()


def _read(path: str) -> str:
    try:
        return read_file(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def name_of(process_id: int) -> str | None:
    """Return the name of a process, as `ps` shows it; `None` if it is gone."""
    return _read(f"/proc/{process_id}/comm").strip() or None


def descendants(process_id: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    parents: dict[int, list[int]] = {}
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            fields = _stat_fields(int(entry)) if entry.isdigit() else []
            if fields:
                parents.setdefault(int(fields[1]), []).append(int(entry))
    found = []
    waiting = [process_id]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


WATCHER_SECONDS: Final = 3.0
"""How long a watcher may take with a report: 30 ms on an idle machine, a second on a busy one."""
_WATCH_SCRIPT: Final = "watch.py"


def wait_for_watcher(report: Path, seconds: float = WATCHER_SECONDS) -> None:
    """Wait while a watcher completes a report whose pytest has ended.

    What is read before that is half the truth. Where pytest still runs nobody is waited for, and
    where there is no watcher neither.

    Args:
        report: the report's path.
        seconds: how long to wait at most.
    """
    deadline = time.monotonic() + seconds
    for watcher in _watchers_at_work(report):
        _wait_for_end(watcher, deadline)


def _watchers_at_work(report: Path) -> list[int]:
    """Return the ids of the processes that complete a report just now."""
    found = []
    place = os.path.realpath(report)
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            words = _read(f"/proc/{entry}/cmdline").split("\0") if entry.isdigit() else []
            if not any(os.path.basename(word) == _WATCH_SCRIPT for word in words[:6]):
                continue
            watched = [word for word in words if word.isdigit()]
            is_of_report = any(os.path.realpath(word) == place for word in words if word)
            if is_of_report and not any(map(_is_running, map(int, watched))):
                found.append(int(entry))
    return found


def _is_running(process_id: int) -> bool:
    fields = _stat_fields(process_id)
    return bool(fields) and fields[0] not in "ZX"


def _wait_for_end(process_id: int, deadline: float) -> None:
    """Wait until a process, that need not be a child, has ended."""
    with suppress(OSError):
        descriptor = os.pidfd_open(process_id)
        try:
            select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(descriptor)
