"""Detect from outside which processes of a run make no progress, at hardly any cost.

The watcher asks this every now and then as long as pytest lives. So nothing is imported
here but what the interpreter has loaded anyway. What makes no progress for long is then
looked at by `inspect`, in a process of its own.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.layout import DEBUGGER_AT, PAGE
from pytest_failure_taxonomy.system.process import (
    children_of,
    fields_of,
    read,
    start_of,
)

LOOKS_A_LIMIT = 8
"""How often it is asked within the time after which something counts as stalled."""
SHORTEST_SECONDS, LONGEST_SECONDS = 0.25, 5.0
POLLING_LIMITS = 5
"""How many times the limit has to pass until something is ended that polls."""
IDLE_SHARE = 0.02
"""The share of a core up to which something counts as using no CPU time: what waits in
a loop looks around now and then. Every 2 ms, that takes 0.013 of a core."""
ENDING_SECONDS = 5.0
"""How long a process that hung must use CPU time, at least, to count as one that does
not: after Ctrl+C it does so for a moment."""
MAX_WORKERS = 512
MAX_TESTS = 10_000_000
MAX_THREADS = 100
"""The threads and the children of a process that are looked at."""

_RANKS = {"blocked": 0, "polling": 1, "busy": 2}
"""The states, from the one that is least like progress."""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def period_of(seconds: float) -> float:
    """Return the seconds between two looks for a limit of a stall."""
    return min(max(seconds / LOOKS_A_LIMIT, SHORTEST_SECONDS), LONGEST_SECONDS)


def times_of_limit(lasts: float, limit: float) -> int:
    """Return 1, 2, 4, 8 ...: the last such multiple of a limit that has passed."""
    times = 1
    while lasts >= 2 * times * limit:
        times *= 2
    return times


class Movement(SimpleNamespace):
    """What a process has done so far: its test thread, its children, the others."""

    at_ns: int
    wakes: dict[str, int]
    """How often the thread, and each child, has given up its core to wait."""
    preempted: int = 0
    """How often the thread had to give it up: on a machine with too much to do it runs,
    then, with little CPU time to show for it."""
    ticks: int = 0
    """The CPU time of the thread."""
    written: int = 0
    """The bytes that it has written, to whatever: a file, a pipe, its captured
    output."""
    child_ticks: int = 0
    child_written: dict[int, int]
    others: dict[str, int]
    """How often each other thread of the process has waited."""
    runs: bool = False
    """The thread runs, or has to wait for a core."""

    def add_thread(self, thread: str) -> None:
        """Add what a thread that counts has done."""
        fields = fields_of(thread)
        if fields[:1] == [b"R"]:
            self.runs = True
        self.ticks += _sum_of(fields[11:13])
        self.written += _count_written(thread)
        waits, preemptions = _count_switches(thread)
        self.wakes[thread] = waits
        self.preempted += preemptions

    def add_child(self, child: int) -> None:
        """Add what a child of the process has done."""
        self.child_ticks += _sum_of(fields_of(child)[11:15])
        self.child_written[child] = _count_written(child)
        self.wakes[str(child)], _ = _count_switches(child)


def state_of(looks: list[Movement]) -> str:
    """Return how something makes no progress, by its movements in some looks.

    Returns:
        `blocked` if nothing has; `polling` if it woke up and did nothing else; `busy`
        if there was
        work: CPU time or bytes, its own or a child's.
    """
    first = looks[0]
    last = looks[-1]
    seconds = (last.at_ns - first.at_ns) / 1e9
    idle_ticks = max(1.0, seconds * _TICKS_A_SECOND * IDLE_SHARE)
    ticks = max(last.ticks - first.ticks, last.child_ticks - first.child_ticks)
    if ticks > idle_ticks or last.written > first.written:
        return "busy"
    for child, count in last.child_written.items():
        if count > first.child_written.get(child, 0):
            return "busy"
    if all(movement.runs for movement in looks):
        return "busy"
    if last.wakes != first.wakes:
        return "polling"
    if last.preempted == first.preempted:
        return "blocked"
    return "busy"


class Unit:
    """A process of the run: pytest itself or one of its workers."""

    def __init__(
        self, name: str, identity: tuple[int, int], page_hash: int, now_ns: int
    ) -> None:
        self.name = name
        """The name of its folder in the record; empty for pytest itself."""
        self.identity = identity
        """Its process id, and its start in clock ticks since the boot."""
        self.thread_id = 0
        """Of the thread that runs the tests; 0 after the session, which waits for all
        of them."""
        self.begin(page_hash, now_ns)

    def begin(self, page_hash: int, now_ns: int) -> None:
        """Begin to wait for the next progress."""
        self.page_hash = page_hash
        self.began_ns = self.since_ns = now_ns
        """When it made progress; `since_ns` leaves out what does not count of the time
        since."""
        self.movements: list[Movement] = []
        """What it was seen to have done, lately."""
        self.state: str | None = None
        """As from `state_of`; `None` if that is not known yet."""
        self.state_since_ns = now_ns
        self.settled: str | None = None
        """The same, less what may be over in a moment: after Ctrl+C, a pytest that hung
        works."""
        self.others_move = False
        """Other threads do something, whatever the one is at that runs the tests."""
        self.told: str | None = None
        """What it was at when it was looked at closely; `None` if it was not."""
        self.next_ns = 0

    def look(self, now_ns: int) -> Movement:
        """Look what it has done; raises OSError if it has ended."""
        return movement_of(self.identity[0], self.thread_id, now_ns)

    def note(self, movement: Movement, window_ns: int, lasts_ns: int) -> None:
        """Note what it has done up to now.

        Args:
            movement: what was seen.
            window_ns: how far back its state is told by.
            lasts_ns: how long it has to be at work after it was told as stalled.
        """
        now_ns = movement.at_ns
        movements = self.movements
        movements.append(movement)
        while len(movements) > 1 and now_ns - movements[1].at_ns >= window_ns:
            del movements[0]
        first = movements[0]
        if now_ns - first.at_ns < window_ns * 3 // 4:
            return
        state = state_of(movements)
        self.others_move = movement.others != first.others
        if state != self.state:
            self.state = state
            self.state_since_ns = now_ns
        is_worse = _RANKS[state] < _RANKS.get(self.settled or state, 0)
        lasts = now_ns - self.state_since_ns >= lasts_ns
        if self.told is None or is_worse or lasts:
            self.settled = state


class Standstill:
    """What is remembered of a run from one look to the next."""

    def __init__(
        self,
        state: int,
        folder: str,
        process: tuple[int, int],
        seconds: float,
        now_ns: int,
    ) -> None:
        """Begin.

        Args:
            state: a descriptor of the record's state file.
            folder: of the record.
            process: the process id of pytest, and its start in clock ticks since the
                boot.
            seconds: after how many without progress something counts as stalled.
            now_ns: the time on the monotonic clock.
        """
        self.period_seconds = period_of(seconds)
        self.units: list[Unit] = [Unit("", process, 0, now_ns)]
        self._limit_ns = int(seconds * 1e9)
        self._period_ns = int(self.period_seconds * 1e9)
        self._state = state
        self._folder = folder
        self._last_ns = now_ns
        self._stalled: set[tuple[str, int]] = set()
        self.ended_ns: int | None = None
        """When a stall seems to have ended, which is not yet certain."""

    def look(self, now_ns: int) -> bool:
        """Look once; tell whether a stall has news or has ended."""
        main = self.units[0]
        if not self.pass_time(now_ns):
            return False
        page = self._read_main()
        self._see(main, page, now_ns)
        are_at_work = self._look_at_workers(now_ns)
        is_waiting = are_at_work or page[DEBUGGER_AT] != 0
        is_due = False
        for unit in self.units:
            if unit is main and is_waiting:
                unit.begin(unit.page_hash, now_ns)
            elif self._is_due(unit, now_ns):
                is_due = True
        stalled = {(unit.name, unit.began_ns) for unit in self.units if unit.told}
        return self._has_ended(stalled, now_ns) or is_due

    def pass_time(self, now_ns: int) -> bool:
        """Let time go by up to now; tell whether the run could make progress.

        What passes beyond the time until the next look doesn't count: this process was
        stopped, too, or could not run, as in a container that is paused.
        """
        since_last = now_ns - self._last_ns
        self._last_ns = now_ns
        is_on = not is_suspended(self.units[0].identity[0])
        lost_ns = max(0, since_last - self._period_ns) if is_on else since_last
        for unit in self.units:
            unit.since_ns += lost_ns
            unit.state_since_ns += lost_ns
            unit.next_ns += lost_ns
            if lost_ns > self._period_ns or not is_on:
                unit.movements.clear()
        return is_on

    def _has_ended(self, stalled: set[tuple[str, int]], now_ns: int) -> bool:
        """Tell whether a stall is over: after Ctrl+C pytest goes on for a moment."""
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

    def list_stalled(self, now_ns: int) -> list[Unit]:
        """Return what has made no progress for the whole time."""
        settled = [unit for unit in self.units if unit.settled]
        return [unit for unit in settled if now_ns - unit.since_ns >= self._limit_ns]

    def _read_main(self) -> bytes:
        """Return what changes with progress: the run's numbers and tests' states."""
        try:
            page = os.pread(self._state, PAGE, 0)
            if len(page) == PAGE:
                _, _, _, tests, _ = layout.HEAD.unpack_from(page)
                states = min(tests, MAX_TESTS) + 1
                return page + os.pread(self._state, states, PAGE)
        except OSError:
            pass
        return bytes(PAGE)

    def _look_at_workers(self, now_ns: int) -> bool:
        """Look at the workers; tell whether one of them is at work."""
        earlier = {unit.name: unit for unit in self.units[1:]}
        units = []
        try:
            names = os.listdir(self._folder)
        except OSError:
            names = []
        workers = [name for name in names if name[:2] == "gw"]
        for name in workers[:MAX_WORKERS]:
            page = read(f"{self._folder}/{name}/{layout.STATE}", PAGE)
            if len(page) < PAGE or not _is_at_work(page):
                continue
            started, process_id = layout.PROCESS.unpack_from(page, layout.PROCESS_AT)
            if start_of(process_id) != started:
                continue
            unit = earlier.get(name)
            if unit is None:
                unit = Unit(name, (process_id, started), hash(page), now_ns)
            self._see(unit, page, now_ns)
            if page[DEBUGGER_AT]:
                unit.begin(unit.page_hash, now_ns)
            units.append(unit)
        self.units[1:] = units
        return bool(units)

    def _see(self, unit: Unit, page: bytes, now_ns: int) -> None:
        """Note whether a process has made progress, and what it does if not."""
        if hash(page) != unit.page_hash:
            unit.begin(hash(page), now_ns)
            return
        if now_ns - unit.since_ns < self._limit_ns // 4:
            return
        unit.thread_id = 0
        if not layout.has_ended(page):
            (unit.thread_id,) = layout.NUMBER.unpack_from(page, layout.THREAD_AT)
        try:
            movement = unit.look(now_ns)
        except OSError:  # the process has ended
            return
        lasts_ns = max(self._limit_ns, int(ENDING_SECONDS * 1e9))
        unit.note(movement, self._limit_ns // 2, lasts_ns)

    def _is_due(self, unit: Unit, now_ns: int) -> bool:
        """Tell whether to look at a process closely.

        That is at the limit, at 2, 4, 8 … times it, when something that polls is to be
        ended, and when what it does has changed.
        """
        still_ns = now_ns - unit.since_ns
        if unit.settled is None or still_ns < self._limit_ns:
            return False
        if unit.settled == unit.told and now_ns < unit.next_ns:
            return False
        times = 2 * times_of_limit(still_ns, self._limit_ns)
        if still_ns < POLLING_LIMITS * self._limit_ns:
            times = min(times, POLLING_LIMITS)
        unit.next_ns = unit.since_ns + times * self._limit_ns
        unit.told = unit.settled
        return True


def _is_at_work(page: bytes) -> bool:
    """Tell whether a worker is to make progress, by the numbers of its record."""
    _, state, length = layout.CURRENT.unpack_from(page, layout.CURRENT_AT)
    # After the last hook a worker waits for the interpreter's end alone.
    if state == layout.IN_LAST_HOOK and length == 0:
        return False
    return state in layout.AT_WORK


def movement_of(process_id: int, thread_id: int, now_ns: int) -> Movement:
    """Return what a process has done so far.

    Args:
        process_id: the process.
        thread_id: of the thread that runs the tests; 0 if all threads count.
        now_ns: the time on the monotonic clock.

    Raises:
        OSError: if the process is gone.
    """
    folder = f"{process_id}/task"
    threads = [f"{folder}/{name}" for name in os.listdir(f"/proc/{folder}")]
    running = f"{folder}/{thread_id}"
    own = [running] if running in threads else threads[:MAX_THREADS]
    movement = Movement(
        at_ns=now_ns,
        wakes={},
        child_written={},
        others={},
    )
    for thread in own:
        movement.add_thread(thread)
    for thread in threads[:MAX_THREADS]:
        if thread not in own:
            movement.others[thread], _ = _count_switches(thread)
    # Of children that have ended and were waited for.
    movement.child_ticks = _sum_of(fields_of(process_id)[13:15])
    for child in _descendants_of(process_id):
        movement.add_child(child)
    return movement


def _descendants_of(process_id: int) -> list[int]:
    """Return the children of a process, and theirs, without this one."""
    family = [process_id]
    for parent in family:  # which grows meanwhile
        family += [child for child in children_of(parent) if child != os.getpid()]
        del family[MAX_THREADS:]
    return family[1:]


def _sum_of(fields: list[bytes]) -> int:
    return sum(map(int, fields))


def _count_switches(process: int | str) -> tuple[int, int]:
    """Return how often a thread gave up its core: to wait, and because it had to."""
    status = read(f"/proc/{process}/status", PAGE)
    _, _, rest = status.partition(b"\nvoluntary_ctxt_switches:")
    words = rest.split()
    if len(words) < 3:
        return 0, 0
    waits, _, preemptions = words[:3]
    return int(waits), int(preemptions)


def _count_written(process: int | str) -> int:
    """Return how many bytes a thread or a process has written."""
    content = read(f"/proc/{process}/io", PAGE)
    _, _, rest = content.partition(b"wchar:")
    words = rest.split(None, 1)
    if words:
        return int(words[0])
    return 0


def is_suspended(process_id: int) -> bool:
    """Tell whether a process is a job that the user has suspended by Ctrl+Z.

    The shell takes the terminal back then. A process that was stopped otherwise keeps
    it, or has none.
    """
    fields = fields_of(process_id)
    if len(fields) < 22:
        return False
    state, _, group, _, terminal, foreground, *_ = fields
    return state == b"T" and terminal != b"0" and foreground != group
