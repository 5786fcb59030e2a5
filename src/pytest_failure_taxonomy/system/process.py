"""Processes of this machine: their identity, limits, memory, parents and children.

Most of it is read from `/proc` and `/sys/fs/cgroup`, which only Linux has; elsewhere
the functions return no answer. The watcher asks as long as pytest lives, for the memory
once a second, so that nothing is imported here but what the interpreter has loaded
anyway.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time

TYPE_CHECKING = (
    False  # importing it from `typing` would take more memory than all the rest
)
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from typing import Any, TypedDict

    class Identity(TypedDict):
        """What distinguishes a process from a later one with the same id."""

        pid: int
        start_ticks: int | None
        """Its start in clock ticks since the boot; `None` if it can't be read."""
        boot_id: str | None
        """`None` if it can't be read."""

    class GivenTime(TypedDict):
        """A limit that the GNU `timeout` sets for what it runs."""

        pid: int
        """Of the command `timeout`."""
        budget_seconds: float
        started_ns: int
        """On the monotonic clock, to a precision of one clock tick (10 ms)."""


# Bound here, because a test may replace them in their module and never put them back.
_open, _read, _close, _listdir = os.open, os.read, os.close, os.listdir
_FLAGS = os.O_RDONLY
for _name in (
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "O_CLOEXEC",
):  # a test may put anything beside the record
    _FLAGS |= getattr(os, _name, 0)

_UNITS = {
    "": 1.0,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_OPTIONS_WITH_A_VALUE = frozenset(
    {
        "-k",
        "--kill-after",
        "-s",
        "--signal",
    }
)

_SHELLS = frozenset(
    {
        "bash",
        "dash",
        "fish",
        "ksh",
        "mksh",
        "sh",
        "tcsh",
        "zsh",
    }
)
_OPTIONS_WITH_A_FILE = frozenset({"--init-file", "--rcfile"})

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
"""From linux/prctl.h."""

_RESTARTED = (
    "futex", "do_wait", "pipe_", "unix_stream_", "sk_wait", "tcp_", "inet_csk_", "locks_", "flock_",
)  # fmt: skip
"""How the functions of Linux begin in which locks, children, pipes and sockets are
waited for."""

_MAX_COMMAND_BYTES = 1024 * 1024

MAX_ANCESTORS = 12
"""Ancestors among which a `timeout` command is looked for."""

CGROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
"""From here on a limit is none: what version 1 says for that is the largest number of
pages."""
_NAMES_V2 = ("memory.max", "memory.current", "memory.peak")
_NAMES_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
)
CACHE_SHARE = 0.8
"""The share of the limit from which on the cache of files is asked for and left out."""

PERIOD_SECONDS = 1.0
SHARE_OF_A_CORE = 0.001
"""How much of a core the looks may take; with many processes there are fewer looks."""
_PADDED_BYTES = 16_384
"""The length of what is written, so that nothing is left of what was written before."""
MAX_PROCESSES = 256
"""Processes that one look reads, and whose peaks are kept."""


def read(path: str, max_bytes: int = 65_536) -> bytes:
    """Return the beginning of a file; nothing if it can't be read."""
    try:
        descriptor = _open(path, _FLAGS)
    except OSError:
        return b""
    try:
        return _read(descriptor, max_bytes)
    except OSError:
        return b""
    finally:
        _close(descriptor)


def read_text(path: str, max_bytes: int = 65_536) -> str:
    """Return the same as a text."""
    return read(path, max_bytes).decode("utf-8", "replace")


