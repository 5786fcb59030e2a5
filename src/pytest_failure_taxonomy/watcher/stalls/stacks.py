"""The stacks of a process as values: parsed from what faulthandler or py-spy writes, and worded.

What is parsed may come from anywhere, because a test may have written to the file, and a program
called py-spy may be any. So sizes are capped, and what is no stack is passed over.

The formats of faulthandler are those of CPython's `Python/traceback.c` and `Modules/faulthandler.c`
from 3.11 to 3.15.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import threading
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from pytest_failure_taxonomy.recorder.origin import is_of_the_user, is_own, location
from pytest_failure_taxonomy.system.files import read_file
from pytest_failure_taxonomy.taxonomy.evidence import Location
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import and_more

Source = Literal["py-spy", "faulthandler", "current frames"]

MAX_SHOWN_FRAMES: Final = 40
"""Frames of a thread that are shown, the deepest first."""
MAX_STACKS_CHARACTERS: Final = 4 * 1024 * 1024
"""More than a hundred threads with a hundred frames each, which is all that faulthandler writes."""

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
_FRAME: Final = re.compile(r'  File (?:"(.*)"|\?\?\?), line ([0-9]{1,10}|\?\?\?) in (.*)')
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")

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


@value
class Thread:
    """One thread and what it is at."""

    name: str | None
    thread_id: int | None
    """As in `threading.get_ident`."""
    is_current: bool = False
    """faulthandler's handler ran in it: the thread that crashed, or the one that took a signal."""
    owns_gil: bool | None = None
    """`None` where the source doesn't say."""
    frames: tuple[StackFrame, ...]
    """The deepest first."""

    def own_place(self, rootdir: Path) -> Location | None:
        """Return the innermost line of the user's own code."""
        frame = next((each for each in self.frames if _is_own(each, rootdir)), None)
        return None if frame is None else location(frame.path, frame.line, rootdir)

    def text(self) -> str:
        """Return the stack to be read by people, in Python's own form, the deepest frame first."""
        words = ["Current thread" if self.is_current else "Thread"]
        if self.name is not None:
            words.append(self.name)
        elif self.thread_id is not None:
            words.append(f"{self.thread_id:#x}")
        if self.owns_gil:
            words.append("(holds the GIL)")
        lines = [f"{' '.join(words)}, most recent call first:"]
        for frame in self.frames[:MAX_SHOWN_FRAMES]:
            line = "?" if frame.line is None else frame.line
            lines.append(f'  File "{frame.path}", line {line}, in {frame.function}')
        if rest := and_more(len(self.frames) - MAX_SHOWN_FRAMES):
            lines.append(f"  ...{rest}")
        return "\n".join(lines if self.frames else [*lines, "  no Python code"])


@value
class Stacks:
    """The threads of a process, in the order of their source."""

    threads: tuple[Thread, ...]
    c_frames: tuple[str, ...] = ()
    """The C stack of the current thread, the deepest first, as Python 3.14 and newer print it."""
    source: Source

    @property
    def main(self) -> Thread:
        """The thread that runs the tests.

        That is the one with most frames of pytest, or else the main thread, or else the current
        one. faulthandler lists the main thread last.
        """
        runners = [
            sum(any(part in frame.path for part in _RUNNER) for frame in thread.frames)
            for thread in self.threads
        ]
        if max(runners):
            return self.threads[runners.index(max(runners))]
        for thread in self.threads:
            if thread.name == _MAIN_THREAD:
                return thread
        return self.current or self.threads[-1]

    @property
    def current(self) -> Thread | None:
        """The thread that crashed or took the signal, where the source says so."""
        return next((thread for thread in self.threads if thread.is_current), None)

    def own_call(self, rootdir: Path) -> str | None:
        """Return the innermost line of the user's own code in that thread, with the function.

        As in `tests/conftest.py:217 in wait_for_log`.
        """
        frame = next((each for each in self.main.frames if _is_own(each, rootdir)), None)
        if frame is None:
            return None
        place = location(frame.path, frame.line, rootdir)
        return f"{place.path}:{place.line} in {_short(frame.function)}"

    def where(self, rootdir: Path) -> str | None:
        """Return what the thread that runs the tests is at: `acquire (tests/test_x.py:6)`.

        The function is the one that the innermost line of the user's own code calls. That may be
        one in C, which has no frame; its name is read from the line then. Where the line calls
        several functions, the user's own function is named. Without own code it is the innermost
        function.
        """
        frames = self.main.frames
        if not frames:
            return None
        own = (index for index, each in enumerate(frames) if _is_own(each, rootdir))
        index = next(own, None)
        frame = frames[index or 0]
        if index:
            called = _short(frames[index - 1].function)
        else:
            called = (index == 0 and _call_at(frame)) or _short(frame.function)
        place = location(frame.path, frame.line, rootdir)
        return f"{called} ({place.path}:{place.line})" if place.line else f"{called} ({place.path})"

    def text(self, max_characters: int) -> str:
        """Return the stacks to be read by people, that of the thread that runs the tests first.

        What is beyond the characters is left out, and a last line says so.
        """
        main = self.main
        blocks = [main.text(), *(each.text() for each in self.threads if each is not main)]
        if self.c_frames:
            blocks.insert(1, "\n".join(["C stack of the current thread:", *self.c_frames]))
        text = "\n\n".join(blocks)
        if len(text) <= max_characters:
            return text
        end = "\n... cut"
        kept = text[: max(0, max_characters - len(end))]
        return (kept.rpartition("\n")[0].rstrip("\n") + end)[:max_characters]


