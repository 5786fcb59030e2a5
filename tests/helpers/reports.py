"""Make evidence and reports for tests, and check reports that a run has written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jsonschema import Draft202012Validator

from pytest_failure_taxonomy.report.amend import add_late_end, amend
from pytest_failure_taxonomy.report.build import NO_PROOF, build_report
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import CODEC, SCHEMA_ID, FailureReport
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    ContinuousIntegration,
    Counts,
    Environment,
    InFlightTest,
    Interruption,
    Location,
    ProcessExit,
    RaisedException,
    RunContext,
    RunError,
    RunEvidence,
    Surroundings,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import Proof
from tests.helpers.report_schema import packaged_schema

A_PROOF: Final[Mapping[str, Any]] = {
    **NO_PROOF,
    "type": "order.polluted",
    "status": "proven",
    "nodeids": ["tests/test_tax.py::test_default"],
    "state": "shop.config.RATE = 0.19 (was 0.2)",
    "runs": 5,
    "failed": 5,
    "without": {"runs": 5, "failed": 0, "state": None},
    "interval": {"low": 0.4782, "high": 1.0},
    "command": "pytest tests/test_tax.py::test_default tests/test_cart.py::test_total",
    "commit": None,
    "suspicions": ["load: fails 9 of 10 with the processors busy"],
}
"""A proof in which every field says something."""
_valid: set[bytes] = set()
"""The digests of what has been checked: a test reads a report, and at its end it is looked at."""
_HEAD_BYTES: Final = 200
"""What of a file is looked at to tell a report from other files."""


def make_run(**given: Any) -> RunEvidence:
    """Return the evidence of a run that passed, with the given fields replaced.

    Where something failed, pytest ended with exit code 1.
    """
    code = int(
        not given.keys().isdisjoint({"failures", "collection_failures", "errors"})
    )
    fields: dict[str, Any] = {
        "exit": ProcessExit(code=code, source="pytest"),
        "counts": Counts(collected=1, passed=1),
    }
    return RunEvidence(**{**fields, **given})


def make_failure(**given: Any) -> TestFailure:
    """Return a test that failed on an assertion, with the given fields replaced."""
    fields: dict[str, Any] = {
        "nodeid": "tests/test_cart.py::test_total",
        "phase": "call",
        "message": "assert 3 == 4",
        "exception": RaisedException(
            type="AssertionError",
            module="builtins",
            message="assert 3 == 4",
            bases=(
                "builtins.AssertionError",
                "builtins.Exception",
                "builtins.BaseException",
            ),
            raised_in="tests.test_cart",
        ),
        "location": Location(path="tests/test_cart.py", line=7),
        "traceback": "    def test_total():\n>       assert 3 == 4\nE       assert 3 == 4",
        "duration_seconds": 0.25,
    }
    return TestFailure(**{**fields, **given})


def make_full_run() -> RunEvidence:
    """Return the evidence of a run in which everything happened that a report has a place for."""
    return make_run(
        exit=ProcessExit(code=2, source="pytest"),
        counts=Counts(
            collected=9, deselected=1, passed=1, failed=2, errors=2, warnings=3
        ),
        failures=(
            make_failure(),
            make_failure(
                phase="teardown", location=None, traceback=None, duration_seconds=None
            ),
            make_failure(exception=None, crashed=True, worker="gw1", attempts=2),
        ),
        collection_failures=(
            CollectionFailure(
                nodeid="tests/test_broken.py",
                message="SyntaxError: invalid syntax",
                exception=RaisedException(
                    type="SyntaxError", module="builtins", message="invalid syntax"
                ),
                location=Location(path="tests/test_broken.py", line=None),
                traceback="E   SyntaxError: invalid syntax",
            ),
            CollectionFailure(nodeid="tests/test_gone.py", message="no module"),
        ),
        errors=(
            RunError(
                origin="internal",
                message="KeyError: 'x'",
                traceback="INTERNALERROR> ...",
            ),
            RunError(origin="plugin", message="ValueError"),
        ),
        interruptions=(
            Interruption(exception="KeyboardInterrupt", message="KeyboardInterrupt"),
        ),
        in_flight=(
            InFlightTest(
                nodeid="tests/test_slow.py::test_it",
                phase="setup",
                elapsed_seconds=1.5,
                worker="gw0",
            ),
        ),
        not_run=("tests/test_late.py::test_b", "tests/test_late.py::test_a"),
        workers=(
            WorkerEnd(id="gw0", tests=3, exit_code=0),
            WorkerEnd(
                id="gw1",
                tests=2,
                signal="SIGSEGV",
                crashed_on="tests/test_cart.py::test_c",
            ),
        ),
    )


def make_context(**given: Any) -> RunContext:
    """Return a plausible run's name, time and place, with the given fields replaced."""
    fields: dict[str, Any] = {
        "id": "0123456789abcdef" * 2,
        "started_at": "2026-01-31T12:00:00.125Z",
        "duration_seconds": 12.5,
        "args": ("--failure-taxonomy", "tests"),
        "rootdir": "/home/user/shop",
        "environment": Environment(
            python="3.13.1",
            platform="Linux-6.18-x86_64",
            pytest="9.0.0",
            plugins=("pytest-failure-taxonomy-0.1.0", "pytest-xdist-3.8.0"),
            ci=ContinuousIntegration(
                provider="github", run_id="1", job="tests", commit="abc"
            ),
        ),
    }
    return RunContext(**{**fields, **given})


