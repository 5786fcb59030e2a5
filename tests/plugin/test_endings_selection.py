"""Runs of less than all: nothing found, all deselected, stopped by a limit, taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns, assert_counts_agree

THREE: Final = "".join(f"def test_{name}(): pass\n" for name in "abc")
FAIL_TWICE: Final = (
    "def test_a(): pass\n"
    "def test_b(): assert 0\n"
    "def test_c(): pass\n"
    "def test_d(): assert 0\n"
    "def test_e(): pass\n"
)

NOTHING: Final = (
    pytest.param({}, [], "tests.none_collected", 0, id="no-file"),
    pytest.param(
        {"test_it.py": "def check(): pass\n"},
        [],
        "tests.none_collected",
        0,
        id="no-test",
    ),
    pytest.param(
        {"test_it.py": THREE}, ["-k", "zzz"], "tests.all_deselected", 3, id="keyword"
    ),
    pytest.param(
        {"test_it.py": THREE}, ["-m", "slow"], "tests.all_deselected", 3, id="mark"
    ),
    pytest.param(
        {"test_it.py": THREE},
        ["--deselect", "test_it.py"],
        "tests.all_deselected",
        3,
        id="deselect",
    ),
    pytest.param(
        {"test_it.py": THREE},
        ["--ignore", "test_it.py"],
        "tests.none_collected",
        0,
        id="ignore",
    ),
)


XDIST: Final = ["-n", "2"]
NOTHING_UNDER_XDIST: Final = (
    pytest.param(
        {"test_it.py": "def check(): pass\n"},
        XDIST,
        "tests.none_collected",
        0,
        id="no-test-xdist",
    ),
    pytest.param(
        {"test_it.py": THREE},
        ["-k", "zzz", *XDIST],
        "tests.all_deselected",
        3,
        id="keyword-xdist",
    ),
)


@pytest.mark.parametrize(
    ("files", "args", "kind", "deselected"), [*NOTHING, *NOTHING_UNDER_XDIST]
)
def test_nothing_to_run(
    runs: PytestRuns,
    files: dict[str, str],
    args: Sequence[str],
    kind: str,
    deselected: int,
) -> None:
    """A run without tests says whether there were none or whether options left none."""
    check_ending(
        runs,
        Ending(
            files={"pytest.ini": "[pytest]\nmarkers = slow\n", **files},
            args=args,
            plugins=["xdist"] if "-n" in args else [],
            exit_status=5,
            reason="NO_TESTS_COLLECTED",
            kind=kind,
            counts={"deselected": deselected} if deselected else {},
        ),
    )


LIMITS: Final = (
    pytest.param(["-x"], {"passed": 1, "failed": 1, "not_run": 3}, id="exitfirst"),
    pytest.param(
        ["--maxfail=2"], {"passed": 2, "failed": 2, "not_run": 1}, id="maxfail"
    ),
    pytest.param(["--maxfail=3"], {"passed": 3, "failed": 2}, id="maxfail-not-reached"),
)


@pytest.mark.parametrize(("args", "counts"), LIMITS)
def test_limit_on_failures(
    runs: PytestRuns, args: Sequence[str], counts: dict[str, int]
) -> None:
    """A run that stops at a failure fails for that, and the tests after it are not run."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": FAIL_TWICE},
            args=args,
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_b",
            counts={"collected": 5, **counts},
        ),
    )
    left = [
        f"test_it.py::test_{name}" for name in "cde"[3 - counts.get("not_run", 0) :]
    ]
    assert run.report["not_run"]["nodeids"] == left


@pytest.mark.parametrize(
    "args", [["-x"], ["--maxfail=2"]], ids=["exitfirst", "maxfail"]
)
def test_limit_on_failures_under_xdist(runs: PytestRuns, args: Sequence[str]) -> None:
    """With several workers the tests that had not started when it stopped are not run."""
    slow = "import time\ndef test_{0}(): time.sleep(0.05)\n"
    tests = "".join(slow.format(f"slow{number}") for number in range(40))
    runs.write({"test_it.py": FAIL_TWICE + tests})
    run = runs.run(*args, "-n", "2", plugins=["xdist"])
    assert (
        run.exit_status == run.report["exit"]["code"] == 2
    )  # that of Ctrl+C; serial it is 1
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert "interrupt.stopped" not in run.kinds
    assert_counts_agree(run)
    summary = run.report["summary"]
    assert summary["collected"] == 45
    assert summary["not_run"] > 0
    assert (
        summary["passed"]
        + summary["failed"]
        + summary["in_flight"]
        + summary["not_run"]
        == 45
    )


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    ("option", "counts"),
    [
        ("--lf", {"collected": 2, "failed": 2}),
        ("--ff", {"collected": 5, "passed": 3, "failed": 2}),
        ("--nf", {"collected": 5, "passed": 3, "failed": 2}),
        ("--sw", {"collected": 4, "deselected": 1, "failed": 1, "not_run": 3}),
    ],
)
def test_run_that_remembers_the_last_one(
    runs: PytestRuns, option: str, counts: dict[str, int]
) -> None:
    """What pytest's cache leaves out is deselected, what comes after a stepwise stop is not run."""
    runs.write({"test_it.py": FAIL_TWICE})
    runs.run_plain(*(["--sw"] if option == "--sw" else []), cache=True)
    run = runs.run(option, cache=True)
    assert run.exit_status == run.report["exit"]["code"]
    assert run.exit_status == (2 if option == "--sw" else 1), (
        "stepwise has Ctrl+C's exit code"
    )
    assert_counts_agree(run)
    assert run.counts == counts
    assert run.kinds == ["test.failed"]
    assert run.verdict == ("TESTS_FAILED", "test.failed")


def test_some_deselected(runs: PytestRuns) -> None:
    """Deselected tests are counted, and are neither collected nor not run."""
    check_ending(
        runs,
        Ending(
            files={"test_it.py": THREE},
            args=["-k", "test_a"],
            exit_status=0,
            counts={"collected": 1, "deselected": 2, "passed": 1},
        ),
    )


@pytest.mark.skipif(
    pytest.version_tuple < (9, 1), reason="--max-warnings came with pytest 9.1"
)
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
@pytest.mark.parametrize("given", ["option", "ini"])
def test_more_warnings_than_allowed(
    runs: PytestRuns, given: str, workers: list[str]
) -> None:
    """Too many warnings have an exit code of their own, and no test failed."""
    ini = "max_warnings = 1\n" if given == "ini" else ""
    check_ending(
        runs,
        Ending(
            files={
                "pytest.ini": f"[pytest]\n{ini}",
                "test_it.py": PASSING + "import warnings\n"
                "def test_warns():\n"
                "    warnings.warn('one')\n"
                "    warnings.warn('two')\n",
            },
            args=[*workers, *(["--max-warnings=1"] if given == "option" else [])],
            plugins=["xdist"] if workers else [],
            exit_status=6,
            reason="UNKNOWN",
            kind="warnings.exceeded",
            counts={"collected": 2, "passed": 2, "warnings": 2},
        ),
    )
