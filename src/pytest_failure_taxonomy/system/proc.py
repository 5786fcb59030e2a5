"""What Linux's `/proc` says of processes; elsewhere there is no answer.

The watcher reads it as long as pytest lives, so that nothing is imported here but what the
interpreter has loaded anyway.
"""

from __future__ import annotations

import os

# Bound here, because a test may replace them in their module and never put them back.
_open, _read, _close, _listdir = os.open, os.read, os.close, os.listdir
_FLAGS = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):  # a test may put anything beside the record
    _FLAGS |= getattr(os, _name, 0)


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
