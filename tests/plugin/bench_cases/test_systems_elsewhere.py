"""A system in a process of its own, in real runs."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import child_environment, pytest_command
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import BENCH, calls, only_bench, passing_cases, task_class_files
from tests.helpers.waiting import wait_until

IN_PROCESSES: Final = "sut: named:answer\nsut_isolation: process\n"

LIMITED: Final = """\
import os

CALLS = os.path.join(os.path.dirname(__file__), "calls.txt")


class RateLimitError(Exception):
    __module__ = "openai"


def answer(case):
    case.spend(0.1)
    with open(CALLS, "a") as file:
        file.write(case.case_id + "\\n")
    with open(CALLS) as file:
        if file.read().split().count(case.case_id) < 3:
            raise RateLimitError("slow down")
    return case.input
"""


@pytest.mark.posix("calls of several processes are noted in one file")
@pytest.mark.parametrize("workers", [2], ids=["xdist"])
def test_a_rate_limit_in_another_process_is_retried(runs: PytestRuns, workers: int) -> None:
    """The kind of its exception is known here; each call is paid for."""
    settings = f"{IN_PROCESSES}retry: {{on: [llm.rate_limited], backoff_seconds: 0.01}}\n"
    files = task_class_files(passing_cases(2), settings=settings, system="")
    runs.write({**files, "named.py": LIMITED})
    extra = ["-n", str(workers)] if workers else []
    run = runs.run("bench", *extra, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes == {"passed": 2}
    assert len(calls(runs)) == 6
    assert only_bench(run)["total_cost_usd"] == pytest.approx(0.6)


HANGING: Final = """\
import os, time


def answer(case):
    with open(os.path.join(os.path.dirname(__file__), "calls.txt"), "a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\\n")
    time.sleep(600)
"""


@pytest.mark.linux("SIGKILL, /proc")
def test_a_killed_run_leaves_nothing_behind(runs: PytestRuns, tmp_path: Path) -> None:
    """No process of the system and no folder of it outlive pytest."""
    place = tmp_path / "place"
    place.mkdir()
    files = task_class_files(passing_cases(1), settings=IN_PROCESSES, system="")
    runs.write({**files, "named.py": HANGING})
    note = runs.path / "calls.txt"
    with subprocess.Popen(
        pytest_command("bench", plugins=["failure_taxonomy_bench"]),
        cwd=runs.path,
        env=child_environment({"TMPDIR": str(place)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as pytest_process:
        wait_until(lambda: note.exists() and note.read_text().endswith("\n"), "a call")
        pytest_process.send_signal(signal.SIGKILL)
    for process_id in note.read_text().split():
        wait_until(partial(is_gone, int(process_id)), "the end of a process")
    wait_until(lambda: not list(place.glob("failure-taxonomy-rubrics-*")), "an empty folder")


def is_gone(process_id: int) -> bool:
    """Return whether no process has this id."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False
