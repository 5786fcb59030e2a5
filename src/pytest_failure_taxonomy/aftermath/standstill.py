"""See from outside which processes of a run make no progress, for hardly any time and memory.

The watcher asks this every now and then as long as pytest lives. So nothing is imported here but
what the interpreter has loaded anyway, and the layout of the record is repeated. What makes no
progress for long is then looked at by `stalls`, in a process of its own.
"""

from __future__ import annotations

import os
import struct

# As in recorder/record/layout.py; a test compares them.
PAGE = 4096
HEAD = struct.Struct("<8sIII")
PROCESS = struct.Struct("<QI")
PROCESS_AT = 168
DEBUGGER_AT = 180
CURRENT_AT = 256
CURRENT = struct.Struct("<QII")
AT_WORK = (1, 2, 3, 8, 9, 10)
"""States of a worker that is not waiting for its controller: in a test, or at what is no test."""
IN_LAST_HOOK = 10

LOOKS_A_LIMIT = 8
"""How often it is asked within the time after which something counts as stalled."""
SHORTEST_SECONDS, LONGEST_SECONDS = 0.25, 5.0
IDLE_SHARE = 0.01
"""The share of a core up to which a process counts as one that uses no CPU time: one that waits in
a loop looks around now and then."""
ENDING_SECONDS = 5.0
"""How long a process that hung must use CPU time, at least, to count as one that does not: after
Ctrl+C it does so for a moment."""
MAX_WORKERS = 512
MAX_TESTS = 10_000_000

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Unit:
    """A process of the run: pytest itself or one of its workers."""

    __slots__ = (
        "identity",
        "idle",
        "idle_since_ns",
        "name",
        "next_ns",
        "seen",
        "since_ns",
        "ticks",
        "was_idle",
        "was_looked_at",
    )

    def __init__(self, name: str, identity: tuple[int, int], seen: int, now_ns: int) -> None:
        self.name = name
        """The name of its folder in the record; empty for pytest itself."""
        self.identity = identity
        """Its process id, and its start in clock ticks since the boot."""
        self.begin(seen, now_ns)

    def begin(self, seen: int, now_ns: int) -> None:
        """Begin to wait for the next progress."""
        self.seen = seen
        self.since_ns = now_ns
        self.ticks: list[tuple[int, int]] = []
        """When it was looked at lately, and the CPU time that it had used then."""
        self.idle: bool | None = None
        """Whether it uses no CPU time; `None` if that is not known yet."""
        self.idle_since_ns = now_ns
        """When `idle` took its value."""
        self.was_idle: bool | None = None
        self.was_looked_at = False
        self.next_ns = 0


