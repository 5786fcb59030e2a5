"""A report as CTRF, the Common Test Report Format: one JSON object, for the tools that read it.

CTRF knows tests and nothing of a session. What failed outside of any test stands in `extra`, under
the name of this package: so does what CTRF has no word for. The counts of its `summary` are always
those of its list of tests.

Each id means one thing: `reportId` the content of this document, `runId` the run, which shards and
what is merged of them share, `testId` the test in every run, `attemptId` one attempt of it in this
run.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from pytest_failure_taxonomy.report.build import OWN_NAME
from pytest_failure_taxonomy.report.model import (
    CODEC,
    Failure,
    FailureReport,
)
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    KnownTest,
    causes_by_failure,
    merged_runs_of,
    notes_of,
    tests_of,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    ContinuousIntegration,
    GitState,
    InFlightTest,
)
from pytest_failure_taxonomy.taxonomy.judgement import describe_kind

SPEC_VERSION: Final = "0.0.0"
"""The version of CTRF, which is not final yet: that of its published schema."""

WITHOUT_TESTS: Final = (
    "the report does not list every test: tests that passed are missing here "
    "and from the counts"
)
_NAMELESS: Final = "(no name)"
_ALL_STATUSES: Final = ("passed", "failed", "skipped", "pending", "other")
_MOST_ATTEMPTS: Final = 100
"""Earlier attempts of one test that are listed."""
_LONGEST_SECONDS: Final = 1e9
_OF_SESSION: Final = (
    "schema_version",
    "completeness",
    "exit",
    "verdict",
    "reasons",
    "groups",
    "causes",
    "collection_errors",
    "internal_errors",
    "stalls",
    "limits",
)
"""Fields of a report that CTRF has no place for, as they are."""
_NO_JOB: Final = ContinuousIntegration(provider="")

_Fields = dict[str, Any]
"""An object of CTRF."""


def render(report: FailureReport) -> str:
    """Return the report as CTRF."""
    run_id = _run_id(report)
    began = datetime.fromisoformat(report.run.started_at)
    started_at = round(began.timestamp() * 1000)
    tests = list(_tests(report, started_at, run_id))
    around = report.environment
    document: _Fields = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "reportId": "",
        "runId": run_id,
        "generatedBy": f"{report.generator.name} {report.generator.version}",
        "results": {
            "tool": {"name": "pytest", "version": around.pytest},
            "summary": _summary(report, tests, started_at),
            "tests": tests,
            "environment": _environment(report),
            "extra": {OWN_NAME: _session(report)},
        },
    }
    document["reportId"] = _uuid_of(document)
    return json.dumps(document, indent=2) + "\n"


def _session(report: FailureReport) -> _Fields:
    """Return facts about the run as a whole."""
    fields: _Fields = {"stage": report.run.stage}
    for name in _OF_SESSION:
        fields[name] = CODEC.encode(getattr(report, name))
    notes = list(notes_of(report))
    if report.tests is None:
        notes.append(WITHOUT_TESTS)
    fields["notes"] = notes
    fields["faults"] = report.faults
    return fields


def _environment(report: FailureReport) -> _Fields:
    around = report.environment
    git = around.git or GitState()
    job = around.ci or _NO_JOB
    shard = report.run.shard
    versions = {"python": around.python, "plugins": around.plugins}
    fields = {
        "commit": git.commit or job.commit,
        "branchName": git.branch,
        "buildId": job.run_id,
        "buildName": job.job,
        "osPlatform": around.platform,
        "shardId": f"{shard.index}/{shard.total}" if shard else None,
        "healthy": report.verdict is None and report.completeness != "running",
        "extra": {OWN_NAME: versions},
    }
    return _without_none(fields)


def _run_id(report: FailureReport) -> str:
    """Return the id of the run; shards of one CI job and what is merged of them have the same."""
    runs = [part.run for part in merged_runs_of(report)] or [report.run]
    job = report.environment.ci or _NO_JOB
    if job.run_id is None or not all(run.shard for run in runs):
        return report.run.id
    # GitLab's names end like `test 1/4`.
    name = re.sub(r"\s*[0-9]+/[0-9]+$", "", job.job or "")
    return f"{job.provider}:{job.run_id}:{name}:{runs[0].stage}"


def _uuid_of(*parts: object) -> str:
    """Return an id that is the same for the same parts, and no others."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([OWN_NAME, *parts])))


def _summary(report: FailureReport, tests: list[_Fields], started_at: int) -> _Fields:
    statuses = Counter([test["status"] for test in tests])
    lasted = _milliseconds(report.run.duration_seconds)
    if lasted is None:
        stops = [test["stop"] for test in tests if "stop" in test]
        lasted = max(stops, default=started_at) - started_at
    lasted = max(lasted, 0)
    # How much failed outside of the tests, and the run's own counts of all tests.
    limits = report.limits
    uncollected = len(report.collection_errors) + limits.collection_errors_omitted
    errors = len(report.internal_errors) + limits.internal_errors_omitted
    outside = {
        "collection_errors": uncollected,
        "internal_errors": errors,
        "in_flight": len(report.in_flight),
        "not_run": report.not_run.count,
        "stalls": len(report.stalls),
        "counts": CODEC.encode(report.summary),
    }
    return {
        "tests": len(tests),
        **{status: statuses[status] for status in _ALL_STATUSES},
        "flaky": sum("flaky" in test for test in tests),
        "start": started_at,
        "stop": started_at + lasted,
        "duration": lasted,
        "extra": {OWN_NAME: outside},
    }


