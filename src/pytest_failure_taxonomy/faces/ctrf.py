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
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pytest_failure_taxonomy.report.build import OWN_NAME, JSONObject
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    causes_by_failure,
    tests_of,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, describe_kind

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
    *(
        "schema_version",
        "completeness",
        "exit",
        "verdict",
        "reasons",
        "groups",
        "causes",
    ),
    *("collection_errors", "internal_errors", "stalls", "limits"),
)
"""Fields of a report that CTRF has no place for, as they are."""


def render(report: JSONObject) -> str:
    """Return the report as CTRF."""
    generator, run_id = report["generator"], _run_id(report)
    started_at = round(
        datetime.fromisoformat(report["run"]["started_at"]).timestamp() * 1000
    )
    tests = list(_tests(report, started_at, run_id))
    lacks = [WITHOUT_TESTS] if report["tests"] is None else []
    of_session = {  # what is true of the run as a whole and of no single test
        "stage": report["run"]["stage"],
        **{name: report[name] for name in _OF_SESSION},
        "notes": [*report["notes"], *lacks],
        "faults": report["faults"],
    }
    around = report["environment"]
    git, job, shard = around["git"] or {}, around["ci"] or {}, report["run"]["shard"]
    environment = {
        "commit": git.get("commit") or job.get("commit"),
        "branchName": git.get("branch"),
        "buildId": job.get("run_id"),
        "buildName": job.get("job"),
        "osPlatform": around["platform"],
        "shardId": f"{shard['index']}/{shard['total']}" if shard else None,
        "healthy": report["verdict"] is None and report["completeness"] != "running",
        "extra": {OWN_NAME: {"python": around["python"], "plugins": around["plugins"]}},
    }
    document: JSONObject = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "reportId": "",
        "runId": run_id,
        "generatedBy": f"{generator['name']} {generator['version']}",
        "results": {
            "tool": {"name": "pytest", "version": around["pytest"]},
            "summary": _summary(report, tests, started_at),
            "tests": tests,
            "environment": _known(environment),
            "extra": {OWN_NAME: of_session},
        },
    }
    return json.dumps({**document, "reportId": _uuid_of(document)}, indent=2) + "\n"


def _run_id(report: JSONObject) -> str:
    """Return the id of the run; shards of one CI job and what is merged of them have the same."""
    merged = report["merged"] or {"runs": []}
    runs = [part["run"] for part in merged["runs"]] or [report["run"]]
    job = report["environment"]["ci"] or {}
    if job.get("run_id") is None or not all(run.get("shard") for run in runs):
        return str(report["run"]["id"])
    name = re.sub(
        r"\s*[0-9]+/[0-9]+$", "", job["job"] or ""
    )  # GitLab's names end like `test 1/4`
    return f"{job['provider']}:{job['run_id']}:{name}:{runs[0].get('stage')}"


