"""Reports of runs that go into a history."""

from __future__ import annotations

import copy
from typing import Any

from tests.helpers.reports import make_failure, make_report, make_run

TEST = "tests/test_x.py::"


def a_report(
    number: int,
    *,
    failing: tuple[str, ...] = (),
    message: str = "assert 3 == 4",
    commit: str | None = None,
    branch: str = "main",
    project: str = "shop",
    installed: tuple[str, ...] | None = None,
    **tests: str,
) -> dict[str, Any]:
    """Return the report of a run that began so many hours after the first of November.

    Args:
        number: the run's id, too.
        failing: node ids of tests that failed.
        message: of their failure; another cause has another one.
        commit: the commit that was tested; one of its own by default.
        branch: the branch that was tested.
        project: the name of the root directory.
        installed: the distributions; `None` where nobody has looked.
        tests: outcomes of tests of `TEST`, by their functions' names.
    """
    outcomes = {f"{TEST}{name}": outcome for name, outcome in tests.items()}
    failing = failing or tuple(name for name, each in outcomes.items() if each == "failed")
    exception = make_failure().exception
    assert exception is not None
    failures = tuple(
        make_failure(nodeid=each, message=message, traceback=f"E   {message}") for each in failing
    )
    report = copy.deepcopy(make_report(make_run(failures=failures) if failing else make_run()))
    run = report["run"]
    run["id"] = f"{number:032x}"
    run["started_at"] = f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00Z"
    run["invocation"]["rootdir"] = f"/home/user/{project}"
    report["environment"]["git"] = {
        "commit": commit or f"{number:040x}",
        "branch": branch,
        "dirty": False,
    }
    report["environment"]["distributions"] = None if installed is None else list(installed)
    if tests:
        report["tests"] = [
            {
                "nodeid": nodeid,
                "outcome": outcome,
                "start_seconds": 0.0,
                "duration_seconds": 0.5,
                "worker": None,
            }
            for nodeid, outcome in outcomes.items()
        ]
    return report
