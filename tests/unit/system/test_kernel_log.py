"""The kernel's log: whom it says it killed for want of memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.system.kernel_log import (
    OomVictim,
    parse_victims,
    read_records,
    victim_among,
)

OF_GROUP_6_18: Final = (
    (
        "4,2011,20101850310,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n"
        " SUBSYSTEM=none\n"
    ),
    "6,2020,20101850477,-;memory: usage 58592kB, limit 58592kB, failcnt 75",
    "6,2021,20101850480,-;memory+swap: usage 58592kB, limit 9007199254740988kB, failcnt 0",
    (
        "6,2030,20101850704,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
        "mems_allowed=0,oom_memcg=/job,task_memcg=/job,task=python,pid=29218,uid=0"
    ),
    (
        "3,2031,20101850721,-;Memory cgroup out of memory: Killed process 29218 (python) "
        "total-vm:68476kB, anon-rss:58368kB, file-rss:6304kB, shmem-rss:0kB, UID:0 "
        "pgtables:176kB oom_score_adj:0"
    ),
)
"""As Linux 6.18 wrote it."""
OF_MACHINE_5_4: Final = (
    (
        "6,900,5000000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,"
        "mems_allowed=0,global_oom,task_memcg=/user.slice,task=pytest: a (b),pid=1234,uid=1000"
    ),
    (
        "3,901,5000100,-;Out of memory: Killed process 1234 (pytest: a (b)) total-vm:9000kB, "
        "anon-rss:8000kB, file-rss:4kB, shmem-rss:16kB, UID:1000 pgtables:60kB oom_score_adj:0"
    ),
)
OF_GROUP_4_19: Final = (
    "6,10,7000000,-;memory: usage 2097152kB, limit 2097152kB, failcnt 300",
    (
        "3,11,7000100,-;Memory cgroup out of memory: Kill process 77 (python3) score 990 or "
        "sacrifice child"
    ),
    (
        "3,12,7000200,-;Killed process 77 (python3) total-vm:2500000kB, anon-rss:2090000kB, "
        "file-rss:1000kB, shmem-rss:0kB"
    ),
)
OF_RHEL_8: Final = (
    (
        "3,12,7000200,-;Memory cgroup out of memory: Killed process 78 (stress), UID 0, "
        "total-vm:2500000kB, anon-rss:100kB, file-rss:1000kB"
    ),
)

LOGS: Final = {
    "a group, Linux 6.18": (
        OF_GROUP_6_18,
        OomVictim(29218, "python", 20101.850721, 58368 * 1024, 58592 * 1024),
    ),
    "the machine, Linux 5.4": (
        OF_MACHINE_5_4,
        OomVictim(1234, "pytest: a (b)", 5.0001, 8016 * 1024, None),
    ),
    "a group that was full before the machine was": (
        (OF_GROUP_6_18[1], *OF_MACHINE_5_4),
        OomVictim(1234, "pytest: a (b)", 5.0001, 8016 * 1024, None),
    ),
    "a group, Linux 4.19": (
        OF_GROUP_4_19,
        OomVictim(77, "python3", 7.0002, 2090000 * 1024, 2097152 * 1024),
    ),
    "a group, RHEL 8": (OF_RHEL_8, OomVictim(78, "stress", 7.0002, 100 * 1024, None)),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_victim(name: str) -> None:
    """Process, size and limit are read as several versions of Linux word them."""
    records, victim = LOGS[name]
    assert list(parse_victims(records)) == [victim]


@pytest.mark.parametrize(
    "record",
    [
        "",
        ";",
        "x,y,z,-;Killed process 1 (a) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
        pytest.param(
            "12,1,1,-;Out of memory: Killed process 1 (a) total-vm:1kB, anon-rss:1kB, "
            "file-rss:1kB, shmem-rss:0kB",
            id="written by a program",
        ),
        pytest.param(
            "3,1,1,-;my driver: Out of memory: Killed process 1 (a) total-vm:1kB, anon-rss:1kB, "
            "file-rss:1kB",
            id="not at the beginning",
        ),
        "3,1,1,-;Killed process 1 (a) total-vm:1kB",
        "6,1,1,-;oom_reaper: reaped process 1 (a), now anon-rss:0kB, file-rss:0kB",
    ],
)
def test_no_victim(record: str) -> None:
    """A program can write to the log, but not as the kernel."""
    assert list(parse_victims([record])) == []


@pytest.mark.parametrize(
    ("process_id", "since", "until", "is_found"),
    [
        (1234, 1.0, 5.5, True),
        (1235, 1.0, 5.5, False),
        pytest.param(1234, 100.0, 110.0, False, id="an earlier process with its id"),
    ],
)
def test_the_victim_is_known_by_its_id_and_the_time(
    process_id: int, since: float, until: float, is_found: bool
) -> None:
    """A process id is used again, so the time counts, too."""
    found = victim_among(parse_victims(OF_MACHINE_5_4), process_id, since, until)
    assert (found is not None) is is_found


def test_a_log_that_never_ends_or_is_not_there(tmp_path: Path) -> None:
    """Reading stops where nothing is left, and a log that can't be opened is an OSError."""
    empty = tmp_path / "kmsg"
    empty.write_bytes(b"")
    assert list(read_records(str(empty))) == []
    with pytest.raises(OSError, match="No such file"):
        list(read_records(str(tmp_path / "none")))
    if os.path.exists("/dev/zero"):
        assert sum(map(len, read_records("/dev/zero"))) > 0
