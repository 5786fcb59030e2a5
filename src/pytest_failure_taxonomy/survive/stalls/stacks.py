"""The stacks of a process, parsed from the output of faulthandler or py-spy.

What is parsed may come from anywhere, because a test may have written to the file, and
a program called py-spy may be any. So sizes are capped, and what is no stack is passed
over.

The formats of faulthandler are those of CPython's `Python/traceback.c` and
`Modules/faulthandler.c` from 3.11 to 3.15.
"""

from __future__ import annotations

import ast
import json
import os
import re
import selectors
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from pytest_failure_taxonomy.survive.own_files import is_of_the_user, is_own, location
from pytest_failure_taxonomy.system.files import (
    CAREFUL,
    closing_descriptor,
    identity_of,
    read_file,
)
from pytest_failure_taxonomy.system.process import (
    catches,
    fields_of,
    has_process,
    is_restarted,
)
from pytest_failure_taxonomy.system.tasks import LOOP_FILES
from pytest_failure_taxonomy.taxonomy.evidence import Location
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import and_more

Source = Literal["py-spy", "faulthandler", "current frames"]

MAX_SHOWN_FRAMES: Final = 40
"""Frames of a thread that are shown, the deepest first."""
MAX_STACKS_CHARACTERS: Final = 4 * 1024 * 1024
"""More than a hundred threads with a hundred frames each, which is all that
faulthandler writes."""

_MAX_FRAMES: Final = 200
_MAX_THREADS: Final = 100
_MAX_C_FRAMES: Final = 40
_MAX_DUMPS: Final = 1_000
_MAX_NAME: Final = 200
_MAX_PATH: Final = 500
_MAX_LINE_NUMBER: Final = 1 << 31
_MAX_SOURCE_BYTES: Final = 256 * 1024

_FATAL: Final = re.compile("(?:Fatal Python error|Windows fatal exception): ")
_TIMEOUT: Final = re.compile(r"Timeout \([0-9:.]{1,40}\)!")
_THREAD: Final = re.compile(
    r"(Current thread|Thread)(?: (?:0x)?([0-9a-fA-F]{1,32}|X{1,32}))?(?: \[(.*)\])?"
    r" \(most recent call first\):"
)
_ONE_STACK: Final = "Stack (most recent call first):"
_NOT_ALL: Final = "<Cannot show all threads while the GIL is disabled>"
_C_STACK: Final = "Current thread's C stack trace (most recent call first):"
_FRAME: Final = re.compile(
    r'  File (?:"(.*)"|\?\?\?), line ([0-9]{1,10}|\?\?\?) in (.*)'
)
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")

_FRAMES_OF_LOOP: Final = 4
"""How deep the functions of a loop stand below the selector."""
_RUNNER: Final = (f"{os.sep}_pytest{os.sep}", f"{os.sep}pluggy{os.sep}")
_MAIN_THREAD: Final = "MainThread"


@value
class StackFrame:
    """One call of a Python function."""

    function: str
    """Its name, qualified where the source tells; `<module>` outside of any."""
    path: str
    """As the code object has it; absolute as a rule."""
    line: int | None
    """Counted from 1."""

    def place(self, rootdir: Path) -> Location:
        """Return where it is, relative to the root directory if it lies below it."""
        return location(self.path, self.line, rootdir)

    @property
    def short_name(self) -> str:
        """The last part of the function's name: faulthandler gives nothing else."""
        return self.function.rpartition(".")[2] or self.function


