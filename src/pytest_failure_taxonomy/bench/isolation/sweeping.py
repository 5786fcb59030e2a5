"""Kill what is left of a case's processes, and remove what is left of its files."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from . import wire

_SECONDS_TO_DIE = 2.0


def kill_group(process_id: int) -> None:
    """Kill a child and all of the process group that it leads."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(process_id, signal.SIGKILL)


def children() -> list[int]:
    """Return the ids of this process's children, adopted ones too; empty where `/proc` is not."""
    try:
        with open("/proc/thread-self/children", "rb", buffering=0) as file:
            return [int(word) for word in file.read(1 << 20).split()]
    except OSError:
        return _children_by_search()


def _children_by_search() -> list[int]:
    found = []
    with suppress(OSError):
        own = str(os.getpid()).encode()
        for entry in os.listdir("/proc"):
            with suppress(OSError, IndexError):
                if entry.isdigit():
                    with open(f"/proc/{entry}/stat", "rb") as file:
                        if file.read().rpartition(b") ")[2].split()[1] == own:
                            found.append(int(entry))
    return found


def ended_children(before: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """Wait for each child that has ended; yield its id and status.

    Args:
        before: called with the id while it can't yet be another process's.
    """
    while True:
        try:
            if hasattr(os, "waitid"):
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return
                before(ended.si_pid)
                yield os.waitpid(ended.si_pid, 0)
            else:  # macOS before Python 3.13
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if not process_id:
                    return
                before(process_id)
                yield process_id, status
        except ChildProcessError:
            return


def kill_and_wait(child: int) -> None:
    """End a child for good; its own children come to us by that."""
    kill_group(child)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def kill_children() -> None:
    """Kill all children, and theirs as they come to us; give up after two seconds."""
    until = time.monotonic() + _SECONDS_TO_DIE
    while time.monotonic() < until and (left := children()):
        for child in left:
            kill_and_wait(child)


def kill_marked(mark: str) -> None:
    """Kill the processes that a server has left behind: those that had `mark` when they started."""
    wanted = f"{wire.MARK}={mark}".encode()
    until = time.monotonic() + _SECONDS_TO_DIE
    while _kill_once(wanted) and time.monotonic() < until:
        time.sleep(0.005)


def _kill_once(wanted: bytes) -> bool:
    found = False
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            with suppress(OSError):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    is_marked = wanted in file.read().split(b"\0")
                if is_marked:
                    found = True
                    os.kill(int(entry), signal.SIGKILL)
    return found


def remove_folder(folder: str) -> None:
    """Remove a folder of ours with all that a rubric has put there, whatever its modes are.

    A rubric may have put a link in the folder's place, or in it; none is followed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _open_up(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: str) -> None:
    """Let this user enter a folder and all that are in it."""
    waiting = [] if os.path.islink(folder) else [folder]
    while waiting:
        path = waiting.pop()
        with suppress(OSError):
            os.chmod(path, 0o700)
            with os.scandir(path) as entries:
                waiting += [each.path for each in entries if each.is_dir(follow_symlinks=False)]


def remove_case_folder(folder: str) -> None:
    """Remove the folder of a case, which nearly always is as it was made."""
    try:
        os.rmdir(f"{folder}/work")
        os.rmdir(folder)
    except OSError:
        remove_folder(folder)
