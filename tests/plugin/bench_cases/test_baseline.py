"""`--bench-baseline`: a run that got worse fails, and what can't be compared is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.runs import FinishedRun, PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    MODES,
    ON_WORKERS,
    SERIAL,
    SYSTEM,
    calls,
    only_bench,
    passing_cases,
    task_class_files,
)

MILD = MODES.replace("block", "info")
"""No failure mode fails a gate by itself."""
FAILING = SYSTEM.replace(
    'case.fields.get("answer", case.input)', '"wrong" if case.input < 6 else case.input'
)
"""A system that fails the first six cases, whatever they say."""
"""The process that prints the summary compares, so one test with xdist is enough."""


def cases_with(failing: int, count: int = 20) -> list[dict[str, Any]]:
    """Return cases of which the first ones fail."""
    cases = passing_cases(count)
    return [
        {**case, "answer": "wrong"} if number < failing else case
        for number, case in enumerate(cases)
    ]


def run_bench(
    runs: PytestRuns, failing: int, *arguments: str, count: int = 20, **files: Any
) -> FinishedRun:
    """Run a class of which the first cases fail, in tests that are not what is looked at."""
    runs.write(task_class_files(cases_with(failing, count), **{"modes": MILD, **files}))
    plugins = [BENCH, *(["xdist"] if "-n" in arguments else [])]
    return runs.run("bench", *arguments, plugins=plugins)


def make_baseline(runs: PytestRuns, failing: int = 0, **more: Any) -> None:
    """Write the file of a run."""
    run_bench(runs, failing, "--bench-json=base.json", **more)
    (runs.path / "calls.txt").unlink()


def gate_of(run: FinishedRun) -> dict[str, Any]:
    """Return what the gate of the only class says."""
    gate: dict[str, Any] = only_bench(run)["gate"]
    return gate


@ON_WORKERS
def test_a_loss_beyond_doubt_fails_the_gate(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Six cases of twenty that no longer pass are no chance; the report says which."""
    make_baseline(runs)
    run = run_bench(runs, 0, "--bench-baseline=base.json", *workers, system=FAILING)
    assert gate_of(run)["verdict"] == "FAIL"
    assert gate_of(run)["reasons"][0].startswith(
        "worse than the baseline: the mean changed by -0.300 (95 % "
    )
    baseline = only_bench(run)["baseline"]
    assert baseline["finding"] == "worse"
    assert [each["case_id"] for each in baseline["changes"]] == [
        f"case-00{n}" for n in range(6)
    ]
    assert baseline["not_checked"] == []
    text = "\n".join(run.stdout)
    assert (
        "6 no longer pass: case-000, case-001, case-002, case-003, case-004 and 1 more"
        in text
    )
    assert "gate: FAIL: worse than the baseline" in text


def test_of_several_classes_each_has_to_lose_more(runs: PytestRuns) -> None:
    """The six cases that fail a gate alone are undecided beside those of another class."""
    runs.write(task_class_files(passing_cases(20), modes=MILD, folder="bench/other"))
    make_baseline(runs)
    run = run_bench(runs, 0, "--bench-baseline=base.json", system=FAILING)
    assert {each["task_class"] for each in run.report["bench"]} == {"echo", "other"}
    for bench in run.report["bench"]:
        assert bench["baseline"]["interval_95"]["high"] < 0
        assert (bench["baseline"]["finding"], bench["gate"]["verdict"]) == (
            "undecided",
            "PASS",
        )
    assert "undecided (Holm's p = 0.062 for 2 comparisons)" in "\n".join(run.stdout)


def test_cases_that_were_changed_since_the_file_was_written(runs: PytestRuns) -> None:
    """The file holds one digest of all of them, which the run of the same cases has, too."""
    make_baseline(runs)
    run = run_bench(runs, 1, "--bench-baseline=base.json")
    assert (run.exit_status, gate_of(run)["verdict"]) == (1, "INCOMPLETE")
    (reason,) = gate_of(run)["reasons"]
    assert reason.startswith(
        "can't be compared with the baseline: cases were changed since"
    )
    assert reason.endswith("; run both with the same cases")


