"""The rows of the table of scenarios, each brought about under `failure-taxonomy run` itself.

The programs are stubs that fail in the words and with the exit codes of the real ones; pytest is
real. All rows run in one other process, because `run` takes over the signals of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.taxonomy.judgement import Stage
from tests.helpers.children import run_child
from tests.helpers.reports import read_report

if sys.platform == "win32":
    pytest.skip("its stubs are shell scripts", allow_module_level=True)

DRIVER: Final = """\
import json, os, sys
from pytest_failure_taxonomy.cli.main import main
statuses = {}
for name, words in json.load(open("rows.json")).items():
    statuses[name] = main(["run", "--report", f"{name}.json", *words])
json.dump(statuses, open("statuses.json", "w"))
"""
NO_DAEMON: Final = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?"
)
STUBS: Final = {
    "git": (
        "echo \"Cloning into 'shop'...\" >&2\n"
        "echo \"fatal: repository 'https://example.com/no/shop.git/' not found\" >&2\nexit 128\n"
    ),
    "pip": (
        "echo 'ERROR: Could not find a version that satisfies the requirement nosuch==1 "
        "(from versions: 0.1, 0.2)' >&2\n"
        "echo 'ERROR: No matching distribution found for nosuch==1' >&2\nexit 1\n"
    ),
    "docker": f"echo '{NO_DAEMON}' >&2\nexit 1\n",
    "interrupted": "trap '' INT\nkill -INT $PPID\nexit 2\n",
}
FAILING: Final = "def test_it(): assert 0\n"
PASSING: Final = "def test_it(): pass\n"


class Row(NamedTuple):
    """A scenario: its command, its stage, and what it has to come to."""

    command: tuple[str, ...]
    stage: str
    reason: str | None
    kind: str | None
    status: int
    exit_reason: str | None
    options: tuple[str, ...] = ()


def limited(stage: str, reason: str, kind: str) -> Row:
    """Return a scenario in which a command takes too long."""
    sleep = ("sleep", "30")
    return Row(sleep, stage, reason, kind, 124, reason, ("--timeout", "0.2"))


PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "failure_taxonomy")
TIME_LIMITS: Final = {
    stage: ("SETUP_TIMEOUT", "stage.setup_timeout")
    if stage == "setup"
    else ("TIMEOUT", "stage.timeout")
    for stage in Stage
}
BY_STAGE: Final = {
    "git_clone": "GIT_CLONE_FAILED",
    "git_checkout": "GIT_CHECKOUT_FAILED",
    "setup": "SETUP_FAILED",
    "baseline_run": None,
    "agent_run": "TESTS_FAILED",
    "final_test": "TESTS_FAILED",
}
ROWS: Final[dict[str, Row]] = {
    "valid baseline": Row((*PYTEST, "failing.py"), "baseline_run", None, None, 1, None),
    "invalid task": Row(
        (*PYTEST, "passing.py"),
        "baseline_run",
        "BASELINE_NOT_FAILING",
        "stage.baseline_not_failing",
        0,
        "BASELINE_NOT_FAILING",
    ),
    "pip install fails": Row(
        ("pip", "install", "nosuch==1"),
        "setup",
        "SETUP_FAILED",
        "stage.setup_failed",
        1,
        "SETUP_FAILED",
    ),
    "bad git URL": Row(
        ("git", "clone", "https://example.com/no/shop.git"),
        "git_clone",
        "GIT_CLONE_FAILED",
        "stage.git_clone_failed",
        128,
        "GIT_CLONE_FAILED",
    ),
    **{
        f"takes too long in {stage}": limited(stage, *TIME_LIMITS[stage])
        for stage in TIME_LIMITS
    },
    **{
        f"Ctrl+C in {stage}": Row(
            ("interrupted",),
            stage,
            "INTERRUPTED",
            "interrupt.keyboard",
            2,
            "INTERRUPTED",
        )
        for stage in Stage
    },
    **{
        f"Docker fails to start in {stage}": Row(
            ("docker", "run", "shop"),
            stage,
            "SANDBOX_ERROR",
            "sandbox.docker",
            1,
            BY_STAGE[stage],
        )
        for stage in Stage
    },
}


@pytest.fixture(scope="module")
def reports(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Run all rows, and return the exit code of `run` and the report of each."""
    folder = tmp_path_factory.mktemp("scenarios")
    programs = folder / "programs"
    programs.mkdir()
    for name, text in STUBS.items():
        stub = programs / name
        stub.write_text(f"#!/bin/sh\n{text}", "utf-8")
        stub.chmod(0o755)
    (folder / "failing.py").write_text(FAILING, "utf-8")
    (folder / "passing.py").write_text(PASSING, "utf-8")
    words = {
        name: ["--stage", row.stage, *row.options, "--", *row.command]
        for name, row in ROWS.items()
    }
    (folder / "rows.json").write_text(json.dumps(words), "utf-8")
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    ran = run_child(folder, [sys.executable, "-c", DRIVER], env={"PATH": path})
    assert ran.status == 0, ran.stderr
    statuses = json.loads((folder / "statuses.json").read_text("utf-8"))
    return {
        name: (statuses[name], read_report(Path(folder, f"{name}.json")))
        for name in ROWS
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_scenario(name: str, reports: dict[str, tuple[int, dict[str, Any]]]) -> None:
    """Verdict, the table's own answer, and the exit code are those that the table promises."""
    row = ROWS[name]
    status, report = reports[name]
    verdict = report["verdict"] or {"reason": None, "kind": None}
    said = (verdict["reason"], verdict["kind"], status, report["exit"]["reason"])
    assert said == (row.reason, row.kind, row.status, row.exit_reason)
    assert report["run"]["stage"] == row.stage
