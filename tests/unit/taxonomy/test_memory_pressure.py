"""What want of memory is told as, and how certainly."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy.classification import judge_test_failures
from pytest_failure_taxonomy.taxonomy.deaths import judge_death, judge_worker
from pytest_failure_taxonomy.taxonomy.evidence import (
    MemoryPressure,
    MemorySeen,
    OomKill,
    ProcessExit,
    RaisedException,
    RunEvidence,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.words import amount_words

GIB: Final = 1 << 30
LAST: Final = MemorySeen(used_bytes=int(1.9 * GIB), limit_bytes=2 * GIB, rss_bytes=GIB)
SEEN: Final = "memory last seen: 1.9 of 2.0 GiB of its control group"
ALONE: Final = (
    "it used 1.9 of 2.0 GiB of its control group: this process alone was too large"
)
TOGETHER: Final = (
    "it used 0.5 of 2.0 GiB of its control group: all processes together were too large"
)


@pytest.mark.parametrize(
    ("used", "limit", "words"),
    [
        (0, None, "0 bytes"),
        (900, 1000, "900 of 1000 bytes"),
        (1536, None, "1.5 KiB"),
        (50 << 20, 2 * GIB, "0.0 of 2.0 GiB"),
        (int(1.9 * GIB), 2 * GIB, "1.9 of 2.0 GiB"),
        (3 << 50, None, "3072.0 TiB"),
    ],
)
def test_amounts_in_words(used: int, limit: int | None, words: str) -> None:
    """Use and limit are told in one unit, the larger one's."""
    assert amount_words(used, limit) == words


@pytest.mark.parametrize(
    ("seen", "kind", "confidence", "words"),
    [
        pytest.param({}, "process.killed", "likely", "SIGKILL", id="nothing"),
        pytest.param(
            {"memory": LAST},
            "process.killed",
            "likely",
            f"SIGKILL; {SEEN}",
            id="near the limit",
        ),
        pytest.param(
            {"memory": MemorySeen(rss_bytes=GIB, total_rss_bytes=3 * GIB)},
            "process.killed",
            "likely",
            "SIGKILL; memory last seen: 3.0 GiB, with no limit of a control group",
            id="no limit",
        ),
        pytest.param(
            {"out_of_memory": True, "memory": LAST},
            "process.oom",
            "likely",
            f"SIGKILL; the cgroup counts one more process killed for lack of memory; {SEEN}",
            id="counted",
        ),
        pytest.param(
            {"oom_kill": OomKill(rss_bytes=int(1.9 * GIB), limit_bytes=2 * GIB)},
            "process.oom",
            "certain",
            f"SIGKILL by the kernel's OOM killer: {ALONE}",
            id="named",
        ),
        pytest.param(
            {
                "oom_kill": OomKill(rss_bytes=GIB // 2, limit_bytes=2 * GIB),
                "memory": LAST,
            },
            "process.oom",
            "certain",
            f"SIGKILL by the kernel's OOM killer: {TOGETHER}; {SEEN}",
            id="named and small",
        ),
        pytest.param(
            {"oom_kill": OomKill(rss_bytes=GIB)},
            "process.oom",
            "certain",
            "SIGKILL by the kernel's OOM killer: it used 1.0 GiB, and the memory of the machine "
            "ran out",
            id="the machine's memory",
        ),
    ],
)
def test_a_kill(seen: dict[str, Any], kind: str, confidence: str, words: str) -> None:
    """Only the kernel's log makes it certain; what was last seen is told in any case."""
    end = ProcessExit(code=137, signal="SIGKILL", source="watcher", **seen)
    death = judge_death(RunEvidence(finished=False, exit=end))
    assert (death.kind, death.confidence, death.detail) == (kind, confidence, words)


def test_a_worker_that_the_log_names() -> None:
    """It says how much the worker used, and whether it was too large by itself."""
    found = judge_worker(
        WorkerEnd(
            id="gw1",
            tests=2,
            signal="SIGKILL",
            ending="died",
            out_of_memory=True,
            oom_kill=OomKill(rss_bytes=GIB // 2, limit_bytes=2 * GIB),
        )
    )
    assert (found.reason, found.kind) == ("SANDBOX_ERROR", "worker.crashed")
    assert found.confidence == "certain"
    assert found.headline == f"gw1 was killed for lack of memory ({TOGETHER})"


def out_of_memory(memory: MemoryPressure | None) -> TestFailure:
    """Return a test that a MemoryError failed."""
    raised = RaisedException(
        type="MemoryError",
        module="builtins",
        message="",
        bases=("builtins.MemoryError", "builtins.Exception", "builtins.BaseException"),
        memory=memory,
    )
    return TestFailure(
        nodeid="t.py::test_a", phase="call", message="", exception=raised
    )


@pytest.mark.parametrize(
    ("memory", "kind", "message"),
    [
        (
            None,
            "test.failed",
            "1 test failed: more memory was requested than is available: test_a",
        ),
        (
            MemoryPressure(limit="RLIMIT_AS", used_bytes=GIB, limit_bytes=2 * GIB),
            "test.failed",
            (
                "1 test failed: more memory was requested than is available: "
                "1.0 of 2.0 GiB that RLIMIT_AS allows: test_a"
            ),
        ),
        (
            MemoryPressure(
                limit="RLIMIT_AS", used_bytes=int(1.9 * GIB), limit_bytes=2 * GIB
            ),
            "sandbox.memory",
            "1 test failed: the memory ran out: 1.9 of 2.0 GiB that RLIMIT_AS allows: test_a",
        ),
    ],
)
def test_a_memory_error(memory: MemoryPressure | None, kind: str, message: str) -> None:
    """It is the environment's only where hardly anything was left of a limit."""
    failure = out_of_memory(memory)
    (judged,) = judge_test_failures([failure])
    assert judged.kind == kind
    end = ProcessExit(code=1, source="pytest")
    verdict = judge(RunEvidence(exit=end, failures=(failure,))).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.message) == (kind, message)
