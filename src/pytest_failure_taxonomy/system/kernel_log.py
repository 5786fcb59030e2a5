"""The kernel's log, and which processes it says were killed for lack of memory.

Reading it takes a privilege on most systems, and in most containers there is none.
Where it can be read it is the only place that says for certain who was killed, and how
much that process used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

KERNEL_LOG: Final = "/dev/kmsg"
MAX_RECORDS: Final = 20_000
"""Records that are read; the log of a machine with much memory has a third of it."""
_MAX_RECORD_BYTES: Final = 8192
"""The kernel's own limit for one record."""
_FIRST_FACILITY_OF_USERS: Final = 8
"""The kernel's own records are of facility 0; programs can't write those."""
_NAMESPACE_OF_ALL: Final = 0xEFFF_FFFC
"""The inode of the first process id namespace (linux/proc_ns.h), whose numbers the log
has."""
_SLACK_SECONDS: Final = 30.0
"""By how much the log's clock, which nobody adjusts, may differ from the monotonic
one."""

_LIMIT: Final = re.compile(r"memory: usage [0-9]+kB, limit ([0-9]{1,16})kB")
_KILLED: Final = re.compile(
    r"(?P<what>Memory cgroup out of memory|Out of memory(?: \([^()]*\))?|)(?:: |)"
    r"Killed process (?P<pid>[0-9]{1,10}) \((?P<name>.*)\),?(?: UID [0-9]+,)? "
    r"total-vm:[0-9]+kB, anon-rss:(?P<anon>[0-9]{1,16})kB, file-rss:[0-9]{1,16}kB"
    r"(?:, shmem-rss:(?P<shmem>[0-9]{1,16})kB)?"
)
_CONSTRAINT: Final = re.compile(r"oom-kill:constraint=CONSTRAINT_(?P<what>[A-Z_]+),.*")
_BY_GROUP: Final = "MEMCG"
_GROUP_BEFORE_4_20: Final = "Memory cgroup out of memory: Kill process "


class OomVictim(NamedTuple):
    """A process that the kernel killed for lack of memory."""

    pid: int
    """In the first namespace."""
    name: str
    at_seconds: float
    """Since the boot."""
    rss_bytes: int
    """What can't be read again from a file."""
    limit_bytes: int | None
    """Of its control group; `None` where the machine's memory ran out."""


def find_oom_victim(
    process_id: int, since_seconds: float, until_seconds: float
) -> OomVictim | None:
    """Return what the kernel's log says of a process that it killed; `None` if it does not.

    In a namespace of process ids the log's numbers are not ours, and nothing is said.

    Args:
        process_id: the process.
        since_seconds: when it was alive, on the monotonic clock.
        until_seconds: when it had ended.
    """
    with suppress(OSError):
        if os.stat("/proc/self/ns/pid").st_ino == _NAMESPACE_OF_ALL:
            victims = parse_victims(read_records())
            return victim_among(victims, process_id, since_seconds, until_seconds)
    return None


def victim_among(
    victims: Iterable[OomVictim],
    process_id: int,
    since_seconds: float,
    until_seconds: float,
) -> OomVictim | None:
    """Return the last of the victims that is a process, by its id and the time."""
    first, last = since_seconds - _SLACK_SECONDS, until_seconds + _SLACK_SECONDS
    found = [
        one
        for one in victims
        if one.pid == process_id and first <= one.at_seconds <= last
    ]
    return found[-1] if found else None


def parse_victims(records: Iterable[str]) -> Iterator[OomVictim]:
    """Yield the processes that were killed, from records in the form of `/dev/kmsg`.

    That is `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`, and further lines that describe a
    device.
    """
    limit_bytes: int | None = None
    is_of_group = False
    for record in records:
        head, _, text = record.partition(";")
        fields = head.split(",")
        if len(fields) < 3 or not all(each.isdigit() for each in fields[:3]):
            continue
        if int(fields[0]) >= _FIRST_FACILITY_OF_USERS:
            continue
        text = text.partition("\n")[0]
        limit, constraint = _LIMIT.match(text), _CONSTRAINT.match(text)
        if limit is not None:
            limit_bytes = int(limit[1]) * 1024
        elif constraint is not None:
            is_of_group = constraint["what"] == _BY_GROUP
        elif text.startswith(_GROUP_BEFORE_4_20):
            is_of_group = True
        else:
            killed = _KILLED.match(text)
            if killed is not None:
                is_of_group = is_of_group or killed["what"].startswith("Memory cgroup")
                sizes = (killed["anon"], killed["shmem"] or "0")
                yield OomVictim(
                    pid=int(killed["pid"]),
                    name=killed["name"],
                    at_seconds=int(fields[2]) / 1e6,
                    rss_bytes=sum(map(int, sizes)) * 1024,
                    limit_bytes=limit_bytes if is_of_group else None,
                )
                limit_bytes, is_of_group = None, False


def read_records(path: str = KERNEL_LOG) -> Iterator[str]:
    """Yield the records of the kernel's log, the oldest first.

    Raises:
        OSError: if it can't be opened or read.
    """
    if not hasattr(
        os, "O_NONBLOCK"
    ):  # Windows; a read of the log would wait for a new record
        raise FileNotFoundError(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(descriptor, _MAX_RECORD_BYTES)
            except BlockingIOError:
                return
            except (
                BrokenPipeError
            ):  # the next one has been overwritten; reading goes on after it
                continue
            if not record:
                return
            yield record.decode("utf-8", "replace")
    finally:
        os.close(descriptor)