@value
class Thread:
    """One thread and what it is at."""

    name: str | None
    thread_id: int | None
    """As in `threading.get_ident`."""
    is_current: bool = False
    """faulthandler's handler ran in it: the thread that crashed, or the one that took a
    signal."""
    owns_gil: bool | None = None
    """`None` where the source doesn't say."""
    frames: tuple[StackFrame, ...]
    """The deepest first."""

    def own_depth(self, rootdir: Path) -> int | None:
        """Return how deep the innermost frame of the user's own code stands."""
        for depth, frame in enumerate(self.frames):
            if is_of_the_user(frame.path) and is_own(frame.path, rootdir):
                return depth
        return None

    def own_place(self, rootdir: Path) -> Location | None:
        """Return the innermost line of the user's own code."""
        depth = self.own_depth(rootdir)
        if depth is None:
            return None
        return self.frames[depth].place(rootdir)

    def text(self) -> str:
        """Return the stack in Python's own form, the deepest frame first."""
        title = "Current thread" if self.is_current else "Thread"
        if self.name is not None:
            title += f" {self.name}"
        elif self.thread_id is not None:
            title += f" {self.thread_id:#x}"
        if self.owns_gil:
            title += " (holds the GIL)"
        lines = [f"{title}, most recent call first:"]
        for frame in self.frames[:MAX_SHOWN_FRAMES]:
            line = "?" if frame.line is None else frame.line
            lines.append(f'  File "{frame.path}", line {line}, in {frame.function}')
        rest = and_more(len(self.frames) - MAX_SHOWN_FRAMES)
        if rest:
            lines.append(f"  ...{rest}")
        if not self.frames:
            lines.append("  no Python code")
        return "\n".join(lines)


@value
class Stacks:
    """The threads of a process, in the order of their source."""

    threads: tuple[Thread, ...]
    c_frames: tuple[str, ...] = ()
    """The C stack of the current thread, the deepest first, as Python 3.14 and newer
    print it."""
    source: Source

    @property
    def main(self) -> Thread:
        """The thread that runs the tests.

        That is the one with most frames of pytest, or else the main thread, or else the
        current one. faulthandler lists the main thread last.
        """
        runner = max(self.threads, key=_count_frames_of_pytest)
        if _count_frames_of_pytest(runner):
            return runner
        for thread in self.threads:
            if thread.name == _MAIN_THREAD:
                return thread
        return self.current or self.threads[-1]

    @property
    def is_in_loop(self) -> bool:
        """Whether the thread that runs the tests waits in an asyncio loop."""
        last = self.main.frames[:_FRAMES_OF_LOOP]
        return any(frame.path.endswith(LOOP_FILES) for frame in last)

    def add_tasks(self, tasks: Stacks, rootdir: Path) -> Stacks:
        """Put the frames of the test's task on top of its thread.

        Args:
            tasks: where the tasks wait, each as a thread.
            rootdir: of the run. The first task that runs the user's own code is taken.
        """
        task = tasks.threads[0]
        for other in tasks.threads:
            if other.own_depth(rootdir) is not None:
                task = other
                break
        main = self.main
        awaiting = replace(main, frames=(*task.frames, *main.frames))
        threads = [awaiting if thread is main else thread for thread in self.threads]
        return replace(self, threads=tuple(threads))

    @property
    def current(self) -> Thread | None:
        """The thread that crashed or took the signal, where the source says so."""
        return next((thread for thread in self.threads if thread.is_current), None)

    def own_call(self, rootdir: Path) -> str | None:
        """Return the innermost line of the user's code there, with the function.

        As in `tests/conftest.py:217 in wait_for_log`.
        """
        main = self.main
        depth = main.own_depth(rootdir)
        if depth is None:
            return None
        frame = main.frames[depth]
        place = frame.place(rootdir)
        return f"{place.path}:{place.line} in {frame.short_name}"

    def where(self, rootdir: Path) -> str | None:
        """Return where the test thread is: `acquire (tests/test_x.py:6)`.

        The function is the one that the innermost line of the user's own code calls.
        That may be one in C, which has no frame; its name is read from the line then.
        Where the line calls several functions, the user's own function is named.
        Without own code it is the innermost function.
        """
        main = self.main
        frames = main.frames
        if not frames:
            return None
        depth = main.own_depth(rootdir)
        frame = frames[depth or 0]
        called = frame.short_name
        if depth == 0:
            called = _call_at(frame) or called
        elif depth is not None:
            called = frames[depth - 1].short_name
        place = frame.place(rootdir)
        line = ""
        if place.line:
            line = f":{place.line}"
        return f"{called} ({place.path}{line})"

    def text(self, max_characters: int) -> str:
        """Return the stacks for people, that of the test thread first.

        What is beyond the characters is left out, and a last line says so.
        """
        main = self.main
        blocks = [main.text()]
        if self.c_frames:
            lines = ["C stack of the current thread:", *self.c_frames]
            blocks.append("\n".join(lines))
        blocks += [thread.text() for thread in self.threads if thread is not main]
        text = "\n\n".join(blocks)
        if len(text) <= max_characters:
            return text
        end = "\n... cut"
        room = max(0, max_characters - len(end))
        whole_lines = text[:room].rpartition("\n")[0].rstrip("\n")
        return f"{whole_lines}{end}"[:max_characters]


