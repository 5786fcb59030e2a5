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
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    WORKERS,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)
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
def test_a_rate_limit_in_another_process_is_retried(
    runs: PytestRuns, workers: int
) -> None:
    """The kind of its exception is known here; each call is paid for."""
    settings = (
        f"{IN_PROCESSES}retry: {{on: [llm.rate_limited], backoff_seconds: 0.01}}\n"
    )
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
    wait_until(
        lambda: not list(place.glob("failure-taxonomy-rubrics-*")), "an empty folder"
    )


def is_gone(process_id: int) -> bool:
    """Return whether no process has this id."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


KILLER: Final = """\
import os, time

CALLS = os.path.join(os.path.dirname(__file__), "calls.txt")


def answer(case):
    with open(CALLS, "a") as file:
        file.write(case.case_id + "\\n")
    if case.fields.get("kills"):
        while len(open(CALLS).read().split()) < case["kills"]:
            time.sleep(0.01)
        os.kill(os.getppid(), 9)
        time.sleep(60)
    time.sleep(case.fields.get("sleep", 0))
    return case.input
"""
"""Kills the process that started it once so many cases have begun."""


@pytest.mark.slow
@pytest.mark.posix("forks")
def test_a_case_that_kills_its_parent_costs_the_others_no_score(
    runs: PytestRuns,
) -> None:
    """What ran beside it is lost, and runs when the run is continued; then it is known, too."""
    cases = [{**case, "sleep": 2} for case in passing_cases(3)]
    cases += [{"id": "kills", "input": 0, "kills": 4}, *passing_cases(6)[3:]]
    settings = f"{IN_PROCESSES}concurrency: 4\ngate: {{}}\n"
    runs.write(
        {**task_class_files(cases, settings=settings, system=""), "named.py": KILLER}
    )
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 1
    report = only_bench(run)
    assert (report["counts"]["lost"], report["counts"]["passed"]) == (4, 3)
    assert report["block_severity_failure_modes"] == []
    assert (report["complete"], report["gate"]["verdict"]) == (False, "INCOMPLETE")
    assert "it is not known which of them did it" in "\n".join(run.stdout)
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    report = only_bench(run)
    assert (report["counts"]["graded"], report["counts"]["passed"]) == (7, 6)
    assert codes_by_case(report)["kills"] == ["sut.exception"]
    assert len(calls(runs)) == 7 + 4
    runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert len(calls(runs)) == 7 + 4


@WORKERS
def test_the_time_of_a_system_is_its_own(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Neither the rubric's time is in it nor what a case waited for."""
    cases = [{**case, "sleep": 0.05} for case in passing_cases(6)]
    rubric = f"import time\n{ECHO_RUBRIC}".replace(
        "    print(", "    time.sleep(0.5)\n    print("
    )
    files = task_class_files(cases, settings=IN_PROCESSES, rubric=rubric, system="")
    runs.write({**files, "named.py": KILLER})
    run = runs.run("bench", "-v", *workers, plugins=[BENCH, "xdist"])
    for _, score in only_bench(run)["per_case"]:
        assert 50 <= score["system_ms"] <= score["wall_clock_ms"] - 500


CURIOUS: Final = """\
import pickle


def answer(case):
    for of_the_rubric in ("expected", "tags"):
        with pytest_raises() as raised:
            case[of_the_rubric]
        assert "is hidden" in str(raised), raised
    assert set(case.fields) == {"id", "input"}
    assert (case.tags, case.path, case.line) == ((), None, None)
    assert b"secret" not in pickle.dumps(case), pickle.dumps(case)
    return "the secret"


class pytest_raises:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.error = error
        return kind is KeyError

    def __str__(self):
        return str(self.error)
"""
CURIOUS_FIXTURE: Final = """\
import pytest
from named import answer


@pytest.fixture(scope="session")
def system_under_test():
    return answer
"""
GRADES_EXPECTED: Final = """\
def grade(case, output):
    passed = output == case["expected"] and case["tags"] == ["secretive"]
    return {"passed": passed, "score": float(passed), "breakdown": {}}
"""


@pytest.mark.parametrize("where", ["process", "thread", "fixture"])
def test_hidden_fields_are_for_the_rubric_alone(runs: PytestRuns, where: str) -> None:
    """A system has neither the fields nor the file, wherever it runs; the rubric has them all."""
    case = {"id": "a", "input": 1, "expected": "the secret", "tags": ["secretive"]}
    named = "" if where == "fixture" else f"sut: named:answer\nsut_isolation: {where}\n"
    files = task_class_files(
        [case],
        settings=f"hidden: [expected, tags]\n{named}",
        system=CURIOUS_FIXTURE if where == "fixture" else "",
        rubric=GRADES_EXPECTED,
    )
    runs.write({**files, "named.py": CURIOUS})
    run = runs.run("bench", "-m", "secretive", plugins=[BENCH])
    assert run.outcomes == {"passed": 1}


@WORKERS
def test_a_module_that_starts_threads_is_told(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """No fork has them, so a system that needs them would hang."""
    system = (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "def answer(case):\n    return case.input\n"
    )
    files = task_class_files(
        passing_cases(4), settings="sut: named:answer\n", system=""
    )
    runs.write({**files, "named.py": system})
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes == {"passed": 4}
    says = "bench: named:answer starts threads on import; no fork has them: start them in the call, or"
    assert sum(line.startswith(says) for line in run.stdout) == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import os\nos._exit(0)\n", "its process exited with code 0"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("raise ValueError('no')\n", "ValueError: no"),
        ("import os\nos.kill(os.getpid(), 9)\n", "its process was killed by SIGKILL"),
    ],
)
def test_a_module_that_ends_its_process_is_an_error_of_collection(
    runs: PytestRuns, source: str, says: str
) -> None:
    """It is imported where it runs, and pytest says why it can't be."""
    files = task_class_files(
        passing_cases(4), settings="sut: named:answer\n", system=""
    )
    runs.write({**files, "named.py": source})
    run = runs.run("bench", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (2, {"errors": 1})
    words = (
        f"bench/echo/bench.yaml: sut: named can't be imported ({says}); fix the module"
    )
    assert words in run.stdout


def test_a_named_system_sees_what_fixtures_have_set(runs: PytestRuns) -> None:
    """It was imported before; but a variable that a fixture sets is there when it is called."""
    system = "import os\ndef answer(case):\n    return int(os.environ['ANSWER'])\n"
    conftest = (
        "import os, pytest\n"
        "@pytest.fixture(autouse=True, scope='session')\n"
        "def key():\n    os.environ['ANSWER'] = '0'\n"
    )
    cases = [{"id": f"case-{number}", "input": 0} for number in range(3)]
    files = task_class_files(cases, settings="sut: named:answer\n", system=conftest)
    runs.write({**files, "named.py": system})
    assert runs.run("bench", plugins=[BENCH]).outcomes == {"passed": 3}
