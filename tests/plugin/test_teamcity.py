"""What a run says to TeamCity: a build problem for each cause, among its output."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.children import pytest_command, run_child
from tests.helpers.runs import PytestRuns

SUITE: Final = """
def test_ok(): pass
def test_bad(): assert 0, "it's\\n##teamcity[testFailed name='x']"
"""
DEATH: Final = """
import os
def test_dies(): os._exit(3)
"""
IN_TEAMCITY: Final = {"TEAMCITY_VERSION": "2025.11"}
MODE: Final = "--failure-taxonomy-github"


@pytest.fixture
def in_teamcity(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Return runs that take themselves for a part of a build of TeamCity."""
    monkeypatch.setenv("TEAMCITY_VERSION", "2025.11")
    runs.write({"test_it.py": SUITE})
    return runs


def messages(lines: list[str]) -> list[str]:
    """Return the service messages that are ours."""
    return [line for line in lines if line.startswith("##teamcity[buildProblem ")]


@pytest.mark.parametrize(
    ("args", "count"),
    [
        pytest.param((), 1, id="failed"),
        pytest.param(("-q",), 1, id="quiet"),
        pytest.param(("--failure-taxonomy-summary=off",), 1, id="no-words"),
        pytest.param(("-k", "ok"), 0, id="passed"),
        pytest.param((f"{MODE}=off",), 0, id="off"),
    ],
)
def test_a_run(
    in_teamcity: PytestRuns,
    args: tuple[str, ...],
    count: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A build problem for each cause, whatever else is printed; none if nothing failed."""
    run = in_teamcity.run(*args)
    problems = messages(run.stdout)
    assert len(problems) == count
    capsys.readouterr()
    assert main(["convert", "--to", "teamcity", "failure-report.json"]) == 0
    converted = capsys.readouterr().out.splitlines()
    assert messages(converted) == problems or MODE in args[0]
    for problem in problems:
        assert "description='it|'s: test_bad (test_it.py:3)" in problem
        assert problem.endswith("']")
    assert run.report["environment"]["ci"]["provider"] == "teamcity"


def test_a_death_that_the_supervisor_sees(runs: PytestRuns) -> None:
    """It goes to stdout, where TeamCity promises to read it."""
    runs.write({"test_it.py": DEATH})
    supervised = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
    command = pytest_command("--failure-taxonomy")
    ended = run_child(runs.path, [*supervised, *command], env=IN_TEAMCITY)
    (problem,) = messages(ended.stdout.splitlines())
    assert "test_dies" in problem
    assert messages(ended.stderr.splitlines()) == []


def test_a_run_elsewhere(runs: PytestRuns) -> None:
    """Without the variable nothing is said."""
    runs.write({"test_it.py": SUITE})
    assert messages(runs.run().stdout) == []


def test_an_annotation_of_buildkite(
    runs: PytestRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    """`buildkite-agent annotate` reads the summary from its stdin."""
    runs.write({"test_it.py": SUITE})
    runs.run()
    capsys.readouterr()
    assert main(["convert", "--to", "buildkite", "failure-report.json"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("## \u274c 1 of 2 tests failed")
    assert len(text.encode()) < 1024 * 1024
