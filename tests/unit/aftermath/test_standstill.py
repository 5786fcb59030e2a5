"""What makes no progress is found by few reads, and what does is left alone."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.recorder.record import layout
from pytest_failure_taxonomy.recorder.record.observed import Observed, parse_observed
from pytest_failure_taxonomy.recorder.record.writer import DiskRecord

if sys.platform == "win32":
    pytest.skip("stalls are seen from outside on Linux", allow_module_level=True)

from pytest_failure_taxonomy.aftermath import standstill
from pytest_failure_taxonomy.aftermath.standstill import Standstill

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")

SECOND: Final = 1_000_000_000
LIMIT: Final = 8.0


def test_the_layout_is_that_of_the_record() -> None:
    """The numbers that are repeated, so that the watcher stays small, are those of the record."""
    for name in ("PAGE", "PROCESS_AT", "DEBUGGER_AT", "CURRENT_AT", "IN_LAST_HOOK"):
        assert getattr(standstill, name) == getattr(layout, name), name
    for name in ("HEAD", "PROCESS", "CURRENT"):
        assert getattr(standstill, name).format == getattr(layout, name).format, name
    assert set(standstill.AT_WORK) == {*layout.PHASES, *layout.ACTIVITIES}


class Clock:
    """A run of this very process that is looked at as if time went by."""

    def __init__(self, folder: Path) -> None:
        self.record = DiskRecord(folder)
        self.state = os.open(folder / layout.STATE, os.O_RDONLY)
        process = os.getpid(), standstill.start_of(os.getpid())
        self.now_ns = SECOND
        self.standstill = Standstill(self.state, str(folder), process, LIMIT, self.now_ns)

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
    """A clock whose process uses no CPU time."""
    monkeypatch.setattr(standstill, "ticks_of", lambda process_id: 0)
    made = Clock(tmp_path / "record")
    yield made
    os.close(made.state)


def test_looks_get_rare(clock: Clock) -> None:
    """There is a close look at 1, 2, 4, 8 … times the limit."""
    assert clock.looks(70) == [9, 17, 33, 65]


def test_progress(clock: Clock) -> None:
    """Progress begins a new time; that a stall has ended is told once it is certain."""
    assert clock.looks(7) == []
    clock.record.counters[0] += 1
    assert clock.looks(8) == []
    assert clock.looks(1) == [1]
    clock.record.counters[0] += 1
    assert clock.looks(7) == [6]


def test_a_debugger(clock: Clock) -> None:
    """As long as a debugger waits for the user no time counts."""
    clock.record.set_debugger(waits=True)
    assert clock.looks(30) == []
    clock.record.set_debugger(waits=False)
    assert clock.looks(9) == [9]


def test_a_suspended_job(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the job is suspended no time counts."""
    assert clock.looks(4) == []
    with monkeypatch.context() as patch:
        patch.setattr(standstill, "is_suspended", lambda process_id: True)
        assert clock.looks(30) == []
    assert clock.looks(5) == [5]


def test_work(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins to wait after a time of work is looked at again as soon as that is certain."""
    monkeypatch.setattr(standstill, "ticks_of", lambda process_id: clock.now_ns // 10_000_000)
    assert clock.looks(9) == [9]
    assert clock.standstill.units[0].idle is False
    worked = clock.now_ns // 10_000_000
    monkeypatch.setattr(standstill, "ticks_of", lambda process_id: worked)
    assert clock.looks(7) == [4]
    assert clock.standstill.units[0].idle is True


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
        worker.set_current(1, name)
        worker.set_current_state(state)
    else:
        worker.set_activity(1, state, name)
    assert clock.looks(9) == [9]
    looked_at = clock.standstill.at_limit(clock.now_ns)
    assert [unit.name for unit in looked_at] == ["gw0" if is_looked_at else ""]


def test_a_worker_that_has_ended(clock: Clock) -> None:
    """A worker whose process is gone is not looked at, even if another has its process id."""
    worker = DiskRecord(clock.record.folder / "gw0")
    worker.set_current(1, "test_it.py::test_it")
    state = clock.record.folder / "gw0" / layout.STATE
    content = bytearray(state.read_bytes())
    struct.pack_into("<Q", content, layout.PROCESS_AT, 1)
    state.write_bytes(content)
    clock.looks(9)
    assert [unit.name for unit in clock.standstill.at_limit(clock.now_ns)] == [""]


@pytest.mark.parametrize("size", [0, 100, layout.PAGE])
def test_damage(clock: Clock, size: int) -> None:
    """A state file that was cut, or has anything in it, does no harm."""
    folder = clock.record.folder / "gw0"
    folder.mkdir()
    (folder / layout.STATE).write_bytes(b"\xff" * size)
    (clock.record.folder / "gw1").symlink_to("/")
    os.truncate(clock.record.folder / layout.STATE, size)
    assert len(clock.looks(9)) == 1


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
