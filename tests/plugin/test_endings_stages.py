"""Runs of other stages than the final test: the stage's own reason, by its table."""

from __future__ import annotations

from typing import Final

import pytest

from tests.helpers.endings import PASSING
from tests.helpers.runs import PytestRuns

XDIST: Final = pytest.mark.parametrize(
    "workers", [[], ["-n", "2"]], ids=["serial", "xdist"]
)
FAILING: Final = "def test_fails(): assert 0\n"
STATUS: Final = "def pytest_sessionfinish(session): session.exitstatus = {}\n"

# stage, test, exit status that a plugin sets, all reasons that hold
ENDS: Final = (
    ("git_clone", FAILING, None, ["GIT_CLONE_FAILED stage.git_clone_failed"]),
    ("git_clone", PASSING, 128, ["GIT_CLONE_FAILED stage.git_clone_failed"]),
    ("git_clone", PASSING, 124, ["TIMEOUT stage.timeout"]),
    ("git_clone", PASSING, 137, ["TIMEOUT stage.timeout"]),
    ("git_checkout", FAILING, None, ["GIT_CHECKOUT_FAILED stage.git_checkout_failed"]),
    ("git_checkout", PASSING, 1, ["GIT_CHECKOUT_FAILED stage.git_checkout_failed"]),
    ("git_checkout", PASSING, 124, ["TIMEOUT stage.timeout"]),
    ("setup", FAILING, None, ["SETUP_FAILED stage.setup_failed"]),
    ("setup", PASSING, 2, ["SETUP_FAILED stage.setup_failed"]),
    ("setup", PASSING, 124, ["SETUP_TIMEOUT stage.setup_timeout"]),
    ("setup", PASSING, 137, ["SETUP_TIMEOUT stage.setup_timeout"]),
    (
        "baseline_run",
        PASSING,
        None,
        ["BASELINE_NOT_FAILING stage.baseline_not_failing"],
    ),
    ("baseline_run", PASSING, 124, ["TIMEOUT stage.timeout"]),
)

RUNS: Final = (
    *((*end, []) for end in ENDS),
    *((*end, ["-n", "2"]) for end in ENDS if end[1] == FAILING),
)


@pytest.mark.parametrize(("stage", "test", "status", "held", "workers"), RUNS)
def test_reason_of_a_stage(
    runs: PytestRuns,
    stage: str,
    test: str,
    status: int | None,
    held: list[str],
    workers: list[str],
) -> None:
    """What a stage that fails is called comes before what failed in it."""
    conftest = "" if status is None else STATUS.format(status)
    runs.write({"conftest.py": conftest, "test_it.py": test})
    run = runs.run(
        f"--failure-taxonomy-stage={stage}",
        *workers,
        plugins=["xdist"] if workers else [],
    )
    also = [] if test == PASSING else ["TESTS_FAILED test.failed"]
    expected = status if status is not None else int(test == FAILING)
    assert run.exit_status == run.report["exit"]["code"] == expected
    assert [f"{each['reason']} {each['kind']}" for each in run.report["reasons"]] == [
        *held,
        *also,
    ]
    assert " ".join(map(str, run.verdict)) == held[0]
    assert run.report["run"]["stage"] == stage


@XDIST
def test_time_limit_of_a_test_in_the_setup(
    runs: PytestRuns, workers: list[str]
) -> None:
    """A test that ran out of time makes it the setup's time limit."""
    pytest.importorskip("pytest_timeout")
    runs.write({"test_it.py": "import time\ndef test_hangs(): time.sleep(30)\n"})
    run = runs.run(
        "--failure-taxonomy-stage=setup",
        "--timeout=0.3",
        "--timeout-method=signal",
        *workers,
        plugins=["timeout", *(["xdist"] if workers else [])],
    )
    assert run.verdict == ("SETUP_TIMEOUT", "stage.setup_timeout")
    assert sorted(run.kinds) == ["stage.setup_timeout", "test.timeout"]