def _tests(report: FailureReport, started_at: int, run_id: str) -> Iterator[_Fields]:
    """Yield every test that is known, each once: those that ran in the order of their start."""
    running = {test.nodeid: test for test in report.in_flight}
    statuses = packaged_table("outcomes")
    causes = causes_by_failure(report)
    seen = set()
    for test in tests_of(report):
        nodeid = test.nodeid
        if nodeid in seen:
            continue
        seen.add(nodeid)
        fields = _describe_test(test, started_at)
        fields["status"] = statuses[test.outcome]["ctrf"]
        if nodeid in running:
            fields |= _unfinished(running[nodeid], causes.get(nodeid))
        again = 0
        if test.outcome == "flaky":
            fields["flaky"] = True  # how often it was run again isn't known
        elif test.failures:
            failed = _failed(test.failures, causes.get(id(test.failures[0])))
            failed["duration"] = fields["duration"] or failed["duration"]
            fields |= failed
            again = max(failure.attempts for failure in test.failures) - 1
        # All that is known of earlier attempts is that they failed. CTRF wants `retries` to be the
        # number of those that are listed; where some are left out `extra` has the true one.
        listed = min(again, _MOST_ATTEMPTS)
        if listed:
            fields["retries"] = listed
            fields["retryAttempts"] = _attempts(run_id, nodeid, listed)
        if again > listed:
            extra = fields.setdefault("extra", {OWN_NAME: {}})
            extra[OWN_NAME]["retries"] = again
        yield _without_none(fields)


def _describe_test(test: KnownTest, started_at: int) -> _Fields:
    """Return what is known of any test."""
    path, *names = test.nodeid.split("::")
    name = test.nodeid or _NAMELESS
    lasted = _milliseconds(test.duration_seconds) or 0
    began = _milliseconds(test.start_seconds)
    start = None if began is None else started_at + began
    return {
        "testId": name,
        "name": name,
        "status": None,
        "duration": lasted,
        "rawStatus": test.outcome,
        "start": start,
        "stop": None if start is None else start + lasted,
        "filePath": path or None,
        "suite": [path, *names[:-1]] if path else None,
        "threadId": test.worker or None,
    }


def _attempts(run_id: str, nodeid: str, count: int) -> list[_Fields]:
    """Return the earlier attempts of a test, which all failed."""
    attempts = []
    for number in range(1, count + 1):
        identity = _uuid_of(run_id, nodeid, number)
        attempt = {"attempt": number, "attemptId": identity, "status": "failed"}
        attempts.append(attempt)
    return attempts


def _without_none(fields: _Fields) -> _Fields:
    """Return the fields that have a value, for CTRF knows no null."""
    return {name: field for name, field in fields.items() if field is not None}


def _unfinished(running: InFlightTest, cause: CauseSummary | None) -> _Fields:
    """Return the fields of a test that was running when the run ended.

    That is no outcome; but a test that is of a cause has failed, or a run that died in it would
    look as if it had passed.
    """
    words = f"it was in its {running.phase} when the run ended"
    status = "other"
    if cause is not None:
        words = f"{cause.text}; {words}"
        status = "failed"
    stack = running.stack or (running.stall and running.stall.stack)
    fields = {
        "status": status,
        "rawStatus": "in_flight",
        "message": words,
        "duration": _milliseconds(running.elapsed_seconds),
        "trace": stack or None,
        "stdout": running.output.splitlines() if running.output else None,
        "extra": {OWN_NAME: {"in_flight": CODEC.encode(running)}},
    }
    return _without_none(fields)


def _failed(failures: Sequence[Failure], cause: CauseSummary | None) -> _Fields:
    """Return the fields of a failed test: its first failure, and all failures in `extra`."""
    first = failures[0]
    raised = first.exception
    if raised is None:
        message = describe_kind(first.kind, first.reason).phrase(1)
    else:
        message = raised.type
        if raised.message:
            message += f": {raised.message}"
    labels: _Fields = {"reason": first.reason, "kind": first.kind}
    if cause is not None:
        about = {"cause": cause.key, "fix": cause.fix, "owner": cause.owner}
        labels |= {name: words for name, words in about.items() if words}
    seconds = [failure.duration_seconds for failure in failures]
    traces = [failure.traceback for failure in failures if failure.traceback]
    fields = {
        "status": "failed",
        "message": message,
        "labels": labels,
        "extra": {OWN_NAME: {"failures": CODEC.encode(failures)}},
        "trace": "\n\n".join(traces) or None,
        "threadId": first.worker or None,
        "duration": sum(_milliseconds(phase) or 0 for phase in seconds),
    }
    return _without_none(fields)


def _milliseconds(seconds: float | None) -> int | None:
    """Return whole milliseconds; a report of anybody's may say more seconds than there are."""
    return None if seconds is None else round(min(seconds, _LONGEST_SECONDS) * 1000)
