"""`failure-taxonomy bench judge`, as a shell uses it, and what runs of the class show of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import ChildRun, run_child, run_pytest
from tests.helpers.kept_runs import write_files
from tests.helpers.task_classes import passing_cases, task_class_files

pytest.importorskip("scipy")

JUDGE: Final = (
    sys.executable,
    "-m",
    "pytest_failure_taxonomy",
    "bench",
    "judge",
    "bench/echo",
)
LABELS: Final = """\
- {id: right, case: case-000, output: 0, label: pass}
- {id: kind, case: case-001, output: "1", label: pass}
- {id: wrong, case: case-002, output: 0, label: fail, expect: null}
- {id: lucky, case: case-003, output: 3, label: fail}
"""
"""The rubric passes what equals the case's number."""


def write_class(root: Path, settings: str = "", labels: str = LABELS) -> None:
    """Write a class of six cases with labelled outputs."""
    write_files(root, task_class_files(passing_cases(6), settings=settings))
    write_files(root, {"bench/echo/oracle/people.yaml": labels})


def judge(root: Path, *options: str, **env: str) -> ChildRun:
    """Run the command."""
    return run_child(root, [*JUDGE, *options], env=env)


def run_bench(root: Path, *options: str, **env: str) -> tuple[ChildRun, dict[str, Any]]:
    """Run the class, and return its report, too."""
    run = run_pytest(
        root,
        "bench",
        "--bench-json=out.json",
        *options,
        env=env,
        plugins=("failure_taxonomy_bench",),
    )
    return run, json.loads((root / "out.json").read_text("utf-8"))[0]


def test_the_rubric_is_measured_by_labels(tmp_path: Path) -> None:
    """Its figures, and what it judges otherwise."""
    write_class(tmp_path)
    run, _ = run_bench(tmp_path)
    assert "7 passed" in run.stdout  # a label alone is no test
    said = judge(tmp_path)
    assert (said.status, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "bench echo: its rubric on 4 labelled outputs",
        "  agreement: 0.500 (95 % between 0.068 and 0.932, n=4)",
        "  true positive rate: 0.500 (95 % between 0.013 and 0.987, n=2)",
        "  true negative rate: 0.500 (95 % between 0.013 and 0.987, n=2)",
        "  Cohen's kappa: 0.000, where people pass 0.500",
        "  passes against the label (1): lucky",
        "  fails against the label (1): kind",
        "  kept as .bench/echo.judge.json",
    ]


def test_runs_of_the_class_show_it_until_the_rubric_changes(tmp_path: Path) -> None:
    """One line says what was measured; after a change of the rubric or its version it is stale."""
    write_class(
        tmp_path,
        "rubric_version: judge-$JUDGE_MODEL\n",
        LABELS.replace("lucky", "luck"),
    )
    found = json.loads(judge(tmp_path, "--format", "json", JUDGE_MODEL="a").stdout)
    assert found["agreement"]["wrongly_passed"] == ["luck"]
    run, report = run_bench(tmp_path, JUDGE_MODEL="a")
    line = "  judge: agrees with 0.500 of 4 labels, kappa 0.000, true positive rate 0.500, true"
    assert any(each.startswith(line) for each in run.stdout.splitlines())
    assert report["rubric_agreement"] == found["agreement"]
    shown = run_child(tmp_path, [*JUDGE[:-2], "show", "latest"], env={})
    assert line in shown.stdout
    run, report = run_bench(tmp_path, JUDGE_MODEL="b")
    assert report["rubric_agreement"]["is_stale"]
    since = found["agreement"]["measured_at"]
    assert (
        f"  judge: stale: the rubric has changed since {since}; run bench judge"
        in run.stdout
    )


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (
            LABELS.replace("label: pass", "lable: pass"),
            "people.yaml:1: unknown key 'lable'; did",
        ),
        (
            "{id: gold, case: case-000, output: 0, expect: gold}",
            "bench/echo: no example in its oracle/ has a label; give outputs that people have",
        ),
        (
            LABELS.replace("pass", "good"),
            "label: 'good' is unknown; write pass or fail",
        ),
    ],
)
def test_what_can_not_be_measured(tmp_path: Path, labels: str, why: str) -> None:
    """It is said in a line before the rubric is run."""
    write_class(tmp_path, labels=labels)
    said = judge(tmp_path)
    assert said.status == 2
    assert why in said.stderr


CRASHES: Final = """\
def grade(case, output):
    if case["id"] in {failing}:
        raise RuntimeError("429")
    passed = str(output) == case["id"][-1]
    return {{"passed": passed, "score": float(passed), "breakdown": {{}}}}
"""


def test_a_rubric_that_crashes_says_nothing_of_an_output(tmp_path: Path) -> None:
    """What has no verdict is in no rate; without any verdict nothing is measured."""
    write_class(tmp_path)
    rubric = tmp_path / "bench/echo/rubric.py"
    rubric.write_text(CRASHES.format(failing=["case-001"]), "utf-8")
    said = judge(tmp_path)
    assert (said.status, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[:2] == [
        "bench echo: its rubric on 3 labelled outputs",
        "  no verdict for 1 of 4: RuntimeError: 429",
    ]
    assert "  true positive rate: 1.000 (95 % between 0.025 and 1.000, n=1)" in lines
    found = json.loads(judge(tmp_path, "--format", "json").stdout)
    assert found["without_verdict"] == {"kind": "RuntimeError: 429"}
    (tmp_path / ".bench/echo.judge.json").unlink()

    rubric.write_text(CRASHES.format(failing=[f"case-00{n}" for n in range(4)]))
    said = judge(tmp_path)
    assert (said.status, said.stdout) == (2, "")
    assert "no verdict for 4 of 4: RuntimeError: 429" in said.stderr
    assert not (tmp_path / ".bench/echo.judge.json").exists()


@pytest.mark.parametrize("body", ["import nothing_like_it", "while True: pass"])
def test_a_rubric_without_a_verdict_says_why(tmp_path: Path, body: str) -> None:
    """A module that is missing, or a limit."""
    write_class(tmp_path, "rubric_wall_clock_seconds: 0.5\n")
    rubric = tmp_path / "bench/echo/rubric.py"
    rubric.write_text(f"def grade(case, output):\n    {body}\n", "utf-8")
    said = judge(tmp_path)
    assert said.status == 2
    assert "no verdict for 4 of 4: " in said.stderr
