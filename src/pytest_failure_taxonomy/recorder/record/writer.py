"""Keep the record of a run, on disk or, where that can't be, in memory alone.

The arrays are the same either way, so that what fills them need not ask.
"""

from __future__ import annotations

import errno
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from contextlib import suppress

# Bound here, because a test may replace them in their modules and never put them back.
from json import JSONEncoder
from os import close, fstat, getpid
from os import write as write_bytes
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_failure_taxonomy.recorder.record.layout import (
    COUNTED_AT,
    COUNTED_EVENTS,
    COUNTERS,
    COUNTERS_AT,
    CURRENT,
    CURRENT_AT,
    EVENTS,
    FILES,
    HEAD,
    LOSS_AT,
    MAGIC,
    MAX_NODEID_BYTES,
    PAGE,
    RESERVE,
    RESERVE_BYTES,
    STACKS,
    STATE,
    TIMER,
    TIMER_AT,
    TIMER_METHODS,
    WRITTEN_AT,
    file_size,
    starts_offset,
    worker_of,
)
from pytest_failure_taxonomy.recorder.record.mapping import allocate_file, map_file
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.system.own_files import (
    Folder,
    identity_of,
    make_folder,
    open_folder,
    reason_of,
)
from pytest_failure_taxonomy.taxonomy.values import to_dict

NODEIDS_A_LINE: Final = 1_000
"""Node ids written in one event, so that a large selection is never in memory twice."""

_MAX_NAMES: Final = 3
_MAX_NAME: Final = 80
"""How many names, and characters of each, are told of what stays in a record's folder."""
_PLACES: Final = {event: COUNTED_AT + 4 * index for index, event in enumerate(COUNTED_EVENTS)}
_NUMBER: Final = struct.Struct("<I")

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

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite values in the events that are written already."""


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

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Do nothing."""


