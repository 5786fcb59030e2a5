"""Write the record of a run: on disk or, if that is not possible, in memory alone.

The numbers are in memory in both cases. `keep` copies them to a mapped file where there
is one. A test may truncate that file or fill it with something else; what was in memory
is written again.

The stacks of this process belong to it, too. py-spy reads them from outside, where it
is installed and allowed to. Without it, faulthandler writes them to a file when a
signal asks for it. Its handler is in C and needs no GIL. It costs nothing until then;
the measurements are in docs/decisions/0018-asked-for-stacks-by-a-signal.md.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import get_native_id
from types import FrameType
from typing import Any, Final

from pytest_failure_taxonomy.redaction.signs import blocks_of
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import explain_remains, remove_record
from pytest_failure_taxonomy.system import files, process
from pytest_failure_taxonomy.system.interpreter import call_after_fork, isolate_module
from pytest_failure_taxonomy.taxonomy.values import list_changed_fields
from pytest_failure_taxonomy.text import CLOSED_FIELDS, change_texts

json = isolate_module(json)
os = isolate_module(os)

NODEIDS_A_LINE: Final = 1_000
"""Node ids in one event, so that a large selection is never in memory twice."""

_PLACES: Final = {
    event: layout.COUNTED_AT + 4 * index
    for index, event in enumerate(layout.COUNTED_EVENTS)
}

Check = Callable[[], object]
"""Raises OSError if a store into a mapped file would end this process by SIGBUS."""

to_json: Final = json.JSONEncoder(
    default=list_changed_fields, check_circular=False
).encode

_FLAGS: Final = os.O_RDWR | os.O_CREAT
_MAP_FIXED: Final = 0x10
_MADV_POPULATE_READ: Final = 22
"""Fails where reading would be a SIGBUS."""
_CLOSED_FIELDS: Final = CLOSED_FIELDS | {
    "run_id",
    "part",
    "ending",
    "origin",
    "source",
    "exception",
}
"""Fields of events whose words are our own."""
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def _line_of(event: str, fields: dict[str, object]) -> bytes:
    return to_json([event, fields]).encode("ascii") + b"\n"


class Numbers:
    """Views of the content of a state file, which `layout` describes."""

    def __init__(self, content: memoryview, tests: int) -> None:
        """Divide a memory, which may be larger, for a number of tests.

        Each array has one more element at its end, which stands for tests that were not
        selected.
        """
        starts = layout.starts_offset(tests)
        order = layout.order_offset(tests)
        self.content = content[: layout.file_size(tests)]
        self.page = content[: layout.PAGE]
        self.counters = self.page[layout.COUNTERS_AT : layout.COUNTED_AT].cast("I")
        """In the order of `layout.COUNTERS`."""
        self.states = content[layout.PAGE : layout.PAGE + tests + 1]
        self.starts = content[starts:order].cast("I")
        """In ms."""
        self.order = self.content[order:].cast("I")
        self.arrays = self.states, self.starts, self.order


def _make_numbers(tests: int) -> Numbers:
    return Numbers(memoryview(bytearray(layout.file_size(tests))), tests)


class Record:
    """A record in memory, which is lost with its process."""

    folder: Path | None = None
    """Of the record on disk."""

    def __init__(self, lost: str | None = None) -> None:
        self.lost = lost
        """A sentence that says why the record is not complete, or `None`."""
        self._process_id = os.getpid()
        # Kept because freezegun, for one, replaces the function in its module.
        self.clock = time.monotonic_ns
        self.numbers = _make_numbers(0)
        """Whoever changes them calls `keep`."""

    def select(self, nodeids: Sequence[str], *, is_more: bool = False) -> None:
        """Record the tests that are going to run, and make room for them.

        Args:
            nodeids: all of them.
            is_more: they begin with those of before.
        """
        self.make_room(len(nodeids), is_more=is_more)

    def make_room(self, tests: int, *, is_more: bool = False) -> None:
        """Have arrays for a number of tests."""
        before = self.numbers
        self.numbers = _make_numbers(tests)
        self.numbers.page[:] = before.page
        arrays = zip(self.numbers.arrays, before.arrays, strict=True)
        for array, beginning in arrays if is_more else ():
            array[: len(beginning)] = beginning

    def keep(
        self, index: int = 0, place: int | None = None, *, is_checked: bool = False
    ) -> None:
        """Copy the numbers to the disk, and of the arrays what has changed.

        Args:
            index: the test whose state has changed.
            place: the place in the order that it has taken, if it has started.
            is_checked: nothing could truncate the file since the last time.
        """

    def page(self) -> bytes:
        """Return the numbers of the record as they are on disk."""
        return bytes(self.numbers.page)

    def write(self, event: str, **fields: Any) -> None:
        """Append an event."""

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite secrets that have become known in the events that are on disk."""

    def arm_timer(self, seconds: float, method: str) -> None:
        """Record that a timer of pytest-timeout is armed; method `""` means none."""
        index = layout.TIMER_METHODS.index(method)
        armed_ns = self.clock() if method else 0
        self._pack(layout.TIMER, layout.TIMER_AT, armed_ns, seconds, index)

    def set_current(self, name: str, state: int = layout.IN_SETUP) -> None:
        """Record that this worker starts a test, by its node id."""
        encoded = name.encode("utf-8", "backslashreplace")[: layout.MAX_NODEID_BYTES]
        length = len(encoded)
        self.numbers.page[layout.NAME_AT : layout.NAME_AT + length] = encoded
        self.keep()  # before the length: nobody may read half of a name
        self._pack(layout.CURRENT, layout.CURRENT_AT, self.clock(), state, length)

    def set_byte(self, place: int, number: int) -> None:
        """Record a number that is one byte; `layout` has the places."""
        self.numbers.page[place] = number
        self.keep()

    def set_terminal(self, status: os.stat_result, descriptor: int, flags: int) -> None:
        """Record where the user reads what pytest prints."""
        where = status.st_dev, status.st_ino, descriptor
        self._pack(layout.READER, layout.READER_AT, *where, flags)

    def set_activity(self, state: int, name: str) -> None:
        """Record an activity besides tests by state and name; tests in flight stay."""
        if self.numbers.page[layout.CURRENT_STATE_AT] in layout.PHASES:
            return
        # The name that was there goes.
        self.set_byte(layout.CURRENT_STATE_AT, layout.NOT_STARTED)
        self.set_current(name, state)

    def set_capture(self, stdout: int, stderr: int) -> None:
        """Record the descriptors of the files with what is captured, 0 for none."""
        self._pack(layout.CAPTURE, layout.CAPTURE_AT, self._process_id, stdout, stderr)

    def set_peak(self, peak_bytes: int) -> None:
        """Record the most resident memory that this process used between tests."""
        self._pack(layout.PEAK, layout.PEAK_AT, peak_bytes)

    def finish(self, exit_code: int) -> None:
        """Record that the session has ended."""
        self._pack(layout.FINISHED, layout.FINISHED_AT, 1, exit_code)

    def _pack(self, form: struct.Struct, place: int, *values: Any) -> None:
        form.pack_into(self.numbers.page, place, *values)
        self.keep()

    def open_file(self, name: str, flags: int, size: int = 0) -> int:
        """Return a descriptor of a file of the record, which is made if need be.

        Args:
            name: of the file.
            flags: to open it with.
            size: room for so many bytes is reserved: where there is none, what is
                written later would be lost.

        Raises:
            OSError: if it can't be created.
        """
        with self._open_folder() as folder:
            if size:
                allocate_file(folder, name, size)
            return files.move_high(folder.open_file(name, flags | os.O_CREAT))

    def opened(self) -> files.Folder:
        """Open the folder of the record.

        Raises:
            OSError: if there is none, or if it was removed or replaced.
        """
        raise FileNotFoundError(errno.ENOENT, "the record is in memory")

    _open_folder = opened

    def remove(self) -> str | None:
        """Remove the record from disk; the numbers stay usable.

        Returns:
            A sentence about what stays, or `None`.
        """
        return None


