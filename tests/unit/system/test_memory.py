"""The memory of processes and control groups, as the kernel's files tell it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.survive.layout import MEMORY
from pytest_failure_taxonomy.survive.observed import parse_memory, read_memory
from pytest_failure_taxonomy.system import process
from pytest_failure_taxonomy.system.files import open_folder
from pytest_failure_taxonomy.system.process import (
    MemorySampler,
    find_control_group,
    memory_of,
    oom_events_file,
    own_limits,
    peak_rss_bytes,
    read_oom_count,
)
from pytest_failure_taxonomy.taxonomy.evidence import MemorySeen

NONE_V1: Final = "9223372036854771712"
"""What version 1 says where there is no limit."""
NEEDS_PROC: Final = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="needs /proc"
)

GROUPS: Final = {
    "v2, as a container sees it": (
        "0::/\n",
        {"memory.max": "2000", "memory.current": "700", "memory.peak": "1900"},
        (2000, 700, 1900),
    ),
    "v2, no limit and no peak before Linux 5.19": (
        "0::/\n",
        {"memory.max": "max", "memory.current": "700"},
        (None, 700, None),
    ),
    "v2, the nearest limit is an outer group's": (
        "0::/a/b\n",
        {
            "a/b/memory.max": "max",
            "a/b/memory.current": "10",
            "a/memory.max": "3000",
            "a/memory.current": "20",
            "a/memory.peak": "25",
        },
        (3000, 20, 25),
    ),
    "v2, the tightest of two limits": (
        "0::/a/b\n",
        {
            "a/b/memory.max": "500",
            "a/b/memory.current": "10",
            "a/memory.max": "400",
            "a/memory.current": "20",
        },
        (400, 20, None),
    ),
    "v2, a group that is not mounted here": (
        "0::/docker/0123\n",
        {"memory.max": "2000", "memory.current": "700"},
        (2000, 700, None),
    ),
    "v2, near the limit the cache of files is left out": (
        "0::/\n",
        {
            "memory.max": "1000",
            "memory.current": "950",
            "memory.stat": "anon 300\ninactive_file 600\nactive_file 50\n",
        },
        (1000, 350, None),
    ),
    "v1": (
        "9:name=systemd:/\n4:cpu,memory:/job\n0::/\n",
        {
            "memory/job/memory.limit_in_bytes": "3000",
            "memory/job/memory.usage_in_bytes": "2900",
            "memory/job/memory.max_usage_in_bytes": "2950",
            "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 400\n",
            "memory/memory.limit_in_bytes": NONE_V1,
            "memory/memory.usage_in_bytes": "5000",
        },
        (3000, 2500, 2950),
    ),
    "v1 without a limit": (
        "4:memory:/\n",
        {
            "memory/memory.limit_in_bytes": NONE_V1,
            "memory/memory.usage_in_bytes": "5000",
        },
        (None, 5000, None),
    ),
    "hostile": (
        "0::/../../etc\n1\n:::\n",
        {"memory.max": "-5", "memory.current": "1" * 30},
        None,
    ),
    "no groups": ("", {}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_control_group(tmp_path: Path, name: str) -> None:
    """Limit, use and peak are those of the group with the tightest limit, in both versions."""
    described, files, expected = GROUPS[name]
    (tmp_path / "cgroup").write_text(described, encoding="ascii")
    for file, content in files.items():
        path = tmp_path / "fs" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n", encoding="ascii")
    group = find_control_group(str(tmp_path / "cgroup"), str(tmp_path / "fs"))
    found = (
        None
        if group is None
        else (group.limit_bytes, group.used_bytes, group.peak_bytes)
    )
    assert found == expected


@NEEDS_PROC
def test_a_process_knows_its_own_peak() -> None:
    """The peak is the kernel's, and at least what is used now."""
    now, peak = memory_of("self")["VmRSS"], peak_rss_bytes()
    assert peak is not None
    assert peak >= now > 1024 * 1024
    assert memory_of(2**30) == {}
    assert all(used > 0 for used, _ in own_limits().values())


@NEEDS_PROC
def test_the_sampler_sees_children_and_keeps_what_was_last() -> None:
    """Children count to the sum, and a process that has ended keeps what was seen before."""
    content = "kept = bytearray(20 << 20); print(flush=True); input()"
    command = [sys.executable, "-c", content]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        of_parent, of_child = MemorySampler(os.getpid()), MemorySampler(child.pid)
        of_parent.look()
        began = time.monotonic()
        of_child.look()
        assert of_child.due >= began + 1.0
        child.kill()
    seen = parse_memory(of_parent.seen())
    assert seen is not None
    assert seen.rss_bytes is not None
    assert seen.total_rss_bytes is not None
    assert seen.total_rss_bytes >= seen.rss_bytes + (20 << 20)
    peaks = {each.pid: each.peak_rss_bytes for each in seen.processes}
    assert peaks[child.pid] >= 20 << 20
    of_child.look()
    last = parse_memory(of_child.seen())
    assert last is not None
    assert last.rss_bytes == last.total_rss_bytes == memory_last(last, child.pid)


