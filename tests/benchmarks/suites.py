"""Generated test suites of a known size and outcome."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TESTS_PER_MODULE = 50
WRONG_COUNT_EXIT_CODE = 99

PASSING_TEST = "def test_{number}():\n    pass\n\n\n"
FAILING_TEST = """\
def test_{number}():
    expected = {{"number": {number}, "name": "expected"}}
    assert expected == {{"number": {number}, "name": "actual"}}


"""
CONFTEST = f"""\
def pytest_sessionfinish(session):
    if (session.testscollected, session.testsfailed) != ({{tests}}, {{failed}}):
        session.exitstatus = {WRONG_COUNT_EXIT_CODE}
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


def write_suite(parent: Path, *, tests: int, is_failing: bool = False) -> Suite:
    """Write a suite of equal tests, 50 a module, unless the same one is there already.

    Its ``conftest.py`` makes pytest end with exit code 99 when another number of tests ran or
    failed, so that a variant without an artifact is checked as well.

    Args:
        parent: The folder in which the suite gets its own.
        tests: The number of tests.
        is_failing: Whether every test fails on a comparison of two small dictionaries.

    Returns:
        The suite.
    """
    folder = parent / f"{'failing' if is_failing else 'passing'}_{tests}"
    suite = Suite(folder=folder, tests=tests, is_failing=is_failing)
    if folder.exists():
        return suite
    folder.mkdir()
    template = FAILING_TEST if is_failing else PASSING_TEST
    for first in range(0, tests, TESTS_PER_MODULE):
        numbers = range(first, min(first + TESTS_PER_MODULE, tests))
        source = "".join(template.format(number=number) for number in numbers)
        (folder / f"test_module_{first:06}.py").write_text(source, encoding="utf-8")
    conftest = CONFTEST.format(tests=tests, failed=tests if is_failing else 0)
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return suite