class DiskRecord(Record):
    """A record that outlives its process.

    The state file is mapped and its descriptor closed. A store into the map is in the
    page cache at once, which outlives the process whatever ends it, and costs a quarter
    of a system call. It has three dangers:

    - A store beyond the end of the file is a SIGBUS, which would kill the run, and a
      test may truncate any file. So the file has one more page, which goes first when
      it is cut; `_check` asks the kernel for that page without touching it, and what it
      raises is an ordinary error. Then the file is made again from the numbers in
      memory.
    - The disk may be full when a page is first written to, which is a SIGBUS, too. So
      all blocks are allocated before the file is mapped.
    - The process may die between two stores. So what makes other bytes valid is stored
      last: a start time before its state, a name before its length.

    Each number is stored twice, in memory and in the map: nothing is ever read back
    from a file that a test may have filled with something else.

    The events are appended by a descriptor. It has a number so high that programs don't
    get it, and is checked before each write: a test may have closed it and opened a
    file of its own under that number. What a test truncates is written again.
    """

    _disk: Numbers
    """The same numbers in the mapped file."""
    _views: tuple[memoryview, memoryview, memoryview, memoryview]
    """States and page of the numbers, each followed by that on disk; for speed."""

    def __init__(self, folder: Path) -> None:
        """Create the folder, which only this user can enter, and its files.

        Raises:
            OSError: if they can't be created; nothing is left then.
        """
        super().__init__()
        self.folder: Path = folder
        self._written: list[tuple[str, dict[str, object]]] = []
        """All events."""
        self._fillers: dict[str, str] = {}
        """By secrets that were erased, what is written in their place."""
        with files.make_folder(folder) as made:
            self._identity = made.identity
            try:
                self._map(make=True)
                self._events = self._open_events(made)
            except OSError:
                if made.is_new:
                    remove_record(made)
                raise
        call_after_fork(self._leave_disk)
        layout.HEAD.pack_into(self.numbers.page, 0, layout.MAGIC, 0, 0, 0, 0)
        started = process.read_identity(self._process_id)["start_ticks"] or 0
        layout.PROCESS.pack_into(
            self.numbers.page, layout.PROCESS_AT, started, self._process_id
        )
        self._pack(layout.NUMBER, layout.THREAD_AT, get_native_id())

    def keep(
        self, index: int = 0, place: int | None = None, *, is_checked: bool = False
    ) -> None:
        """Copy changes as `Record.keep` says; a passing test calls it four times."""
        if not is_checked:
            try:
                self._check()
            except OSError:  # a test has truncated the file
                self._write_again()
                return
        if place is not None:
            numbers = self.numbers
            disk = self._disk
            disk.starts[index] = numbers.starts[index]
            disk.order[place] = numbers.order[place]
        # A start comes before the state that makes it valid: this process may die in
        # between.
        states, disk_states, page, disk_page = self._views
        disk_states[index] = states[index]
        disk_page[:] = page

    def select(self, nodeids: Sequence[str], *, is_more: bool = False) -> None:
        """Write the node ids, and make room for these tests."""
        # The node ids first: with a count and no node ids the record could not be read.
        self.write("selection", count=len(nodeids))
        for first in range(0, len(nodeids), NODEIDS_A_LINE):
            self.write(
                "selected", nodeids=list(nodeids[first : first + NODEIDS_A_LINE])
            )
        super().select(nodeids, is_more=is_more)

    def make_room(self, tests: int, *, is_more: bool = False) -> None:
        """Have arrays for a number of tests, on the disk as well if there is room."""
        super().make_room(tests, is_more=is_more)
        if os.getpid() != self._process_id:
            self._leave_disk()
            return
        try:
            self._map()
        except OSError as error:  # the numbers before the arrays have their room
            without_arrays = _make_numbers(tests)
            without_arrays.page = self._disk.page
            self._use_disk(without_arrays)
            self._lose(error)
        else:
            self._pack(layout.NUMBER, layout.COUNT_AT, tests)

    def write(self, event: str, **fields: Any) -> None:
        """Append an event by one system call, so that a death can't leave half of it.

        Events are counted before they are written, so that a reader knows what a full
        disk lost.
        """
        if os.getpid() != self._process_id:
            return
        if event in _PLACES:
            (count,) = layout.NUMBER.unpack_from(self.numbers.page, _PLACES[event])
            self._pack(layout.NUMBER, _PLACES[event], count + 1)
        self._written.append((event, fields))
        self._append(_line_of(event, fields))

    def _append(self, line: bytes) -> None:
        """Append a line to the events; write all again if a test truncated the file."""
        try:
            if not self._events.is_open():
                with self._open_folder() as folder:
                    self._events = self._open_events(folder)
            if self._events.is_cut():
                lines = [_line_of(*event) for event in self._written]
                lines = [_erase_secrets(line, self._fillers) for line in lines]
                line = b"".join(lines)
                self._events.clear()
            self._events.append(line)
        except OSError as error:
            self._lose(error)

    def erase(self, fillers: Mapping[str, str]) -> None:
        """Overwrite secrets that have become known in the events that are on disk.

        A secret may stand bare in the text of one failure, and beside its name in that
        of a later one. Only then it is known to be one. Each line keeps its length and
        place, so that the file is valid whenever the process dies.

        Args:
            fillers: by the secrets that they replace. A filler is ASCII and no longer
                than its secret.
        """
        if os.getpid() != self._process_id:
            return
        self._fillers.update(fillers)
        try:
            with self.opened() as folder:
                self._rewrite_events(folder, fillers)
        except FileNotFoundError:  # what a test has removed holds no secret any more
            return
        except OSError as error:
            self._lose(error)

    def _rewrite_events(self, folder: files.Folder, fillers: Mapping[str, str]) -> None:
        writing = folder.open_file(layout.EVENTS, os.O_WRONLY)
        with files.closing_descriptor(writing) as descriptor:
            if files.identity_of(os.fstat(descriptor)) != self._events.identity:
                return
            reading = folder.open_file(layout.EVENTS, os.O_RDONLY)
            with os.fdopen(reading, "rb") as file:
                for offset, line in files.whole_lines(file):
                    changed = _erase_secrets(line, fillers)
                    if changed != line:
                        os.lseek(descriptor, offset, os.SEEK_SET)
                        os.write(descriptor, changed)

    def opened(self) -> files.Folder:
        """Open the folder of the record."""
        return files.open_folder(self.folder, self._identity)

    def remove(self) -> str | None:
        """Remove the record from disk."""
        self._events.close()
        try:
            folder = self.opened()
        except FileNotFoundError:
            return None
        except OSError as error:
            return explain_remains(self.folder, error)
        with folder:
            return remove_record(folder)

    def _map(self, *, make: bool = False) -> None:
        """Map the state file, as large as the numbers are, and copy them to it."""
        tests = len(self.numbers.states) - 1
        size = layout.file_size(tests)
        with self.opened() as folder:
            content, self._check = map_file(folder, layout.STATE, size, make=make)
        self._use_disk(Numbers(content, tests))
        self._disk.content[:] = self.numbers.content

    def _use_disk(self, disk: Numbers) -> None:
        self._disk = disk
        numbers = self.numbers
        self._views = numbers.states, disk.states, numbers.page, disk.page

    def _write_again(self) -> None:
        """Write everything again; if that is not possible, keep no more numbers."""
        try:
            self._map()
        except OSError as error:
            self._leave_disk()
            self._lose(error)
        self._append(b"")

    def _leave_disk(self) -> None:
        """Copy the numbers to where nobody reads them, as in a forked child."""
        self._use_disk(_make_numbers(len(self.numbers.states) - 1))
        self._check = bool

    def _open_folder(self) -> files.Folder:
        """Open the folder of the record; create it again if a test has removed it."""
        try:
            return self.opened()
        except FileNotFoundError:
            made = files.make_folder(self.folder)
            self._identity = made.identity
            return made

    def _open_events(self, folder: files.Folder) -> files.Journal:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return files.Journal(folder.open_file(layout.EVENTS, flags))

    def _lose(self, error: OSError) -> None:
        if self.lost is None:
            reason = error.strerror or error
            self.lost = f"the record in {self.folder} is not whole: {reason}"
            self._pack(layout.NUMBER, layout.LOSS_AT, error.errno or errno.EIO)


