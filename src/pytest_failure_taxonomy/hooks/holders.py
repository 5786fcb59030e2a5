"""Find which process of the run holds the address or locked file that a test needs.

Imported when a test fails of that, on Linux alone. Other processes are asked for
nothing: `/proc` says who listens, who has a lock, and what each process has open.
"""

from __future__ import annotations

import ast
import linecache
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from pytest_failure_taxonomy.hooks.inspection import attribute_of
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import worker_of
from pytest_failure_taxonomy.system.process import descendants, read, read_text

MAX_PROCESSES: Final = 100
MAX_DESCRIPTORS: Final = 2_000
"""The processes that are looked at, and the descriptors of each."""
MAX_SECONDS: Final = 0.5
"""How long all of it may take."""
_LISTENS: Final = "0A"
"""The state of a socket in `/proc/net/tcp`; that of a socket for datagrams is
another."""
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


class Family:
    """The processes of a run: its workers or its one pytest, and their children."""

    def __init__(self, record: Path | None, starters: Mapping[int, str]) -> None:
        """Find them.

        Args:
            record: the folder of the run's record, if this process is a worker of it.
            starters: the tests that have started the children of this process and left
                them, by process id.
        """
        self._deadline = time.monotonic() + MAX_SECONDS
        own = os.getpid()
        self._names: dict[int, str] = {own: "this process still holds it"}
        if record is not None:
            for process_id, worker in _workers(record):
                words = f"another worker of this run holds it ({worker})"
                self._names.setdefault(process_id, words)
        for started, nodeid in starters.items():
            words = f"a process that {nodeid} has started holds it"
            for process_id in (started, *descendants(started)[:MAX_PROCESSES]):
                self._names.setdefault(process_id, words)
        words = "a process that this run has started holds it"
        for process_id in [*self._names]:
            for child in descendants(process_id)[:MAX_PROCESSES]:
                self._names.setdefault(child, words)

    def holder_of_port(self, port: int) -> str:
        """Describe the process of the run that listens at a port; empty if none."""
        sockets = {f"socket:[{inode}]" for inode in _find_listeners(port)}
        if not sockets:
            # It is bound and does not listen, which no table shows.
            is_shared = any("worker" in words for words in self._names.values())
            return "likely another worker of this run holds it" if is_shared else ""
        for process_id, words in self._names.items():
            for _, link in self._list_open_files(process_id):
                if link in sockets:
                    return words
        return ""

    def holder_of_lock(self) -> tuple[str, str]:
        """Return a file opened here that another process has locked, and which."""
        own = os.getpid()
        files = self._files_of(own)
        others: dict[str, str] = {}
        for line in read_text("/proc/locks").splitlines():
            words = line.split()
            if len(words) < 6 or not words[4].isdigit():  # it waits for another one
                continue
            process_id = int(words[4])
            place = words[5]
            if process_id == own or process_id not in self._names:
                continue
            if place in files:
                return files[place], self._names[process_id]
            link = self._files_of(process_id).get(place)
            if link is not None:
                others[link] = self._names[process_id]
        # This process has closed the file since; it can only be that of the one lock.
        return next(iter(others.items())) if len(others) == 1 else ("", "")

    def _files_of(self, process_id: int) -> dict[str, str]:
        """Return the files that a process has open, by device and inode."""
        files = {}
        for descriptor, link in self._list_open_files(process_id):
            with suppress(OSError):
                status = os.stat(descriptor)
                major = os.major(status.st_dev)
                minor = os.minor(status.st_dev)
                files[f"{major:02x}:{minor:02x}:{status.st_ino}"] = link
        return files

    def _list_open_files(self, process_id: int) -> Iterator[tuple[str, str]]:
        """Yield what a process has open: a path to it, and what the system calls it."""
        folder = f"/proc/{process_id}/fd"
        with suppress(OSError):
            for name in islice(os.listdir(folder), MAX_DESCRIPTORS):
                if time.monotonic() > self._deadline:
                    return
                descriptor = f"{folder}/{name}"
                with suppress(OSError):
                    yield descriptor, os.readlink(descriptor)


def _workers(record: Path) -> Iterator[tuple[int, str]]:
    """Yield process id and name of each worker, by what it has recorded of itself."""
    with suppress(OSError):
        for name in os.listdir(record):
            worker = worker_of(name)
            page = read(str(record / name / layout.STATE), layout.PAGE)
            if worker and len(page) == layout.PAGE:
                _, process_id = layout.PROCESS.unpack_from(page, layout.PROCESS_AT)
                yield process_id, worker


def _find_listeners(port: int) -> set[str]:
    """Return the inodes of the sockets that listen at a port, whatever the address."""
    inodes = set()
    for table in _TABLES:
        for line in read_text(table, MAX_DESCRIPTORS * 200).splitlines()[1:]:
            words = line.split()
            is_listening = len(words) > 9 and words[3] == _LISTENS
            if is_listening and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add(words[9])
    return inodes


def address_in_call(entry: TracebackType) -> dict[str, str]:
    """Return the host and port with which a line calls, as in `bind((host, 80))`.

    Names are looked up in the frame, and no code runs. Nothing is returned for what is
    no plain text or number.
    """
    frame = entry.tb_frame
    call = _call_at(entry)
    if call is None or not call.args:
        return {}
    address = call.args[0]
    if not isinstance(address, ast.Tuple) or len(address.elts) < 2:
        return {}
    host = _plain_value(address.elts[0], frame)
    port = _plain_value(address.elts[1], frame)
    if type(port) is not int:
        return {}
    facts = {"port": str(port)}
    if type(host) is str:
        facts["host"] = host
    return facts


def _call_at(entry: TracebackType) -> ast.Call | None:
    """Return the call that an entry of a traceback is at, if it stands in one line."""
    code = entry.tb_frame.f_code
    # An instruction takes two bytes, and has one position.
    index = entry.tb_lasti // 2
    position = next(islice(code.co_positions(), index, None), None)
    if position is None or None in position:
        return None
    line, last_line, start, end = position
    if line is None or line != last_line:
        return None
    source = linecache.getline(code.co_filename, line)
    part = source.encode()[start:end].decode("utf-8", "replace")
    try:
        expression = ast.parse(part, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if isinstance(expression, ast.Call):
        return expression
    return None


def _plain_value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a constant, a name or an attribute; else `None`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return attribute_of(_plain_value(node.value, frame), node.attr)
    return None
