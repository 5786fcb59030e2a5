"""`--bench-shard`, and the merge of the shards' reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.runs import REPORT, PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    calls,
    only_bench,
    passing_cases,
    task_class_files,
)


def run_shard(runs: PytestRuns, shard: str, *args: str, workers: int = 0) -> Path:
    """Run one shard successfully, and return a copy of its report."""
    extra = ["-n", str(workers)] if workers else []
    plugins = [BENCH, *(["xdist"] if workers else [])]
    run = runs.run("bench", f"--bench-shard={shard}", *extra, *args, plugins=plugins)
    assert run.exit_status == 0, run.stdout
    kept = runs.path / f"shard-{shard.replace('/', '-of-')}.json"
    kept.write_text((runs.path / REPORT).read_text())
    return kept


def merged(runs: PytestRuns, *reports: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of a merge."""
    output = runs.path / "merged.json"
    status = main(["merge", *map(str, reports), "-o", str(output)])
    return status, json.loads(output.read_text())


@pytest.mark.parametrize("workers", [2], ids=["xdist"])
def test_shards_are_one_run_together(runs: PytestRuns, workers: int) -> None:
    """Each case runs in one shard; the merged report has one bench with the gate of all."""
    settings = "repeat: 2\ngate: {lower_bound_95: 0.5, min_passed_cases: 7}\n"
    runs.write(task_class_files(passing_cases(7), settings=settings))
    shards = [run_shard(runs, f"{index}/3", workers=workers) for index in (1, 2, 3)]
    assert calls(runs) == sorted(2 * [f"case-{n:03}" for n in range(7)])
    sizes = []
    for path in shards:
        (bench,) = json.loads(path.read_text())["bench"]
        sizes.append(bench["counts"]["graded"])
        assert bench["complete"]
        assert bench["gate"]["verdict"] == "INCOMPLETE"
    assert sizes == [6, 4, 4]
    status, report = merged(runs, *reversed(shards))
    (bench,) = report["bench"]
    assert status == 0
    assert bench["gate"] == {"verdict": "PASS", "reasons": []}
    assert (bench["passed_count"], bench["lower_bound_95"]["n"]) == (14, 7)
    assert bench["shard"] is None


def test_a_merged_report_can_be_merged_again(runs: PytestRuns) -> None:
    """In two steps the result is that of one; until then a shard is missing."""
    runs.write(
        task_class_files(passing_cases(9), settings="gate: {min_passed_cases: 9}\n")
    )
    first, second, third = (run_shard(runs, f"{index}/3") for index in (1, 2, 3))
    status, report = merged(runs, first, third)
    assert status == 1
    assert report["verdict"]["kind"] == "shard.missing"
    assert report["bench"][0]["gate"] == {
        "verdict": "INCOMPLETE",
        "reasons": ["shard 2 of 3 is missing", "6 cases passed; at least 9 are needed"],
    }
    both = runs.path / "both.json"
    both.write_text(json.dumps(report))
    status, twice = merged(runs, both, second)
    assert (status, twice["bench"][0]["gate"]["verdict"]) == (0, "PASS")
    assert twice["bench"] == merged(runs, first, second, third)[1]["bench"]


def test_a_gate_that_only_all_shards_can_fail(runs: PytestRuns) -> None:
    """Each job succeeds, and the merge fails."""
    runs.write(
        task_class_files(passing_cases(4), settings="gate: {min_passed_cases: 5}\n")
    )
    shards = [run_shard(runs, f"{index}/2") for index in (1, 2)]
    status, report = merged(runs, *shards)
    assert status == 1
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("TESTS_FAILED", "bench.gate")
    assert verdict["message"].startswith("the gate of bench echo failed")


def test_shards_of_other_splits_are_refused(
    runs: PytestRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, with exit code 2; so it is for a rubric that was changed in between."""
    files = task_class_files(passing_cases(4))
    runs.write(files)
    first = run_shard(runs, "1/2", "--failure-taxonomy-shard=1/2")
    runs.write(
        {**files, "bench/echo/rubric.py": files["bench/echo/rubric.py"] + "# changed\n"}
    )
    second = run_shard(runs, "2/2", "--failure-taxonomy-shard=2/2")
    assert main(["merge", str(first), str(second)]) == 2
    words = (
        "bench bench/echo: the shards differ in their rubric; merge those of one commit"
    )
    assert words in capsys.readouterr().err


def test_a_shard_has_its_part_of_the_cost_cap(runs: PytestRuns) -> None:
    """The cap of the class is divided by the number of shards."""
    cases = [{**case, "rubric_cost": 1.0} for case in passing_cases(20)]
    settings = "max_cost_usd: 4\nconcurrency: 1\n"
    runs.write(task_class_files(cases, settings=settings))
    run = runs.run("bench", "--bench-shard=1/2", plugins=[BENCH])
    assert only_bench(run)["counts"]["scheduled"] == 10
    assert len(calls(runs)) == 3
    assert run.exit_status == 1


def test_a_selection_of_a_shard_is_told(runs: PytestRuns) -> None:
    """With `-k` the gate says that the user chose; after the merge, too."""
    runs.write(
        task_class_files(passing_cases(6), settings="gate: {min_passed_cases: 1}\n")
    )
    shards = [run_shard(runs, f"{index}/2", "-k", "not case-000") for index in (1, 2)]
    _, report = merged(runs, *shards)
    (reason,) = report["bench"][0]["gate"]["reasons"]
    assert reason.startswith("not all cases of the class were selected")


@pytest.mark.parametrize("given", ["0/3", "4/3", "a/b"])
def test_a_bad_shard_is_a_usage_error(runs: PytestRuns, given: str) -> None:
    """One line says what would be right, of the option and of the ini value."""
    run = runs.run(f"--bench-shard={given}", plugins=[BENCH])
    assert run.exit_status == 4
    words = f"'{given}' is no part of a bench; give one such as 2/4"
    assert f"ERROR: --bench-shard: {words}" in run.stderr
    runs.write({"pytest.ini": f"[pytest]\nbench_shard = {given}\n"})
    assert f"ERROR: bench_shard: {words}" in runs.run(plugins=[BENCH]).stderr


def test_other_tests_run_in_every_shard(runs: PytestRuns) -> None:
    """Tests with the mark `bench` run the cases of the shard; plain tests know no shards."""
    test = (
        "import pytest\n"
        '@pytest.mark.bench("echo")\n'
        "def test_case(case, bench):\n"
        "    bench.score(case.input)\n"
        "def test_plain(): pass\n"
    )
    runs.write({**task_class_files(passing_cases(4)), "test_it.py": test})
    run = runs.run("test_it.py", "--bench-shard=2/2", plugins=[BENCH])
    assert run.outcomes == {"passed": 3, "deselected": 2}
    assert only_bench(run)["shard"]["source"] == "bench/echo in test_it.py::test_case"