# Files with allocated blocks, mapped into memory without an open descriptor.


def allocate_file(folder: files.Folder, name: str, size: int) -> None:
    """Create a file that reserves room on the disk.

    It has the mode that `open()` would give it, because it may become the report.

    Raises:
        OSError: if there is no room or no permission; no file is left then.
    """
    descriptor = folder.open_file(name, _FLAGS, 0o666)
    try:
        _allocate(descriptor, size)
    except OSError:
        with suppress(OSError):
            folder.unlink(name)
        raise
    finally:
        os.close(descriptor)


def map_file(
    folder: files.Folder, name: str, size: int, *, make: bool = True
) -> tuple[memoryview, Check]:
    """Create or enlarge a file, and map it; allocate its blocks: the disk may fill up.

    Args:
        folder: has the file.
        name: of the file.
        size: in bytes.
        make: create the file if it does not exist.

    Returns:
        The memory, and what to call before a store into it.

    Raises:
        OSError: if there is no room, no permission, or no file and `make` is false.
    """
    descriptor = folder.open_file(name, _FLAGS if make else os.O_RDWR)
    try:
        # One byte more, which is on a page of its own: to whatever size somebody
        # truncates the file, this page is gone.
        last = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        _allocate(descriptor, last + 1)
        memory = _map_descriptor(descriptor, last + 1)
    finally:
        os.close(descriptor)
    try:
        check: Check = partial(memory.madvise, _MADV_POPULATE_READ, last, 1)
        check()
    except (AttributeError, OSError):  # another system, or Linux before 5.14
        check = bool
    return memoryview(memory), check


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.truncate(descriptor, size)


