"""GitLab's code quality report: what a merge request shows beside the lines that it changes."""

from __future__ import annotations

import json
import os
from collections import Counter
from hashlib import sha256
from typing import Any, Final

from pytest_failure_taxonomy.report.summary import (
    Place,
    Repository,
    running_words,
    stall_words,
    summarise,
)
from pytest_failure_taxonomy.report.text import safe_text

_NO_FILE: Final = ".gitlab-ci.yml"
"""GitLab wants a file. What no file is to blame for is put on that which describes the job."""
_WHOLE_RUN: Final = "blocker"
_TESTS: Final = "major"
_FLAKY: Final = "minor"
_OTHERS: Final = "critical"


def render(report: dict[str, Any]) -> str:
    """Return the report as JSON: one entry a cause, and what was cut short."""
    entries: list[dict[str, Any]] = []
    seen: Counter[str] = Counter()

    def add(kind: str, words: str, severity: str, identity: str, place: Place | None) -> None:
        # Equal ones are told apart by their order, for GitLab drops doubles.
        seen[identity] += 1
        known_by = f"{identity}\0{seen[identity]}".encode("utf-8", "backslashreplace")
        place = place or Place(path=_NO_FILE)
        entry = {
            "description": safe_text(words, 1_000),
            "check_name": kind,
            "fingerprint": sha256(known_by).hexdigest(),
            "severity": severity,
            "location": {"path": safe_text(place.path, 4_000), "lines": {"begin": place.line or 1}},
        }
        entries.append(entry)

    if report["verdict"] is not None:
        repository = Repository(report, os.environ.get("CI_PROJECT_DIR"))
        told: set[str] = set()
        for cause in summarise(report).causes:
            count = f"{cause.count:,} x " if cause.count > 1 else ""
            fix = f"; fix: {cause.fix}" if cause.fix else ""
            severity = _TESTS if cause.reason == "TESTS_FAILED" else _OTHERS
            if cause.state == "flaky":
                severity = _FLAKY
            elif not cause.failures:
                severity = _WHOLE_RUN
            words = f"{count}{cause.text}{cause.remarks}{fix} {cause.codes}"
            place = repository.place_of_cause(cause)
            add(cause.kind, words, severity, f"cause\0{cause.key}", place)
            told.update(cause.nodeids)
        for test in report["in_flight"]:
            nodeid = test["nodeid"]
            if nodeid not in told:
                words, place = f"{nodeid} {running_words(test)}", repository.place_of(test)
                add("test.in_flight", words, _FLAKY, f"in flight\0{nodeid}", place)
        for stalled in report["stalls"]:
            kind, words = f"{stalled['what']}.stalled", f"{stalled['what']} {stall_words(stalled)}"
            add(kind, words, _OTHERS, f"{kind}\0{words}", None)
    return json.dumps(entries, indent=2) + "\n"
