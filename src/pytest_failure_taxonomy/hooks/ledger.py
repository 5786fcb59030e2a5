"""Record what tests did to the process that runs them, to explain later failures.

After each test a few numbers are compared with those before it: the working folder, the
threads that run, the peak of memory, and what tells that there may be a new child. That
takes 3 µs. Only where a number has changed is it looked why. An audit hook, say, would
cost more for every file that is opened.

Of a fork Python calls back in the child, and only there is it looked whether the child
goes on as a pytest. What another process of the run holds is looked for when a test
fails of it, in `holders`.
"""

from __future__ import annotations

import mmap
import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

# Bound here, because a test may replace them in their module.
from contextlib import suppress
from functools import partial
from operator import attrgetter
from os import close, getcwd
from os import open as open_file
from os import read as read_file
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.survive.facts import growth_of_test
from pytest_failure_taxonomy.system.interpreter import call_after_fork
from pytest_failure_taxonomy.system.process import children_of, command_of, start_of
from pytest_failure_taxonomy.taxonomy.evidence import Change
from pytest_failure_taxonomy.taxonomy.values import replace

if sys.platform != "win32":
    from resource import RUSAGE_SELF, getrusage

    _usage_now: Callable[[], Sequence[Any]] = partial(getrusage, RUSAGE_SELF)
else:
    _usage_now = partial(bytes, 16)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.secrets import Secrets

_ACTIVE: Final[dict[int, threading.Thread]] = getattr(threading, "_active", {})
"""The running threads. `threading.enumerate` takes a lock for them."""
_number_of: Final = attrgetter("_native_id")
"""The number of a thread that the system gives it. That of Python is soon another's."""
_PEAK: Final = 2
_WAITS: Final = 14
"""Where `ru_maxrss` and `ru_nvcsw` stand in the usage of a process."""
_UNIT: Final = 1 if sys.platform == "darwin" else 1024
"""Bytes in one of `ru_maxrss`."""
_CHILDREN: Final = "/proc/thread-self/children"
_MAX_CHANGES: Final = 1_000
_MAX_DETAIL: Final = 200
_HELPERS: Final = (
    "from multiprocessing.resource_tracker ",
    "from multiprocessing.forkserver ",
)
"""How programs begin that multiprocessing starts once, for all that comes after."""

_LENGTH_BYTES: Final = 2
_NO_FORK: Final = bytes(_LENGTH_BYTES)
_MAX_NODEID_BYTES: Final = mmap.PAGESIZE - _LENGTH_BYTES
_IN_USE: Final = frozenset({"98", "48"})
"""EADDRINUSE of Linux and macOS."""
_LOCKED: Final = frozenset({"11", "35"})
"""EAGAIN of both, by which a lock is refused."""
_GONE: Final = ""
"""Stands for the path of a working folder that does not exist any more."""
_DELETED: Final = " (deleted)"
"""What Linux adds to the path of such a folder."""


