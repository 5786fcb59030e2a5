"""What Linux says of processes and their memory, in `/proc` and `/sys/fs/cgroup`.

Elsewhere there is no answer. The watcher reads it as long as pytest lives, the memory once a
second, so that nothing is imported here but what the interpreter has loaded anyway.
"""

from __future__ import annotations

import os
import stat
import sys
import time

# Bound here, because a test may replace them in their module and never put them back.
_open, _read, _close, _listdir = os.open, os.read, os.close, os.listdir
_FLAGS = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):  # a test may put anything beside the record
    _FLAGS |= getattr(os, _name, 0)

CGROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
"""From here on a limit is none: what version 1 says for that is the largest number of pages."""
_NAMES_V2 = ("memory.max", "memory.current", "memory.peak")
_NAMES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes")
CACHE_SHARE = 0.8
"""The share of the limit from which on the cache of files is asked for and left out."""

PERIOD_SECONDS = 1.0
SHARE_OF_A_CORE = 0.001
"""How much of a core the looks may take; with many processes there are fewer looks."""
MEMORY_FILE = "memory"  # as in record/layout.py; a test compares them
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

    The usual states are `R` running, `S` sleeping, `D` waiting for a disk, `T` stopped, `t` stopped
    by a debugger, `Z` ended. Field 19 is the start in clock ticks since the boot.
    """
    return read(f"/proc/{process}/stat", 4096).rpartition(b") ")[2].split()


def start_of(process_id: int) -> int:
    """Return when a process started, in clock ticks since the boot; -1 if it has ended."""
    fields = fields_of(process_id)
    return int(fields[19]) if len(fields) > 21 and fields[0] not in (b"Z", b"X") else -1


def children_of(process_id: int) -> list[int]:
    """Return the children of a process, of all of its threads."""
    folder = f"/proc/{process_id}/task"
    try:
        threads = _listdir(folder)
    except OSError:
        return []
    listed = (read(f"{folder}/{thread}/children").split() for thread in threads)
    return [int(each) for children in listed for each in children if each.isdigit()]


class ControlGroup:
    """The control group whose memory limit is the tightest for this process."""

    __slots__ = ("_cache", "_peak", "_use", "folder", "limit_bytes")

    def __init__(self, folder: str, names: tuple[str, str, str]) -> None:
        """Take a group by its folder, and the names of its files for limit, use and peak."""
        self.folder = folder
        limit = _number(read_text(f"{folder}/{names[0]}"))
        self.limit_bytes = limit if limit is not None and limit < _NO_LIMIT else None
        self._use = f"{folder}/{names[1]}"
        self._peak = f"{folder}/{names[2]}"
        self._cache = f"{folder}/memory.stat"

    @property
    def used_bytes(self) -> int | None:
        """What it uses now.

        The kernel counts the cache of files, too, and drops that when memory gets scarce. So near
        the limit it is left out, as far as nobody has used it lately.
        """
        used = _number(read_text(self._use))
        if used is None or self.limit_bytes is None or used < CACHE_SHARE * self.limit_bytes:
            return used
        # Version 1 has two figures, of which the total has the groups in this one, too.
        unused = _field_in(self._cache, "total_inactive_file")
        return max(0, used - (unused or _field_in(self._cache, "inactive_file") or 0))

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
        groups: list[ControlGroup] = []  # on the way from the process's own up to the root
        parts = [part for part in path.split("/") if part and part != ".."]
        for count in range(len(parts), -1, -1):  # a container sees its own group as the root
            folder = "/".join([mount, *parts[:count]])
            if _number(read_text(f"{folder}/{names[1]}")) is not None:
                groups.append(ControlGroup(folder, names))
        limited = [group for group in groups if group.limit_bytes is not None]
        if limited:
            return min(limited, key=lambda group: group.limit_bytes or 0)
        if groups:
            return groups[0]
    return None


def oom_events_file() -> str | None:
    """Return the file with the number of OOM kills in this process's group, if it can be read."""
    for mount, path, is_v1 in _hierarchies("/proc/self/cgroup", CGROUPS):
        name = "memory.oom_control" if is_v1 else "memory.events"
        for folder in (mount + path, mount):  # a container sees its own group as the root
            file = f"{folder.rstrip('/')}/{name}"
            if _field_in(file, "oom_kill") is not None:
                return file
    return None