class Standstill:
    """What is remembered of a run from one look to the next."""

    def __init__(
        self, state: int, folder: str, process: tuple[int, int], seconds: float, now_ns: int
    ) -> None:
        """Begin.

        Args:
            state: a descriptor of the record's state file.
            folder: of the record.
            process: the process id of pytest, and its start in clock ticks since the boot.
            seconds: after how many without progress something counts as stalled.
            now_ns: the time on the monotonic clock.
        """
        self.period_seconds = min(max(seconds / LOOKS_A_LIMIT, SHORTEST_SECONDS), LONGEST_SECONDS)
        self.units: list[Unit] = [Unit("", process, 0, now_ns)]
        self._limit_ns = int(seconds * 1e9)
        self._state = state
        self._folder = folder
        self._last_ns = now_ns
        self._stalled: set[tuple[str, int]] = set()
        self.ended_ns: int | None = None
        """When a stall seems to have ended, which is not yet certain."""

    def look(self, now_ns: int) -> bool:
        """Look once; tell whether there is something new to say of a stall, or one has ended."""
        page = self._read_main()
        main = self.units[0]
        since_last = now_ns - self._last_ns
        self._last_ns = now_ns
        if is_suspended(main.identity[0]):
            for unit in self.units:  # the time does not count
                unit.since_ns += since_last
                unit.ticks.clear()
            self._stalled = {(name, since + since_last) for name, since in self._stalled}
            return False
        self._see(main, hash(page), now_ns)
        are_at_work = self._look_at_workers(now_ns)
        is_waiting = are_at_work or (len(page) >= PAGE and page[DEBUGGER_AT] != 0)
        found = False
        for unit in self.units:
            if unit is main and is_waiting:
                unit.begin(unit.seen, now_ns)
            elif self._is_due(unit, now_ns):
                found = True
        stalled = {(unit.name, unit.since_ns) for unit in self.units if unit.was_looked_at}
        return self._has_ended(stalled, now_ns) or found

    def _has_ended(self, stalled: set[tuple[str, int]], now_ns: int) -> bool:
        """Tell whether a stall has ended for good: after Ctrl+C pytest goes on for a moment."""
        self._stalled |= stalled
        if self._stalled == stalled:
            self.ended_ns = None
            return False
        if self.ended_ns is None:
            self.ended_ns = now_ns
        if now_ns - self.ended_ns < ENDING_SECONDS * 1e9:
            return False
        self._stalled = stalled
        self.ended_ns = None
        return True

    def at_limit(self, now_ns: int) -> list[Unit]:
        """Return what has made no progress for the whole time."""
        return [unit for unit in self.units if now_ns - unit.since_ns >= self._limit_ns]

    def look_again(self, now_ns: int) -> None:
        """Look soon again: a child of a process without CPU time used some."""
        for unit in self.units:
            if unit.was_looked_at:
                unit.next_ns = min(unit.next_ns, now_ns + self._limit_ns // 2)

    def _read_main(self) -> bytes:
        """Return what changes when the run makes progress: its numbers and the tests' states."""
        try:
            page = os.pread(self._state, PAGE, 0)
            if len(page) < PAGE:
                return b""
            tests = HEAD.unpack_from(page)[3]
            return page + os.pread(self._state, min(tests, MAX_TESTS) + 1, PAGE)
        except OSError:
            return b""

    def _look_at_workers(self, now_ns: int) -> bool:
        """Look at the workers; tell whether one of them is at work."""
        known = {unit.name: unit for unit in self.units[1:]}
        units = []
        for name in self._names():
            page = read_page(f"{self._folder}/{name}/state")
            if len(page) < PAGE:
                continue
            started, process_id = PROCESS.unpack_from(page, PROCESS_AT)
            if not is_at_work(page) or start_of(process_id) != started:
                continue
            unit = known.get(name)
            if unit is None:
                unit = Unit(name, (process_id, started), hash(page), now_ns)
            self._see(unit, hash(page), now_ns)
            if page[DEBUGGER_AT]:
                unit.begin(unit.seen, now_ns)
            units.append(unit)
        self.units[1:] = units
        return bool(units)

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if name[:2] == "gw"][:MAX_WORKERS]
        except OSError:
            return []

    def _see(self, unit: Unit, seen: int, now_ns: int) -> None:
        """Note whether a process has made progress, and how much CPU time it used if not."""
        if seen != unit.seen:
            unit.begin(seen, now_ns)
        elif now_ns - unit.since_ns >= self._limit_ns // 4:
            used = ticks_of(unit.identity[0])
            if used is None:
                return
            window_ns = self._limit_ns // 2
            unit.ticks.append((now_ns, used))
            while len(unit.ticks) > 1 and now_ns - unit.ticks[1][0] >= window_ns:
                del unit.ticks[0]
            then_ns, before = unit.ticks[0]
            if now_ns - then_ns >= window_ns * 3 // 4:
                allowed = (now_ns - then_ns) / 1e9 * _TICKS_A_SECOND * IDLE_SHARE
                is_idle = used - before <= max(1.0, allowed)
                if is_idle != unit.idle:
                    unit.idle, unit.idle_since_ns = is_idle, now_ns

    def _is_due(self, unit: Unit, now_ns: int) -> bool:
        """Tell whether to look at a process closely: at the limit, and at 2, 4, 8 … times it."""
        still_ns = now_ns - unit.since_ns
        if still_ns < self._limit_ns:
            return False
        is_due = not unit.was_looked_at or now_ns >= unit.next_ns or self._has_turned(unit, now_ns)
        if is_due:
            times = 2
            while still_ns >= times * self._limit_ns:
                times *= 2
            unit.next_ns = unit.since_ns + times * self._limit_ns
            unit.was_looked_at = True
            unit.was_idle = unit.idle
        return is_due

    def _has_turned(self, unit: Unit, now_ns: int) -> bool:
        """Tell whether a process no longer does what it did at the last look.

        One that begins to use CPU time may be about to end, as after Ctrl+C; so that has to last.
        """
        if unit.idle == unit.was_idle:
            return False
        lasts_ns = max(self._limit_ns, int(ENDING_SECONDS * 1e9))
        return unit.idle is not False or now_ns - unit.idle_since_ns >= lasts_ns


def is_at_work(page: bytes) -> bool:
    """Tell whether a worker is not waiting for its controller."""
    _, state, length = CURRENT.unpack_from(page, CURRENT_AT)
    return state in AT_WORK and (length > 0 or state != IN_LAST_HOOK)


def read_page(path: str) -> bytes:
    """Return the first page of a state file; an empty one if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, PAGE, 0)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def fields_of(process_id: int) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` after the name: state, parent, group and so on."""
    try:
        descriptor = os.open(f"/proc/{process_id}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(descriptor, 2048).rpartition(b") ")[2].split()
    except OSError:
        return []
    finally:
        os.close(descriptor)


def ticks_of(process_id: int) -> int | None:
    """Return the CPU time of a process and of its ended children, in clock ticks."""
    fields = fields_of(process_id)
    return sum(map(int, fields[11:15])) if len(fields) > 21 else None


def start_of(process_id: int) -> int:
    """Return when a process started, in clock ticks since the boot; -1 if it has ended."""
    fields = fields_of(process_id)
    return int(fields[19]) if len(fields) > 21 and fields[0] not in (b"Z", b"X") else -1


def is_suspended(process_id: int) -> bool:
    """Tell whether a process is a job that the user has suspended by Ctrl+Z.

    The shell takes the terminal back then. A process that was stopped otherwise keeps it, or has
    none.
    """
    fields = fields_of(process_id)
    if len(fields) < 22 or fields[0] != b"T":
        return False
    group, terminal, foreground = fields[2], fields[4], fields[5]
    return terminal != b"0" and foreground != group
