"""Keep the record of a run, on disk or, where that can't be, in memory alone.

The arrays are the same either way, so that what fills them need not ask.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import suppress

# Bound here, because a test may replace them in their modules and never put them back.
from json import JSONEncoder
from os import close, fstat, getpid, rmdir, scandir, unlink
from os import open as open_descriptor
from os import write as write_bytes
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_failure_taxonomy.recorder.record.layout import (
    COUNTERS,
    COUNTERS_AT,
    CURRENT,
    CURRENT_AT,
    EVENTS,
    HEAD,
    MAGIC,
    MAX_NODEID_BYTES,
    PAGE,
    STATE,
    TIMER,
    TIMER_AT,
    TIMER_METHODS,
    file_size,
    starts_offset,
)
from pytest_failure_taxonomy.recorder.record.mapping import map_file
from pytest_failure_taxonomy.taxonomy.values import to_dict

NODEIDS_A_LINE: Final = 1_000
"""Node ids written in one event, so that a large selection is never in memory twice."""

Numbers = MutableSequence[int] | memoryview

_encode: Final = JSONEncoder(default=to_dict).encode


class Record(Protocol):
    """What a recorder fills while a run goes on."""

    counters: Numbers
    """As in `layout.COUNTERS`."""
    lost: str | None
    """Why the record is not whole, in words."""

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return a state for each test and one more, and a start in ms for each and one more."""

    def write(self, event: str, **fields: Any) -> None:
        """Append an event."""

    def arm_timer(self, armed_ns: int, seconds: float, method: str) -> None:
        """Note that a timer of pytest-timeout runs; a method of `""` that none does."""

    def set_current(self, start_ns: int, nodeid: str) -> None:
        """Note the test that a worker runs."""

    def set_current_state(self, state: int) -> None:
        """Note how far that test has come."""


class MemoryRecord:
    """A record that dies with its process."""

    def __init__(self, lost: str | None = None) -> None:
        self.counters: Numbers = array("I", [0] * len(COUNTERS))
        self.lost = lost

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return the arrays of the tests, and one more element that stands for unknown ones."""
        size = len(nodeids) + 1
        return bytearray(size), array("I", bytes(4 * size))

    def write(self, event: str, **fields: Any) -> None:
        """Do nothing."""

    def arm_timer(self, armed_ns: int, seconds: float, method: str) -> None:
        """Do nothing."""

    def set_current(self, start_ns: int, nodeid: str) -> None:
        """Do nothing."""

    def set_current_state(self, state: int) -> None:
        """Do nothing."""


class DiskRecord:
    """A record that outlives its process.

    The state file is mapped and its descriptor closed again; the events' descriptor is kept out of
    the range that programs get theirs from, and checked before each write, because a test may have
    closed it and opened a file of its own under that number.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder and its files.

        Raises:
            OSError: there is no room, or no right.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.lost: str | None = None
        self._process_id = getpid()
        self._map = map_file(folder / STATE, PAGE)
        HEAD.pack_into(self._map, 0, MAGIC, 0, 0, 0)
        self.counters: Numbers = self._view_counters()
        self._events = -1
        self._identity: tuple[int, int] = (0, 0)
        self._open_events()

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Make room for the tests, write their node ids down, and return their arrays."""
        count = len(nodeids)
        try:
            larger = map_file(self.folder / STATE, file_size(count))
        except OSError as error:
            self._lose(error)
            return MemoryRecord().select(nodeids)
        self._map = larger
        self.counters = self._view_counters()
        magic, finished, code, _ = HEAD.unpack_from(larger)
        # The node ids first: a count without them would be a record that can't be read.
        self.write("selection", count=count)
        for first in range(0, count, NODEIDS_A_LINE):
            self.write("selected", nodeids=list(nodeids[first : first + NODEIDS_A_LINE]))
        HEAD.pack_into(larger, 0, magic, finished, code, count)
        starts = starts_offset(count)
        return larger[PAGE : PAGE + count + 1], larger[starts : file_size(count)].cast("I")

    def write(self, event: str, **fields: Any) -> None:
        """Append an event, in one write, so that a death can't leave half of one behind it."""
        if getpid() != self._process_id:
            return
        line = _encode([event, fields]).encode("ascii") + b"\n"
        try:
            if not self._is_still_ours():
                self._open_events()
            write_bytes(self._events, line)
        except OSError as error:
            self._lose(error)

    def arm_timer(self, armed_ns: int, seconds: float, method: str) -> None:
        """Note that a timer of pytest-timeout runs; a method of `""` that none does."""
        TIMER.pack_into(self._map, TIMER_AT, armed_ns, seconds, TIMER_METHODS.index(method))

    def set_current(self, start_ns: int, nodeid: str) -> None:
        """Note the test that a worker runs."""
        name = nodeid.encode("utf-8", "backslashreplace")[:MAX_NODEID_BYTES]
        self._map[CURRENT_AT + CURRENT.size : CURRENT_AT + CURRENT.size + len(name)] = name
        CURRENT.pack_into(self._map, CURRENT_AT, start_ns, 1, len(name))

    def set_current_state(self, state: int) -> None:
        """Note how far that test has come."""
        self._map[CURRENT_AT + 8] = state

    def finish(self, exit_code: int) -> None:
        """Note that the session has ended, for who watches the process end."""
        magic, _, _, count = HEAD.unpack_from(self._map)
        HEAD.pack_into(self._map, 0, magic, 1, exit_code, count)

    def remove(self) -> None:
        """Remove the record from disk; the arrays stay usable."""
        if self._is_still_ours():
            with suppress(OSError):
                close(self._events)
        self._events = -1
        remove_folder(self.folder)

    def _view_counters(self) -> memoryview:
        end = COUNTERS_AT + 4 * len(COUNTERS)
        return self._map[COUNTERS_AT:end].cast("I")

    def _open_events(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._events = move_high(open_descriptor(self.folder / EVENTS, flags, 0o666))
        status = fstat(self._events)
        self._identity = status.st_dev, status.st_ino

    def _is_still_ours(self) -> bool:
        try:
            status = fstat(self._events)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _lose(self, error: OSError) -> None:
        if self.lost is None:
            self.lost = f"the record in {self.folder} is not whole: {error.strerror or error}"


def remove_folder(folder: Path) -> None:
    """Remove a record's folder with the files that a record has, and nothing else."""
    with suppress(OSError):
        with scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    unlink(entry.path)
                else:
                    remove_folder(Path(entry.path))
        rmdir(folder)


def move_high(descriptor: int) -> int:
    """Move a descriptor to the end of the range, where no program looks for one."""
    try:
        import fcntl
        import resource
    except ImportError:  # Windows
        return descriptor
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for lowest in _high_numbers(soft):
        with suppress(OSError):
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
            close(descriptor)
            return high
    return descriptor


def _high_numbers(limit: int) -> Iterator[int]:
    end = min(limit, 1 << 16) if limit > 0 else 1 << 16
    yield from (end - 16, end // 2)
