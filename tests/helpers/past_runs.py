"""Reports of runs that go into a history."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.taxonomy.evidence import (
    ContinuousIntegration,
    Counts,
    RaisedException,
)
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
    file: str = TEST.removesuffix("::"),
    **tests: str,
) -> FailureReport:
    """Return the report of a run that began so many hours after the first of November.

    Args:
        number: the run's id, too.
        failing: node ids of tests that failed.
        message: of their failure; another cause has another one.
        commit: the commit that was tested; one of its own by default.
        branch: the branch that was tested.
        project: the name of the root directory.
        installed: the distributions; `None` where nobody has looked.
        file: where the tests are.
        tests: outcomes of tests of that file, by their functions' names.
    """
    outcomes = {f"{file}::{name}": outcome for name, outcome in tests.items()}
    failing = failing or tuple(
        name for name, each in outcomes.items() if each == "failed"
    )
    exception = make_failure().exception
    assert exception is not None
    failures = tuple(
        make_failure(nodeid=each, message=message, traceback=f"E   {message}")
        for each in failing
    )
    report = copy.deepcopy(
        make_report(make_run(failures=failures) if failing else make_run())
    )
    run = report["run"]
    run["id"] = f"{number:032x}"
    run["started_at"] = f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00Z"
    run["invocation"]["rootdir"] = f"/home/user/{project}"
    report["environment"]["git"] = {
        "commit": commit or f"{number:040x}",
        "branch": branch,
        "dirty": False,
    }
    report["environment"]["distributions"] = (
        None if installed is None else list(installed)
    )
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
    return decode_report(report)


def report_as_json(number: int, **given: Any) -> dict[str, Any]:
    """Return the JSON of what `a_report` returns."""
    return as_json(a_report(number, **given))


def a_mixed_report(
    number: int,
    tests: Mapping[str, str | None],
    *,
    seconds: Mapping[str, float] | None = None,
    job: str | None = None,
    **given: Any,
) -> FailureReport:
    """Return the report of a run like `a_report`, in which tests failed of different causes.

    Args:
        number: the run's id, too.
        tests: by their functions' names, what they raised; `None` for those that passed.
        seconds: that some of the tests took.
        job: of the CI system.
        given: what `a_report` takes.
    """
    failures = []
    for name, raised in tests.items():
        if raised is not None:
            type_, _, message = raised.partition(": ")
            base = (
                "builtins.ConnectionError"
                if "Connection" in type_
                else "builtins.Exception"
            )
            exception = RaisedException(
                type=type_,
                module="builtins",
                message=message,
                bases=(f"builtins.{type_}", base),
            )
            failures.append(
                make_failure(
                    nodeid=f"{TEST}{name}",
                    message=message,
                    exception=exception,
                    traceback=None,
                )
            )
    failed = len(failures)
    counts = Counts(collected=len(tests), passed=len(tests) - failed, failed=failed)
    report = copy.deepcopy(
        make_report(make_run(failures=tuple(failures), counts=counts))
    )
    outcomes = {
        name: "passed" if raised is None else "failed" for name, raised in tests.items()
    }
    given |= outcomes
    template = report_as_json(number, **given)
    for name in ("run", "environment", "tests"):
        report[name] = template[name]
    for test in report["tests"]:
        test["duration_seconds"] = (seconds or {}).get(
            test["nodeid"].partition("::")[2], 0.5
        )
    if job is not None:
        ci = ContinuousIntegration(provider="github", run_id="1", job=job)
        report["environment"]["ci"] = CODEC.encode(ci)
    return decode_report(report)