def _count_frames_of_pytest(thread: Thread) -> int:
    count = 0
    for frame in thread.frames:
        if any(part in frame.path for part in _RUNNER):
            count += 1
    return count


# The name of a call into C.


def _call_at(frame: StackFrame) -> str | None:
    """Return the name of the one function that a line of source calls, or `None`."""
    if frame.line is None:
        return None
    try:
        content = read_file(frame.path, _MAX_SOURCE_BYTES + 1)
        if len(content) > _MAX_SOURCE_BYTES:
            return None
        calls = _calls_on_line(ast.parse(content), frame.line)
        names = list(islice(calls, 2))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(names) == 1:
        return names[0]
    return None


def _calls_on_line(tree: ast.AST, line: int) -> Iterator[str | None]:
    """Yield what a line calls, but not in functions that are only made there."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        first = getattr(node, "lineno", line)
        last = getattr(node, "end_lineno", line)
        if not first <= line <= last:
            continue
        called = None
        if isinstance(node, ast.Call):
            called = node.func
        if isinstance(called, ast.Attribute):
            if called.end_lineno == line:  # as in a traceback: that of a method's name
                yield called.attr
        elif called is not None and first == line:
            yield called.id if isinstance(called, ast.Name) else None
        if isinstance(node, ast.Lambda | ast.GeneratorExp) and first == line:
            continue
        waiting += ast.iter_child_nodes(node)


# What faulthandler writes.


class _Dump:
    """One dump that is being read."""

    def __init__(self, *, is_fatal: bool) -> None:
        self.is_fatal = is_fatal
        self.threads: list[tuple[Thread, list[StackFrame]]] = []
        self.c_frames: list[str] = []
        self.is_closed = False


def parse_faulthandler(text: str) -> Stacks | None:
    """Return the stacks that faulthandler has written, or `None` if there are none.

    A text may hold several dumps. The first one of a fatal error counts, or else the
    last one.

    Args:
        text: what was written, maybe among other things; beyond 4 MiB it isn't read.
    """
    dumps: list[_Dump] = []
    frames: list[StackFrame] | None = None  # to which the next lines belong, if to any
    c_frames: list[str] | None = None
    is_after_empty = True
    for ended_line in text[:MAX_STACKS_CHARACTERS].split("\n"):
        line = ended_line.removesuffix("\r")
        frame = None
        if frames is not None:
            frame = _FRAME.fullmatch(line)
        if frames is not None and frame is not None:
            if len(frames) < _MAX_FRAMES:
                frames.append(_parse_frame(*frame.groups()))
        elif c_frames is not None and line.startswith("  "):
            if len(c_frames) < _MAX_C_FRAMES:
                c_frames.append(_clean(line, _MAX_PATH))
        elif not line.startswith("  "):
            frames, c_frames = _read_header(dumps, line, is_after_empty=is_after_empty)
        is_after_empty = not line
    dumps = [dump for dump in dumps if dump.threads]
    if not dumps:
        return None
    dump = next((dump for dump in dumps if dump.is_fatal), dumps[-1])
    threads = [replace(thread, frames=tuple(frames)) for thread, frames in dump.threads]
    return Stacks(
        threads=tuple(threads),
        c_frames=tuple(dump.c_frames),
        source="faulthandler",
    )


def _parse_frame(path: str | None, number: str, function: str) -> StackFrame:
    line = None
    if number.isdecimal():
        line = int(number)
    return _frame(_unescape(function), _unescape(path or "???"), line)


def _read_header(
    dumps: list[_Dump], line: str, *, is_after_empty: bool
) -> tuple[list[StackFrame] | None, list[str] | None]:
    """Begin a dump or a thread of the last one; return what the lines below it go to.

    Between the threads of one dump there is an empty line, and none between two dumps.
    """
    if line == _C_STACK and dumps and not dumps[-1].is_closed:
        dumps[-1].is_closed = True
        return None, dumps[-1].c_frames
    thread = _parse_thread(line)
    is_fatal = _FATAL.match(line) is not None
    begins = is_fatal or _TIMEOUT.fullmatch(line) is not None
    if not begins and (thread is not None or line == _NOT_ALL):
        thread_id = None if thread is None else thread.thread_id
        begins = _needs_dump(dumps, thread_id, is_after_empty)
    if begins:
        if len(dumps) > _MAX_DUMPS:
            # The first fatal one and the last one are what counts.
            del dumps[1 if dumps[0].is_fatal else 0 : _MAX_DUMPS // 2]
        dumps.append(_Dump(is_fatal=is_fatal))
    if thread is None or len(dumps[-1].threads) >= _MAX_THREADS:
        return None, None
    frames: list[StackFrame] = []
    dumps[-1].threads.append((thread, frames))
    return frames, None


def _parse_thread(line: str) -> Thread | None:
    """Return the thread whose frames come below a line, if it is a thread's."""
    if line == _ONE_STACK:
        return Thread(
            name=None,
            thread_id=None,
            is_current=True,
            frames=(),
        )
    header = _THREAD.fullmatch(line)
    if header is None:
        return None
    kind, number, name = header.groups()
    thread_id = None
    if number is not None and number[0] != "X":
        thread_id = int(number, 16)
    return Thread(
        name=None if name is None else _clean(name, _MAX_NAME),
        thread_id=thread_id,
        is_current=kind == "Current thread",
        frames=(),
    )


