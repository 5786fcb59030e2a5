"""The operating system's side of a case: its limits, killing its processes, removing its files.

What an operating system does not offer is left out.
"""

from __future__ import annotations

import builtins
import gc
import math
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from . import wire

resource: Any  # imported here because it would cost each fork a millisecond
try:
    import resource
except ImportError:  # Windows
    resource = None

_PR_SET_PDEATHSIG = 1
_SIGKILL = int(getattr(signal, "SIGKILL", 9))  # Windows has none
_PR_SET_CHILD_SUBREAPER = 36
_MIB = 1 << 20

_LIMITS = ("AS", "CPU", "FSIZE", "NOFILE")

MAX_OPEN_FILES = 256
MAX_FILE_BYTES = 1 << 30
SPARE_CPU_SECONDS = 5
"""Added to the time limit; the CPU limit only matters if nobody is left to enforce that one."""


Limits = tuple[tuple[int, tuple[int, int]], ...]
"""As `resource.setrlimit` takes them: which, and its soft and hard value."""


@cache  # a server computes them, and its forks only set them
def limits_of_case(memory_mb: int, limit_seconds: float) -> Limits:
    """Return the limits of a process and its children.

    Args:
        memory_mb: Address space in MiB (macOS ignores it).
        limit_seconds: Wall-clock limit, from which the CPU limit is computed; 0 for no limit.
    """
    if resource is None:
        return ()
    wanted = {
        resource.RLIMIT_AS: memory_mb * _MIB,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
    }
    if limit_seconds:
        seconds = math.ceil(limit_seconds) * (os.cpu_count() or 1) + SPARE_CPU_SECONDS
        wanted[resource.RLIMIT_CPU] = seconds
    limits = []
    for which, most in wanted.items():
        with suppress(OSError, ValueError):  # a limit that this system does not have
            _, hard = resource.getrlimit(which)
            limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
            limits.append((which, (limit, limit)))
    return tuple(limits)


def limit_process(limits: Limits) -> None:
    """Set limits of this process and its children; those that the system refuses are left out."""
    for which, limit in limits:
        try:  # noqa: SIM105 - `suppress` would be more to touch for each fork
            resource.setrlimit(which, limit)
        except (OSError, ValueError):
            pass


_SIGNALS = (
    "SIGALRM",
    "SIGCHLD",
    "SIGHUP",
    "SIGINT",
    "SIGPIPE",
    "SIGTERM",
    "SIGUSR1",
    "SIGUSR2",
)


def surroundings() -> object:
    """Return what a system has around it in its process, to be compared after it has run.

    A case that changes it, or leaves a thread or a process, could reach the next one.
    """
    try:
        has_children = True
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except (
            ChildProcessError,
            AttributeError,
        ):  # macOS before Python 3.13 has no `waitid`
            has_children = False
        mask = os.umask(0o077)
        os.umask(mask)
        return (
            has_children,
            set(sys._current_frames()),  # noqa: SLF001 - threads that `threading` doesn't know, too
            os.getcwd(),
            _raw_environment(),
            mask,
            (sys.stdin, sys.stdout, sys.stderr),
            (sys.path[:], "sys" in sys.modules, len(vars(builtins))),
            (sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled()),
            (sys.gettrace(), sys.getprofile()),
            [os.fstat(each)[:3] for each in (0, 1, 2)],
            [signal.getsignal(getattr(signal, each)) for each in _SIGNALS],
            [signal.getitimer(each) for each in (0, 1, 2)],
            [
                resource.getrlimit(getattr(resource, f"RLIMIT_{each}"))
                for each in _LIMITS
            ],
        )
    except Exception:  # noqa: BLE001 - the folder or a stream is gone
        return object()  # like nothing else


def _raw_environment() -> dict[Any, Any]:
    """Return a copy of the environment that can be compared; to decode it takes 0.1 ms."""
    return dict(getattr(os.environ, "_data", os.environ))


def is_as_before(before: object) -> bool:
    """Tell whether a system has left its `surroundings` as they were; threads may be ending."""
    for pause_seconds in (0.001, 0.004, 0.015, 0.0):
        if surroundings() == before:
            return True
        time.sleep(pause_seconds)
    return False


