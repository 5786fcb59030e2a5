"""Several rubrics of a class, and what they see of the environment, in real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

from tests.helpers.children import run_child
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    ON_WORKERS,
    SERIAL,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

STYLE: Final = """\
def grade(case, output):
    print("styling", case["id"])
    if output == 1:
        raise ValueError("no style")
    return {"passed": output != 2, "score": 0.5, "breakdown": {}, "cost_usd": 0.25}
"""
TWO: Final = {
    "bench/echo/rubrics/right.py": ECHO_RUBRIC,
    "bench/echo/rubrics/style.py": STYLE,
}
KEY: Final = "SOME_JUDGE_TOKEN"
LOOKS: Final = f"""\
import os

def grade(case, output):
    found = os.environ.get("{KEY}") == case["expected"] and "OTHER_SECRET" not in os.environ
    return {{"passed": found, "score": float(found), "breakdown": {{}}}}
"""


@ON_WORKERS
def test_two_rubrics(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """A case passes if both say so; the breakdown has the score of each by its name."""
    settings = "rubrics: {right: 3, style: 1}\n"
    files = task_class_files(passing_cases(4), settings=settings, rubric="")
    oracle = "- {id: bad, case: case-002, output: 2, expect: null}\n"
    runs.write(files | TWO | {"bench/echo/oracle/o.yaml": oracle})
    run = runs.run("bench", *workers, plugins=[BENCH, "xdist"])
    assert run.outcomes == {"passed": 3, "failed": 2}
    report = only_bench(run)
    scores = dict(report["per_case"])
    assert scores["case-000"]["breakdown"] == {
        "exactness": 1.0,
        "right": 1.0,
        "style": 0.5,
    }
    assert (scores["case-000"]["score"], scores["case-000"]["cost_usd"]) == (
        0.875,
        0.25,
    )
    assert (scores["case-002"]["passed"], scores["case-002"]["score"]) == (False, 0.875)
    assert codes_by_case(report)["case-001"] == ["rubric.malformed_output"]
    printed = "\n".join(run.stdout)
    assert "rubric.malformed_output: style: raised ValueError: no style" in printed
    assert "right: grading case-002" in printed
    assert "style: styling case-002" in printed


def test_rubrics_in_tests(runs: PytestRuns) -> None:
    """`bench_rubric` is all of them, and `named` one; what a rubric raises is raised."""
    runs.write(
        task_class_files(passing_cases(4), rubric="")
        | TWO
        | {
            "test_it.py": "import pytest\n\n"
            "pytestmark = pytest.mark.bench('echo')\n\n"
            "def test_all(bench_rubric):\n"
            "    score = bench_rubric('case-003', 3)\n"
            "    assert score.breakdown == {'exactness': 1.0, 'right': 1.0, 'style': 0.5}\n"
            "    assert score.score == 0.75\n"
            "    with pytest.raises(ValueError, match='no style'):\n"
            "        bench_rubric('case-001', 1)\n\n"
            "def test_one(bench_rubric):\n"
            "    score = bench_rubric.named('style')('case-003', 3)\n"
            "    assert (score.score, score.breakdown) == (0.5, {})\n"
            "    assert bench_rubric.named('right').grade({'id': 'x', 'input': 1}, 1)['passed']\n\n"
            "def test_errors(bench_rubric):\n"
            "    with pytest.raises(Exception, match='has no rubric .styl.; did you mean style'):\n"
            "        bench_rubric.named('styl')\n"
            "    with pytest.raises(Exception, match='has the rubrics right, style; take one'):\n"
            "        bench_rubric.grade\n"
        }
    )
    assert runs.run("test_it.py", plugins=[BENCH]).outcomes == {"passed": 3}


@pytest.mark.parametrize("isolation", ["warm", "fresh"])
def test_a_variable_that_is_let_through(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """The rubric sees it and no other; nobody sees its value in what the run writes."""
    value = "tulip-9481-orchard"
    monkeypatch.setenv(KEY, value)
    monkeypatch.setenv("OTHER_SECRET", "x")
    cases = [{"id": "a", "input": 1, "expected": "tulip-9481-orchard"}]
    settings = f"rubric_env: [{KEY}]\nrubric_isolation: {isolation}\n"
    runs.write(task_class_files(cases, settings=settings, rubric=LOOKS))
    run = runs.run("bench", "--bench-json=out.json", plugins=[BENCH])
    assert run.outcomes == {"passed": 1}
    assert value not in (runs.path / "out.json").read_text() + "\n".join(run.stdout)


@SERIAL
def test_the_value_of_such_a_variable_is_not_kept(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    """Whatever its name, neither the run's file nor that of a new grading has it."""
    value = "tulip-9481-orchard"
    monkeypatch.setenv("JUDGE", value)
    prints = f"import os\n{ECHO_RUBRIC}".replace(
        'case["id"])', "os.environ['JUDGE'])", 1
    )
    settings = "rubric_env: [JUDGE]\n"
    runs.write(task_class_files(passing_cases(2), settings=settings, rubric=prints))
    run = runs.run("bench", *workers, plugins=[BENCH, "xdist"])
    assert run.outcomes == {"passed": 2}
    assert value not in json.dumps(run.report)
    command = [
        sys.executable,
        "-m",
        "pytest_failure_taxonomy",
        "bench",
        "regrade",
        "latest",
    ]
    subprocess.run(command, cwd=runs.path, check=True, timeout=60)
    kept = [path.read_text() for path in runs.path.glob(".bench/*.jsonl")]
    assert len(kept) == 2
    for text in kept:
        assert value not in text
        assert "[REDACTED:env:JUDGE]" in text


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_a_variable_that_is_missing(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """It is told in one line when the cases are collected; no system is called."""
    if value is None:
        monkeypatch.delenv(KEY, raising=False)
    else:
        monkeypatch.setenv(KEY, value)
    files = task_class_files(passing_cases(1), settings=f"rubric_env: [{KEY}]\n")
    test = "import pytest\n\n@pytest.mark.bench('echo')\ndef test_it(case, bench):\n    ...\n"
    whole = "def test_whole(bench):\n    bench.run_sync('echo', lambda case: open('called', 'w'))\n"
    runs.write(files | {"test_marked.py": test, "test_whole.py": whole})
    words = f"bench/echo/bench.yaml: rubric_env: {KEY} is not set, or empty; set what the rubric"
    for path, status in (("bench", 2), ("test_marked.py", 2), ("test_whole.py", 1)):
        run = runs.run(path, plugins=[BENCH])
        assert run.exit_status == status
        assert words in "\n".join(run.stdout)
    assert calls(runs) == []
    assert not (runs.path / "called").exists()


def test_validate_says_what_pytest_says_of_a_variable(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that pytest refuses for a missing variable is not valid, either."""
    monkeypatch.delenv(KEY, raising=False)
    runs.write(task_class_files(passing_cases(1), settings=f"rubric_env: [{KEY}]\n"))
    command = [sys.executable, "-m", "pytest_failure_taxonomy", "validate", "bench"]
    refused = run_child(runs.path, command)
    words = f"bench/echo/bench.yaml: rubric_env: {KEY} is not set, or empty; set what"
    assert words in refused.stderr
    assert refused.status == 1
    assert run_child(runs.path, command, env={KEY: "set"}).status == 0


def test_grading_in_a_test_needs_no_mark_of_the_rubrics(runs: PytestRuns) -> None:
    """`bench.score` grades with all rubrics of the class."""
    test = (
        "import pytest\n\n@pytest.mark.bench('echo')\ndef test_it(case, bench):\n"
        "    assert bench.score(case.input).score == 0.75\n"
    )
    files = task_class_files([{"id": "a", "input": 3}], rubric="") | TWO
    runs.write(files | {"test_it.py": test})
    assert runs.run("test_it.py", plugins=[BENCH]).outcomes == {"passed": 1}