def fields_of(process: int | str) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` after the name: state, parent, group and so on.

    The usual states are `R` running, `S` sleeping, `D` waiting for a disk, `T` stopped,
    `t` stopped by a debugger, `Z` ended. Field 19 is the start in clock ticks since the
    boot.
    """
    return read(f"/proc/{process}/stat", 4096).rpartition(b") ")[2].split()


def start_of(process_id: int) -> int:
    """Return when a process started, in clock ticks since the boot; -1 if it has ended."""
    fields = fields_of(process_id)
    if len(fields) <= 21 or fields[0] in _ENDED:
        return -1
    return int(fields[19])


def children_of(process_id: int) -> list[int]:
    """Return the children of a process, of all of its threads."""
    folder = f"/proc/{process_id}/task"
    try:
        threads = _listdir(folder)
    except OSError:
        return []
    children = []
    for thread in threads:
        numbers = read(f"{folder}/{thread}/children").split()
        children += [int(number) for number in numbers if number.isdigit()]
    return children


def read_identity(process_id: int) -> Identity:
    """Return the identity of a process."""
    fields = fields_of(process_id)
    return {
        "pid": process_id,
        "start_ticks": int(fields[19]) if fields else None,
        "boot_id": read_text("/proc/sys/kernel/random/boot_id").strip() or None,
    }


def is_alive(identity: Mapping[str, Any]) -> bool:
    """Tell whether the process with an identity still runs; a zombie does not."""
    process_id = identity["pid"]
    now = read_identity(process_id)
    if now["start_ticks"] not in (None, identity["start_ticks"]):
        return False
    return now["boot_id"] == identity["boot_id"] and has_process(process_id)


def has_process(process_id: int) -> bool:
    """Tell whether any process with a number runs; a zombie does not."""
    fields = fields_of(process_id)
    if fields:
        return fields[0] not in _ENDED
    if os.path.exists("/proc/self/stat") or process_id <= 0:
        return False
    if sys.platform == "win32":
        return _is_alive_on_windows(process_id)
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_alive_on_windows(process_id: int) -> bool:
    """Ask Windows. There `os.kill` with signal 0 would send a Ctrl+C."""
    import ctypes

    synchronize, timed_out = 0x0010_0000, 0x102  # winnt.h, winbase.h
    kernel: Any = getattr(ctypes, "windll").kernel32  # noqa: B009 - typed on Windows alone
    handle = kernel.OpenProcess(synchronize, False, process_id)  # noqa: FBT003 - a C function
    if not handle:
        return False
    try:
        return int(kernel.WaitForSingleObject(handle, 0)) == timed_out
    finally:
        kernel.CloseHandle(handle)


_ENDED = (b"Z", b"X")


def enclosing_limits(process_id: int) -> list[GivenTime]:
    """Return the limits of the GNU `timeout` commands that a process runs under."""
    limits: list[GivenTime] = []
    fields = fields_of(process_id)
    for _ in range(MAX_ANCESTORS):
        if not fields:
            break
        process_id = int(fields[1])
        fields = fields_of(process_id)
        if not fields or name_of(process_id) != "timeout":
            continue
        budget = _timeout_budget(command_of(process_id))
        if budget is None:
            continue
        seconds = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        # Start times count the time in which the machine was suspended, the clock does
        # not.
        seconds -= time.clock_gettime(time.CLOCK_BOOTTIME)
        seconds += time.clock_gettime(time.CLOCK_MONOTONIC)
        limits.append(
            {
                "pid": process_id,
                "budget_seconds": budget,
                "started_ns": int(seconds * 1e9),
            }
        )
    return limits


def _timeout_budget(arguments: list[str]) -> float | None:
    """Return the seconds that a `timeout` command allows; `None` if there is no limit."""
    import re

    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _OPTIONS_WITH_A_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            limit = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", argument)
            if limit is None:
                return None
            number, unit = limit.groups()
            return float(number) * _UNITS[unit] or None
    return None


def parent_behind_timeouts() -> int:
    """Return the id of the process that has started this one, or the GNU `timeout` around it."""
    parent = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if name_of(parent) != "timeout" or not (fields := fields_of(parent)):
            break
        parent = int(fields[1])
    return parent


def has_ancestor(process_id: str) -> bool:
    """Tell whether a process is above this one; true where the system doesn't say so."""
    if not os.path.exists("/proc/self/stat"):
        return True
    parent = str(os.getppid())
    while parent != process_id and (fields := fields_of(parent)):
        parent = fields[1].decode()
    return parent == process_id


def name_of(process_id: int) -> str | None:
    """Return the name of a process, as `ps` shows it; `None` if it is gone."""
    return read_text(f"/proc/{process_id}/comm").strip() or None


def command_of(process_id: int) -> list[str]:
    """Return the words of a process's command line; none of them if it is gone."""
    return read_text(f"/proc/{process_id}/cmdline", _MAX_COMMAND_BYTES).split("\0")


def catches(process_id: int, number: int) -> bool | None:
    """Tell whether a process has a handler for a signal; `None` if that can't be known."""
    status = read_text(f"/proc/{process_id}/status")
    words = status.partition("\nSigCgt:")[2].split(None, 1)
    if not words:
        return None
    mask = int(words[0], 16)
    return bool(mask >> (number - 1) & 1)


def is_restarted(process_id: int) -> bool:
    """Tell whether the main thread waits in a system call that goes on after a signal's handler.

    Calls that sleep or poll don't; nor is it known of those that have no name here.
    """
    return read_text(f"/proc/{process_id}/wchan").startswith(_RESTARTED)


def descendants(process_id: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    parents: dict[int, list[int]] = {}
    for entry in entries:
        fields = fields_of(int(entry)) if entry.isdigit() else []
        if fields:
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found = []
    waiting = [process_id]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def outlives_this_process(descriptor: int) -> bool:
    """Tell whether a stream surely stays open for others when this process has ended.

    A terminal is hung up when the leader of its session ends: by `ssh -t host pytest`
    that is this process, and by `docker run -it image sh -c "pytest"` one that ends
    right after it. An interactive shell goes on.
    """
    if not os.isatty(descriptor) or not hasattr(os, "getsid"):
        return True
    return is_interactive_shell(command_of(os.getsid(0)))


def is_interactive_shell(command: list[str]) -> bool:
    """Tell whether a command line is a shell's without a script or a command to run."""
    if os.path.basename(command[0]).lstrip("-") not in _SHELLS:
        return False
    before = ""
    for word in filter(None, command[1:]):
        if before not in _OPTIONS_WITH_A_FILE:
            if not word.startswith("-"):
                return False
            letters = word[1:]
            if letters.islower() and letters.isalpha() and "c" in letters:
                return False
        before = word
    return True


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the system end this process by a signal when its parent is killed (Linux).

    Nobody would see how this process ends then.
    """
    parent = os.getppid()
    if _prctl(_PR_SET_PDEATHSIG, int(number)) and os.getppid() != parent:
        os.kill(os.getpid(), number)


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, so that they can be found and ended (Linux)."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def allow_to_read(process_id: int) -> bool:
    """Allow a process and its children to read the memory of this one."""
    return _prctl(_PR_SET_PTRACER, process_id)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


# Their memory.


class ControlGroup:
    """The control group whose memory limit is the tightest for this process."""

    __slots__ = ("_cache", "_peak", "_use", "folder", "limit_bytes")

    def __init__(self, folder: str, names: tuple[str, str, str]) -> None:
        """Take a group by its folder, and its files' names for limit, use and peak."""
        self.folder = folder
        limit_name, use_name, peak_name = names
        limit = _number(read_text(f"{folder}/{limit_name}"))
        if limit is not None and limit >= _NO_LIMIT:
            limit = None
        self.limit_bytes = limit
        self._use = f"{folder}/{use_name}"
        self._peak = f"{folder}/{peak_name}"
        self._cache = f"{folder}/memory.stat"

    @property
    def used_bytes(self) -> int | None:
        """What it uses now.

        The kernel counts the cache of files, too, and drops that when memory gets
        scarce. So near the limit it is omitted, as far as nobody has used it lately.
        """
        used = _number(read_text(self._use))
        if used is None or self.limit_bytes is None:
            return used
        if used < CACHE_SHARE * self.limit_bytes:
            return used
        # Version 1 has two figures, of which the total has the groups in this one, too.
        unused = _field_in(self._cache, "total_inactive_file")
        unused = unused or _field_in(self._cache, "inactive_file") or 0
        return max(0, used - unused)

    @property
    def peak_bytes(self) -> int | None:
        """The most that it ever used, the cache of files included (Linux 5.19, or version 1)."""
        return _number(read_text(self._peak))


def find_control_group(
    described: str = "/proc/self/cgroup", base: str = CGROUPS
) -> ControlGroup | None:
    """Return the group with the smallest memory limit around this process, else its own.

    Args:
        described: the file that names the groups of the process.
        base: where the hierarchies are mounted.
    """
    for mount, path, is_v1 in _hierarchies(described, base):
        names = _NAMES_V1 if is_v1 else _NAMES_V2
        parts = [part for part in path.split("/") if part and part != ".."]
        own: ControlGroup | None = None
        tightest: ControlGroup | None = None
        smallest = _NO_LIMIT
        # From its own up to the root: a container sees its own group as the root.
        for count in range(len(parts), -1, -1):
            folder = "/".join([mount, *parts[:count]])
            if _number(read_text(f"{folder}/{names[1]}")) is None:
                continue
            group = ControlGroup(folder, names)
            own = own or group
            if group.limit_bytes is not None and group.limit_bytes < smallest:
                tightest = group
                smallest = group.limit_bytes
        if own is not None:
            return tightest or own
    return None


def oom_events_file() -> str | None:
    """Return the file with the number of OOM kills in this process's group, if readable."""
    for mount, path, is_v1 in _hierarchies("/proc/self/cgroup", CGROUPS):
        name = "memory.oom_control" if is_v1 else "memory.events"
        # A container sees its own group as the root.
        for folder in (f"{mount}{path}", mount):
            file = f"{folder.rstrip('/')}/{name}"
            if _field_in(file, "oom_kill") is not None:
                return file
    return None


def read_oom_count(path: str | None) -> int | None:
    """Return the count in such a file; a path from a record may be any, and is checked."""
    if path is None or not path.startswith(f"{CGROUPS}/"):
        return None
    if os.path.normpath(path) != path:
        return None
    return _field_in(path, "oom_kill")


def _hierarchies(described: str, base: str) -> list[tuple[str, str, bool]]:
    """Return where groups are that count memory: mount, path in it, if it is version 1."""
    groups = []
    for line in read_text(described).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            groups.append((f"{base}/memory", path, True))
        elif not controllers:
            groups.append((base, path, False))
    return groups


def peak_rss_bytes() -> int | None:
    """Return the most resident memory that this process has used."""
    peak = memory_of("self").get("VmHWM")
    return peak if peak is not None else _most_resident("RUSAGE_SELF") or None


def peak_rss_of_children() -> int:
    """Return the most resident memory of any child that this process has waited for; 0 if none."""
    return _most_resident("RUSAGE_CHILDREN")


def _most_resident(whose: str) -> int:
    try:
        import resource
    except ImportError:
        return 0
    most: int = resource.getrusage(getattr(resource, whose)).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def memory_of(process: int | str) -> dict[str, int]:
    """Return the sizes in `/proc/PID/status` in bytes, such as `VmHWM`; none of a zombie."""
    sizes = {}
    for line in read_text(f"/proc/{process}/status").splitlines():
        if line.startswith(("Vm", "Rss")):
            name, _, rest = line.partition(":")
            number = _number(rest.removesuffix(" kB"))
            if number is not None:
                sizes[name] = number * 1024
    return sizes


def own_limits() -> dict[str, tuple[int, int]]:
    """Return use and limit in bytes, by name, of the limits that this process is under."""
    found: dict[str, tuple[int, int]] = {}
    group = find_control_group()
    if group is not None and group.limit_bytes is not None:
        used = group.used_bytes
        if used is not None:
            found["the control group"] = used, group.limit_bytes
    try:
        import resource
    except ImportError:
        return found
    sizes = memory_of("self")
    for name, size in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        number = getattr(resource, name, None)
        limit = -1 if number is None else resource.getrlimit(number)[0]
        if 0 <= limit < _NO_LIMIT and size in sizes:
            found[name] = sizes[size], limit
    return found


class MemorySampler:
    """Remember how much memory a process and its descendants used."""

    def __init__(self, process_id: int, path: str | None = None) -> None:
        """Begin without a look.

        Args:
            process_id: the process.
            path: of a file that exists, into which what was seen is written.
        """
        self.due = time.monotonic() + PERIOD_SECONDS
        """When it is time for the next look; a short run is not looked at."""
        self._process_id = process_id
        self._file = -1 if path is None else _open_file(path)
        self._group = find_control_group()
        self._peaks: dict[int, int] = {}
        self._peak_of_group = 0
        self._used: int | None = None
        self._rss: int | None = None
        self._total: int | None = None
        self._at_ns = 0

    def look(self) -> None:
        """Look once."""
        before = time.process_time()
        used = None if self._group is None else self._group.used_bytes
        rss = None
        total = 0
        waiting = [self._process_id]
        for _ in range(MAX_PROCESSES):
            if not waiting:
                break
            process_id = waiting.pop()
            sizes = memory_of(process_id)
            if "VmRSS" not in sizes:
                continue
            size = sizes["VmRSS"]
            total += size
            if process_id == self._process_id:
                rss = size
            self._note_peak(process_id, max(size, sizes.get("VmHWM", 0)))
            waiting += children_of(process_id)
        if rss is not None:  # or else it has ended: what was seen before is the last
            self._at_ns = time.monotonic_ns()
            self._used = used
            self._rss = rss
            self._total = total
            self._peak_of_group = max(self._peak_of_group, used or 0)
            if self._file >= 0:
                line = self.seen().ljust(_PADDED_BYTES)
                os.pwrite(self._file, line + b"\n", 0)
        lasted = time.process_time() - before
        pause = max(PERIOD_SECONDS, lasted / SHARE_OF_A_CORE)
        self.due = time.monotonic() + pause

    def _note_peak(self, process_id: int, peak: int) -> None:
        known = self._peaks.get(process_id)
        if known is None and len(self._peaks) >= MAX_PROCESSES:
            return
        self._peaks[process_id] = max(peak, known or 0)

    def seen(self) -> bytes:
        """Return what was seen, in JSON; see `taxonomy.evidence.MemorySeen`."""
        limit = None
        peak = None
        if self._group is not None:
            limit = self._group.limit_bytes
            peak = self._group.peak_bytes
        numbers = {
            "at_ns": self._at_ns,
            "limit_bytes": limit,
            "cgroup_peak_bytes": peak or self._peak_of_group or None,
            "used_bytes": self._used,
            "rss_bytes": self._rss,
            "total_rss_bytes": self._total,
        }
        processes = []
        for process_id, peak_rss in sorted(self._peaks.items()):
            processes.append(_json_of({"pid": process_id, "peak_rss_bytes": peak_rss}))
        head = _json_of(numbers)[:-1]
        return f'{head}, "processes": [{", ".join(processes)}]}}'.encode("ascii")


def _json_of(numbers: dict[str, int | None]) -> str:
    """Return an object of numbers in JSON, whose module would take more memory than this."""
    words = []
    for name, number in numbers.items():
        words.append(f'"{name}": {"null" if number is None else number}')
    return f"{{{', '.join(words)}}}"


def _open_file(path: str) -> int:
    """Open the file that pytest has made; return -1 if a test has put something else there."""
    folder, name = os.path.split(path)
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags)
    except OSError:
        return -1
    try:
        opened = os.open(name, os.O_WRONLY | os.O_NONBLOCK | flags, dir_fd=within)
    except OSError:
        return -1
    finally:
        os.close(within)
    seen = os.fstat(opened)
    if (
        stat.S_ISREG(seen.st_mode)
        and seen.st_nlink == 1
        and seen.st_uid == os.geteuid()
    ):
        return opened
    os.close(opened)
    return -1


def _field_in(path: str, name: str) -> int | None:
    """Return the number behind a name, in a file that has a name and a number a line."""
    for line in read_text(path).splitlines():
        field, _, number = line.partition(" ")
        if field == name:
            return _number(number)
    return None


def _number(text: str) -> int | None:
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    return None


def ask_git(
    folder: Path, until: float, *arguments: str, without: Collection[str] = ()
) -> tuple[int, str]:
    """Return git's exit code and what it prints, or its error; -1 if it isn't there or lasts.

    Args:
        folder: Where to ask; a repository may be around it.
        until: When to give up, on the monotonic clock.
        arguments: Git's.
        without: Variables of the environment that it doesn't see.
    """
    import subprocess

    # Guests take no locks, and ask no program of the user's.
    environment = {
        name: text for name, text in os.environ.items() if name not in without
    }
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - git, with words of ours
            ["git", "-c", "core.fsmonitor=false", *arguments],  # noqa: S607 - the user's git
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=until - time.monotonic(),
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return -1, ""
    return done.returncode, (done.stderr if done.returncode else done.stdout).strip()