@cache  # a server asks before it runs code of others, and its forks have the answer
def _prctl() -> Callable[..., int] | None:
    """Return the system call of Linux; `None` elsewhere."""
    if sys.platform.startswith("linux"):
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            call: Callable[..., int] = ctypes.CDLL(None).prctl
            return call
    return None


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, or exit if it is dead already."""
    if prctl := _prctl():
        prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    if prctl := _prctl():
        prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    if prctl := _prctl():
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def prefer_as_oom_victim() -> None:
    """Ask the kernel to kill this process rather than pytest when memory runs out."""
    with (
        suppress(OSError),
        open("/proc/self/oom_score_adj", "w", encoding="ascii") as file,
    ):
        file.write("500")


_SECONDS_TO_DIE = 2.0


def kill_group(process_id: int) -> None:
    """Kill a child and the process group that it leads."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(process_id, signal.SIGKILL)


def how_it_ended(returncode: int) -> str:
    """Return in words how a process ended.

    Args:
        returncode: As `subprocess` gives it: negative for a signal.
    """
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def children() -> list[int]:
    """Return the ids of this process's children, adopted ones included; empty without `/proc`."""
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


def ended_children(leaders: Container[int]) -> Iterator[tuple[int, int]]:
    """Reap each child that has ended; yield its id and status.

    Args:
        leaders: The ids of those whose group is killed before, while no other process can have it.
    """
    while True:
        try:
            if hasattr(os, "waitid"):
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                process_id, status = (0 if ended is None else ended.si_pid), None
            else:  # macOS before Python 3.13
                process_id, status = os.waitpid(-1, os.WNOHANG)
            if not process_id:
                return
            if process_id in leaders:
                kill_group(process_id)
            yield (
                (process_id, status)
                if status is not None
                else os.waitpid(process_id, 0)
            )
        except ChildProcessError:
            return


def kill_and_wait(child: int) -> None:
    """Kill and reap a child; this process adopts the children that it leaves."""
    kill_group(child)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def kill_children() -> None:
    """Kill all children, and theirs as they are adopted; give up after two seconds."""
    until = time.monotonic() + _SECONDS_TO_DIE
    while time.monotonic() < until and (left := children()):
        for child in left:
            kill_and_wait(child)


def kill_marked(mark: str) -> None:
    """Kill the processes that a server left behind: those with `mark` in their environment."""
    wanted = f"{wire.MARK}={mark}".encode()
    until = time.monotonic() + _SECONDS_TO_DIE
    is_any_left = True
    while is_any_left and time.monotonic() < until:
        is_any_left = False
        with suppress(OSError):
            for entry in os.listdir("/proc"):
                if not entry.isdigit() or int(entry) == os.getpid():
                    continue
                with suppress(OSError):
                    with open(f"/proc/{entry}/environ", "rb") as file:
                        is_marked = wanted in file.read().split(b"\0")
                    if is_marked:
                        is_any_left = True
                        os.kill(int(entry), signal.SIGKILL)
        if is_any_left:
            time.sleep(0.005)


def remove_folder(folder: str) -> None:
    """Remove one of our folders with all its content, whatever the file modes.

    A rubric may have replaced the folder by a link or put links into it; none is followed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    waiting = [] if os.path.islink(folder) else [folder]
    while waiting:  # give this user access to all folders in it
        path = waiting.pop()
        with suppress(OSError):
            os.chmod(path, 0o700)
            with os.scandir(path) as entries:
                waiting += [
                    each.path for each in entries if each.is_dir(follow_symlinks=False)
                ]
    shutil.rmtree(folder, ignore_errors=True)


_OUR_FOLDER_MODE = stat.S_IFDIR | 0o700


def create_case_folder(folder: str) -> None:
    """Create the folder of a case, and in it the one in which the case works.

    Raises:
        FileExistsError: Something is there already.
    """
    work = f"{folder}/work"
    try:
        os.mkdir(folder, 0o700)
        os.mkdir(work, 0o700)
    except FileNotFoundError:  # an earlier case removed the parent
        os.makedirs(work, 0o700)


def is_untouched(folder: str) -> bool:
    """Return whether the folder of a case is as it was created: empty, with the same modes."""
    try:
        return (
            os.listdir(folder) == ["work"]
            and not os.listdir(f"{folder}/work")
            and os.lstat(folder).st_mode == _OUR_FOLDER_MODE
            and os.lstat(f"{folder}/work").st_mode == _OUR_FOLDER_MODE
        )
    except OSError:
        return False


def remove_case_folder(folder: str) -> None:
    """Remove the folder of a case; nearly always it is as empty as it was created."""
    try:
        os.rmdir(f"{folder}/work")
        os.rmdir(folder)
    except OSError:
        remove_folder(folder)