def _map_descriptor(descriptor: int, size: int) -> mmap.mmap:
    # `mmap` keeps a duplicate of the descriptor with the lowest free number, and closes
    # that number in the end, even if it belongs to another file by then. Since Python
    # 3.13 it has an option not to. Before, the file is mapped over memory that has
    # none.
    if os.name != "posix":
        return mmap.mmap(descriptor, size)
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, size, trackfd=False)
    import ctypes

    memory = mmap.mmap(-1, size)
    system = ctypes.CDLL(None, use_errno=True)
    address = ctypes.byref(ctypes.c_char.from_buffer(memory))
    access = mmap.PROT_READ | mmap.PROT_WRITE
    flags = mmap.MAP_SHARED | _MAP_FIXED
    length = ctypes.c_size_t(size)
    offset = ctypes.c_long(0)
    if system.mmap(address, length, access, flags, descriptor, offset) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return memory


def _erase_secrets(line: bytes, fillers: Mapping[str, str]) -> bytes:
    fillers = {
        value: filler for value, filler in fillers.items() if _may_hold(line, value)
    }
    if not fillers:
        return line

    def change(text: str) -> str:
        for value, filler in fillers.items():
            text = _replace_copies(text, value, filler)
        return text

    with suppress(ValueError, RecursionError):
        event, fields = json.loads(line)
        fields = change_texts(fields, change, _CLOSED_FIELDS)
        changed = _encode([event, fields]).encode("ascii")
        if len(changed) < len(line):
            return changed.ljust(len(line) - 1) + b"\n"
    return line