@SERIAL
def test_a_run_whose_tests_pass_fails_by_its_baseline(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Cases that pass with lower scores are green tests; the gate makes the exit code 1."""
    make_baseline(runs)
    lower = ECHO_RUBRIC.replace(
        "1.0 if passed", '(0.2 if case["input"] < 15 else 1.0) if passed'
    )
    run = run_bench(runs, 0, "--bench-baseline=base.json", *workers, rubric=lower)
    assert run.outcomes == {"passed": 20}
    # The digest of the rubric says that the scores have another measure.
    assert run.exit_status == 1
    assert gate_of(run)["verdict"] == "INCOMPLETE"
    assert "the rubric is not that of" in gate_of(run)["reasons"][0]
    text = "\n".join(run.stdout)
    assert text.count("the rubric is not that of ") >= 2
    assert text.count("grade both runs with one rubric") == 1
    base = runs.path / "base.json"
    older = json.loads(base.read_text("utf-8"))
    base.write_text(json.dumps([{**older[0], "digests": None}]), encoding="utf-8")
    run = run_bench(runs, 0, "--bench-baseline=base.json", *workers, rubric=lower)
    assert (run.exit_status, gate_of(run)["verdict"]) == (1, "FAIL")
    assert run.outcomes == {"passed": 20}


def test_a_run_that_is_no_worse_passes(runs: PytestRuns) -> None:
    """Few losses are no proof; a class without a gate of its own has one now."""
    make_baseline(runs)
    few = FAILING.replace("< 6", "< 2")
    run = run_bench(runs, 0, "--bench-baseline=base.json", system=few)
    assert gate_of(run) == {"verdict": "PASS", "reasons": []}
    assert only_bench(run)["baseline"]["finding"] == "undecided"


def test_other_cases_fail_the_run_and_a_selection_does_not(runs: PytestRuns) -> None:
    """A comparison that was asked for and can't be made is no success, unless cases were picked."""
    make_baseline(runs)
    run = run_bench(runs, 0, "--bench-baseline=base.json", count=21)
    assert (run.exit_status, gate_of(run)["verdict"]) == (1, "INCOMPLETE")
    assert "has the case case-020 that" in gate_of(run)["reasons"][0]
    run = run_bench(runs, 0, "--bench-baseline=base.json", "-k", "case-003")
    assert (run.exit_status, gate_of(run)["verdict"]) == (0, "INCOMPLETE")
    assert gate_of(run)["reasons"] == [
        "not all cases of the class were selected; the baseline needs them all"
    ]


def test_a_class_that_the_baseline_does_not_have_stays_as_it_is(
    runs: PytestRuns,
) -> None:
    """A new class has nothing to be compared with."""
    make_baseline(runs, folder="bench/other")
    for path in sorted((runs.path / "bench/other").rglob("*.*")):
        path.unlink()
    run = run_bench(runs, 0, "--bench-baseline=base.json")
    assert (run.exit_status, only_bench(run)["gate"]) == (0, None)
    assert "bench echo: the baseline has other, and no run of it" in run.stdout


def test_the_ini_value_is_relative_to_the_configuration_file(runs: PytestRuns) -> None:
    """The baseline can stand in the repository; a failure report is one, too."""
    run_bench(runs, 0)
    report = Path(runs.path / "failure-report.json").read_bytes()
    ini = "[pytest]\nbench_baseline = keep/base.json\n"
    files = task_class_files(cases_with(0), modes=MILD, system=FAILING)
    runs.write({**files, "keep/base.json": report.decode(), "pytest.ini": ini})
    run = runs.run("bench", plugins=[BENCH])
    assert gate_of(run)["verdict"] == "FAIL"
    assert only_bench(run)["baseline"]["old"].endswith("keep/base.json")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("no.json", "there is no such file; give a kept run"),
        ("bench", "is a directory and not a file; give"),
        ("conftest.py", "not JSON"),
        ("", "is a directory and not a file; give"),
    ],
)
@SERIAL
def test_a_baseline_that_can_not_be_read_ends_the_run_at_once(
    runs: PytestRuns, workers: tuple[str, ...], name: str, what: str
) -> None:
    """It is a usage error before any system is called."""
    run = run_bench(runs, 0, f"--bench-baseline={name}", *workers)
    assert run.exit_status == 4
    assert any("--bench-baseline: " in line and what in line for line in run.stderr)
    assert calls(runs) == []


