"""The summary's counts against pytest's last line and its JUnit file, on suites drawn at random."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.helpers.runs import FinishedRun, PytestRuns, assert_counts_agree

pytestmark = pytest.mark.slow

SORTS: Final = (
    "def test_{n}(): pass\n",
    "def test_{n}(): assert 0\n",
    "def test_{n}(): pytest.skip('here')\n",
    "@pytest.mark.skipif('True', reason='always')\ndef test_{n}(): pass\n",
    "@pytest.mark.xfail(reason='known')\ndef test_{n}(): assert 0\n",
    "@pytest.mark.xfail(reason='known', run=False)\ndef test_{n}(): assert 0\n",
    "@pytest.mark.xfail(reason='fixed')\ndef test_{n}(): pass\n",
    "@pytest.mark.xfail(strict=True, reason='fixed')\ndef test_{n}(): pass\n",
    "@pytest.mark.xfail(raises=KeyError)\ndef test_{n}(): raise ValueError\n",
    "def test_{n}(): pytest.xfail('gives up')\n",
    "def test_{n}(no_setup): pass\n",
    "def test_{n}(no_teardown): pass\n",
    "def test_{n}(no_teardown): assert 0\n",
    "def test_{n}(no_teardown): pytest.skip('and then')\n",
    "def test_{n}(skipping): pass\n",
    "def test_{n}(xfailing): pass\n",
    "@pytest.mark.xfail(reason='known')\ndef test_{n}(no_setup): pass\n",
    "@pytest.mark.xfail(reason='known')\ndef test_{n}(no_teardown): pass\n",
    "@pytest.mark.parametrize('x', range(4))\ndef test_{n}(x): assert x % 3\n",
    "@pytest.mark.parametrize('x', [])\ndef test_{n}(x): pass\n",
    "class Test{n}:\n    def test_a(self): pass\n    def test_b(self): assert 0\n",
    (
        "class Test{n}(unittest.TestCase):\n"
        "    def test_a(self): pass\n"
        "    def test_b(self): self.fail()\n"
        "    @unittest.skip('here')\n"
        "    def test_c(self): pass\n"
        "    @unittest.expectedFailure\n"
        "    def test_d(self): self.fail()\n"
        "    @unittest.expectedFailure\n"
        "    def test_e(self): pass\n"
    ),
    "def test_{n}(): warnings.warn('number {n}')\n",
    "def test_{n}(): raise SystemExit(1)\n",
)
SUBTESTS: Final = (
    (
        "def test_{n}(subtests):\n"
        "    for x in range(5):\n"
        "        with subtests.test(x=x):\n"
        "            assert x % 2\n"
    ),
    (
        "def test_{n}(subtests):\n"
        "    with subtests.test('skips'): pytest.skip('here')\n"
        "    with subtests.test('known'): pytest.xfail('here')\n"
    ),
    "def test_{n}(subtests):\n    with subtests.test('fails'): assert 0\n    assert 0\n",
    "def test_{n}(subtests):\n    with subtests.test('passes'): pass\n",
    (
        "class Test{n}(unittest.TestCase):\n"
        "    def test_parts(self):\n"
        "        for x in range(3):\n"
        "            with self.subTest(x=x):\n"
        "                self.assertTrue(x)\n"
    ),
)
FIXTURES: Final = (
    "import unittest, warnings, pytest\n"
    "@pytest.fixture\n"
    "def no_setup(): raise OSError\n"
    "@pytest.fixture\n"
    "def no_teardown():\n"
    "    yield\n"
    "    raise OSError\n"
    "@pytest.fixture\n"
    "def skipping(): pytest.skip('there')\n"
    "@pytest.fixture\n"
    "def xfailing(): pytest.xfail('there')\n"
)


def draw_suite(random: Random, sorts: tuple[str, ...]) -> dict[str, str]:
    """Return three files of tests, one file that skips itself, and one that can't be collected."""
    files = {
        "test_skipped.py": "import pytest\npytest.skip('all', allow_module_level=True)\n",
        "test_broken.py": "import no_such_module\n",
    }
    for letter in "abc":
        drawn = random.sample(sorts, k=len(sorts) * 2 // 3)
        tests = [
            sort.replace("{n}", f"{letter}{number}")
            for number, sort in enumerate(drawn)
        ]
        files[f"test_{letter}.py"] = FIXTURES + "".join(tests)
    return files


def count_of_testcases(run: FinishedRun) -> int:
    """Return how many tests pytest's JUnit file counts: one whose teardown breaks, once."""
    summary = run.report["summary"]
    names = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
    failed = {
        each["nodeid"] for each in run.report["failures"] if each["phase"] == "call"
    }
    only_teardown: int = sum(
        each["phase"] == "teardown" and each["nodeid"] not in failed
        for each in run.report["failures"]
    )
    results: int = sum(summary[name] for name in names)
    return results - only_teardown


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_counts_of_a_random_suite(runs: PytestRuns, seed: int) -> None:
    """Whatever became of the tests, the counts are pytest's own, in one process and in three."""
    runs.write(draw_suite(Random(seed), SORTS))  # noqa: S311 - no secret
    serial = runs.run("--continue-on-collection-errors")
    assert_counts_agree(serial)
    assert serial.outcomes is not None
    assert (
        serial.outcomes["errors"] > serial.report["summary"]["collection_errors"] == 1
    )
    if pytest.version_tuple >= (
        9,
        2,
    ):  # earlier ones count a skip with a broken teardown twice
        assert serial.junit["tests"] == count_of_testcases(serial)
    parallel = runs.run("-n", "2", plugins=["xdist"])
    assert_counts_agree(parallel)
    # Each worker may report the file that can't be collected and the one that skips itself.
    told_by_each = {"errors", "skipped", "warnings"}
    assert {
        name: serial.counts[name] for name in serial.counts if name not in told_by_each
    } == {
        name: parallel.counts[name]
        for name in parallel.counts
        if name not in told_by_each
    }
    assert len(serial.report["failures"]) == len(parallel.report["failures"])


@pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="subtests came with pytest 9.0"
)
@pytest.mark.parametrize("args", [[], ["-vv"]], ids=["quiet", "verbose"])
def test_counts_of_subtests(runs: PytestRuns, args: list[str]) -> None:
    """Subtests are counted as pytest's last line counts them, at every verbosity."""
    runs.write(draw_suite(Random(4), SORTS[:6] + SUBTESTS * 2))  # noqa: S311 - no secret
    serial = runs.run("--continue-on-collection-errors", *args)
    parallel = runs.run("-n", "2", *args, plugins=["xdist"])
    for run in (serial, parallel):
        summary = run.report["summary"]
        assert run.outcomes is not None
        for name in ("passed", "failed", "skipped", "xfailed", "errors"):
            assert summary[name] == run.outcomes.get(name, 0), name
    assert serial.counts["failed"] == parallel.counts["failed"]
    assert serial.counts["passed"] == parallel.counts["passed"]