def _needs_dump(
    dumps: list[_Dump],
    thread_id: int | None,
    is_after_empty: bool,  # noqa: FBT001 - of three
) -> bool:
    """Tell whether a thread can't belong to the last dump."""
    last = dumps[-1] if dumps else None
    if last is None or not last.threads:
        return last is None
    is_known = any(thread.thread_id == thread_id for thread, _ in last.threads)
    return last.is_closed or not is_after_empty or is_known


def _unescape(text: str) -> str:
    r"""Return a text without escapes of faulthandler's, such as `\xe9` and `\u20ac`.

    On Windows a backslash may separate folders, and nothing can be told.
    """
    if os.sep != "/" or "\\" not in text:
        return text

    def unescape(escape: re.Match[str]) -> str:
        number = int(escape[1] or escape[2] or escape[3], 16)
        if number <= sys.maxunicode and chr(number).isprintable():
            return chr(number)
        return escape[0]

    return _ESCAPE.sub(unescape, text)


def _frame(function: str, path: str, line: Any) -> StackFrame:
    is_number = type(line) is int and 0 < line < _MAX_LINE_NUMBER
    return StackFrame(
        function=_clean(function, _MAX_NAME),
        path=_clean(path, _MAX_PATH),
        line=line if is_number else None,
    )