def read_oom_count(path: str | None) -> int | None:
    """Return the count in such a file; a path from a record may be any, and is checked."""
    if path is None or os.path.normpath(path) != path or not path.startswith(f"{CGROUPS}/"):
        return None
    return _field_in(path, "oom_kill")


def _hierarchies(described: str, base: str) -> list[tuple[str, str, bool]]:
    """Return where groups are that count memory: the mount, the path in it, if it is version 1."""
    found = []
    for line in read_text(described).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            found.append((f"{base}/memory", path, True))
        elif not controllers:
            found.append((base, path, False))
    return found


def peak_rss_bytes() -> int | None:
    """Return the most resident memory that this process has used."""
    peak = memory_of("self").get("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (most if sys.platform == "darwin" else most * 1024) or None


def peak_rss_of_children() -> int:
    """Return the most resident memory of any child that this process has waited for; 0 if none."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
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

    def __init__(self, process_id: int, folder: str | None = None) -> None:
        """Begin without a look.

        Args:
            process_id: the process.
            folder: of its record; what was seen is written into a file there.
        """
        self._process_id = process_id
        self._file = -1 if folder is None else _open_file(folder)
        self._group = find_control_group()
        self._peaks: dict[int, int] = {}
        self._peak_of_group = 0
        self._used: int | None = None
        self._rss: int | None = None
        self._total: int | None = None
        self._at_ns = 0

    def look(self) -> float:
        """Look once; return how many seconds to wait for the next look."""
        before = time.process_time()
        used = None if self._group is None else self._group.used_bytes
        rss, total, waiting, seen = None, 0, [self._process_id], 0
        while waiting and seen < MAX_PROCESSES:
            process_id = waiting.pop()
            seen += 1
            sizes = memory_of(process_id)
            if "VmRSS" not in sizes:
                continue
            total += sizes["VmRSS"]
            if process_id == self._process_id:
                rss = sizes["VmRSS"]
            if process_id in self._peaks or len(self._peaks) < MAX_PROCESSES:
                peak = max(sizes["VmRSS"], sizes.get("VmHWM", 0))
                self._peaks[process_id] = max(peak, self._peaks.get(process_id, 0))
            waiting += children_of(process_id)
        if rss is not None:  # or else it has ended: what was seen before is the last
            self._at_ns = time.monotonic_ns()
            self._used, self._rss, self._total = used, rss, total
            self._peak_of_group = max(self._peak_of_group, used or 0)
            if self._file >= 0:
                os.pwrite(self._file, self.seen().ljust(_PADDED_BYTES) + b"\n", 0)
        return max(PERIOD_SECONDS, (time.process_time() - before) / SHARE_OF_A_CORE)

    def seen(self) -> bytes:
        """Return what was seen, in JSON; see `record.memory`."""
        peak = self._group.peak_bytes if self._group is not None else None
        numbers = {
            "at_ns": self._at_ns,
            "limit_bytes": None if self._group is None else self._group.limit_bytes,
            "cgroup_peak_bytes": peak or self._peak_of_group or None,
            "used_bytes": self._used,
            "rss_bytes": self._rss,
            "total_rss_bytes": self._total,
        }
        processes = (
            _json_of({"pid": process_id, "peak_rss_bytes": peak_rss})
            for process_id, peak_rss in sorted(self._peaks.items())
        )
        return f'{_json_of(numbers)[:-1]}, "processes": [{", ".join(processes)}]}}'.encode("ascii")


def _json_of(numbers: dict[str, int | None]) -> str:
    """Return an object of numbers in JSON, whose module would take more memory than all this."""
    words = (f'"{name}": {"null" if each is None else each}' for name, each in numbers.items())
    return f"{{{', '.join(words)}}}"


def _open_file(folder: str) -> int:
    """Open the file that pytest has made; return -1 if a test has put something else there."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags)
    except OSError:
        return -1
    try:
        opened = os.open(MEMORY_FILE, os.O_WRONLY | os.O_NONBLOCK | flags, dir_fd=within)
    except OSError:
        return -1
    finally:
        os.close(within)
    seen = os.fstat(opened)
    if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 and seen.st_uid == os.geteuid():
        return opened
    os.close(opened)
    return -1


def _field_in(path: str, name: str) -> int | None:
    """Return the number behind a name, in a file that has a name and a number a line."""
    for line in read_text(path).splitlines():
        if line.startswith(f"{name} "):
            return _number(line.removeprefix(f"{name} "))
    return None


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
