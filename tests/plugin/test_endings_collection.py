"""Collection errors in all their disguises: exit code 2 or 1, and never an interrupt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

# What is wrong: files, node id, exception
BROKEN: Final = {
    "import": (
        {"test_bad.py": "import no_such_module\n"},
        "test_bad.py",
        "ModuleNotFoundError",
    ),
    "from": (
        {"test_bad.py": "from os import no_such_name\n"},
        "test_bad.py",
        "ImportError",
    ),
    "syntax": ({"test_bad.py": "def test_it()\n"}, "test_bad.py", "SyntaxError"),
    "indentation": (
        {"test_bad.py": "x = 1\n  y = 2\n"},
        "test_bad.py",
        "IndentationError",
    ),
    "name": ({"test_bad.py": "no_such_name\n"}, "test_bad.py", "NameError"),
    "conftest-below": (
        {"sub/conftest.py": "import no_such_module\n", "sub/test_below.py": PASSING},
        "sub",
        "ModuleNotFoundError",
    ),
}
FAILED: Final = {"errors": 1, "collection_errors": 1}
MODES: Final = (
    pytest.param(["-x"], FAILED, id="exitfirst"),
    pytest.param(
        ["--continue-on-collection-errors"],
        {"collected": 1, "passed": 1, **FAILED},
        id="continue",
    ),
    # Both workers may report the error, and pytest's last line counts it as often as they do.
    pytest.param(["-n", "2"], None, id="xdist"),
)


def check_broken(
    runs: PytestRuns,
    broken: str,
    args: Sequence[str],
    exit_status: int,
    counts: Mapping[str, int] | None,
) -> None:
    """Run pytest on a file that can't be collected and one that can."""
    files, nodeid, exception = BROKEN[broken]
    run = check_ending(
        runs,
        Ending(
            files={**files, "test_good.py": PASSING},
            args=args,
            plugins=["xdist"] if "-n" in args else [],
            exit_status=exit_status,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid=nodeid,
            counts=counts,
        ),
    )
    (error,) = run.report["collection_errors"]
    assert error["nodeid"] == nodeid
    assert error["exception"]["type"] == exception


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("broken", BROKEN)
def test_collection_error(runs: PytestRuns, broken: str) -> None:
    """A file that can't be collected is an internal error, though the exit code is Ctrl+C's."""
    check_broken(runs, broken, [], 2, {"collected": 1, "not_run": 1, **FAILED})


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", ["import", "syntax", "indentation", "conftest-below"]
)
@pytest.mark.parametrize(("args", "counts"), MODES)
def test_collection_error_with_exit_code_1(
    runs: PytestRuns, broken: str, args: Sequence[str], counts: Mapping[str, int] | None
) -> None:
    """With some options the exit code is that of failed tests, and it still is none of them."""
    check_broken(runs, broken, args, 1, counts)


OTHERS: Final = (
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING
                + "import pytest\npytest.skip('no such argument given')\n"
            },
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="test_it.py",
            counts=FAILED,
        ),
        id="skip-at-module-level",
    ),
    pytest.param(
        Ending(
            files={"test_it.py": PASSING + "import pytest\npytest.fail('not today')\n"},
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="test_it.py",
            counts=FAILED,
        ),
        id="fail-at-module-level",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING + "import pytest\n"
                "@pytest.mark.parametrize('absent', [1])\n"
                "def test_it(present): pass\n"
            },
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="test_it.py",
            counts=FAILED,
        ),
        id="parametrize",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import pytest\n@pytest.mark.no_such_mark\ndef test_it(): pass\n",
            },
            args=["--strict-markers"],
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="test_it.py",
            counts=FAILED,
        ),
        id="unknown-mark",
    ),
    pytest.param(
        Ending(
            files={"a/test_it.py": PASSING, "b/test_it.py": PASSING},
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="b/test_it.py",
            counts={"collected": 1, "not_run": 1, **FAILED},
        ),
        id="two-modules-of-one-name",
    ),
    pytest.param(
        Ending(
            files={
                "test_bad.py": "import no_such_module\n",
                "test_worse.py": "def test_it()\n",
                "test_good.py": PASSING + "def test_fails(): assert 0\n",
            },
            args=["--continue-on-collection-errors"],
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            also=["collection.error"],
            nodeid="test_good.py::test_fails",
            counts={
                "collected": 2,
                "passed": 1,
                "failed": 1,
                "errors": 2,
                "collection_errors": 2,
            },
        ),
        id="beside-a-failed-test",
    ),
)


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("ending", OTHERS)
def test_other_reasons_not_to_be_collected(runs: PytestRuns, ending: Ending) -> None:
    """A node that can't be collected is told apart from a failed test, and yields to one."""
    check_ending(runs, ending)