def run_id_of(run: FinishedRun) -> str:
    """Return the id of the only run."""
    run_id: str = only_bench(run)["run_id"]
    return run_id


@SERIAL
def test_the_latest_kept_run_is_the_baseline(
    runs: PytestRuns, workers: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the one before this run, whatever its gate said, and its cases are known by digest."""
    first = run_bench(runs, 0, *workers)
    second = run_bench(runs, 0, "--bench-baseline=latest", *workers, system=FAILING)
    assert gate_of(second)["verdict"] == "FAIL"
    # What the run was compared with decides whenever it is looked at.
    for command in ("list", "show latest"):
        assert (
            main(["bench", *command.split(), f"--storage={runs.path / '.bench'}"]) == 0
        )
        said = capsys.readouterr().out
        assert "FAIL" in said
    assert "gate: FAIL: worse than the baseline" in said
    baseline = only_bench(second)["baseline"]
    assert (baseline["old_run_id"], baseline["finding"]) == (run_id_of(first), "worse")
    assert baseline["not_checked"] == []
    third = run_bench(runs, 0, "--bench-baseline=latest", *workers, system=FAILING)
    assert only_bench(third)["baseline"]["old_run_id"] == run_id_of(second)
    assert gate_of(third)["verdict"] == "PASS"


def test_the_latest_run_is_a_whole_one_and_never_this_one(runs: PytestRuns) -> None:
    """What was picked or is not complete is passed over, and so is a run that is continued."""
    first = run_bench(runs, 0)
    run_bench(runs, 0, "-k", "case-003")
    run_bench(
        runs, 0, "--bench-max-cost=0.5", rubric=ECHO_RUBRIC.replace("0.0)", "0.3)")
    )
    whole = run_bench(runs, 0)
    again = run_bench(runs, 0, "--bench-resume", "--bench-baseline=latest")
    assert run_id_of(again) == run_id_of(whole)
    assert only_bench(again)["baseline"]["old_run_id"] == run_id_of(first)


@SERIAL
def test_a_kept_run_is_named_by_its_beginning(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """So is its file; a case that was changed since can't be compared."""
    run_id = run_id_of(run_bench(runs, 0, *workers))
    for name in (run_id, run_id[:20], f".bench/{run_id}.jsonl"):
        run = run_bench(runs, 2, f"--bench-baseline={name}", *workers)
        assert gate_of(run)["verdict"] == "INCOMPLETE"
        assert gate_of(run)["reasons"][0].startswith(
            "can't be compared with the baseline: 2 cases case-000, case-001 were changed since"
        )


def test_nothing_is_kept_yet(runs: PytestRuns) -> None:
    """A baseline that can't be there is a usage error before any system is called."""
    run = run_bench(runs, 0, "--bench-baseline=latest")
    assert run.exit_status == 4
    assert any(
        "--bench-baseline: latest: no run is kept in " in line for line in run.stderr
    )
    assert calls(runs) == []


@SERIAL
def test_each_system_has_its_own_baseline(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Runs are paired by the label of the system; a new system stays as it is."""
    system = SYSTEM.replace(
        'scope="session")\ndef system_under_test():',
        'scope="session", params=["large", "small"])\ndef system_under_test(request):',
    ).replace(
        'case.fields.get("answer", case.input)',
        'os.environ.get("ANSWER_" + request.param, case.input)',
    )
    run_bench(runs, 0, "--bench-json=base.json", *workers, system=system)
    first = set((runs.path / ".bench").glob("*.jsonl"))
    changed = system.replace('"small"', '"small", "tiny"').replace(
        'os.environ.get("ANSWER_" + request.param, case.input)',
        '"wrong" if request.param == "small" else case.input',
    )
    for name in ("base.json", "latest"):
        for path in set((runs.path / ".bench").glob("*.jsonl")) - first:
            path.unlink()  # so that the latest are the first two
        run = run_bench(runs, 0, f"--bench-baseline={name}", *workers, system=changed)
        gates = {each["system_label"]: each["gate"] for each in run.report["bench"]}
        assert {label: gate and gate["verdict"] for label, gate in gates.items()} == {
            "large": "PASS",
            "small": "FAIL",
            "tiny": None,
        }
        has = "echo[large], echo[small], and no" if name == "base.json" else "no whole"
        assert f"bench echo[tiny]: the baseline has {has} run of it" in run.stdout