def _is_own(frame: StackFrame, rootdir: Path) -> bool:
    return is_of_the_user(frame.path) and is_own(frame.path, rootdir)


def _short(function: str) -> str:
    """Return the last part of a qualified name: faulthandler gives nothing else."""
    return function.rpartition(".")[2] or function


# The name of a call into C.


def _call_at(frame: StackFrame) -> str | None:
    """Return the name of the one function that a line of source calls, or `None`."""
    if frame.line is None:
        return None
    try:
        content = read_file(frame.path, _MAX_SOURCE_BYTES + 1)
        if len(content) > _MAX_SOURCE_BYTES:
            return None
        names = list(islice(_calls_on_line(ast.parse(content), frame.line), 2))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return names[0] if len(names) == 1 else None


def _calls_on_line(tree: ast.AST, line: int) -> Iterator[str | None]:
    """Yield what is called on a line, but for calls in functions that are only made there."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        first, last = getattr(node, "lineno", line), getattr(node, "end_lineno", line)
        if not first <= line <= last and not isinstance(node, ast.Module):
            continue
        called = node.func if isinstance(node, ast.Call) else None
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

    A text may hold several dumps. The first one of a fatal error counts, or else the last one.

    Args:
        text: what was written, maybe among other things; beyond 4 MiB it isn't read.
    """
    reader = _FaulthandlerReader()
    for line in text[:MAX_STACKS_CHARACTERS].split("\n"):
        reader.read(line.removesuffix("\r"))
    dumps = [dump for dump in reader.dumps if dump.threads]
    if not dumps:
        return None
    dump = next((dump for dump in dumps if dump.is_fatal), dumps[-1])
    return Stacks(
        threads=tuple(replace(thread, frames=tuple(frames)) for thread, frames in dump.threads),
        c_frames=tuple(dump.c_frames),
        source="faulthandler",
    )


