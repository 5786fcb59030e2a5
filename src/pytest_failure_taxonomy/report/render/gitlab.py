"""GitLab's code quality report: what a merge request shows beside the lines that it changes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    Place,
    Repository,
    running_words,
    stall_words,
    summarise,
)
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.values import value

_NO_FILE: Final = ".gitlab-ci.yml"
"""GitLab wants a file. What no file is to blame for is put on that which describes the job."""
_WHOLE_RUN: Final = "blocker"
_TESTS: Final = "major"
_FLAKY: Final = "minor"
_OTHERS: Final = "critical"


@value
class Issue:
    """One entry of the report."""

    kind: str
    words: str
    severity: str
    identity: str
    """What it is known by in another run."""
    place: Place | None = None


def render(report: dict[str, Any]) -> str:
    """Return the report as JSON: one entry a cause, and what was cut short."""
    seen: dict[str, int] = {}
    entries = [_entry(issue, seen) for issue in _issues(report)]
    return json.dumps(entries, indent=2) + "\n"


def _entry(issue: Issue, seen: dict[str, int]) -> dict[str, Any]:
    """Return an entry; equal ones are told apart by their order, for GitLab drops doubles."""
    number = seen[issue.identity] = seen.get(issue.identity, 0) + 1
    place = issue.place or Place(path=_NO_FILE)
    identity = f"{issue.identity}\0{number}".encode("utf-8", "backslashreplace")
    return {
        "description": safe_text(issue.words, 1_000),
        "check_name": issue.kind,
        "fingerprint": sha256(identity).hexdigest(),
        "severity": issue.severity,
        "location": {"path": safe_text(place.path, 4_000), "lines": {"begin": place.line or 1}},
    }


def _issues(report: dict[str, Any]) -> Iterator[Issue]:
    if report["verdict"] is None:
        return
    summary = summarise(report)
    repository = Repository(report, os.environ.get("CI_PROJECT_DIR"))
    told: set[str] = set()
    for cause in summary.causes:
        yield _of_cause(cause, repository)
        told.update(cause.nodeids)
    for test in report["in_flight"]:
        if test["nodeid"] not in told:
            yield Issue(
                kind="test.in_flight",
                words=f"{test['nodeid']} {running_words(test)}",
                severity=_FLAKY,
                identity=f"in flight\0{test['nodeid']}",
                place=repository.place_of(test),
            )
    for stalled in report["stalls"]:
        kind, words = f"{stalled['what']}.stalled", f"{stalled['what']} {stall_words(stalled)}"
        yield Issue(kind=kind, words=words, severity=_OTHERS, identity=f"{kind}\0{words}")


def _of_cause(cause: CauseSummary, repository: Repository) -> Issue:
    count = f"{cause.count:,} x " if cause.count > 1 else ""
    fix = f"; fix: {cause.fix}" if cause.fix else ""
    return Issue(
        kind=cause.kind,
        words=f"{count}{cause.text}{cause.remarks}{fix} {cause.codes}",
        severity=_severity_of(cause),
        identity=f"cause\0{cause.key}",
        place=repository.place_of_cause(cause),
    )


def _severity_of(cause: CauseSummary) -> str:
    if cause.state == "flaky":
        return _FLAKY
    if not cause.failures:
        return _WHOLE_RUN
    return _TESTS if cause.reason == "TESTS_FAILED" else _OTHERS