class Ledger:
    """The changes that the tests of one process have made to it."""

    def __init__(self) -> None:
        self.running = ""
        """The test that runs."""
        self.tell: Callable[[Change], None] = lambda _: None
        """Writes a change to the record."""
        self.tell_peak: Callable[[int], None] = lambda _: None
        """Writes the peak of memory, in bytes, to the record."""
        self.secrets: Secrets | None = None
        self._changes: dict[tuple[str, int, str], Change] = {}
        self._has_begun = False
        self._threads: dict[int, Change | None] = {}
        self._children: dict[int, Change | None] = {}
        """Those that run, by number, with the change that each is; `None` for those
        that are nobody's."""
        self._new: list[Change] = []
        """Threads and children that were there when the last test ended."""
        self._listed_children = b""
        self._peak = 0
        self._waits = 0
        """How often the process has waited for anything so far; -1 if it has forked."""
        self.record: Path | None = None
        """The folder of the run's record, where this process is a worker on the same
        machine."""
        self._first = self._before = self._folder = _folder_now()
        """The working folder: at the start, before it was changed last, and now."""
        self._changed_by = ""
        """The test that has left it as it is; empty where it is the first one."""
        self._forked_in = ""
        """In a forked child: the test that has forked."""
        # Shared with forked children, which write the test into it when they come back.
        self._page: mmap.mmap | bytearray = bytearray(mmap.PAGESIZE)
        with suppress(OSError, MemoryError):
            self._page = mmap.mmap(-1, mmap.PAGESIZE)
        call_after_fork(self._begin_in_child)
        call_after_fork(self._see_child, where="after_in_parent")

    def start(self, nodeid: str) -> None:
        """Begin with a test; what was there before the first one is nobody's."""
        self.running = nodeid
        if self._new:
            self._see_new()
        if not self._has_begun:
            self._has_begun = True
            self._threads = dict.fromkeys(map(_number_of, _ACTIVE.values()))
            self._listed_children = _list_children(b"")
            self._children = dict.fromkeys(children_of(os.getpid()))
            self._see_peak(_usage_now()[_PEAK])

    def finish(self, nodeid: str) -> None:
        """Compare the process with what it was before this test."""
        if self._forked_in:
            self._come_back()
        self.running = ""
        folder = _folder_now()
        if folder != self._folder:
            self._before = self._folder
            self._folder = folder
            self._changed_by = "" if folder == self._first else nodeid
            if self._changed_by:
                words = folder or "deleted"
                self._keep(Change(nodeid=nodeid, what="folder", detail=words))
        if {*map(_number_of, _ACTIVE.values())} != self._threads.keys():
            threads = [*_ACTIVE.values()]
            names = {_number_of(thread): _name_of(thread) for thread in threads}
            self._compare(nodeid, "thread", self._threads, names)
        usage = _usage_now()
        # A child that isn't forked by Python delays its parent until its program runs.
        if usage[_WAITS] != self._waits:
            self._waits = usage[_WAITS]
            listed = _list_children(self._listed_children)
            if listed != self._listed_children:
                self._listed_children = listed
                self._compare(nodeid, "child", self._children, self._commands())
        peak = usage[_PEAK]
        if peak != self._peak:
            for grown in growth_of_test(nodeid, self._peak * _UNIT, peak * _UNIT):
                self._keep(grown)
            self._see_peak(peak)
        if self._page[:_LENGTH_BYTES] != _NO_FORK:
            self._see_fork()

    def changes(self) -> tuple[Change, ...]:
        """Return what tests did to this process so far, in order of occurrence."""
        self._see_new()
        self._see_fork()
        return tuple(self._changes.values())

    def starter_of(self, thread: int) -> str | None:
        """Return the test in which a thread was started; `None` for none."""
        change = self._threads.get(thread)
        return None if change is None else change.nodeid

    def _compare(
        self,
        nodeid: str,
        kind: Literal["thread", "child"],
        before: dict[int, Change | None],
        now: Mapping[int, str],
    ) -> None:
        """See which threads or children have ended, and which a test may have left.

        Args:
            nodeid: the test.
            kind: of what is compared.
            before: those before it, which becomes those now.
            now: what each is called; empty for those that are nobody's.
        """
        for number in [number for number in before if number not in now]:
            change = before.pop(number)
            if change is not None:
                self._keep(replace(change, is_over=True))
        for number, name in now.items():
            if number in before:
                continue
            before[number] = None
            if name:
                change = Change(nodeid=nodeid, what=kind, detail=name, number=number)
                self._new.append(change)

    def _see_new(self) -> None:
        """Keep the threads and children that still run, but no timer of a plugin."""
        threads = {*map(_number_of, _ACTIVE.values())}
        for change in self._new:
            number = change.number
            if change.what == "thread" and number in threads:
                self._threads[number] = self._keep(change)
            elif change.what == "child" and start_of(number) >= 0:
                self._children[number] = self._keep(change)
        self._new = []

    def _keep(self, change: Change) -> Change:
        if self.secrets is not None:
            change = replace(change, detail=self.secrets.redact(change.detail))
        change = replace(change, detail=change.detail[:_MAX_DETAIL])
        key = change.what, change.number, change.nodeid
        if key in self._changes or len(self._changes) < _MAX_CHANGES:
            self._changes[key] = change
            self.tell(change)
        return change

    def _commands(self) -> dict[int, str]:
        """Return the command lines of the children that run, by process id."""
        commands = {}
        for child in children_of(os.getpid()):
            words = _words_of(child)
            if start_of(child) < 0:
                continue
            if any(word.startswith(_HELPERS) for word in words):
                commands[child] = ""
                continue
            if self.secrets is not None:
                words = [*self.secrets.redact_arguments(words)]
            commands[child] = shlex.join(words) or f"process {child}"
        return commands

    def _see_peak(self, peak: int) -> None:
        self._peak = peak
        self.tell_peak(peak * _UNIT)

    def _see_fork(self) -> None:
        nodeid = self.find_returned_fork()
        if nodeid and ("forked", 0, nodeid) not in self._changes:
            words = "the child returned into pytest"
            self._keep(Change(nodeid=nodeid, what="forked", detail=words))

    def find_returned_fork(self) -> str:
        """Return the test whose forked child came back into pytest; empty for none."""
        length = int.from_bytes(self._page[:_LENGTH_BYTES], "little")
        content = self._page[_LENGTH_BYTES : _LENGTH_BYTES + length]
        return content.decode("utf-8", "replace")

    def facts_of(
        self, error: BaseException, message: str, facts: dict[str, str]
    ) -> dict[str, str]:
        """Return how a failure by a system error is related to the rest of the run.

        Args:
            error: has been raised.
            message: its text.
            facts: what is known of it.
        """
        history = self._facts_of_holder(error, message, facts)
        forked = self.find_returned_fork()
        if forked and self.running != forked:
            history["forked_in"] = forked
        file = facts.get("filename", "")
        if facts.get("errno") == "2" and not os.path.isabs(file):
            history |= self._facts_of_folder(file)
        return history

    def _facts_of_folder(self, file: str) -> dict[str, str]:
        """Return who changed the working folder if a file is missing for that."""
        if _folder_now() == _GONE:
            return {"folder_gone": "yes", "lost_by": self._words_of_loss()}
        if not file or not os.path.lexists(os.path.join(self._first, file)):
            return {}
        folder = _folder_now()
        who = self._changed_by
        if folder != self._folder:  # it was changed while this test ran
            threads = [change.nodeid for change in self._threads.values() if change]
            who = ""
            if threads:
                who = f"a thread that {threads[-1]} has started, or this test,"
        return {"folder_left": who, "folder": folder} if who else {}

    def _facts_of_holder(
        self, error: BaseException, message: str, facts: dict[str, str]
    ) -> dict[str, str]:
        """Return who of this run holds an address, or has a file locked."""
        number = facts.get("errno")
        is_in_use = number in _IN_USE
        is_locked = number in _LOCKED
        if number is None:
            is_locked = "locked" in message
        if not (is_in_use or is_locked):
            return {}
        from pytest_failure_taxonomy.hooks import holders

        starters = {
            number: change.nodeid
            for number, change in self._children.items()
            if change is not None
        }
        family = holders.Family(self.record, starters)
        if not is_in_use:
            file, words = family.holder_of_lock()
            if file:
                return {"locked": file, "held_by": words}
            return {}
        entries = inspection.entries_of(error)
        if "port" not in facts and entries:
            facts = holders.address_in_call(entries[-1])
        port = facts.get("port", "")
        words = ""
        if port.isdigit():
            words = family.holder_of_port(int(port))
        if words:
            return facts | {"held_by": words}
        return {**facts}

    def _words_of_loss(self) -> str:
        """Say who has lost the working folder, as far as that is known."""
        who = self._changed_by
        before = self._before
        if self._folder != _GONE:  # the test that runs has not been compared yet
            who = self.running
            before = self._folder
        try:
            path = os.readlink("/proc/self/cwd").removesuffix(_DELETED)
        except OSError:  # another system than Linux
            return f"since {who}" if who else ""
        if not who:
            return ""
        if path == before:
            return f"{who} deleted it"
        return f"{who} had changed to it"

    def _see_child(self) -> None:
        self._waits = -1

    def _begin_in_child(self) -> None:
        self._forked_in = self.running

    def _come_back(self) -> None:
        """Tell the parent that this child goes on as a pytest."""
        encoded = self._forked_in.encode("utf-8", "replace")[:_MAX_NODEID_BYTES]
        self._page[_LENGTH_BYTES : _LENGTH_BYTES + len(encoded)] = encoded
        # Last: with it the name counts.
        self._page[:_LENGTH_BYTES] = len(encoded).to_bytes(_LENGTH_BYTES, "little")
        self._forked_in = ""


