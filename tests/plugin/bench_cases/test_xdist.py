"""Cases under pytest-xdist: each runs once, in units, and one report comes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    SYSTEM,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

PLUGINS = [BENCH, "xdist"]
FIXTURE_OF_THE_USERS = """
import pytest

@pytest.fixture
def bench():
    return 1

def test_it(bench):
    assert bench == 1
"""


@pytest.mark.lowest
@pytest.mark.parametrize(
    ("workers", "dist"),
    [
        (0, "load"),
        (4, "load"),
        pytest.param(2, "loadscope", marks=pytest.mark.slow),
        pytest.param(2, "loadgroup", marks=pytest.mark.slow),
        pytest.param(2, "worksteal", marks=pytest.mark.slow),
    ],
)
def test_every_case_runs_exactly_once(
    runs: PytestRuns, workers: int, dist: str
) -> None:
    """However many workers there are, and by whatever scheduler, each system is called once."""
    cases = {
        "a.jsonl": passing_cases(23),
        "b.jsonl": [{"id": "wrong", "input": 1, "answer": 2}],
    }
    tests = (
        "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_it(n): pass\n"
    )
    runs.write({**task_class_files(cases), "test_it.py": tests})
    run = runs.run("-n", str(workers), "--dist", dist, plugins=PLUGINS)
    assert calls(runs) == [*(f"case-{n:03}" for n in range(23)), "wrong"]
    assert run.outcomes == {"passed": 28, "failed": 1}
    report = only_bench(run)
    assert report["counts"] == {
        "scheduled": 24,
        "started": 24,
        "graded": 24,
        "lost": 0,
        "passed": 23,
        "not_run": 0,
    }
    assert [case_id for case_id, _ in report["per_case"]] == calls(runs)
    assert report["gate"] is None


@pytest.mark.lowest
def test_report_is_that_of_a_serial_run(runs: PytestRuns) -> None:
    """What a task class came to does not depend on how it was distributed."""
    cases = [*passing_cases(11), {"id": "wrong", "input": 1, "answer": 2}]
    runs.write(task_class_files(cases, settings="gate: {lower_bound_95: 0.5}\n"))
    serial = _timeless(only_bench(runs.run("bench", plugins=PLUGINS)))
    distributed = _timeless(only_bench(runs.run("bench", "-n", "2", plugins=PLUGINS)))
    assert distributed == serial


def _timeless(report: dict[str, Any]) -> dict[str, Any]:
    for _, score in report["per_case"]:
        del score["wall_clock_ms"], score["system_ms"]
    del report["run_id"]
    return report


@pytest.mark.lowest
def test_runs_without_cases_keep_their_scheduler(runs: PytestRuns) -> None:
    """Where no case is collected, pytest-xdist says and does what it would without us."""
    tests = (
        "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_it(n): pass\n"
    )
    runs.write({"test_it.py": tests})
    run = runs.run("-n", "2", "-v", plugins=PLUGINS)
    assert "scheduling tests via LoadScheduling" in run.stdout
    assert run.report["bench"] == []


def test_concurrency_is_that_of_all_workers_together(runs: PytestRuns) -> None:
    """Two workers run no more cases at a time than the task class allows."""
    system = SYSTEM.replace(
        '        if "sleep" in case.fields:\n',
        "        mark = CALLS + '.' + case.case_id\n"
        "        open(mark, 'w').close()\n"
        "        await asyncio.sleep(0.1)\n"
        "        import glob\n"
        "        case.fields['answer'] = len(glob.glob(CALLS + '.*'))\n"
        "        os.unlink(mark)\n"
        '        if "sleep" in case.fields:\n',
    )
    rubric = (
        "def grade(case, output):\n"
        "    return {'passed': output <= 4, 'score': 1.0, 'breakdown': {}}\n"
    )
    files = task_class_files(
        passing_cases(24), settings="concurrency: 4\n", system=system, rubric=rubric
    )
    runs.write(files)
    assert runs.run("bench", "-n", "2", plugins=PLUGINS).outcomes == {"passed": 24}


@pytest.mark.lowest
def test_system_that_kills_its_worker_costs_its_own_case(runs: PytestRuns) -> None:
    """When a worker dies, its cases are run one by one, and the one that did it is found."""
    cases = [*passing_cases(8), {"id": "case-004-exits", "input": 1, "exit": 3}]
    runs.write(task_class_files(sorted(cases, key=lambda case: str(case["id"]))))
    run = runs.run("bench", "-n", "2", plugins=PLUGINS)
    report = only_bench(run)
    assert [case_id for case_id, _ in report["per_case"]] == [
        f"case-{n:03}" for n in range(8)
    ]
    assert report["counts"] == {
        "scheduled": 9,
        "started": 9,
        "graded": 8,
        "lost": 1,
        "passed": 8,
        "not_run": 0,
    }
    assert report["complete"] is False
    assert report["mean_score"] == pytest.approx(8 / 9)
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")
    crashed = [
        worker["crashed_on"] for worker in run.report["workers"] if worker["crashed_on"]
    ]
    assert crashed == ["bench/echo/cases/a.jsonl::case-004-exits"]


@pytest.mark.slow
def test_scores_of_a_dead_worker_are_not_paid_again(runs: PytestRuns) -> None:
    """Of a fixture's cases only those in flight are called again."""
    cases = [
        *({"id": f"a-{number:02}", "input": number} for number in range(16)),
        {"id": "b-exits", "input": 1, "sleep": 0.8, "exit": 3},
        *({"id": f"c-{number}", "input": number, "sleep": 1.2} for number in range(3)),
    ]
    runs.write(task_class_files(cases, settings="concurrency: 8\n"))
    # One unit, whose first item waits while most cases get their scores.
    first = "import time\ndef pytest_runtest_setup(item):\n    time.sleep(0.1)\n"
    runs.write({"bench/echo/conftest.py": first})
    run = runs.run("bench", "-n", "1", plugins=PLUGINS)
    assert run.outcomes == {"passed": 19, "failed": 1}
    called = Counter(calls(runs))
    assert [
        name for name, count in called.items() if count > 1 and name.startswith("a-")
    ] == []
    assert max(called.values()) <= 2


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_skipped_case_is_not_called_ahead(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A hook of the user's has marked it, as conftests do that skip what is slow."""
    skipped = [{"id": "skip", "input": 1}, {"id": "skipif", "input": 1}]
    runs.write(task_class_files([*passing_cases(3), *skipped]))
    hook = (
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        if item.name == 'skip': item.add_marker(pytest.mark.skip)\n"
        "        if item.name == 'skipif': item.add_marker(pytest.mark.skipif(True, reason='x'))\n"
    )
    runs.write({"bench/echo/conftest.py": hook})
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes == {"passed": 3, "skipped": 2}
    assert sorted(calls(runs)) == ["case-000", "case-001", "case-002"]


def test_no_journal_is_left(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers noted for each other is gone when the run ends."""
    temporary = runs.path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    runs.write(task_class_files(passing_cases(4)))
    runs.run("bench", "-n", "2", plugins=PLUGINS)
    left = [path.name for path in Path(temporary).iterdir()]
    assert [name for name in left if not name.startswith("pytest-of-")] == []


def test_exit_first(runs: PytestRuns) -> None:
    """`-x` ends the workers, too, and the rest is not run or lost, never passed."""
    cases = [
        {"id": "a-wrong", "input": 1, "answer": 2},
        *({"id": f"b-{n:02}", "input": n, "sleep": 0.5} for n in range(30)),
    ]
    runs.write(task_class_files(cases, settings="concurrency: 2\n"))
    run = runs.run("bench", "-x", "-n", "2", plugins=PLUGINS)
    report = only_bench(run)
    assert report["complete"] is False
    assert report["counts"]["scheduled"] == 31
    assert codes_by_case(report)["a-wrong"] == ["answer.wrong"]


def test_dist_each_runs_all_cases_in_every_worker(runs: PytestRuns) -> None:
    """`--dist each` asks for every test in every worker, and that it gets."""
    runs.write(task_class_files(passing_cases(3)))
    run = runs.run("bench", "--dist", "each", "--tx", "2*popen", plugins=PLUGINS)
    assert len(calls(runs)) == 6
    assert run.exit_status == 0


@pytest.mark.parametrize("dist", ["load", "loadscope"])
def test_ordinary_tests_that_crash_beside_cases(runs: PytestRuns, dist: str) -> None:
    """A crash of an ordinary test costs that test, and neither the run nor a case."""
    crash = (
        "import os\nimport pytest\n"
        "@pytest.mark.parametrize('n', range(12))\n"
        "def test_it(n):\n    if n == 5: os._exit(1)\n"
    )
    files = {"test_one.py": crash, "test_two.py": crash}
    runs.write({**task_class_files(passing_cases(10)), **files})
    run = runs.run("-n", "2", "--dist", dist, plugins=PLUGINS)
    assert run.outcomes == {"passed": 32, "failed": 2}
    assert only_bench(run)["passed_count"] == 10


def test_late_crash_in_a_big_task_class(runs: PytestRuns) -> None:
    """However many cases are left when a worker dies, all others have a score in the end."""
    cases = [*passing_cases(40), {"id": "case-015-exits", "input": 1, "exit": 1}]
    runs.write(task_class_files(sorted(cases, key=lambda case: str(case["id"]))))
    run = runs.run("bench", "-n", "2", plugins=PLUGINS)
    assert run.outcomes == {"passed": 40, "failed": 1}
    assert only_bench(run)["passed_count"] == 40


def test_a_fixture_of_the_name_bench_is_no_bench(runs: PytestRuns) -> None:
    """Tests with a fixture of their own that is called so leave no folder of ours."""
    runs.write({"test_it.py": FIXTURE_OF_THE_USERS})
    run = runs.run("-n", "2", plugins=[BENCH, "xdist"])
    assert run.outcomes == {"passed": 1}
    assert not (runs.path / ".bench").exists()