def _replace_copies(text: str, value: str, filler: str) -> str:
    # Loaded already: nothing becomes known without the search for secrets.
    from pytest_failure_taxonomy.redaction.known_values import find_copies

    following = len(text)
    # From the end, since a filler may be shorter than what it replaces.
    for start, end in sorted(find_copies(text, value), reverse=True):
        stop = min(end, following)  # copies may overlap
        if start < stop:
            text = text[:start] + filler[start - stop :] + text[stop:]
            following = start
    return text


def _may_hold(line: bytes, value: str) -> bool:
    """Return whether a copy of a value may stand in a line of JSON."""
    blocks = map(json.dumps, blocks_of(value)[1].values())
    return any(block[1:-1].encode("ascii") in line for block in blocks)


# The stacks of this process.

_PY_SPY: Final = "py-spy.exe" if os.name == "nt" else "py-spy"


class StackDump:
    """A file that gets the stacks of all threads at a signal, until `end`."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._signal: int | None = None
        self._tasks_signal = 0

    def begin_at_sigterm(self, record: Record) -> None:
        """Have them written when a SIGTERM comes, even during a call into C.

        The signal's own effect and the exit status stay.
        """
        is_free = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        if is_free and hasattr(faulthandler, "register"):
            flags = os.O_WRONLY | os.O_APPEND
            with suppress(OSError, RuntimeError):
                self._descriptor = record.open_file(layout.STACKS, flags)
                faulthandler.register(
                    signal.SIGTERM,
                    file=self._descriptor,
                    all_threads=True,
                    chain=True,
                )
                self._signal = signal.SIGTERM

    def begin_when_asked(self, record: Record, watcher_id: int | None) -> None:
        """Let the watcher read them, and record the signal that asks for them."""
        if record.folder is None:
            return
        descriptor = None
        with suppress(OSError):
            descriptor = record.open_file(layout.ASKED, os.O_WRONLY | os.O_APPEND)
            self._descriptor = descriptor
        self._signal = prepare_to_be_read(descriptor, watcher_id)
        record.set_byte(layout.DUMP_SIGNAL_AT, self._signal or 0)

    def begin_to_tell_tasks(self, record: Record) -> None:
        """Let Python write where asyncio's tasks wait, which faulthandler can't.

        It is asked only where the thread stands in a selector: there a handler runs at
        once, and the selector goes on waiting. Other calls of the system are restarted.
        A test can see that there is a handler, so there is none in a run that has not
        imported asyncio.
        """
        if self._signal is None or "asyncio" not in sys.modules:
            return
        number = handle_free_signal(
            record, layout.TASKS_SIGNAL, layout.TASKS_SIGNAL_AT, self._write_tasks
        )
        if number:
            signal.siginterrupt(number, False)  # noqa: FBT003 - positional only
            self._tasks_signal = number

    def _write_tasks(self, _: int, frame: FrameType | None) -> None:
        if self._descriptor >= 0:
            with suppress(Exception):  # the user's loop goes on
                # Here, because most runs never ask.
                from pytest_failure_taxonomy.system.tasks import (
                    outer_frames,
                    text_of_tasks,
                    waiting_tasks,
                )

                text = text_of_tasks(waiting_tasks(outer_frames(frame)))
                os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))

    def end(self, *, is_child: bool = False) -> None:
        """Do nothing at the signal from now on.

        If the program has since installed a handler of its own, that stays:
        faulthandler would restore the one from before.

        Args:
            is_child: this is a forked child, which shares the file with its parent.
        """
        if self._signal is not None:
            if signal.getsignal(self._signal) == signal.SIG_DFL:
                faulthandler.unregister(self._signal)
            self._signal = None
        if self._tasks_signal:
            if signal.getsignal(self._tasks_signal) == self._write_tasks:
                signal.signal(self._tasks_signal, signal.SIG_DFL)
            self._tasks_signal = 0
        if self._descriptor >= 0 and not is_child:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def handle_free_signal(
    record: Record,
    offset: int,
    place: int,
    handler: Callable[[int, FrameType | None], None],
) -> int:
    """Handle a real-time signal that the program has no use for, and record its number.

    Args:
        record: of the run.
        offset: of the signal, from SIGRTMIN on.
        place: where its number is recorded.
        handler: called in the main thread.

    Returns:
        The number; 0 where the program uses it, or this is not the main thread, say.
    """
    with suppress(OSError, ValueError, AttributeError):
        number = int(signal.SIGRTMIN) + offset
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, handler)
            record.set_byte(place, number)
            return number
    return 0


def prepare_to_be_read(descriptor: int | None, watcher_id: int | None) -> int | None:
    """Let a watcher see the stacks of this process, as far as the system allows.

    Args:
        descriptor: of the file to which the stacks are written when the watcher asks;
            it has to stay open. `None` if there is no such file.
        watcher_id: the process that may read this one by py-spy, and the processes it
            starts.

    Returns:
        The signal that asks for the stacks; `None` where this program uses that signal
        already, or the system has none.
    """
    # In scope 1 of the security module Yama a process of the same user may read this
    # one's memory once it is named. In scope 0 it needs no permission, and in the
    # others none is enough.
    is_scope_1 = process.read_text("/proc/sys/kernel/yama/ptrace_scope").strip() == "1"
    if watcher_id is not None and is_scope_1 and find_py_spy() is not None:
        process.allow_to_read(watcher_id)
    # A process ignores SIGURG without a handler. So a test that sends it to itself ends
    # as without us; and a test that sends itself any other signal does, too.
    number = getattr(signal, "SIGURG", None)
    if descriptor is None or number is None or not hasattr(faulthandler, "register"):
        return None
    # Something may have a handler for it, in Python or in C.
    if signal.getsignal(number) != signal.SIG_DFL:
        return None
    if process.catches(os.getpid(), number):
        return None
    with suppress(OSError, RuntimeError, ValueError):
        faulthandler.register(
            number,
            file=descriptor,
            all_threads=True,
            chain=False,
        )
        return int(number)
    return None


def find_py_spy() -> str | None:
    """Return the path of py-spy: this environment's, or one on the search path."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    for folder in (os.path.dirname(sys.executable), *folders):
        program = os.path.join(folder, _PY_SPY)
        if not os.path.isabs(folder) or not os.path.isfile(program):
            continue
        if os.access(program, os.X_OK):
            return program
    return None
