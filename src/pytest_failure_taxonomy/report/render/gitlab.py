"""GitLab's code quality report: what a merge request shows beside the lines that it changes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from pytest_failure_taxonomy.report.render.history_words import in_brackets, words_of_group
from pytest_failure_taxonomy.report.render.places import (
    Place,
    Repository,
    running_words,
    stall_words,
    words_of_verdict,
)
from pytest_failure_taxonomy.report.text import first_line, safe_text
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import counted

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
    """Return the report as JSON: one entry a group of failures, and those of the session."""
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
    verdict = report["verdict"]
    if verdict is None:
        return
    repository = Repository(report, os.environ.get("CI_PROJECT_DIR"))
    groups = report["groups"]
    for group in groups:
        yield _of_group(report, group, repository)
    if not any(verdict["nodeid"] in group["nodeids"] for group in groups):
        yield _of_verdict(report, repository)
    for error in report["internal_errors"]:
        message = first_line(error["message"])
        if message not in verdict["message"]:
            yield _issue(error["kind"], message, _OTHERS)
    for test in report["in_flight"]:
        if test["nodeid"] != verdict["nodeid"]:
            words = f"{test['nodeid']} {running_words(test)}"
            place = repository.place_of(test)
            yield Issue(
                kind="test.in_flight",
                words=words,
                severity=_FLAKY,
                identity=f"in flight\0{test['nodeid']}",
                place=place,
            )
    for stalled in report["stalls"]:
        words = f"{stalled['what']} {stall_words(stalled)}"
        yield _issue(f"{stalled['what']}.stalled", words, _OTHERS)


def _issue(kind: str, words: str, severity: str) -> Issue:
    return Issue(kind=kind, words=words, severity=severity, identity=f"{kind}\0{words}")


def _of_verdict(report: dict[str, Any], repository: Repository) -> Issue:
    """Return the entry of a run whose reason is in no group of failures."""
    verdict = report["verdict"]
    title, lines = words_of_verdict(report)
    running = (test for test in report["in_flight"] if test["nodeid"] == verdict["nodeid"])
    place = next(map(repository.place_of, running), None) or repository.file_of(verdict["nodeid"])
    return Issue(
        kind=verdict["kind"],
        words=f"{title}: {'; '.join(lines)}",
        severity=_WHOLE_RUN,
        identity=f"{verdict['kind']}\0{verdict['nodeid']}",
        place=place,
    )


def _of_group(report: dict[str, Any], group: dict[str, Any], repository: Repository) -> Issue:
    nodeids = group["nodeids"]
    first = f"{nodeids[0]}: " if nodeids else ""
    count = f" ({counted(group['count'], 'failure')})" if group["count"] > 1 else ""
    history = in_brackets(words_of_group(report, group))
    return Issue(
        kind=group["kind"],
        words=f"{first}{first_line(group['title'])}{count}{history}",
        severity=_severity_of(group),
        identity=f"group\0{group['fingerprint']}",
        place=repository.place_of_group(group),
    )


def _severity_of(group: Mapping[str, Any]) -> str:
    if (group["history"] or {}).get("state") == "flaky":
        return _FLAKY
    return _TESTS if group["reason"] == "TESTS_FAILED" else _OTHERS