def _clean(text: str, most: int) -> str:
    """Return a text of one line, cut, without characters that a terminal would obey."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


# What py-spy writes, and this process's own frames.


def parse_py_spy(text: str) -> Stacks | None:
    """Return the stacks in the output of `py-spy dump --json`, or `None`."""
    if len(text) > MAX_STACKS_CHARACTERS:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, list):
        return None
    threads = [
        _thread_of_py_spy(fields)
        for fields in content[:_MAX_THREADS]
        if isinstance(fields, dict) and isinstance(fields.get("frames"), list)
    ]
    if threads:
        return Stacks(threads=tuple(threads), source="py-spy")
    return None


def _thread_of_py_spy(fields: dict[str, Any]) -> Thread:
    frames = []
    for frame in fields["frames"][:_MAX_FRAMES]:
        if not isinstance(frame, dict):
            continue
        function = frame.get("name")
        path = frame.get("filename")
        if isinstance(function, str) and isinstance(path, str):
            frames.append(_frame(function, path, frame.get("line")))
    name = fields.get("thread_name")
    number = fields.get("thread_id")
    is_id = type(number) is int and number.bit_length() <= 64
    owns_gil = fields.get("owns_gil")
    return Thread(
        name=_clean(name, _MAX_NAME) if isinstance(name, str) else None,
        thread_id=number if is_id else None,
        owns_gil=owns_gil if isinstance(owns_gil, bool) else None,
        frames=tuple(frames),
    )


def current_frames_stacks(*, without: Collection[int | None] = ()) -> Stacks | None:
    """Return the stacks of this very process.

    Args:
        without: ids of threads to leave out, such as the one that asks.
    """
    from traceback import walk_stack

    # Past the properties: a class of the user's may have others.
    fields = [vars(thread) for thread in threading.enumerate()]
    names = {thread["_ident"]: thread["_name"] for thread in fields}
    current = sys._current_frames()  # noqa: SLF001 - the only way to other threads
    threads = []
    for number, innermost in islice(current.items(), _MAX_THREADS):
        if number in without:
            continue
        frames = []
        for frame, line in islice(walk_stack(innermost), _MAX_FRAMES):
            code = frame.f_code
            frames.append(_frame(code.co_qualname, code.co_filename, line))
        thread = Thread(
            name=names.get(number),
            thread_id=number,
            frames=tuple(frames),
        )
        threads.append(thread)
    if not threads:
        return None
    return Stacks(threads=tuple(threads), source="current frames")


_MAX_COMPLAINT: Final = 4096
_MAX_REASON: Final = 200
_LOOK_SECONDS: Final = 0.005
_QUIET_SECONDS: Final = 0.03
"""faulthandler doesn't say when it is done; it takes a millisecond for the stacks of a
pytest."""

_TASKS_SECONDS: Final = 0.5
"""How long a process may take that waits in a selector."""

_LOCK: Final = struct.Struct("=QQi")
"""Interval in microseconds, address of a thread's state, 1 if it is held."""
_File = tuple[str, str]
"""Device and inode."""
_Mapping = tuple[int, int, _File]
"""Start and end of a part of a process's memory, and the file that is mapped there."""
_MAX_RUNTIME_BYTES: Final = 1 << 20
"""`_PyRuntime` has 100 KiB to 750 KiB."""
_LOOKS_AT_LOCK: Final = 3
_LOOK_AT_LOCK_SECONDS: Final = 0.01


# Its stacks.


class NoStacksError(Exception):
    """The stacks of a process can't be read; says why."""


def read_stacks(
    process_id: int, dump: Path, number: int, seconds: float = 2.0
) -> Stacks:
    """Return the stacks of a process that is blocked or frozen.

    py-spy reads them where it is installed and allowed to. Or else the process is asked
    to write them, which faulthandler does in a signal handler without the GIL. Don't
    ask a process that is busy: its stacks change while they are written.

    Args:
        process_id: the process.
        dump: the file that it writes its own stacks to. What is read is removed from
            it.
        number: the signal that `prepare_to_be_read` returned in that process; 0 for
            none.
        seconds: how long each of both may take.

    Raises:
        NoStacksError: if neither works.
    """
    try:
        return _ask_py_spy(process_id, seconds)
    except (NoStacksError, OSError) as error:
        reason = _reason_of(error)
    try:
        return _ask_itself(process_id, dump, number, seconds)
    except (NoStacksError, OSError) as error:
        raise NoStacksError(f"{reason}; {_reason_of(error)}") from None


def _reason_of(error: Exception) -> str:
    strerror = None
    if isinstance(error, OSError):
        strerror = error.strerror
    return strerror or str(error)


