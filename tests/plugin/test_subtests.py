"""Subtests: how they are counted, and what becomes of them when their test is run again."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import pytest

from tests.helpers.reports import extensions_of
from tests.helpers.runs import FinishedRun, PytestRuns

pytestmark = pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="subtests came with pytest 9.0"
)
needs_reruns = pytest.mark.skipif(
    find_spec("pytest_rerunfailures") is None, reason="needs pytest-rerunfailures"
)

WORKERS: Final = pytest.mark.parametrize(
    "workers", [[], ["-n", "2"]], ids=["serial", "xdist"]
)

ONE: Final = "def test_one(subtests):\n    with subtests.test('part'): assert 0\n"
THREE_AND_OWN: Final = (
    "def test_three(subtests):\n"
    "    for number in range(3):\n"
    "        with subtests.test(number=number): assert number < 0\n"
    "    assert 0\n"
)
OF_UNITTEST: Final = (
    "import unittest\n"
    "class TestParts(unittest.TestCase):\n"
    "    def test_parts(self):\n"
    "        for number in range(2):\n"
    "            with self.subTest(number=number): self.assertTrue(number < 0)\n"
)
ONCE: Final = (
    "tries = []\n"
    "def test_flaky(subtests):\n"
    "    tries.append(1)\n"
    "    with subtests.test('first'): assert len(tries) > {failing}\n"
    "    with subtests.test('second'): assert {second}\n"
    "    assert {own}\n"
    "def test_other(): pass\n"
)


def run_reruns(
    runs: PytestRuns, content: str, workers: list[str], *args: str
) -> FinishedRun:
    """Run a file whose tests are run again up to twice when they fail."""
    runs.write({"test_it.py": content})
    plugins = ["rerunfailures", *(["xdist"] if workers else [])]
    return runs.compare("--reruns", "2", *workers, *args, plugins=plugins)


def counts_of(run: FinishedRun) -> dict[str, int]:
    """Return the counts of the summary; each worker may add warnings of its own."""
    return {name: count for name, count in run.counts.items() if name != "warnings"}


def last_line(run: FinishedRun) -> dict[str, int]:
    """Return the same of pytest's last line."""
    assert run.outcomes is not None
    return {name: count for name, count in run.outcomes.items() if name != "warnings"}


@pytest.mark.slow
@pytest.mark.lowest
@WORKERS
@pytest.mark.parametrize(
    ("content", "message", "failed", "causes"),
    [
        pytest.param(
            ONE, "1 test failed: assert 0: test_one (test_it.py:2)", 2, [1], id="one"
        ),
        pytest.param(
            THREE_AND_OWN, "1 test failed, 2 causes", 4, [3, 1], id="three-and-own"
        ),
        pytest.param(
            OF_UNITTEST,
            "1 test failed: False is not true: TestParts::test_parts (test_it.py:5)",
            2,
            [2],
            id="unittest",
        ),
    ],
)
def test_one_test_with_failed_subtests_is_one_test(
    runs: PytestRuns,
    workers: list[str],
    content: str,
    message: str,
    failed: int,
    causes: list[int],
) -> None:
    """The message counts tests, the summary as pytest does, and no cause is the sum of others."""
    runs.write({"test_it.py": content})
    run = runs.compare(*workers, plugins=["xdist"] if workers else [])
    report = run.report
    assert report["verdict"]["message"] == message
    assert [(held["kind"], held["count"]) for held in report["reasons"]] == [
        ("test.failed", 1)
    ]
    assert report["summary"]["failed"] == last_line(run)["failed"] == failed
    assert [group["count"] for group in report["groups"]] == causes
    assert [cause["count"] for cause in report["causes"]] == causes
    listed = {failure["fingerprint"] for failure in report["failures"]}
    assert listed == {group["fingerprint"] for group in report["groups"]}


@WORKERS
def test_the_terminal_counts_tests(runs: PytestRuns, workers: list[str]) -> None:
    """However many of its subtests failed, one test has."""
    runs.write({"test_it.py": THREE_AND_OWN.replace("    assert 0\n", "")})
    run = runs.run(*workers, plugins=["xdist"] if workers else [])
    lines = "\n".join(run.stdout)
    assert "1 test failed: assert 0 < 0: test_three (test_it.py:3)" in lines
    assert [cause["count"] for cause in run.report["causes"]] == [3]


@pytest.mark.slow
@pytest.mark.lowest
@needs_reruns
@WORKERS
@pytest.mark.parametrize(
    ("second", "own"),
    [
        pytest.param("1", "1", id="one-subtest"),
        pytest.param("len(tries) > 1", "1", id="both-subtests"),
        pytest.param("1", "len(tries) > 1", id="and-the-test-itself"),
    ],
)
def test_a_subtest_that_passes_on_the_rerun(
    runs: PytestRuns, workers: list[str], second: str, own: str
) -> None:
    """An attempt that is made again is a rerun with all its subtests, and the test is flaky."""
    run = run_reruns(runs, ONCE.format(failing=1, second=second, own=own), workers)
    assert run.exit_status == 0
    assert run.verdict == (None, None)
    assert counts_of(run) == {"collected": 2, "passed": 2, "rerun": 1, "flaky": 1}
    assert last_line(run) == {"passed": 2, "rerun": 1}
    assert run.report["failures"] == run.report["groups"] == []
    assert extensions_of(run.report) == {}


@needs_reruns
@WORKERS
def test_a_subtest_that_fails_in_every_attempt(
    runs: PytestRuns, workers: list[str]
) -> None:
    """The last attempt alone counts: one test, one subtest, however often it was tried."""
    run = run_reruns(runs, ONCE.format(failing=9, second="1", own="1"), workers)
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    said = "assert 3 > 9: test_flaky (test_it.py:4)"
    assert run.report["verdict"]["message"] == f"1 of 2 tests failed: {said}"
    assert counts_of(run) == {"collected": 2, "passed": 1, "failed": 2, "rerun": 2}
    assert last_line(run) == {"failed": 2, "passed": 1, "rerun": 2}
    assert {failure["attempts"] for failure in run.report["failures"]} == {3}


@needs_reruns
def test_the_record_knows_which_attempt_was_made_again(runs: PytestRuns) -> None:
    """A run that dies later is told without the subtests of an attempt that was made again."""
    dies = "import os\ndef test_last(): os._exit(3)\n"
    runs.write(
        {
            "test_it.py": ONCE.format(failing=1, second="1", own="1"),
            "test_last.py": dies,
        }
    )
    run = runs.run_unchecked("--reruns", "2", plugins=["rerunfailures"])
    report = runs.wait_for_completion()
    assert run.exit_status == 3
    assert report["verdict"]["kind"] == "process.exited"
    summary: dict[str, Any] = report["summary"]
    assert (summary["failed"], summary["rerun"], summary["flaky"]) == (0, 1, 1)
    assert report["failures"] == []