def make_report(run: RunEvidence | None = None, **given: Any) -> dict[str, Any]:
    """Return the report of a run, as JSON; what is given goes to `build_report`."""
    return as_json(make_report_value(run, **given))


def make_report_value(run: RunEvidence | None = None, **given: Any) -> FailureReport:
    """Return the report of a run; what is given goes to `build_report`."""
    run = make_full_run() if run is None else run
    context = given.pop("context", None) or make_context()
    return build_report(run, judge(run), context, **given)


def with_proofs(
    report: dict[str, Any], proofs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a report, as JSON, with what experiments say of its causes, by their keys."""
    values = {
        key: CODEC.decode(Proof, {**NO_PROOF, **proof}) for key, proof in proofs.items()
    }
    return amended(report, Amendment(proofs=values))


def amended(report: dict[str, Any], amendment: Amendment) -> dict[str, Any]:
    """Return a report, as JSON, with an amendment."""
    return as_json(amend(decode_report(report), amendment))


def with_late_end(report: dict[str, Any], end: ProcessExit) -> dict[str, Any]:
    """Return a report, as JSON, with how its process ended after pytest wrote it."""
    before = decode_report(report)
    after = add_late_end(before, end)
    return report if after is before else as_json(after)


def extensions_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says that one of an ordinary run does not, by field."""
    names = (
        *("notes", "faults", "attributions", "repository", "attempt", "known", "trial"),
        *("merged", "session_exit_code", "redacted", "is_unannotated"),
    )
    fields = {name: report[name] for name in names if report[name]}
    return {**report["extensions"], **fields}


NO_SURROUNDINGS: Final[Mapping[str, Any]] = MappingProxyType(
    CODEC.encode(Surroundings())
)
NO_HISTORY: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "state": "new",
        "first_seen": None,
        "runs": 0,
        "last_passed_commit": None,
        "distributions_changed": None,
        "first_commit": None,
        "flaky_failures": 0,
        "flaky_runs": 0,
    }
)
"""What a history says of a cause that it does not know."""


def assert_valid_report(report: dict[str, Any]) -> FailureReport:
    """Check a report's JSON against the packaged schema and the values, which give it back."""
    problems = [
        f"{problem.json_path}: {problem.message}"
        for problem in _validator().iter_errors(report)
    ]
    assert problems == []
    loaded = decode_report(json.loads(json.dumps(report)))
    assert json.dumps(as_json(loaded)) == json.dumps(report)
    return loaded


def read_report(path: Path) -> dict[str, Any]:
    """Return a report that a run has written, after checking it, once for the same content."""
    text = path.read_text("ascii")
    report: dict[str, Any] = json.loads(text)
    digest = sha256(text.encode()).digest()
    if digest not in _valid:
        assert_valid_report(report)
        _valid.add(digest)
    return report


def assert_valid_reports_in(folder: Path) -> None:
    """Check every report in a folder and below it, under whatever name."""
    for path in reports_in(folder):
        try:
            read_report(path)
        except (AssertionError, ValueError) as error:
            raise AssertionError(
                f"{path.name}: an invalid report was left: {error}"
            ) from error


def reports_in(folder: Path) -> Iterator[Path]:
    """Find the files that begin as a report does."""
    # Not by `rglob`, which fails where the watcher of a dead run has just removed a folder.
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_file() and not path.is_symlink() and _begins_as_report(path):
                yield path


def _begins_as_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except (
        OSError
    ):  # a test took the right to read it, or what wrote it has just removed it
        return False
    return head.startswith(b"{") and SCHEMA_ID.encode() in head


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(
        packaged_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER
    )