class DiskRecord:
    """A record that outlives its process.

    The state file is mapped and its descriptor closed again; the events' descriptor is kept out of
    the range that programs get theirs from, and checked before each write, because a test may have
    closed it and opened a file of its own under that number.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder, which is this user's alone, and its files.

        Raises:
            OSError: there is no room, or no right; nothing is left then.
        """
        self.folder = folder
        self.lost: str | None = None
        self._process_id = getpid()
        self._events = -1
        self._events_identity = (0, 0)
        self._is_torn = False
        with make_folder(folder) as made:
            self._identity = made.identity
            try:
                self._map = map_file(made, STATE, PAGE)
                self._open_events(made)
            except OSError:
                if made.is_new:
                    remove_record(made)
                raise
        HEAD.pack_into(self._map, 0, MAGIC, 0, 0, 0)
        self.counters: Numbers = self._view_counters()

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Make room for the tests, write their node ids down, and return their arrays."""
        count = len(nodeids)
        try:
            with self.opened() as folder:
                larger = map_file(folder, STATE, file_size(count), make=False)
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
        """Append an event, in one write, so that a death can't leave half of one behind it.

        It is counted first: what a full disk loses is known to be missing.
        """
        if getpid() != self._process_id:
            return
        if event in _PLACES:
            (count,) = _NUMBER.unpack_from(self._map, _PLACES[event])
            _NUMBER.pack_into(self._map, _PLACES[event], count + 1)
        line = _encode([event, fields]).encode("ascii") + b"\n"
        try:
            if not self._is_still_ours():
                with self._open_folder() as folder:
                    self._open_events(folder)
            self._append(line)
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

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite values in the events that are written already: what is secret was learnt."""
        from pytest_failure_taxonomy.recorder.record.erasing import erase

        if getpid() != self._process_id:
            return
        try:
            with self.opened() as folder:
                descriptor = folder.open_file(EVENTS, os.O_RDWR)
            try:
                if identity_of(fstat(descriptor)) == self._events_identity:
                    erase(descriptor, fillers)
            finally:
                close(descriptor)
        except FileNotFoundError:  # what a test has removed holds no secret any more
            return
        except OSError as error:
            self._lose(error)

    def finish(self, exit_code: int) -> None:
        """Note that the session has ended, for who watches the process end."""
        magic, _, _, count = HEAD.unpack_from(self._map)
        HEAD.pack_into(self._map, 0, magic, 1, exit_code, count)

    def mark_written(self) -> None:
        """Note that the whole report has been written, so that the record is needed no more."""
        _NUMBER.pack_into(self._map, WRITTEN_AT, 1)

    def keep_room(self) -> None:
        """Keep room on the disk for the report.

        Raises:
            OSError: there is none.
        """
        with self._open_folder() as folder:
            allocate_file(folder, RESERVE, RESERVE_BYTES)

    def open_stacks(self) -> int:
        """Return a descriptor of the file for the stacks of all threads.

        Raises:
            OSError: it can't be made.
        """
        with self._open_folder() as folder:
            return move_high(folder.open_file(STACKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

    def opened(self) -> Folder:
        """Return the record's folder, to be closed.

        Raises:
            OSError: it is gone, or something else is in its place.
        """
        return open_folder(self.folder, self._identity)

    def remove(self) -> str | None:
        """Remove the record from disk, and tell in words what stays; the arrays stay usable."""
        if self._is_still_ours():
            with suppress(OSError):
                close(self._events)
        self._events = -1
        try:
            folder = self.opened()
        except FileNotFoundError:
            return None
        except OSError as error:
            return why_it_stays(self.folder, error)
        with folder:
            return remove_record(folder)

    def _append(self, line: bytes) -> None:
        """Write a line of its own, whatever the disk has left of the one before.

        A disk that fills up takes a part of a line and refuses the rest of it.

        Raises:
            OSError: it could not be written, or not all of it.
        """
        rest = b"\n" + line if self._is_torn else line
        while rest:
            written = write_bytes(self._events, rest)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]
            self._is_torn = bool(rest)

    def _view_counters(self) -> memoryview:
        end = COUNTERS_AT + 4 * len(COUNTERS)
        return self._map[COUNTERS_AT:end].cast("I")

    def _open_folder(self) -> Folder:
        """Return the record's folder, made anew where a test has removed it."""
        try:
            return self.opened()
        except FileNotFoundError:
            made = make_folder(self.folder)
            self._identity = made.identity
            return made

    def _open_events(self, folder: Folder) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._events = move_high(folder.open_file(EVENTS, flags))
        self._events_identity = identity_of(fstat(self._events))

    def _is_still_ours(self) -> bool:
        try:
            return identity_of(fstat(self._events)) == self._events_identity
        except OSError:
            return False

    def _lose(self, error: OSError) -> None:
        if self.lost is None:
            _NUMBER.pack_into(self._map, LOSS_AT, error.errno or errno.EIO)
            self.lost = f"the record in {self.folder} is not whole: {error.strerror or error}"


def remove_record(folder: Folder) -> str | None:
    """Remove the files that a record has and its folder; where there are others, both stay.

    Returns:
        What stays, in words; `None` where nothing does.
    """
    try:
        left = _left_of(folder, has_workers=True, removes=True)
        if not left:
            folder.rmdir()
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        return why_it_stays(folder.path, error)
    return _holds_others(folder, left)


def what_stays(folder: Folder) -> str | None:
    """Return in words what would stay of a record that is removed; `None` where nothing would."""
    try:
        left = _left_of(folder, has_workers=True, removes=False)
    except OSError as error:
        return why_it_stays(folder.path, error)
    return _holds_others(folder, left) if left else None


def _holds_others(folder: Folder, left: list[str]) -> str:
    told = ", ".join(safe_text(name, _MAX_NAME) for name in left[:_MAX_NAMES])
    more = f" and {len(left) - _MAX_NAMES} more" if len(left) > _MAX_NAMES else ""
    return f"{safe_text(str(folder.path))} stays: it holds what no record has ({told}{more})"


def why_it_stays(folder: Path, error: OSError) -> str:
    """Return in words that a record's folder could not be removed."""
    return f"{safe_text(str(folder))} stays: it {reason_of(error)}"


def _left_of(folder: Folder, *, has_workers: bool, removes: bool) -> list[str]:
    """Return the names in a folder that no record has made; remove the others, if wanted."""
    left = []
    for name in folder.names():
        try:
            if name in FILES:
                if removes:
                    folder.unlink(name)
            elif has_workers and worker_of(name) is not None:
                with folder.open_folder(name) as inner:
                    left_inside = _left_of(inner, has_workers=False, removes=removes)
                    left += [f"{name}/{each}" for each in left_inside]
                    if removes and not left_inside:
                        inner.rmdir()
            else:
                left.append(name)
        except FileNotFoundError:
            pass
        except OSError:
            left.append(name)
    return left


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
