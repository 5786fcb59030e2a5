"""Generated test suites of a known size and outcome that note their CPU time as they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PASSING_TESTS_PER_MODULE = 50
FAILING_TESTS_PER_MODULE = 10
"""Fewer, because for each failure pytest parses the whole module again to quote its source."""
PASSING_TESTS_PER_STAMP = 5
WRONG_COUNT_EXIT_CODE = 99

MODULE_HEAD = "from time import process_time_ns\n\nfrom conftest import stamps\n"
PASSING_BODY = "    pass\n"
FAILING_BODY = "    expected, actual = 1, 2\n    assert expected == actual\n"
STAMP = "    stamps.append(process_time_ns())\n"
CONFTEST = """\
from pathlib import Path
from time import process_time_ns

stamps = [process_time_ns()]


def pytest_collection_finish():
    stamps.append(process_time_ns())


def pytest_sessionfinish(session):
    stamps.append(process_time_ns())
    if (session.testscollected, session.testsfailed) != ({tests}, {failed}):
        session.exitstatus = {exit_code}
    Path(__file__).with_name("stamps").write_text(" ".join(map(str, stamps)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A folder of test modules in which all tests pass, or all fail."""

    folder: Path
    tests: int
    is_failing: bool

    @property
    def exit_code(self) -> int:
        """The exit code that pytest has to end with."""
        return 1 if self.is_failing else 0

    @property
    def stamps(self) -> Path:
        """The file in which a run leaves the CPU times, in ns, at which it reached its marks."""
        return self.folder / "stamps"


def write_suite(parent: Path, *, tests: int, is_failing: bool = False) -> Suite:
    """Write a suite of equal, trivial tests, unless the same one is there already.

    It notes the CPU time of its process when its ``conftest.py`` is imported, after collection,
    in every fifth passing and in every failing test, and at the end of the session. It makes
    pytest end with exit code 99 when another number of tests ran or failed, so that a variant
    without an artifact is checked as well.

    Args:
        parent: The folder in which the suite gets its own.
        tests: The number of tests.
        is_failing: Whether every test fails on a comparison of two numbers.

    Returns:
        The suite.
    """
    folder = parent / f"{'failing' if is_failing else 'passing'}_{tests}"
    suite = Suite(folder=folder, tests=tests, is_failing=is_failing)
    if folder.exists():
        return suite
    folder.mkdir()
    size = FAILING_TESTS_PER_MODULE if is_failing else PASSING_TESTS_PER_MODULE
    for first in range(0, tests, size):
        numbers = range(first, min(first + size, tests))
        source = MODULE_HEAD + "".join(
            _test_source(number, is_failing=is_failing) for number in numbers
        )
        (folder / f"test_module_{first:06}.py").write_text(source, encoding="utf-8")
    conftest = CONFTEST.format(
        tests=tests, failed=tests if is_failing else 0, exit_code=WRONG_COUNT_EXIT_CODE
    )
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return suite


def _test_source(number: int, *, is_failing: bool) -> str:
    """Return the source of one test."""
    stamp = STAMP if is_failing or number % PASSING_TESTS_PER_STAMP == 0 else ""
    return f"\n\ndef test_{number}():\n{stamp}{FAILING_BODY if is_failing else PASSING_BODY}"