def read_tasks(process_id: int, dump: Path, number: int) -> Stacks | None:
    """Return where the tasks of a process wait that stands in an asyncio loop.

    Args:
        process_id: the process.
        dump: as for `read_stacks`.
        number: the signal at which it writes that; 0 for none.
    """
    with suppress(OSError, NoStacksError):
        return _ask_itself(process_id, dump, number, _TASKS_SECONDS)
    return None


def _ask_py_spy(process_id: int, seconds: float) -> Stacks:
    # Here, because what completes a report parses stacks, too, and starts no py-spy.
    from pytest_failure_taxonomy.survive.writer import find_py_spy

    program = find_py_spy()
    if program is None:
        raise NoStacksError("py-spy is not installed")
    deadline = time.monotonic() + seconds
    child = subprocess.Popen(  # noqa: S603 - the arguments are ours
        [program, "dump", "--nonblocking", "--json", "--pid", str(process_id)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A process group of its own, which is killed at the end.
        start_new_session=True,
    )
    assert child.stdout is not None  # noqa: S101 - both are pipes
    assert child.stderr is not None  # noqa: S101 - likewise
    output = bytearray()
    complaint = bytearray()
    # Not by `communicate`, which has no limit to what it reads.
    pipes = (
        (child.stdout, output, MAX_STACKS_CHARACTERS),
        (child.stderr, complaint, _MAX_COMPLAINT),
    )
    try:
        with selectors.DefaultSelector() as selector:
            for pipe, content, most in pipes:
                selector.register(pipe, selectors.EVENT_READ, (content, most))
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise NoStacksError(f"py-spy took more than {seconds:g} s")
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    content, most = key.data
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif len(content) + len(piece) <= most:
                        content += piece
                    elif content is output:
                        raise NoStacksError("py-spy printed too much")
    finally:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.stderr.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    stacks = parse_py_spy(output.decode("utf-8", "replace"))
    if stacks is not None and any(thread.frames for thread in stacks.threads):
        return stacks
    words = " ".join(complaint.decode("utf-8", "replace").split())[:_MAX_REASON]
    raise NoStacksError(f"py-spy: {words}" if words else "py-spy printed no stacks")


def _ask_itself(process_id: int, dump: Path, number: int, seconds: float) -> Stacks:
    if not number:
        raise NoStacksError("the process does not write its stacks itself")
    with closing_descriptor(os.open(dump, os.O_RDWR | CAREFUL)) as descriptor:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise NoStacksError("what should be the file for its stacks is none")
        _send_if_sure(process_id, number, before)
        start = before.st_size
        _wait_until_quiet(descriptor, start, seconds)
        content = os.pread(descriptor, MAX_STACKS_CHARACTERS, start)
        # What the process writes at its end is read apart from this.
        with suppress(OSError):
            os.ftruncate(descriptor, start)
    stacks = parse_faulthandler(content.decode("utf-8", "replace"))
    if stacks is None:
        raise NoStacksError(
            f"the process did not write its stacks within {seconds:g} s"
        )
    return stacks


def _wait_until_quiet(descriptor: int, start: int, seconds: float) -> None:
    """Wait until a file has grown from a size and grows no more."""
    now = time.monotonic()
    deadline = now + seconds
    size = start
    changed = now
    while now < deadline:
        size_now = os.fstat(descriptor).st_size
        if size_now != size:
            size = size_now
            changed = now
        elif size > start and now - changed > _QUIET_SECONDS:
            return
        time.sleep(_LOOK_SECONDS)
        now = time.monotonic()


def _send_if_sure(process_id: int, number: int, file: os.stat_result) -> None:
    """Send a process the signal, if it is sure that this makes it write to the file.

    Without a handler the signal would end the process. And a test may have closed the
    descriptor and opened a file of its own under that number.

    Raises:
        OSError: if the process is gone, or it can't be known.
        NoStacksError: if it is not so.
    """
    with closing_descriptor(os.pidfd_open(process_id)) as process:
        if not has_process(process_id):
            raise NoStacksError("the process has ended")
        if fields_of(process_id)[:1] in ([b"T"], [b"t"]):
            raise NoStacksError("the process is stopped")
        if not _has_open(process_id, file):
            raise NoStacksError("the process has closed the file for its stacks")
        if not catches(process_id, number):
            raise NoStacksError(
                "the process no longer writes its stacks when it is asked to"
            )
        if not is_restarted(process_id) and is_gil_held(process_id):
            raise NoStacksError(
                "the process is in a C function that a signal might end early"
            )
        signal.pidfd_send_signal(process, number)


def _has_open(process_id: int, file: os.stat_result) -> bool:
    folder = f"/proc/{process_id}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):
            if identity_of(os.stat(f"{folder}/{name}")) == identity_of(file):
                return True
    return False


# Its GIL. To tell who holds it takes three words of the memory of the process, which
# the system lets root read, and the same user unless the security module Yama forbids
# it. Where they lie is found in this very process, which has to run the same program:
# the lock is a part of `_PyRuntime`, where CPython has the interval of switches, the
# thread that was the last to hold it, and whether it is held (`struct
# _gil_runtime_state`; 3.11 to 3.13).


def is_gil_held(process_id: int) -> bool | None:
    """Tell whether one thread of a process holds the GIL for 20 ms without a break.

    Of a process that uses no CPU time it is one that waits in a C function.

    Returns:
        `None` if it can't be known: on another system than Linux, of another program
        than this one, without the right to read its memory, or of a Python without a
        GIL.
    """
    try:
        place = _place_of_lock()
        if place is None:
            return None
        file, offset = place
        base = _base_of(file, _mappings(process_id))
        readings = set()
        with open(f"/proc/{process_id}/mem", "rb", buffering=0) as memory:
            for look in range(_LOOKS_AT_LOCK):
                time.sleep(_LOOK_AT_LOCK_SECONDS if look else 0)
                content = os.pread(memory.fileno(), _LOCK.size, base + offset)
                interval, holder, is_held = _LOCK.unpack(content)
                if is_held not in (0, 1) or not 0 < interval < 1 << 40:
                    return None
                readings.add((holder, is_held))
    except (OSError, ValueError, OverflowError, struct.error):
        return None
    return len(readings) == 1 and readings.pop()[1] == 1


@lru_cache(maxsize=1)
def _place_of_lock() -> tuple[_File, int] | None:
    """Return the interpreter's file, and the place of the lock relative to it."""
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        return None
    if sys.maxsize < 1 << 32:  # other sizes, below and in the call of the C library
        return None
    import ctypes

    try:
        runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        state = ctypes.pythonapi.PyThreadState_Get
    except (ValueError, AttributeError):
        return None
    state.restype = ctypes.c_size_t
    mappings = _mappings(os.getpid())
    file = None
    for start, end, mapped in mappings:
        if start <= runtime < end:
            file = mapped
            break
    if file is None:
        return None
    interval = round(sys.getswitchinterval() * 1e6)
    lock = _LOCK.pack(interval, state(), 1)
    # By a system call, which ends at what can't be read, where an access would end the
    # process; and by ctypes, because `os.pread` releases the GIL meanwhile.
    pread = ctypes.PyDLL(None).pread
    pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    buffer = ctypes.create_string_buffer(_MAX_RUNTIME_BYTES)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        length = pread(memory.fileno(), buffer, _MAX_RUNTIME_BYTES, runtime)
    content = buffer.raw[: max(0, length)]
    if content.count(lock) != 1:
        return None
    return file, runtime + content.find(lock) - _base_of(file, mappings)


def _base_of(file: _File, mappings: Sequence[_Mapping]) -> int:
    """Return where a file is mapped first; raises ValueError if it is not."""
    return min(start for start, _, mapped in mappings if mapped == file)


def _mappings(process_id: int) -> list[_Mapping]:
    """Return the parts of a process's memory."""
    mappings = []
    with open(f"/proc/{process_id}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            addresses, _, _, device, inode, *_ = line.split()
            start, _, end = addresses.partition("-")
            mappings.append((int(start, 16), int(end, 16), (device, inode)))
    return mappings