class _FaulthandlerReader:
    """Read dumps line by line.

    Between the threads of one dump there is an empty line, and none between two dumps.
    """

    def __init__(self) -> None:
        self.dumps: list[_Dump] = []
        self._reads: Literal["nothing", "frames", "C frames"] = "nothing"
        self._is_after_empty = True

    def read(self, line: str) -> None:
        """Read the next line."""
        if self._reads == "frames" and (found := _FRAME.fullmatch(line)):
            frames = self.dumps[-1].threads[-1][1]
            if len(frames) < _MAX_FRAMES:
                path, number, function = found.groups()
                place = int(number) if number.isdecimal() else None
                frames.append(_frame(_unescaped(function), _unescaped(path or "???"), place))
        elif self._reads == "C frames" and line.startswith("  "):
            if len(self.dumps[-1].c_frames) < _MAX_C_FRAMES:
                self.dumps[-1].c_frames.append(_clean(line, _MAX_PATH))
        elif not line.startswith("  "):
            self._read_header(line)
        self._is_after_empty = not line

    def _read_header(self, line: str) -> None:
        self._reads = "nothing"
        if _FATAL.match(line) or _TIMEOUT.fullmatch(line):
            self._begin_dump(is_fatal=not line.startswith("Timeout"))
        elif line == _NOT_ALL:
            if self._needs_dump(None):
                self._begin_dump(is_fatal=False)
        elif line == _C_STACK:
            if self.dumps and not self.dumps[-1].is_closed:
                self.dumps[-1].is_closed = True
                self._reads = "C frames"
        elif line == _ONE_STACK:
            self._begin_thread(None, None, is_current=True)
        elif found := _THREAD.fullmatch(line):
            kind, number, name = found.groups()
            thread_id = None if number is None or number[0] == "X" else int(number, 16)
            self._begin_thread(name, thread_id, is_current=kind == "Current thread")

    def _begin_thread(self, name: str | None, thread_id: int | None, *, is_current: bool) -> None:
        if self._needs_dump(thread_id):
            self._begin_dump(is_fatal=False)
        threads = self.dumps[-1].threads
        if len(threads) < _MAX_THREADS:
            shown = None if name is None else _clean(name, _MAX_NAME)
            thread = Thread(name=shown, thread_id=thread_id, is_current=is_current, frames=())
            threads.append((thread, []))
            self._reads = "frames"

    def _needs_dump(self, thread_id: int | None) -> bool:
        """Tell whether a thread can't belong to the last dump."""
        last = self.dumps[-1] if self.dumps else None
        if last is None or not last.threads:
            return last is None
        is_known = any(thread.thread_id == thread_id for thread, _ in last.threads)
        return last.is_closed or not self._is_after_empty or is_known

    def _begin_dump(self, *, is_fatal: bool) -> None:
        if len(self.dumps) > _MAX_DUMPS:
            # The first fatal one and the last one are what counts.
            del self.dumps[1 if self.dumps[0].is_fatal else 0 : _MAX_DUMPS // 2]
        self.dumps.append(_Dump(is_fatal=is_fatal))


def _unescaped(text: str) -> str:
    r"""Return a text with the characters for which faulthandler writes `\xe9`, `\u20ac` and so on.

    On Windows a backslash may separate folders, and nothing can be told.
    """

    def character(found: re.Match[str]) -> str:
        number = int(found[1] or found[2] or found[3], 16)
        character = chr(number) if number <= sys.maxunicode else ""
        return character if character.isprintable() and character else found[0]

    return _ESCAPE.sub(character, text) if os.sep == "/" and "\\" in text else text


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
    return "".join(each if each.isprintable() else "?" for each in text)


# What py-spy writes, and this process's own frames.


def parse_py_spy(text: str) -> Stacks | None:
    """Return the stacks that `py-spy dump --json` has printed, or `None` if that is none."""
    if len(text) > MAX_STACKS_CHARACTERS:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    threads = []
    for thread in found[:_MAX_THREADS] if isinstance(found, list) else ():
        if not isinstance(thread, dict) or not isinstance(thread.get("frames"), list):
            continue
        frames = []
        for frame in thread["frames"][:_MAX_FRAMES]:
            told = frame if isinstance(frame, dict) else {}
            function, path = told.get("name"), told.get("filename")
            if isinstance(function, str) and isinstance(path, str):
                frames.append(_frame(function, path, told.get("line")))
        name, number, owns_gil = map(thread.get, ("thread_name", "thread_id", "owns_gil"))
        threads.append(
            Thread(
                name=_clean(name, _MAX_NAME) if isinstance(name, str) else None,
                thread_id=number if type(number) is int and number.bit_length() <= 64 else None,
                owns_gil=owns_gil if isinstance(owns_gil, bool) else None,
                frames=tuple(frames),
            )
        )
    return Stacks(threads=tuple(threads), source="py-spy") if threads else None


def current_frames_stacks(*, without: Collection[int | None] = ()) -> Stacks | None:
    """Return the stacks of this very process.

    Args:
        without: ids of threads to leave out, such as the one that asks.
    """
    from traceback import walk_stack

    names = {vars(thread)["_ident"]: vars(thread)["_name"] for thread in threading.enumerate()}
    threads = tuple(
        Thread(
            name=names.get(number),
            thread_id=number,
            frames=tuple(
                _frame(below.f_code.co_qualname, below.f_code.co_filename, line)
                for below, line in islice(walk_stack(frame), _MAX_FRAMES)
            ),
        )
        for number, frame in islice(sys._current_frames().items(), _MAX_THREADS)  # noqa: SLF001 - there is no other way to see other threads
        if number not in without
    )
    return Stacks(threads=threads, source="current frames") if threads else None
