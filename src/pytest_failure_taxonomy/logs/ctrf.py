"""Make a report of CTRF, the Common Test Report Format, as many test tools write it.

CTRF knows only tests. `extra`, in which each tool writes what it likes, isn't read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.documents.content import MAX_WORD, refusal
from pytest_failure_taxonomy.logs import foreign
from pytest_failure_taxonomy.logs.foreign import ForeignObject
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy.words import telling_line
from pytest_failure_taxonomy.text import safe_text

NEWEST_VERSION: Final = 1
"""The newest known major version: 0.0.0 is the schema's, 1.0.0 that of some writers."""
NOTE: Final = (
    "made of a CTRF file: pytest's exit code, errors outside of tests, a death and "
    "what was running then are not in it"
)

_RIGHT: Final = "give a CTRF file, a JSON object with `reportFormat` and `results`"
_VERSION: Final = re.compile(r"([0-9]{1,6})\.[0-9]{1,6}\.[0-9]{1,6}")
_RAW: Final[Mapping[str, ev.TestOutcome]] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "skipped": "skipped",
    "xfailed": "xfailed",
    "xpassed": "xpassed",
    "setup_failed": "error",
    "teardown_failed": "error",
    "call_failed": "failed",
}
"""Outcomes of `rawStatus`, as this package and pytest-json-ctrf write them."""
_OUTCOMES: Final[Mapping[str, ev.TestOutcome]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "other": "skipped",
}
_DISTINCTIVE: Final = (
    "id",
    "testId",
    "executionId",
    "browser",
    "device",
    "parameters",
    "type",
)
"""Fields that tell tests of one name from each other."""


def read_run(path: Path) -> foreign.ForeignRun:
    """Return the run in a CTRF file.

    Raises:
        ReportError: it is no CTRF file, or one of a newer version.
    """
    content, document = foreign.read_document(path, _RIGHT)
    results = document.child("results")
    _check(document, results, path, content)
    entries = results.children("tests")
    foreign.refuse_duplicates(map(_identity, entries), path)
    summary = results.child("summary")
    start = _seconds(summary, "start")
    stop = _seconds(summary, "stop")
    tests = [_test(entry, start) for entry in entries]
    end = ev.ProcessExit(code=foreign.exit_code_of(tests, ()), source="none")
    rerun = sum(map(_retries, entries))
    return foreign.ForeignRun(
        evidence=foreign.evidence_of_tests(end, tests, rerun=rerun),
        content=content,
        pytest_version=_pytest_version(results.child("tool")),
        started_at=foreign.choose_time(start, path),
        duration_seconds=foreign.seconds_between(start, stop),
        notes=(NOTE,),
    )


def _check(
    document: ForeignObject, results: ForeignObject, path: Path, content: bytes
) -> None:
    is_named = "reportFormat" in document
    is_other = is_named and document.field("reportFormat") != "CTRF"
    if is_other or not isinstance(results.field("tests"), list):
        hint = "" if is_named else foreign.hint_for(content)
        what = "it is no CTRF: it has no `results.tests`"
        raise refusal(path, what, hint or _RIGHT)
    version = document.text("specVersion")
    match = _VERSION.match(version)
    if match is not None and int(match[1]) > NEWEST_VERSION:
        what = (
            f"CTRF {safe_text(version, MAX_WORD)} is newer than this program reads "
            f"({NEWEST_VERSION})"
        )
        raise refusal(path, what, "upgrade pytest-failure-taxonomy")
    for number, item in enumerate(results.items("tests")):
        status = ForeignObject(item).text("status")
        if status not in _OUTCOMES:
            what = f"results.tests[{number}] has no `status` that CTRF knows"
            statuses = ", ".join(_OUTCOMES)
            raise refusal(path, what, f"give one of {statuses}")


def _pytest_version(tool: ForeignObject) -> str:
    if tool.text("name") != "pytest":
        return "unknown"
    return tool.text("version") or "unknown"


def _seconds(holder: ForeignObject, name: str) -> float | None:
    milliseconds = holder.number(name)
    if milliseconds is None:
        return None
    return milliseconds / 1000


def _identity(entry: ForeignObject) -> str:
    """Return what identifies a test, its name first."""
    fields = {name: entry.field(name) for name in _DISTINCTIVE if name in entry}
    words = json.dumps(fields, sort_keys=True)
    return f"{_nodeid(entry)}\n{words}"


def _path(entry: ForeignObject) -> str:
    return entry.text("filePath").replace("\\", "/")


def _nodeid(entry: ForeignObject) -> str:
    """Return a node id: the name, or one that is made of file, suites and title.

    pytest's writers give node ids as names; those of other tools give titles.
    """
    name = entry.text("name")
    path = _path(entry)
    if "::" in name or name == path:
        return name
    suites = entry.texts("suite") or [entry.text("suite")]
    holders = [suite for suite in suites if suite not in (path, "")]
    if path:
        holders.insert(0, path)
    return "::".join([*holders, name])


def _outcome(entry: ForeignObject) -> ev.TestOutcome:
    status = entry.text("status")
    is_flaky = entry.boolean("flaky") or _retries(entry)
    if status == "passed" and is_flaky:
        return "flaky"
    raw_status = entry.text("rawStatus")
    outcome = _RAW.get(raw_status, _OUTCOMES[status])
    # Where a writer's own word contradicts the format's, that of the format counts.
    if (outcome in foreign.FAILED) != (status == "failed"):
        return _OUTCOMES[status]
    return outcome


def _retries(entry: ForeignObject) -> int:
    """Return how often a test was tried again."""
    retries = entry.count("retries")
    return retries or len(entry.children("retryAttempts"))


def _test(entry: ForeignObject, run_start: float | None) -> foreign.Attempted:
    run = ev.TestRun(
        nodeid=_nodeid(entry),
        outcome=_outcome(entry),
        start_seconds=foreign.seconds_between(run_start, _seconds(entry, "start")),
        duration_seconds=_seconds(entry, "duration"),
        worker=entry.text("threadId") or None,
    )
    return foreign.describe_attempt(
        run,
        [_failure(entry)] if run.outcome in foreign.FAILED else (),
        path=_path(entry) or None,
        line=entry.line("line"),
        attempts=1 + _retries(entry),
    )


def _failure(entry: ForeignObject) -> foreign.Failed:
    """Return what failed; CTRF has room for one failure of a test."""
    raw_status = entry.text("rawStatus").removesuffix("_failed")
    phase = foreign.PHASES.get(raw_status, "call")
    if raw_status == "error":
        phase = "setup"
    trace = entry.text("trace")
    message = entry.text("message") or telling_line(trace)
    return foreign.Failed(phase, message, trace)