def memory_last(seen: MemorySeen, process_id: int) -> int | None:
    """Return what the only process of a sample used; its peak may be higher."""
    (peak,) = [each.peak_rss_bytes for each in seen.processes if each.pid == process_id]
    assert seen.rss_bytes is not None
    assert peak >= seen.rss_bytes
    return seen.rss_bytes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"3",
        b"[" * 100_000,
        b'{"at_ns": "x"}',
        b'{"a": 1}',
        b'{"rss_bytes": -1}',
        b'{"at_ns": NaN}',
        b'{"processes": [{"pid": 1}]}',
        b'{"processes": [{"pid": 1, "peak_rss_bytes": -5}]}',
    ],
)
def test_what_is_not_understood_is_nothing(content: bytes) -> None:
    """The file may hold anything."""
    assert parse_memory(content) is None


@NEEDS_PROC
@pytest.mark.parametrize(
    "what", ["file", "nothing", "symlink", "hard link", "fifo", "folder"]
)
def test_only_the_file_of_the_record_is_written(tmp_path: Path, what: str) -> None:
    """What a test puts in its place is left alone, and the sampler goes on."""
    record, canary = tmp_path / "record", tmp_path / "canary"
    record.mkdir()
    canary.write_bytes(b"canary")
    file = record / MEMORY
    makers: dict[str, Callable[[], object]] = {
        "file": file.touch,
        "nothing": lambda: None,
        "symlink": lambda: file.symlink_to(canary),
        "hard link": lambda: os.link(canary, file),
        "fifo": lambda: os.mkfifo(file),
        "folder": file.mkdir,
    }
    makers[what]()
    sampler = MemorySampler(os.getpid(), str(file))
    sampler.look()
    assert canary.read_bytes() == b"canary"
    assert os.listdir(record) == ([] if what == "nothing" else [MEMORY])
    if what == "file":
        with open_folder(record) as folder:
            seen = read_memory(folder)
        assert seen is not None
        assert seen.peak_of(os.getpid())
        assert seen == parse_memory(sampler.seen())


# Kills.


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill 17", 17),
        ("oom 5\noom_group_kill 4\n", None),
        ("oom_kill many\n", None),
        ("", None),
        ("\udcff\n", None),
    ],
)
def test_the_kernels_count_of_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, count: int | None
) -> None:
    """The count of this cgroup's own kills is read, and nothing else taken for it."""
    monkeypatch.setattr(process, "CGROUPS", str(tmp_path))
    (tmp_path / "memory.events").write_text(content, "utf-8", "surrogateescape")
    assert read_oom_count(str(tmp_path / "memory.events")) == count


def test_no_file_is_no_count(tmp_path: Path) -> None:
    """Where the kernel does not count, nothing is known."""
    assert read_oom_count(None) is None
    assert read_oom_count("/sys/fs/cgroup/gone") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_count_of_another_hand_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record may name any path; what is outside of the cgroups, or is no file, is not opened."""
    (tmp_path / "memory.events").write_text("oom_kill 2\n")
    os.mkfifo(tmp_path / "pipe")
    assert read_oom_count(str(tmp_path / "memory.events")) is None
    assert read_oom_count(f"/sys/fs/cgroup/../../..{tmp_path}/memory.events") is None
    assert read_oom_count("memory.events") is None
    monkeypatch.setattr(process, "CGROUPS", str(tmp_path))
    assert read_oom_count(str(tmp_path / "memory.events")) == 2
    assert read_oom_count(str(tmp_path / "pipe")) is None


@pytest.mark.parametrize(
    ("cgroup", "path"),
    [
        ("0::/user.slice/a b\n", "/sys/fs/cgroup/user.slice/a b/memory.events"),
        ("4:memory:/x\n0::/\n", "/sys/fs/cgroup/memory.events"),
        ("4:cpu,memory:/x\n", "/sys/fs/cgroup/memory/x/memory.oom_control"),
        ("4:memory:/x\n0::/\n", "/sys/fs/cgroup/memory/memory.oom_control"),
        ("4:cpu:/x\n", None),
        ("", None),
    ],
)
def test_the_file_of_this_cgroup(
    monkeypatch: pytest.MonkeyPatch, cgroup: str, path: str | None
) -> None:
    """The unified hierarchy's file is used where it can be read, or that of version 1."""
    files = {"/proc/self/cgroup": cgroup, path: "oom_kill 0\n"}
    monkeypatch.setattr(process, "read_text", lambda name: files.get(name, ""))
    assert oom_events_file() == path
