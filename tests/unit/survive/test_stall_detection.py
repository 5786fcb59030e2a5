"""What makes no progress is found by few reads, and what does is left alone."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.facts import Observed
from pytest_failure_taxonomy.survive.observed import parse_observed
from pytest_failure_taxonomy.survive.writer import DiskRecord

if sys.platform == "win32":
    pytest.skip("stalls are seen from outside on Linux", allow_module_level=True)

from pytest_failure_taxonomy.survive.stalls import detect
from pytest_failure_taxonomy.survive.stalls.detect import Movement, Standstill, state_of
from pytest_failure_taxonomy.system.process import start_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs Linux"
)

SECOND: Final = 1_000_000_000
LIMIT: Final = 8.0


def movement(second: float, **done: Any) -> Movement:
    """Return what a process has done up to a second; nothing unless it is said."""
    nothing: dict[str, Any] = {"wakes": {}, "child_written": {}, "others": {}}
    return Movement(at_ns=int(second * SECOND), **nothing | done)


WHAT_MOVES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "nothing": ({}, {}, "blocked"),
    "other threads": ({"others": {"5": 1}}, {"others": {"5": 9, "6": 1}}, "blocked"),
    "a tick, after a page fault": ({"ticks": 70}, {"ticks": 71}, "blocked"),
    "wakes once a second": ({"wakes": {"4": 7}}, {"wakes": {"4": 10}}, "polling"),
    "wakes every 0.1 s": ({"wakes": {"4": 7}}, {"wakes": {"4": 37}}, "polling"),
    "wakes every 2 ms": (
        {"wakes": {"4": 7}},
        {"wakes": {"4": 1438}, "ticks": 4},
        "polling",
    ),
    "a child wakes": (
        {"wakes": {"4": 7, "8": 1}},
        {"wakes": {"4": 7, "8": 9}},
        "polling",
    ),
    "a child begins": ({"wakes": {"4": 7}}, {"wakes": {"4": 7, "8": 0}}, "polling"),
    "a child ends": (
        {"wakes": {"4": 7, "8": 3}, "child_written": {8: 100}},
        {"wakes": {"4": 7}},
        "polling",
    ),
    "prints every 0.1 s": (
        {"wakes": {"4": 7}},
        {"wakes": {"4": 37}, "written": 60},
        "busy",
    ),
    "writes and never waits": ({"written": 100}, {"written": 101}, "busy"),
    "computes": ({"ticks": 70}, {"ticks": 370}, "busy"),
    "a child computes": ({"child_ticks": 70}, {"child_ticks": 170}, "busy"),
    "a child writes": ({"child_written": {8: 5}}, {"child_written": {8: 6}}, "busy"),
    "a new child writes": (
        {"child_written": {8: 5}},
        {"child_written": {9: 1}},
        "busy",
    ),
    "waits for a core": ({"runs": True}, {"runs": True}, "busy"),
    "gets a core now and then": ({"preempted": 7}, {"preempted": 9}, "busy"),
    "polls on a busy machine": (
        {"wakes": {"4": 7}, "preempted": 7},
        {"wakes": {"4": 9}, "preempted": 9},
        "polling",
    ),
    "was about to wait": ({"runs": True}, {}, "blocked"),
}
"""What was seen at first and 3 s later, and what that is called; as measured on Linux."""


@pytest.mark.parametrize("what", WHAT_MOVES)
def test_what_moves(what: str) -> None:
    """Only where nothing moves it is blocked; what wakes and does nothing else polls."""
    first, last, state = WHAT_MOVES[what]
    assert state_of([movement(1, **first), movement(4, **last)]) == state


class Clock:
    """A run of this very process that is looked at as if time went by."""

    def __init__(self, folder: Path) -> None:
        self.record = DiskRecord(folder)
        self.state = os.open(folder / layout.STATE, os.O_RDONLY)
        process = os.getpid(), start_of(os.getpid())
        self.now_ns = SECOND
        self.standstill = Standstill(
            self.state, str(folder), process, LIMIT, self.now_ns
        )
        self.done: dict[str, Any] = {}
        """What it has done so far."""

    def movement(self, process_id: int, thread_id: int, now_ns: int) -> Movement:
        """Return it, as somebody sees it who looks."""
        assert process_id == os.getpid()
        assert thread_id in (
            0,
            threading.get_native_id(),
        )  # 0 where the page is damaged
        return movement(now_ns / SECOND, **self.done)

    def looks(self, seconds: int) -> list[int]:
        """Look each second, and return in which of them there was something to look at closely."""
        found = []
        for second in range(1, seconds + 1):
            self.now_ns += SECOND
            if self.standstill.look(self.now_ns):
                found.append(second)
        return found


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock whose process does nothing."""
    made = Clock(tmp_path / "record")
    monkeypatch.setattr(detect, "movement_of", made.movement)
    yield made
    os.close(made.state)


def test_looks_get_rare(clock: Clock) -> None:
    """There is a close look at 1, 2, 4, 8 … times the limit, and when what polls is to end."""
    assert clock.looks(70) == [9, 17, 33, 41, 65]


def test_progress(clock: Clock) -> None:
    """Progress begins a new time; that a stall has ended is told once it is certain."""
    assert clock.looks(7) == []
    clock.record.numbers.counters[0] += 1
    clock.record.keep()
    assert clock.looks(8) == []
    assert clock.looks(1) == [1]
    clock.record.numbers.counters[0] += 1
    clock.record.keep()
    assert clock.looks(7) == [6]


