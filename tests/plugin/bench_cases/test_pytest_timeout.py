"""pytest-timeout beside bench cases: the item that waits is not the case that is slow."""

from __future__ import annotations

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

pytest.importorskip("pytest_timeout")

pytestmark = pytest.mark.lowest

SLOW_CASES = [{**case, "sleep": 2.5} for case in passing_cases(3)]
SLOW_FIXTURE = """
@pytest.fixture(autouse=True)
def slow(request):
    if request.node.name == "case-001":
        time.sleep(60)
"""


@pytest.mark.parametrize(
    ("ini", "options", "workers"),
    [
        pytest.param("", ("--timeout=2", "--timeout-method=signal"), (), id="signal"),
        pytest.param("timeout = 2\ntimeout_method = thread\n", (), (), id="thread"),
        pytest.param(
            "timeout = 2\ntimeout_func_only = true\n", (), ("-n", "2"), id="func-xdist"
        ),
    ],
)
def test_waiting_for_a_case_is_not_timed(
    runs: PytestRuns, ini: str, options: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    """Cases have limits of their own, and an item waits for whatever runs before its case."""
    runs.write({**task_class_files(SLOW_CASES), "pytest.ini": f"[pytest]\n{ini}"})
    plugins = [BENCH, "timeout", *(["xdist"] if workers else [])]
    run = runs.run("bench", *options, *workers, plugins=plugins)
    assert run.outcomes == {"passed": 3}
    assert only_bench(run)["complete"] is True


def test_limit_of_a_case_is_its_own(runs: PytestRuns) -> None:
    """A case that exceeds the limit of its class is `sut.timeout`, not a failure of its item."""
    files = task_class_files(SLOW_CASES, settings="timeout_per_case_seconds: 0.2\n")
    runs.write(files)
    report = only_bench(runs.run("bench", "--timeout=60", plugins=[BENCH, "timeout"]))
    assert set(map(tuple, codes_by_case(report).values())) == {("sut.timeout",)}


def test_setup_of_an_item_is_timed(runs: PytestRuns) -> None:
    """A fixture that hangs is what pytest-timeout is for."""
    files = task_class_files(passing_cases(3))
    files["conftest.py"] += SLOW_FIXTURE
    runs.write(files)
    run = runs.run("bench", "--timeout=3", plugins=[BENCH, "timeout"])
    assert run.outcomes == {"passed": 2, "errors": 1}
