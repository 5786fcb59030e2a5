"""Systems that attack: each costs its own case, and reaches no other."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.attacks import bench_attacks
from tests.helpers.runs import FinishedRun, PytestRuns
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


def run_attacks(
    runs: PytestRuns, attacks: Iterable[str], settings: str, system: str
) -> FinishedRun:
    """Run a bench in which every second case attacks."""
    cases = []
    for number, name in enumerate(attacks):
        cases.append({"id": f"attack-{name}", "input": number, "attack": name})
        cases.append({"id": f"good-{number}", "input": number})
    files = task_class_files(cases, settings=SETTINGS + settings, rubric=RUBRIC, system=system)
    runs.write(files)
    shutil.copy(Path(bench_attacks.__file__), runs.path / "bench_attacks.py")
    return runs.run("bench", "-q", plugins=[BENCH])


@pytest.mark.parametrize("system", ["plain", "coroutine"])
def test_in_a_process_of_its_own_each_case_is_graded(runs: PytestRuns, system: str) -> None:
    """Whatever a case does, it has a score, and every other case passes."""
    loop = () if system == "plain" else bench_attacks.LOOP
    attacks = [each for each in bench_attacks.ALL if each not in bench_attacks.LOOP]
    run = run_attacks(runs, [*attacks, *loop], f"sut: bench_attacks:{system}\n", "")
    report = only_bench(run)
    scores = dict(report["per_case"])
    assert [
        name for name in report["per_case"] if name[0].startswith("good") and not name[1]["passed"]
    ] == []
    assert len(scores) == report["counts"]["scheduled"] == 2 * len([*attacks, *loop])