def _folder_now() -> str:
    try:
        return getcwd()
    except OSError:
        return _GONE


def _name_of(thread: threading.Thread) -> str:
    """Return the name of a thread; empty for one that Python has not started."""
    if isinstance(thread, threading._DummyThread):  # noqa: SLF001 - the only way
        return ""
    return str(vars(thread)["_name"])  # past the property: a class may have another


def _words_of(child: int) -> list[str]:
    """Return the words of a child's command line; wait 5 ms for it if need be."""
    words: list[str] = []
    for _ in range(5):
        words = [word for word in command_of(child) if word]
        if words or start_of(child) < 0:
            break
        sleep(0.001)
    return words


if sys.platform == "linux":
    from os import P_ALL, WEXITED, WNOHANG, WNOWAIT, waitid

    _LOOKS_ONLY: Final = WEXITED | WNOHANG | WNOWAIT

    def _list_children(before: bytes) -> bytes:
        """Return the children of this thread as the system lists them.

        Whether there is any at all is a fifth of that work. Children of other threads
        stand for a byte.

        Args:
            before: what to return where no file can be opened.
        """
        try:
            waitid(P_ALL, 0, _LOOKS_ONLY)
            descriptor = open_file(_CHILDREN, os.O_RDONLY | os.O_CLOEXEC)
        except ChildProcessError:
            return b""
        except OSError:
            return before
        try:
            return read_file(descriptor, mmap.PAGESIZE) or b"?"
        finally:
            close(descriptor)

else:

    def _list_children(before: bytes) -> bytes:
        """Return nothing: only Linux lists them."""
        return before
