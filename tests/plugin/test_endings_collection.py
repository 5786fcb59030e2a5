"""Collection errors in all their disguises: exit code 2, 1 with some options, never an interrupt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

BROKEN: Final = (
    pytest.param(
        {"test_bad.py": "import no_such_module\n"}, "test_bad.py", "ModuleNotFoundError", id="import"
    ),
    pytest.param(
        {"test_bad.py": "from os import no_such_name\n"}, "test_bad.py", "ImportError", id="from"
    ),
    pytest.param({"test_bad.py": "def test_it()\n"}, "test_bad.py", "SyntaxError", id="syntax"),
    pytest.param(
        {"test_bad.py": "x = 1\n  y = 2\n"}, "test_bad.py", "IndentationError", id="indentation"
    ),
    pytest.param({"test_bad.py": "no_such_name\n"}, "test_bad.py", "NameError", id="name"),
    pytest.param(
        {
            "sub/conftest.py": "import no_such_module\n",
            "sub/test_below.py": PASSING,
        },
        "sub",
        "ModuleNotFoundError",
        id="conftest-below",
    ),
)

MODES: Final = (
    pytest.param((), 2, 1, id="plain"),
    pytest.param(("-x",), 1, 1, id="exitfirst"),
    pytest.param(("--continue-on-collection-errors",), 1, 0, id="continue"),
    pytest.param(("-n", "2"), 1, 1, id="xdist"),
)


@pytest.mark.parametrize(("files", "nodeid", "exception"), BROKEN)
@pytest.mark.parametrize(("args", "exit_status", "not_run"), MODES)
def test_collection_error(
    runs: PytestRuns,
    files: Mapping[str, str],
    nodeid: str,
    exception: str,
    args: Sequence[str],
    exit_status: int,
    not_run: int,
) -> None:
    """A file that can't be collected is an internal error, whatever the exit code looks like."""
    counts = {"collected": 1, "errors": 1, "collection_errors": 1}
    left = {"not_run": 1} if not_run else {"passed": 1}
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
            counts={**counts, **left},
        ),
    )
    assert [error["exception"]["type"] for error in run.report["collection_errors"]] == [exception]