def test_a_debugger(clock: Clock) -> None:
    """As long as a debugger waits for the user no time counts."""
    clock.record.set_byte(layout.DEBUGGER_AT, 1)
    assert clock.looks(30) == []
    clock.record.set_byte(layout.DEBUGGER_AT, 0)
    assert clock.looks(9) == [9]


def test_a_suspended_job(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the job is suspended no time counts."""
    assert clock.looks(4) == []
    with monkeypatch.context() as patch:
        patch.setattr(detect, "is_suspended", lambda process_id: True)
        assert clock.looks(30) == []
    assert clock.looks(5) == [5]


@pytest.mark.parametrize(
    ("lost", "due"),
    [pytest.param(2, 11, id="a busy machine"), pytest.param(90, 99, id="paused")],
)
def test_time_in_which_nobody_could_look(clock: Clock, lost: int, due: int) -> None:
    """What passes between two looks beyond the plan doesn't count: the run may be stopped, too."""
    assert clock.looks(6) == []
    clock.now_ns += lost * SECOND
    found = clock.looks(9)
    assert found[0] + lost + 6 in (
        due,
        due + 3,
    )  # what is seen after a pause begins anew
    (unit,) = clock.standstill.list_stalled(clock.now_ns)
    assert unit.began_ns == clock.now_ns - (lost + 6 + 9 - 1) * SECOND
    assert unit.since_ns == unit.began_ns + lost * SECOND


def test_work(clock: Clock) -> None:
    """What begins to wait after a time of work is looked at again as soon as that is certain."""
    unit = clock.standstill.units[0]
    for _ in range(9):
        clock.done = {"ticks": clock.now_ns // 10_000_000}
        found = clock.looks(1)
    assert (found, unit.settled) == ([1], "busy")
    assert clock.looks(7) == [4]
    assert unit.settled == "blocked"


def test_work_of_a_moment(clock: Clock) -> None:
    """What hung and works for a moment, as after Ctrl+C, still hangs; one that goes on doesn't."""
    unit = clock.standstill.units[0]
    assert clock.looks(9) == [9]
    seen = []
    for second in range(20):
        clock.done = {"written": second + 1}
        clock.looks(1)
        seen.append((unit.state, unit.settled))
    assert seen[0] == ("busy", "blocked")
    assert seen[-1] == ("busy", "busy")
    assert clock.standstill.units[0].told == "busy"


def test_what_moves_of_this_process(tmp_path: Path) -> None:
    """The thread, the other threads and the children are told apart."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.01):
            (tmp_path / "beat").write_text("beat", "utf-8")

    def look() -> Movement:
        return detect.movement_of(
            os.getpid(), threading.get_native_id(), time.monotonic_ns()
        )

    own = f"{os.getpid()}/task/{threading.get_native_id()}"
    thread = threading.Thread(target=beat)
    with subprocess.Popen(["sleep", "60"]) as child:
        thread.start()
        first = look()
        time.sleep(0.3)
        last = look()
        ended.set()
        thread.join()
        child.kill()
    assert first.wakes.keys() >= {own, str(child.pid)}
    assert first.wakes[own] < last.wakes[own]
    assert first.written == last.written
    assert first.others != last.others
    assert child.pid in last.child_written
    assert own not in last.others
    (tmp_path / "own").write_text("own", "utf-8")
    assert look().written > last.written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "name", "is_looked_at"),
    [
        (layout.IN_CALL, "test_it.py::test_it", True),
        (layout.COLLECTING, "test_it.py", True),
        (layout.IN_LAST_HOOK, "pytest_sessionfinish", True),
        (layout.IN_LAST_HOOK, "", False),
        (layout.NOT_STARTED, "", False),
    ],
)
def test_workers(clock: Clock, state: int, name: str, is_looked_at: bool) -> None:
    """A worker at work is looked at instead of its controller; one that waits is not."""
    worker = DiskRecord(clock.record.folder / "gw0")
    if state in layout.PHASES:
        worker.set_current(name)
        worker.set_byte(layout.CURRENT_STATE_AT, state)
    else:
        worker.set_activity(state, name)
    assert clock.looks(9) == [9]
    looked_at = clock.standstill.list_stalled(clock.now_ns)
    assert [unit.name for unit in looked_at] == ["gw0" if is_looked_at else ""]


def test_a_worker_that_has_ended(clock: Clock) -> None:
    """A worker whose process is gone is not looked at, even if another has its process id."""
    worker = DiskRecord(clock.record.folder / "gw0")
    worker.set_current("test_it.py::test_it")
    state = clock.record.folder / "gw0" / layout.STATE
    content = bytearray(state.read_bytes())
    struct.pack_into("<Q", content, layout.PROCESS_AT, 1)
    state.write_bytes(content)
    clock.looks(9)
    assert [unit.name for unit in clock.standstill.list_stalled(clock.now_ns)] == [""]


@pytest.mark.parametrize("size", [0, 100, layout.PAGE])
def test_damage(clock: Clock, size: int) -> None:
    """A state file that was cut, or has anything in it, does no harm."""
    folder = clock.record.folder / "gw0"
    folder.mkdir()
    (folder / layout.STATE).write_bytes(b"\xff" * size)
    (clock.record.folder / "gw1").symlink_to("/")
    os.truncate(clock.record.folder / layout.STATE, size)
    assert len(clock.looks(9)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"stalls": 1}',
        b'{"stalls": [{"what": "test"}]}',
        b"[" * 100_000,
        b'{"stalls": [{"what": "dance", "since_ns": 1, "stall": null}]}',
    ],
)
def test_hostile_observations(content: bytes) -> None:
    """What a test may have written into the file of observations tells nothing."""
    assert parse_observed(content) == Observed()
