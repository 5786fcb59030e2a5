"""Write the record of a run: on disk or, if that is not possible, in memory alone.

Both have the same arrays, so that the code that fills them need not know which one it has.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from array import array
from collections.abc import Mapping, MutableSequence, Sequence
from pathlib import Path
from threading import get_native_id
from typing import Any, Final

from pytest_failure_taxonomy.record.layout import (
    CAPTURE,
    CAPTURE_AT,
    COUNTED_AT,
    COUNTED_EVENTS,
    COUNTERS,
    COUNTERS_AT,
    CRASH,
    CRASH_BYTES,
    CURRENT,
    CURRENT_AT,
    DEBUGGER_AT,
    DUMP_SIGNAL_AT,
    END_SIGNAL_AT,
    EVENTS,
    HEAD,
    LOSS_AT,
    MAGIC,
    MAX_NODEID_BYTES,
    MEMORY,
    NOT_STARTED,
    PAGE,
    PHASES,
    PROCESS,
    PROCESS_AT,
    READER,
    READER_AT,
    RESERVE,
    RESERVE_BYTES,
    STACKS,
    STATE,
    THREAD_AT,
    TIMER,
    TIMER_AT,
    TIMER_METHODS,
    WRITTEN_AT,
    file_size,
    starts_offset,
)
from pytest_failure_taxonomy.record.mapping import allocate_file, map_file
from pytest_failure_taxonomy.record.removal import erase, remove_record, why_it_stays
from pytest_failure_taxonomy.system.files import Folder, make_folder, move_high, open_folder
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.journal import Journal
from pytest_failure_taxonomy.system.process import read_identity
from pytest_failure_taxonomy.taxonomy.values import to_dict

json = isolate_module(json)
os = isolate_module(os)

NODEIDS_A_LINE: Final = 1_000
"""Node ids in one event, so that a large selection is never in memory twice."""

_PLACES: Final = {event: COUNTED_AT + 4 * index for index, event in enumerate(COUNTED_EVENTS)}
_NUMBER: Final = struct.Struct("<I")

Numbers = MutableSequence[int] | memoryview

to_json: Final = json.JSONEncoder(default=to_dict, check_circular=False).encode


class Record:
    """A record in memory, which is lost with its process: only its arrays are kept."""

    def __init__(self, lost: str | None = None) -> None:
        self.counters: Numbers = array("I", [0] * len(COUNTERS))
        """In the order of `layout.COUNTERS`."""
        self.lost = lost
        """A sentence that says why the record is not complete, or `None`."""

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return the arrays of the tests' states and of their starts in ms.

        Each has one more element at its end, which stands for tests that were not selected.
        """
        size = len(nodeids) + 1
        return bytearray(size), array("I", bytes(4 * size))

    def make_room(self, tests: int) -> Numbers:
        """Return an array of a byte for each test of a worker: how it has ended."""
        return bytearray(tests)

    def page(self) -> bytes:
        """Return the numbers of the record as they are on disk; nothing if it is not there."""
        return b""

    def write(self, event: str, **fields: Any) -> None:
        """Append an event."""

    def arm_timer(self, armed_ns: int, seconds: float, method: str) -> None:
        """Record that a timer of pytest-timeout is armed; the method `""` means none."""

    def set_current(self, start_ns: int, nodeid: str) -> None:
        """Record the test that this worker runs."""

    def set_current_state(self, state: int) -> None:
        """Record the state of that test."""

    def set_debugger(self, *, waits: bool) -> None:
        """Record whether a debugger waits for the user."""

    def set_dump_signal(self, number: int) -> None:
        """Record the signal at which this process writes its stacks, 0 for none."""

    def set_end_signal(self, number: int) -> None:
        """Record the signal at which this process ends its session, 0 for none."""

    def set_terminal(self, status: os.stat_result, descriptor: int, flags: int) -> None:
        """Record where the user reads what pytest prints."""

    def set_activity(self, start_ns: int, state: int, name: str) -> None:
        """Record what is done that is no test, by its state and name."""

    def set_capture(self, stdout: int, stderr: int) -> None:
        """Record the descriptors of the files with what is captured, 0 for none."""

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite secrets that have become known in the events that are on disk."""


class DiskRecord(Record):
    """A record that outlives its process.

    The state file is mapped and its descriptor closed. That of the events is checked before each
    write: a test may have closed it and opened a file of its own under its number.
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder, which only this user can enter, and its files.

        Raises:
            OSError: if they can't be created; nothing is left then.
        """
        super().__init__()
        self.folder = folder
        self._process_id = os.getpid()
        with make_folder(folder) as made:
            self._identity = made.identity
            try:
                self._map = map_file(made, STATE, PAGE)
                self._events = self._open_events(made)
            except OSError:
                if made.is_new:
                    remove_record(made)
                raise
        HEAD.pack_into(self._map, 0, MAGIC, 0, 0, 0)
        started = read_identity(self._process_id)["start_ticks"] or 0
        PROCESS.pack_into(self._map, PROCESS_AT, started, self._process_id)
        _NUMBER.pack_into(self._map, THREAD_AT, get_native_id())
        self.counters = self._view_counters()

    def select(self, nodeids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Make room for the tests, write their node ids, and return their arrays."""
        count = len(nodeids)
        if not self._enlarge(file_size(count)):
            return Record().select(nodeids)
        larger = self._map
        magic, finished, code, _ = HEAD.unpack_from(larger)
        # The node ids first: with a count and no node ids the record could not be read.
        self.write("selection", count=count)
        for first in range(0, count, NODEIDS_A_LINE):
            self.write("selected", nodeids=list(nodeids[first : first + NODEIDS_A_LINE]))
        HEAD.pack_into(larger, 0, magic, finished, code, count)
        starts = starts_offset(count)
        return larger[PAGE : PAGE + count + 1], larger[starts : file_size(count)].cast("I")

    def make_room(self, tests: int) -> Numbers:
        """Return an array of a byte for each test of a worker: how it has ended."""
        return self._map[PAGE:] if self._enlarge(PAGE + tests) else bytearray(tests)

    def page(self) -> bytes:
        """Return the numbers of the record as they are on disk."""
        return bytes(self._map[:PAGE])

    def write(self, event: str, **fields: Any) -> None:
        """Append an event by one system call, so that a death can't leave half of it.

        Events are counted before they are written, so that a reader knows what a full disk lost.
        """
        if os.getpid() != self._process_id:
            return
        if event in _PLACES:
            (count,) = _NUMBER.unpack_from(self._map, _PLACES[event])
            _NUMBER.pack_into(self._map, _PLACES[event], count + 1)
        line = to_json([event, fields]).encode("ascii") + b"\n"
        try:
            if not self._events.is_open():
                with self._open_folder() as folder:
                    self._events = self._open_events(folder)
            self._events.append(line)
        except OSError as error:
            self._lose(error)

    def arm_timer(self, armed_ns: int, seconds: float, method: str) -> None:
        """Record that a timer of pytest-timeout is armed; the method `""` means none."""
        TIMER.pack_into(self._map, TIMER_AT, armed_ns, seconds, TIMER_METHODS.index(method))

    def set_current(self, start_ns: int, nodeid: str) -> None:
        """Record the test that this worker runs."""
        name = nodeid.encode("utf-8", "backslashreplace")[:MAX_NODEID_BYTES]
        self._map[CURRENT_AT + CURRENT.size : CURRENT_AT + CURRENT.size + len(name)] = name
        CURRENT.pack_into(self._map, CURRENT_AT, start_ns, 1, len(name))

    def set_current_state(self, state: int) -> None:
        """Record the state of that test."""
        self._map[CURRENT_AT + 8] = state

    def set_debugger(self, *, waits: bool) -> None:
        """Record whether a debugger waits for the user."""
        self._map[DEBUGGER_AT] = waits

    def set_dump_signal(self, number: int) -> None:
        """Record the signal at which this process writes its stacks, 0 for none."""
        self._map[DUMP_SIGNAL_AT] = number

    def set_end_signal(self, number: int) -> None:
        """Record the signal at which this process ends its session, 0 for none."""
        self._map[END_SIGNAL_AT] = number

    def set_terminal(self, status: os.stat_result, descriptor: int, flags: int) -> None:
        """Record where the user reads what pytest prints."""
        READER.pack_into(self._map, READER_AT, status.st_dev, status.st_ino, descriptor, flags)

    def set_activity(self, start_ns: int, state: int, name: str) -> None:
        """Record what is done that is no test, by its state and name; a test in flight stays."""
        if self._map[CURRENT_AT + 8] in PHASES or os.getpid() != self._process_id:
            return
        encoded = name.encode("utf-8", "backslashreplace")[:MAX_NODEID_BYTES]
        self._map[CURRENT_AT + 8] = NOT_STARTED  # nobody may read half of a name
        self._map[CURRENT_AT + CURRENT.size : CURRENT_AT + CURRENT.size + len(encoded)] = encoded
        CURRENT.pack_into(self._map, CURRENT_AT, start_ns, state, len(encoded))

    def set_capture(self, stdout: int, stderr: int) -> None:
        """Record the descriptors of the files with what is captured, 0 for none."""
        CAPTURE.pack_into(self._map, CAPTURE_AT, self._process_id, stdout, stderr)

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite secrets that have become known in the events that are on disk."""
        if os.getpid() != self._process_id:
            return
        try:
            with self.opened() as folder:
                erase(folder, self._events.identity, fillers)
        except FileNotFoundError:  # what a test has removed holds no secret any more
            return
        except OSError as error:
            self._lose(error)

    def finish(self, exit_code: int) -> None:
        """Record that the session has ended."""
        magic, _, _, count = HEAD.unpack_from(self._map)
        HEAD.pack_into(self._map, 0, magic, 1, exit_code, count)

    def mark_written(self) -> None:
        """Record that the whole report has been written, so that the record is no longer needed."""
        _NUMBER.pack_into(self._map, WRITTEN_AT, 1)

    def keep_room(self) -> None:
        """Reserve room on the disk for the report.

        Raises:
            OSError: if there is no room.
        """
        with self._open_folder() as folder:
            allocate_file(folder, RESERVE, RESERVE_BYTES)

    def open_stacks(self, name: str = STACKS) -> int:
        """Return a descriptor of a file for the stacks of all threads.

        Raises:
            OSError: if it can't be created.
        """
        with self._open_folder() as folder:
            return move_high(folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

    def make_memory_file(self) -> None:
        """Make the file into which the watcher writes how much memory the run uses.

        Raises:
            OSError: if it can't be created.
        """
        with self._open_folder() as folder:
            os.close(folder.open_file(MEMORY, os.O_WRONLY | os.O_CREAT))

    def open_crash(self) -> int:
        """Return a descriptor of the file for the stacks at a fatal error.

        Raises:
            OSError: if it can't be created.
        """
        with self._open_folder() as folder:
            # Where there is no room, the stacks would be lost that the user should see.
            allocate_file(folder, CRASH, CRASH_BYTES)
            return move_high(folder.open_file(CRASH, os.O_RDWR))

    def opened(self) -> Folder:
        """Open the folder of the record.

        Raises:
            OSError: if it was removed or replaced.
        """
        return open_folder(self.folder, self._identity)

    def remove(self) -> str | None:
        """Remove the record from disk; the arrays stay usable.

        Returns:
            A sentence about what stays, or `None`.
        """
        self._events.close()
        try:
            folder = self.opened()
        except FileNotFoundError:
            return None
        except OSError as error:
            return why_it_stays(self.folder, error)
        with folder:
            return remove_record(folder)

    def _enlarge(self, size: int) -> bool:
        """Make room for more than the numbers; tell whether there is any."""
        try:
            with self.opened() as folder:
                self._map = map_file(folder, STATE, size, make=False)
        except OSError as error:
            self._lose(error)
            return False
        self.counters = self._view_counters()
        return True

    def _view_counters(self) -> memoryview:
        end = COUNTERS_AT + 4 * len(COUNTERS)
        return self._map[COUNTERS_AT:end].cast("I")

    def _open_folder(self) -> Folder:
        """Open the folder of the record; create it again if a test has removed it."""
        try:
            return self.opened()
        except FileNotFoundError:
            made = make_folder(self.folder)
            self._identity = made.identity
            return made

    def _open_events(self, folder: Folder) -> Journal:
        return Journal(folder.open_file(EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

    def _lose(self, error: OSError) -> None:
        if self.lost is None:
            _NUMBER.pack_into(self._map, LOSS_AT, error.errno or errno.EIO)
            self.lost = f"the record in {self.folder} is not whole: {error.strerror or error}"
