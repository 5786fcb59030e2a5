"""Runs that end because pytest-cov finds less covered than was asked for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import pytest

from tests.helpers.endings import Ending, check_ending
from tests.helpers.runs import FinishedRun, PytestRuns

pytestmark = pytest.mark.skipif(
    find_spec("pytest_cov") is None, reason="needs pytest-cov"
)

SHOP: Final = (
    "def total(prices):\n    if not prices:\n        return 0\n    return sum(prices)\n"
)
ALL: Final = "from shop import total\ndef test_all(): assert (total([]), total([1, 2])) == (0, 3)\n"
SOME: Final = "from shop import total\ndef test_some(): assert total([1, 2]) == 3\n"
FAILS: Final = "from shop import total\ndef test_fails(): assert total([1, 2]) == 4\n"
PASSED: Final = {"collected": 1, "passed": 1}


def ending(test: str, workers: list[str], **given: object) -> Ending:
    """Return the end of a run in which every line of the shop must be covered."""
    fields: dict[str, object] = {
        "files": {"shop.py": SHOP, "test_it.py": test},
        "args": ["--cov=shop", "--cov-report=", "--cov-fail-under=100", *workers],
        "plugins": ["pytest_cov", *(["xdist"] if workers else [])],
        "counts": PASSED,
    }
    return Ending(**{**fields, **given})  # type: ignore[arg-type]  # a table of all sorts of fields


def lines_title(run: FinishedRun) -> str:
    """Return the line that heads our own."""
    (title,) = [line for line in run.stdout if "= why this run failed =" in line]
    return title


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_a_threshold_that_is_missed(runs: PytestRuns, workers: list[str]) -> None:
    """The verdict says how much is covered and how much was asked for."""
    run = check_ending(
        runs,
        ending(
            SOME, workers, exit_status=1, reason="TESTS_FAILED", kind="coverage.failed"
        ),
    )
    assert run.report["failures"] == []
    verdict = run.report["verdict"]
    assert verdict["message"] == "coverage 75.00 % is below the required 100 %"
    assert verdict["retryable"] is False
    _, *lines = run.stdout[run.stdout.index(lines_title(run)) :]
    assert " ".join(lines[0].split()) == (
        "coverage 75.00 % is below the required 100 % [TESTS_FAILED coverage.failed]"
    )
    assert lines[-1] == "report: failure-report.json"


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_a_threshold_that_is_reached(runs: PytestRuns, workers: list[str]) -> None:
    """The plugin's being there changes nothing."""
    check_ending(runs, ending(ALL, workers, exit_status=0))


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_a_threshold_beside_a_failed_test(runs: PytestRuns, workers: list[str]) -> None:
    """The failed test explains the exit status, and nothing else is guessed from it."""
    check_ending(
        runs,
        ending(
            FAILS,
            workers,
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_fails",
            counts={"collected": 1, "failed": 1},
        ),
    )
