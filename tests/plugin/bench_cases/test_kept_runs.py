"""The file of a run: what is in it, where it is, and when there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    WORKERS,
    only_bench,
    passing_cases,
    task_class_files,
)

PLUGINS: Final = [BENCH, "xdist"]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the only run in a folder."""
    (path,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@ON_WORKERS
def test_each_case_has_its_lines(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """First the run, then its cases, then what happened, whichever process it happened in."""
    runs.write(task_class_files(passing_cases(6), settings="sut_version: '2.1'\n"))
    run = runs.run("bench", *workers, plugins=PLUGINS)
    records = lines_of(runs.path / ".bench")
    header, cases, *rest = records
    assert header["record"] == "run"
    assert header["task_class"] == "echo"
    assert header["folder"] == "bench/echo"
    assert header["system"]["version"] == "2.1"
    assert header["run_id"] == only_bench(run)["run_id"]
    assert [each["case_id"] for each in cases["cases"]] == [
        f"case-{n:03}" for n in range(6)
    ]
    assert sorted(each["record"] for each in rest) == ["attempt"] * 6 + ["started"] * 6
    outputs = {
        each["case_id"]: each["output"] for each in rest if each["record"] == "attempt"
    }
    assert outputs == {f"case-{n:03}": n for n in range(6)}
    assert f"kept: .bench/{header['run_id']}.jsonl" in "\n".join(run.stdout)
    assert (runs.path / ".bench/.gitignore").read_text().endswith("*\n")
    assert sorted(each.name for each in (runs.path / ".bench").iterdir()) == [
        ".gitignore",
        f"{header['run_id']}.jsonl",
    ]


def test_secrets_stay_out_and_long_outputs_are_told(runs: PytestRuns) -> None:
    """What looks like a key is not written; an output beyond the limit is left out, and said."""
    key = "ghp_" + "a1B2" * 9
    cases = [
        {"id": "key", "input": f"token {key}"},
        {"id": "long", "input": "x" * 300_000},
    ]
    runs.write(task_class_files(cases))
    runs.run("bench", plugins=[BENCH])
    (path,) = (runs.path / ".bench").glob("*.jsonl")
    assert key not in path.read_text("utf-8")
    by_case = {
        each["case_id"]: each
        for each in lines_of(runs.path / ".bench")
        if each["record"] == "attempt"
    }
    assert by_case["key"]["is_redacted"]
    assert "[REDACTED" in by_case["key"]["output"]
    assert by_case["long"]["truncated"] == ["output"]
    assert by_case["long"]["output"] is None


@WORKERS
@pytest.mark.parametrize("how", ["option", "ini"])
def test_nothing_is_kept_where_that_is_asked(
    runs: PytestRuns, workers: tuple[str, ...], how: str
) -> None:
    """No folder appears, and the run is as good."""
    runs.write(task_class_files(passing_cases(4)))
    if how == "ini":
        (runs.path / "pytest.ini").write_text("[pytest]\nbench_no_save = true\n")
    options = ("--bench-no-save",) if how == "option" else ()
    report = only_bench(runs.run("bench", *options, *workers, plugins=PLUGINS))
    assert report["counts"]["passed"] == 4
    assert not (runs.path / ".bench").exists()


def test_another_folder(runs: PytestRuns) -> None:
    """An option names it relative to where pytest was started, an ini value to its file."""
    runs.write(task_class_files(passing_cases(2)))
    runs.run("bench", "--bench-storage=kept here", plugins=[BENCH])
    assert len(lines_of(runs.path / "kept here")) == 6
    (runs.path / "pytest.ini").write_text("[pytest]\nbench_storage = by-ini\n")
    runs.run("bench", plugins=[BENCH])
    assert len(lines_of(runs.path / "by-ini")) == 6
    assert not (runs.path / ".bench").exists()


@WORKERS
def test_a_folder_that_cant_be_written_costs_no_run(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The cases run all the same, and a line says that nothing was kept."""
    runs.write(task_class_files(passing_cases(4)))
    (runs.path / ".bench").write_text("a file of the user's")
    run = runs.run("bench", *workers, plugins=PLUGINS)
    assert only_bench(run)["counts"]["passed"] == 4
    assert "bench: the run is not kept: " in "\n".join(run.stdout)
    assert (runs.path / ".bench").read_text() == "a file of the user's"


def test_runs_of_tests_are_kept_too(runs: PytestRuns) -> None:
    """A test that runs a class, and tests with the mark, each have a file."""
    files = task_class_files(passing_cases(3))
    files["test_it.py"] = """\
import pytest


def test_runs_all(bench, system_under_test):
    assert bench.run_sync("echo", system_under_test).passed_count == 3


@pytest.mark.bench("echo")
def test_each(bench, case):
    assert bench.score(case.input, cost_usd=0.5).passed
"""
    runs.write(files)
    run = runs.run("test_it.py", plugins=[BENCH])
    assert run.outcomes == {"passed": 4}
    found = {}
    for path in (runs.path / ".bench").glob("*.jsonl"):
        header, *rest = [json.loads(line) for line in path.read_text().splitlines()]
        found[header["test"]] = [each for each in rest if each["record"] == "attempt"]
    assert sorted(found) == ["test_it.py::test_each", "test_it.py::test_runs_all"]
    assert [each["output"] for each in found["test_it.py::test_each"]] == [0, 1, 2]
    assert [each["cost_usd"] for each in found["test_it.py::test_each"]] == [0.5] * 3
    assert len(found["test_it.py::test_runs_all"]) == 3
    ids = {each["run_id"] for each in run.report["bench"]}
    assert ids <= {path.stem for path in (runs.path / ".bench").glob("*.jsonl")}


def test_no_file_where_no_case_ran(runs: PytestRuns) -> None:
    """`--collect-only` and a run without cases leave nothing behind."""
    runs.write(
        {**task_class_files(passing_cases(2)), "test_a.py": "def test_a(): pass\n"}
    )
    runs.run_unchecked("bench", "--collect-only", "-q", plugins=[BENCH])
    runs.run("test_a.py", plugins=[BENCH])
    assert not (runs.path / ".bench").exists()
