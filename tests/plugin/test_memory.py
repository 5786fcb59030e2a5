"""Memory in the report: limits and peaks, the OOM killer's victims, and a MemoryError in a test."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.system.kernel_log import KERNEL_LOG, read_records
from pytest_failure_taxonomy.system.process import find_control_group
from tests.helpers.runs import PytestRuns
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NEAR_AND_FAR: Final = (
    "import resource\n"
    "def leave(size):\n"
    "    with open('/proc/self/statm') as file:\n"
    "        used = int(file.read().split()[0]) * resource.getpagesize()\n"
    "    resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.RLIM_INFINITY))\n"
    "def test_near():\n"
    "    leave(48 << 20)\n"
    "    kept = []\n"
    "    try:\n"
    "        while True:\n"
    "            kept.append(bytearray(1 << 20))\n"
    "    except MemoryError:\n"
    "        del kept[-2:]  # pytest's own reporters need some, too\n"
    "        raise\n"
    "def test_far():\n"
    "    leave(1 << 30)\n"
    "    bytearray(1 << 45)\n"
)
HOG: Final = (
    "import time\ndef test_before(): pass\n"
    "def test_hog():\n"
    "    kept = []\n"
    "    for _ in range(200):\n"
    "        kept.append(bytearray(1 << 20))\n"
)
LIMIT_BYTES: Final = 160 << 20


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_memory_error_near_a_limit(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """It is the sandbox's where hardly anything was left of RLIMIT_AS, else the test's own."""
    runs.write({"test_it.py": NEAR_AND_FAR})
    run = runs.run(*workers, plugins=["xdist"] if workers else [])
    assert [(each["nodeid"], each["kind"]) for each in run.report["failures"]] == [
        ("test_it.py::test_near", "sandbox.memory"),
        ("test_it.py::test_far", "test.failed"),
    ]
    # It holds for half of the failed tests, which is too few to be the run's reason.
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    near, far = (cause["what"] for cause in run.report["causes"])
    assert re.fullmatch(
        r"the memory ran out: .* MiB that RLIMIT_AS allows: test_near .*", near
    )
    assert far.startswith("more memory was requested than is available: ")
    assert ": test_far " in far
    memory = run.report["environment"]["memory"]
    assert memory["peak_rss_bytes"] > 10 << 20
    peaks = [worker["peak_rss_bytes"] for worker in run.report["workers"]]
    assert all(peak > 48 << 20 for peak in peaks)
    assert len(peaks) == bool(workers)


@pytest.mark.slow
def test_what_was_last_seen_before_a_kill(runs: PytestRuns) -> None:
    """The watcher has looked at the memory that a killed process used."""
    content = "import os, time\ndef test_it():\n    time.sleep(1.4)\n    os.kill(os.getpid(), 9)\n"
    runs.write({"test_it.py": content})
    runs.run_unchecked()
    report = runs.wait_for_completion()
    assert report["verdict"]["kind"] == "process.killed"
    assert "memory last seen: " in report["verdict"]["evidence"][0]["detail"]
    memory = report["environment"]["memory"]
    assert memory["peak_rss_bytes"] > 10 << 20


@pytest.fixture
def group() -> Iterator[Path]:
    """Return a control group with little memory; skip the test where there can be none."""
    try:
        records = sum(1 for _ in read_records())
    except OSError as error:
        pytest.skip(f"{KERNEL_LOG} can't be read: {error.strerror}")
    found = find_control_group()
    if not records or found is None:
        pytest.skip(
            "there is no kernel log or no control group with a limit for memory"
        )
    parent = Path(found.folder)
    made = parent / f"taxonomy-{uuid.uuid4().hex}"
    is_v1 = (parent / "memory.limit_in_bytes").exists()
    try:
        made.mkdir()
        limit = made / ("memory.limit_in_bytes" if is_v1 else "memory.max")
        limit.write_text(str(LIMIT_BYTES), encoding="ascii")
    except OSError as error:
        if made.exists():
            made.rmdir()
        pytest.skip(f"no control group can be made: {error}")
    yield made

    def is_removed() -> bool:
        with contextlib.suppress(OSError):
            for process_id in (
                (made / "cgroup.procs").read_text(encoding="ascii").split()
            ):
                (parent / "cgroup.procs").write_text(process_id, encoding="ascii")
            made.rmdir()
        return not made.exists()

    # A process that the kernel still ends can't be moved, and holds its group until it is gone.
    wait_until(is_removed, f"{made} is removed")


def run_in(group: Path, runs: PytestRuns, *args: str) -> dict[str, Any]:
    """Run the test that uses too much memory in a control group; return the report."""
    runs.write({"test_it.py": HOG})
    join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    prefix = ("sh", "-c", join, "sh")
    runs.run_unchecked(*args, plugins=["xdist"] if args else [], prefix=prefix)
    return runs.wait_for_completion()


@pytest.mark.slow
def test_the_oom_killer(runs: PytestRuns, group: Path) -> None:
    """The kernel's log makes it certain, for pytest itself and for a worker."""
    report = run_in(group, runs)
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("SANDBOX_ERROR", "process.oom")
    assert (verdict["confidence"], verdict["nodeid"]) == (
        "certain",
        "test_it.py::test_hog",
    )
    assert (
        "of its control group: this process alone was too large" in verdict["message"]
    )
    memory = report["environment"]["memory"]
    assert memory["limit_bytes"] == LIMIT_BYTES
    assert memory["peak_rss_bytes"] > LIMIT_BYTES // 2
    assert 0 < memory["cgroup_peak_bytes"] <= LIMIT_BYTES
    report = run_in(group, runs, "-n", "1")
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("SANDBOX_ERROR", "worker.crashed")
    assert verdict["confidence"] == "certain"
    assert "of its control group" in verdict["message"]
    dead = report["workers"][0]
    assert dead["exit"]["signal"] == "SIGKILL"
    assert dead["peak_rss_bytes"] > LIMIT_BYTES // 4
    assert os.path.exists(group)
