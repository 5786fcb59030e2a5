"""What the environment owes: stages inside a case, exceptions, and `lost_if: environment`."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    WORKERS,
    codes_by_case,
    only_bench,
    task_class_files,
)

PLUGINS: Final = [BENCH, "xdist"]

AGENT: Final = """\
import subprocess
import sys
import urllib.request
from pathlib import Path

RUN = [sys.executable, "-m", "pytest_failure_taxonomy", "run"]


class Overloaded(Exception):
    failure_kind = "llm.gateway_down"


class Refused(Exception):
    failure_kind = "llm.bad_request"


def solve(case):
    if "raises" in case.fields:
        if case["raises"] == "server":
            raise Overloaded("try later")
        if case["raises"] == "request":
            raise Refused("no")
        if case["raises"] == "host":
            subprocess.run(["git", "clone", "-q", "/nowhere"], check=True)
        raise ConnectionRefusedError("simulated")
    if "stage" not in case.fields:
        return {"failures": []}
    report = Path(f"{case.case_id}.json").absolute()
    stage = ["--stage", case["stage"], "--report", str(report)]
    subprocess.run([*RUN, *stage, "--", sys.executable, "-c", case["code"]])
    return {"failures": case.stage(report)}
"""

RUBRIC: Final = """\
def grade(case, output):
    passed = not output["failures"]
    return {
        "passed": passed,
        "score": float(passed),
        "breakdown": {},
        "failure_modes": output["failures"],
    }
"""
MODES: Final = """\
AGENT_GAVE_UP: {severity: warn, description: the agent gave up}
TOOL_ERROR: {severity: warn, description: a tool failed}
TIMEOUT: {severity: warn, description: too slow}
"""
GIVES_UP: Final = "print('[GZA_FAILURE:MAX_TURNS]'); raise SystemExit(1)"


def stage_bench(cases: list[dict[str, Any]], settings: str = "") -> dict[str, str]:
    """Return the files of a bench whose system runs a stage."""
    own = task_class_files(
        cases,
        settings=f"sut: agent:solve\nconcurrency: 2\n{settings}",
        rubric=RUBRIC,
        system="",
        modes=MODES,
    )
    return {**own, "agent.py": AGENT}


@pytest.mark.linux("markers of a command")
@WORKERS
def test_a_stage_gives_failure_modes_or_a_loss(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The agent's failures are codes of the class; the environment's are no scores."""
    cases = [
        {"id": "good", "input": 1, "stage": "agent_run", "code": "pass"},
        {"id": "gives-up", "input": 1, "stage": "agent_run", "code": GIVES_UP},
        {"id": "setup", "input": 1, "stage": "setup", "code": "raise SystemExit(1)"},
    ]
    runs.write(
        stage_bench(cases, "lost_if: environment\ngate: {min_passed_cases: 1}\n")
    )
    run = runs.run("bench", *workers, plugins=PLUGINS)
    report = only_bench(run)
    assert codes_by_case(report) == {"good": [], "gives-up": ["AGENT_GAVE_UP"]}
    mode = dict(report["per_case"])["gives-up"]["failure_modes"][0]
    assert mode["detail"].startswith("agent_run: ")
    assert mode["detail"].endswith(" (charged to: subject)")
    assert report["lost_to_environment"] == [{"kind": "stage.setup_failed", "cases": 1}]
    assert report["counts"]["lost"] == 1
    assert report["gate"]["verdict"] == "INCOMPLETE"
    assert not report["complete"]
    output = "\n".join(run.stdout)
    assert "1 of 3 passed, 1 lost (environment: stage.setup_failed)" in output
    assert "no score: StageFailedError: SETUP_FAILED: setup: " in output
    assert "(charged to: environment)" not in output
    assert run.exit_status == 1
    charges = {cause["charge_to"] for cause in run.report["causes"]}
    assert "environment" in charges


@WORKERS
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost-if", "without"])
def test_an_exception_of_the_environment_is_a_loss_if_the_class_says_so(
    runs: PytestRuns, workers: tuple[str, ...], is_lost: bool
) -> None:
    """By the tables that charge failures; what the system itself raises is its own."""
    cases: list[dict[str, Any]] = [
        {"id": name, "input": 1, "raises": name}
        for name in ("server", "request", "host", "simulated")
    ]
    cases.append({"id": "good", "input": 1})
    runs.write(stage_bench(cases, "lost_if: environment\n" if is_lost else ""))
    report = only_bench(runs.run("bench", *workers, plugins=PLUGINS))
    failed = {"request", "simulated"} | (set() if is_lost else {"server", "host"})
    codes = codes_by_case(report)
    assert {name for name in codes if codes[name] == ["sut.exception"]} == failed
    assert report["counts"]["lost"] == 5 - len(codes)
    lost = {loss["kind"] for loss in report["lost_to_environment"]}
    assert lost == ({"llm.gateway_down", "git.clone_failed"} if is_lost else set())


def test_many_losses_in_a_row_stop_the_run_and_are_resumed(runs: PytestRuns) -> None:
    """As failures do; the cases run again once the environment is there."""
    cases = [{"id": f"c{n:02}", "input": 1, "raises": "server"} for n in range(20)]
    settings = "lost_if: environment\nstop_after_same_failure: 3\n"
    runs.write(stage_bench(cases, settings))
    options = ("bench", "--bench-concurrency=1")
    report = only_bench(runs.run(*options, plugins=PLUGINS))
    assert report["stopped"] == "3 cases in a row failed with the same cause"
    assert report["counts"]["lost"] == 3
    agent = AGENT.replace('raise Overloaded("try later")', 'return {"failures": []}')
    runs.write({"agent.py": agent})
    report = only_bench(runs.run(*options, "--bench-resume", plugins=PLUGINS))
    assert report["counts"]["passed"] == 20
    assert report["lost_to_environment"] == []


def test_a_missing_report_of_a_stage_is_told(runs: PytestRuns) -> None:
    """The case fails, in one line that says which file is not there."""
    agent = AGENT.replace("case.stage(report)", "case.stage('nowhere.json')")
    cases = [{"id": "a", "input": 1, "stage": "agent_run", "code": "pass"}]
    runs.write({**stage_bench(cases), "agent.py": agent})
    run = runs.run("bench", plugins=PLUGINS)
    output = "\n".join(run.stdout)
    words = "`failure-taxonomy run` wrote no report nowhere.json: could the agent be"
    assert f"sut.exception: ReportError: {words} started?" in output
    assert "in solve" in output
    assert "in stage" not in output
