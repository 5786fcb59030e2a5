"""Record what tests did to the process that runs them, to explain later failures.

Three things are looked at. The working folder, after each test: that is one system call
of 0.6 µs, and an audit hook, say, would cost more for every file that is opened. A
fork: Python calls back in the child, and only there is it looked whether the child goes
on as a pytest. And what another process of the run holds: that is looked for when a
test fails of it, in `holders`.
"""

from __future__ import annotations

import mmap
import os

# Bound here, because a test may replace it in its module.
from contextlib import suppress
from os import getcwd
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.system.interpreter import call_after_fork

_LENGTH_BYTES: Final = 2
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

    def returned_fork(self) -> str:
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
        forked = self.returned_fork()
        if forked and self.running != forked:
            history["forked_in"] = forked
        file = facts.get("filename", "")
        if facts.get("errno") == "2" and not os.path.isabs(file):
            history |= self._facts_of_folder(file)
        return history

    def _facts_of_folder(self, file: str) -> dict[str, str]:
        """Return who has changed the working folder, if a file is missing because of that."""
        if _folder_now() == _GONE:
            return {"folder_gone": "yes", "lost_by": self._words_of_loss()}
        is_elsewhere = bool(file) and os.path.lexists(os.path.join(self._first, file))
        if not (self._changed_by and is_elsewhere):
            return {}
        return {"folder_left": self._changed_by, "folder": self._folder}

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

        family = holders.Family(self.record)
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
