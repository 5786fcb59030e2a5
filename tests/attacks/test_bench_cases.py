"""Systems that attack: each costs its own case, and reaches no other.

Every second case attacks, and many at a time. What a system in pytest's own process can do to
others all the same is listed in docs/bench/isolation.md, and not tried here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.attacks import bench_attacks
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import BENCH, only_bench, task_class_files

pytestmark = [pytest.mark.slow, pytest.mark.linux("fork, signals, limits")]

SETTINGS: Final = """\
timeout_per_case_seconds: 2
concurrency: 8
stop_after_same_failure: 0
"""
RUBRIC: Final = """\
def grade(case, output):
    passed = output == case["input"]
    return {"passed": passed, "score": float(passed), "breakdown": {}, "failure_modes": []}
"""
FIXTURE: Final = """\
import bench_attacks
import pytest

@pytest.fixture(scope="session")
def system_under_test():
    return bench_attacks.coroutine
"""

EVERYWHERE: Final = [
    *bench_attacks.RAISING,
    *bench_attacks.ANSWERING,
    *bench_attacks.LEAVING,
    *bench_attacks.KEEPING,
    *("signal_pipe", "fork"),
]
"""Attacks that reach no other case in any mode, with plain and async systems."""
STOPS_THE_LOOP: Final = {"usage_hangs"}
"""It hangs in the coroutine itself, where the answer is made."""


def run_attacks(
    runs: PytestRuns,
    attacks: Iterable[str],
    settings: str,
    conftest: str = "",
    limit_seconds: int = 2,
) -> dict[str, Any]:
    """Run a bench in which every second case attacks; return its report."""
    cases: list[dict[str, Any]] = []
    for number, name in enumerate(attacks):
        cases.append({"id": f"attack-{name}", "input": number, "attack": name})
        cases.append({"id": f"good-{number}", "input": number})
    text = SETTINGS.replace("seconds: 2", f"seconds: {limit_seconds}") + settings
    runs.write(task_class_files(cases, settings=text, rubric=RUBRIC, system=conftest))
    shutil.copy(Path(bench_attacks.__file__), runs.path / "bench_attacks.py")
    report = only_bench(runs.run("bench", "-q", plugins=[BENCH]))
    assert report["counts"]["started"] == len(cases)
    good = [case["id"] for case in cases if "attack" not in case]
    passed = {case_id for case_id, score in report["per_case"] if score["passed"]}
    assert [case_id for case_id in good if case_id not in passed] == []
    return report


@pytest.mark.parametrize(
    "system", ["plain", pytest.param("coroutine", marks=pytest.mark.nightly)]
)
def test_in_processes_of_its_own_each_case_is_graded(
    runs: PytestRuns, system: str
) -> None:
    """Whatever a case does, it has a score, and every other case passes."""
    attacks = [
        each
        for each in bench_attacks.ALL
        if system == "coroutine" or each not in bench_attacks.LOOP
    ]
    report = run_attacks(runs, attacks, f"sut: bench_attacks:{system}\n")
    assert report["counts"]["graded"] == 2 * len(attacks)


@pytest.mark.nightly
def test_in_a_thread_no_case_reaches_another(runs: PytestRuns) -> None:
    """What would end a run costs its own case's score, and every other case passes."""
    attacks = [*EVERYWHERE, *bench_attacks.HANGING]
    settings = "sut: bench_attacks:plain\nsut_isolation: thread\n"
    report = run_attacks(runs, attacks, settings)
    assert report["counts"]["graded"] >= 2 * len(attacks) - 15


@pytest.mark.nightly
def test_in_a_fixtures_coroutine_no_case_reaches_another(runs: PytestRuns) -> None:
    """As in a thread; attacks on the loop cost their own case."""
    attacks = [
        each
        for each in (*EVERYWHERE, *bench_attacks.LOOP)
        if each not in STOPS_THE_LOOP
    ]
    # What holds the loop for a second holds it for longer where other tests run beside this one,
    # and a loop that is held for the limit is given up.
    report = run_attacks(runs, attacks, "", FIXTURE, limit_seconds=5)
    assert report["counts"]["graded"] >= 2 * len(attacks) - 15