def _uuid_of(*parts: object) -> str:
    """Return an id that is the same for the same parts, and no others."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([OWN_NAME, *parts])))


def _summary(
    report: JSONObject, tests: list[JSONObject], started_at: int
) -> JSONObject:
    counts = Counter(test["status"] for test in tests)
    lasted = _milliseconds(report["run"]["duration_seconds"])
    stops = [test["stop"] for test in tests if "stop" in test]
    stop = max([started_at, *stops]) if lasted is None else started_at + lasted
    # How much failed outside of the tests, and the run's own counts of all tests.
    limits = report["limits"]
    outside = {
        "collection_errors": len(report["collection_errors"])
        + limits["collection_errors_omitted"],
        "internal_errors": len(report["internal_errors"])
        + limits["internal_errors_omitted"],
        "in_flight": len(report["in_flight"]),
        "not_run": report["not_run"]["count"],
        "stalls": len(report["stalls"]),
        "counts": report["summary"],
    }
    return {
        "tests": len(tests),
        **{status: counts[status] for status in _ALL_STATUSES},
        "flaky": sum(1 for test in tests if test.get("flaky")),
        "start": started_at,
        "stop": stop,
        "duration": stop - started_at,
        "extra": {OWN_NAME: outside},
    }


def _tests(report: JSONObject, started_at: int, run_id: str) -> Iterator[JSONObject]:
    """Yield every test that is known, each once: those that ran in the order of their start."""
    running = {test["nodeid"]: test for test in report["in_flight"]}
    outcomes = packaged_table("outcomes")
    causes = causes_by_failure(report)
    seen: set[str] = set()
    for run, failures in tests_of(report):
        nodeid = run["nodeid"]
        if nodeid in seen:
            continue
        seen.add(nodeid)
        path, *names = nodeid.split("::")
        lasted, began = (
            _milliseconds(run["duration_seconds"]),
            _milliseconds(run["start_seconds"]),
        )
        name = nodeid or _NAMELESS
        test: JSONObject = {
            "testId": name,
            "name": name,
            "status": outcomes[run["outcome"]]["ctrf"],
            "duration": lasted or 0,
            "rawStatus": run["outcome"],
            "start": None if began is None else started_at + began,
            "stop": None if began is None else started_at + began + (lasted or 0),
            "filePath": path or None,
            "suite": [path, *names[:-1]] if path else None,
            "threadId": run["worker"] or None,
        }
        if nodeid in running:
            test |= _unfinished(running[nodeid], causes.get(nodeid))
        again = 0
        if run["outcome"] == "flaky":
            test["flaky"] = True  # how often it was run again isn't known
        elif failures:
            test |= _failed(failures, causes.get(id(failures[0])))
            of_phases = [
                _milliseconds(each["duration_seconds"]) or 0 for each in failures
            ]
            test["duration"] = test["duration"] or sum(of_phases)
            again = max(failure["attempts"] for failure in failures) - 1
        # All that is known of earlier attempts is that they failed. CTRF wants `retries` to be the
        # number of those that are listed; where some are left out `extra` has the true one.
        if attempts := range(1, min(again, _MOST_ATTEMPTS) + 1):
            test["retries"] = len(attempts)
            test["retryAttempts"] = [
                {
                    "attempt": at,
                    "attemptId": _uuid_of(run_id, nodeid, at),
                    "status": "failed",
                }
                for at in attempts
            ]
        if again > _MOST_ATTEMPTS:
            test.setdefault("extra", {OWN_NAME: {}})[OWN_NAME]["retries"] = again
        yield _known(test)


def _known(fields: JSONObject) -> JSONObject:
    """Return the fields that have a value, for CTRF knows no null."""
    return {name: each for name, each in fields.items() if each is not None}


def _unfinished(running: JSONObject, cause: CauseSummary | None) -> JSONObject:
    """Return what is said of a test that was running when the run ended.

    That is no outcome; but a test that is of a cause has failed, or a run that died in it would
    look as if it had passed.
    """
    said = f"it was in its {running['phase']} when the run ended"
    more = {
        "status": "other" if cause is None else "failed",
        "rawStatus": "in_flight",
        "message": said if cause is None else f"{cause.text}; {said}",
        "duration": _milliseconds(running["elapsed_seconds"]),
        "trace": running["stack"] or (running["stall"] or {}).get("stack") or None,
        "stdout": running["output"].splitlines() if running["output"] else None,
        "extra": {OWN_NAME: {"in_flight": running}},
    }
    return _known(more)


def _failed(failures: list[JSONObject], cause: CauseSummary | None) -> JSONObject:
    """Return what is said of a failed test: the first of its failures, and all in `extra`."""
    first = failures[0]
    raised = first["exception"]
    if raised is None:
        message = describe_kind(first["kind"], FailureReason(first["reason"])).phrase(1)
    else:
        message = (
            f"{raised['type']}: {raised['message']}"
            if raised["message"]
            else raised["type"]
        )
    labels = {"reason": first["reason"], "kind": first["kind"]}
    if cause is not None:
        said = {"cause": cause.key, "fix": cause.fix, "owner": cause.owner}
        labels |= {name: words for name, words in said.items() if words}
    more = {
        "status": "failed",
        "message": message,
        "labels": labels,
        "extra": {OWN_NAME: {"failures": failures}},
        "trace": "\n\n".join(filter(None, (each["traceback"] for each in failures)))
        or None,
        "threadId": first["worker"] or None,
    }
    return _known(more)


def _milliseconds(seconds: float | None) -> int | None:
    """Return whole milliseconds; a report of anybody's may say more seconds than there are."""
    return None if seconds is None else round(min(seconds, _LONGEST_SECONDS) * 1000)
