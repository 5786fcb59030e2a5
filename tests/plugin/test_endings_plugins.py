"""Endings that other plugins bring about: time limits, reruns, subtests."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns, assert_counts_agree

HANGS: Final = "import time\ndef test_hangs(): time.sleep(30)\n"
NEEDS_SIGNALS: Final = pytest.mark.skipif(
    sys.platform == "win32", reason="needs SIGALRM"
)

TIMEOUTS: Final = (
    pytest.param(
        {"test_it.py": HANGS + PASSING},
        ["--timeout=0.3"],
        "call",
        "passed",
        id="option",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest, time\n"
            "@pytest.mark.timeout(0.3)\n"
            "def test_hangs(): time.sleep(30)\n" + PASSING
        },
        [],
        "call",
        "passed",
        id="mark",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest, time\n"
            "@pytest.fixture\n"
            "def slow(): time.sleep(30)\n"
            "def test_hangs(slow): pass\n" + PASSING
        },
        ["--timeout=0.3"],
        "setup",
        "passed",
        id="setup",
    ),
    pytest.param(
        {"test_it.py": HANGS + PASSING},
        ["--timeout=0.3", "-x"],
        "call",
        "not_run",
        id="exitfirst",
    ),
)


@pytest.mark.slow
@NEEDS_SIGNALS
@pytest.mark.parametrize(("files", "args", "phase", "other"), TIMEOUTS)
def test_time_limit_of_a_test(
    runs: PytestRuns, files: dict[str, str], args: list[str], phase: str, other: str
) -> None:
    """A test that pytest-timeout interrupts is a timeout, in whichever version's words."""
    outcome = "failed" if phase == "call" else "errors"
    run = check_ending(
        runs,
        Ending(
            files=files,
            args=[*args, "--timeout-method=signal"],
            plugins=["timeout"],
            exit_status=1,
            reason="TIMEOUT",
            kind="test.timeout",
            nodeid="test_it.py::test_hangs",
            counts={"collected": 2, outcome: 1, "timed_out": 1, other: 1},
        ),
    )
    (failure,) = run.report["failures"]
    assert (failure["kind"], failure["phase"]) == ("test.timeout", phase)
    assert 0.2 < failure["duration_seconds"] < 20


@pytest.mark.slow
@pytest.mark.lowest
@NEEDS_SIGNALS
def test_time_limit_and_a_failure(runs: PytestRuns) -> None:
    """A timeout comes before a failed test in the verdict, whose test is the one to be fixed."""
    check_ending(
        runs,
        Ending(
            files={"test_it.py": "def test_fails(): assert 0\n" + HANGS},
            args=["--timeout=0.3", "--timeout-method=signal"],
            plugins=["timeout"],
            exit_status=1,
            reason="TIMEOUT",
            kind="test.timeout",
            also=["test.failed"],
            nodeid="test_it.py::test_fails",
            counts={"collected": 2, "failed": 2, "timed_out": 1},
        ),
    )


def test_failure_that_only_talks_of_a_time_limit(runs: PytestRuns) -> None:
    """A test that fails in pytest-timeout's words, or with a TimeoutError, has failed."""
    check_ending(
        runs,
        Ending(
            files={
                "test_it.py": "import pytest\n"
                "def test_words(): pytest.fail('Timeout (>1.0s) from pytest-timeout.')\n"
                "def test_error(): raise TimeoutError('Timeout >1.0s')\n"
            },
            plugins=["timeout"],
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_words",
            counts={"collected": 2, "failed": 2},
        ),
    )


MANY: Final = (
    "import time, pytest\n"
    "@pytest.mark.parametrize('number', range(40))\n"
    "def test_it(number): time.sleep(0.1)\n"
)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_time_limit_of_a_session(runs: PytestRuns, workers: list[str]) -> None:
    """A session that is out of time has no failed test, and those that were left are not run."""
    runs.write({"test_it.py": MANY})
    run = runs.run(
        "--session-timeout=0.6",
        *workers,
        plugins=["timeout", *(["xdist"] if workers else [])],
    )
    assert run.exit_status == run.report["exit"]["code"] == (2 if workers else 1)
    assert run.verdict == ("TIMEOUT", "session.timeout")
    assert run.kinds == ["session.timeout"]
    assert_counts_agree(run)
    summary = run.report["summary"]
    assert summary["collected"] == 40
    assert summary["failed"] == summary["errors"] == 0
    assert summary["not_run"] > 0
    assert summary["passed"] + summary["in_flight"] + summary["not_run"] == 40


FLAKY: Final = "import itertools\nattempts = itertools.count(1)\ndef test_flaky(): assert next(attempts) > 2\n"


def test_rerun_until_it_passes(runs: PytestRuns) -> None:
    """A test that passes when it is tried again is flaky, and the run has not failed."""
    check_ending(
        runs,
        Ending(
            files={"test_it.py": FLAKY},
            args=["--reruns=3"],
            plugins=["rerunfailures"],
            exit_status=0,
            counts={"collected": 1, "passed": 1, "rerun": 2, "flaky": 1},
        ),
    )


def test_rerun_in_vain(runs: PytestRuns) -> None:
    """A test that fails at every attempt is one failure, which says how often it was tried."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": "def test_fails(): assert 0\n" + PASSING},
            args=["--reruns=2"],
            plugins=["rerunfailures"],
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_fails",
            counts={"collected": 2, "passed": 1, "failed": 1, "rerun": 2},
        ),
    )
    assert [failure["attempts"] for failure in run.report["failures"]] == [3]


def test_rerun_of_a_setup(runs: PytestRuns) -> None:
    """A setup that works when it is tried again makes its test flaky, too."""
    check_ending(
        runs,
        Ending(
            files={
                "test_it.py": "import itertools, pytest\n"
                "attempts = itertools.count(1)\n"
                "@pytest.fixture\n"
                "def shaky(): assert next(attempts) > 1\n"
                "def test_flaky(shaky): pass\n"
            },
            args=["--reruns=1"],
            plugins=["rerunfailures"],
            exit_status=0,
            counts={"collected": 1, "passed": 1, "rerun": 1, "flaky": 1},
        ),
    )


@pytest.mark.slow
@pytest.mark.lowest
def test_rerun_on_a_worker(runs: PytestRuns) -> None:
    """Under xdist attempts are counted as in one process."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": FLAKY + "def test_fails(): assert 0\n"},
            args=["--reruns=2", "-n", "1"],
            plugins=["rerunfailures", "xdist"],
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_fails",
            counts=None,
        ),
    )
    counts = {"collected": 2, "passed": 1, "failed": 1, "rerun": 4, "flaky": 1}
    assert counts.items() <= run.counts.items()
    assert [failure["attempts"] for failure in run.report["failures"]] == [3]


SUBTESTS: Final = (
    "def test_parts(subtests):\n"
    "    for number in range(4):\n"
    "        with subtests.test(number=number):\n"
    "            assert number % 2\n"
    "def test_good_parts(subtests):\n"
    "    with subtests.test('only one'):\n"
    "        pass\n"
)


@pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="subtests came with pytest 9.0"
)
@pytest.mark.parametrize(
    "args", [[], ["-v"], ["-n", "1"]], ids=["quiet", "verbose", "xdist"]
)
def test_subtests(runs: PytestRuns, args: list[str]) -> None:
    """Each subtest that fails is a failure, and their test is one more, as pytest counts them."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": SUBTESTS},
            args=args,
            plugins=["xdist"] if "-n" in args else [],
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_parts",
            counts={"collected": 2, "passed": 1, "failed": 3},
        ),
    )
    failures = run.report["failures"]
    assert {failure["nodeid"] for failure in failures} == {"test_it.py::test_parts"}
    assert [
        failure["exception"] and failure["exception"]["type"] for failure in failures
    ] == [
        "AssertionError",
        "AssertionError",
        None,
    ]
    for number, failure in zip((0, 2), failures, strict=False):
        head = (
            failure["traceback"].splitlines()[0].replace("'", "")
        )  # xdist sends a repr of them
        assert head == f"test_parts (number={number})"
    assert "contains 2 failed subtests" in failures[2]["traceback"]


UNITTEST: Final = (
    "import unittest\n"
    "class TestParts(unittest.TestCase):\n"
    "    def test_parts(self):\n"
    "        for number in range(4):\n"
    "            with self.subTest(number=number):\n"
    "                self.assertTrue(number % 2)\n"
    "    def test_whole(self): pass\n"
)


def test_subtests_of_unittest(runs: PytestRuns) -> None:
    """Subtests of unittest are counted as the installed pytest counts them."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": UNITTEST},
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::TestParts::test_parts",
            counts=None,
        ),
    )
    assert run.report["summary"]["passed"] >= 1
    assert run.report["summary"]["failed"] == len(run.report["failures"]) >= 1
    assert {failure["exception"]["type"] for failure in run.report["failures"]} == {
        "AssertionError"
    }
