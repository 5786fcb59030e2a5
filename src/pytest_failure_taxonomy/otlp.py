"""A report as spans of OpenTelemetry: one of the run, one of each test that it names.

The text is an `ExportTraceServiceRequest` in the JSON encoding of OTLP 1: `/v1/traces`
of a collector takes it as the body of a POST. Names are those of the semantic
conventions 1.38.0, in which `test.*`, `cicd.*` and `vcs.*` are still in development;
what they have no name for begins with `failure_taxonomy.`.

Nothing in the core knows this module: an entry point of the group
`pytest_failure_taxonomy.faces` names it, as one of any other distribution could.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2s
from pathlib import PurePath
from typing import Any, Final

from pytest_failure_taxonomy.report.model import Failure, FailureReport
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    KnownTest,
    causes_by_failure,
    summarise,
    tests_of,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    ContinuousIntegration,
    GitState,
)

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.38.0"
"""The version of the semantic conventions."""
_SUITE_STATUSES: Final[Mapping[str, str]] = {
    "TIMEOUT": "timed_out",
    "SETUP_TIMEOUT": "timed_out",
    "INTERRUPTED": "aborted",
    "SANDBOX_ERROR": "aborted",
    "UNKNOWN": "aborted",
}
"""How a run has ended, by the reason of its verdict; `failure` for any other."""
_LONGEST_SECONDS: Final = 1e9
_INTERNAL: Final = 1
_ERROR: Final = 2
_NO_JOB: Final = ContinuousIntegration(provider="")

_Json = dict[str, Any]


def render(report: FailureReport) -> str:
    """Return a run and its tests as OTLP/JSON; the same report gives the same ids."""
    spans = _SpanWriter(report)
    git = report.environment.git or GitState()
    job = report.environment.ci or _NO_JOB
    resource = {
        "service.name": spans.suite,
        "cicd.pipeline.run.id": job.run_id,
        "vcs.ref.head.revision": git.commit or job.commit,
        "vcs.ref.head.name": git.branch or job.ref,
    }
    generator = report.generator
    scope = {"name": generator.name, "version": generator.version}
    scope_spans = {
        "scope": scope,
        "spans": [spans.describe_run(job), *spans.describe_tests()],
        "schemaUrl": SCHEMA_URL,
    }
    resource_spans = {
        "resource": {"attributes": _attributes(resource)},
        "scopeSpans": [scope_spans],
        "schemaUrl": SCHEMA_URL,
    }
    return json.dumps({"resourceSpans": [resource_spans]}, indent=2) + "\n"


class _SpanWriter:
    """Writes the spans of one run, which are one trace."""

    def __init__(self, report: FailureReport) -> None:
        self._report = report
        self._causes = causes_by_failure(report)
        self._trace_id = _identify(report.run.id, size=16)
        self._run_id = _identify(report.run.id, size=8)
        began = datetime.fromisoformat(report.run.started_at)
        self._began_ns = round(began.timestamp() * 1000) * 1_000_000
        self.suite = PurePath(report.run.invocation.rootdir).name or "pytest"

    def describe_run(self, job: ContinuousIntegration) -> _Json:
        """Return the span of the run, with an event for each cause."""
        report = self._report
        verdict = report.verdict
        fields: dict[str, object] = {
            "test.suite.name": self.suite,
            "test.suite.run.status": _suite_status(report),
            "cicd.pipeline.task.name": job.job,
            "cicd.pipeline.task.type": "test",
            "failure_taxonomy.run": report.run.id,
            "failure_taxonomy.stage": report.run.stage,
        }
        if verdict is not None:
            fields |= {
                "error.type": verdict.kind,
                "failure_taxonomy.reason": verdict.reason,
                "failure_taxonomy.kind": verdict.kind,
                "failure_taxonomy.retryable": verdict.retryable,
            }
        seconds = report.run.duration_seconds or 0.0
        span = self._make_span(f"pytest {self.suite}", fields, 0.0, seconds)
        ended = span["endTimeUnixNano"]
        events = [
            _make_event("failure_taxonomy.cause", _cause_fields(cause), ended)
            for cause in summarise(report).causes
        ]
        span |= {"spanId": self._run_id, "events": events}
        if verdict is not None:
            span["status"] = _make_error(verdict.message)
        return span

    def describe_tests(self) -> Iterator[_Json]:
        """Yield a span for each test that is named and has run, each once."""
        statuses = packaged_table("outcomes")
        seen = set()
        for test in tests_of(self._report):
            if test.nodeid in seen or test.outcome == "not_run":
                continue
            seen.add(test.nodeid)
            cause = self._causes.get(test.nodeid)
            status = statuses[test.outcome].get("opentelemetry")
            if cause is not None and test.outcome == "in_flight":
                status = "fail"
            yield self._describe_test(test, status, cause)

    def _describe_test(
        self, test: KnownTest, status: str | None, cause: CauseSummary | None
    ) -> _Json:
        path = test.nodeid.partition("::")[0]
        fields: dict[str, object] = {
            "test.case.name": test.nodeid,
            "test.case.result.status": status,
            "test.suite.name": path,
            "code.file.path": path,
            "failure_taxonomy.outcome": test.outcome,
            "failure_taxonomy.worker": test.worker,
        }
        if cause is not None:
            fields |= _cause_fields(cause)
        lasted = [failure.duration_seconds or 0.0 for failure in test.failures]
        seconds = test.duration_seconds or max(lasted, default=0.0)
        start = test.start_seconds or 0.0
        span = self._make_span(test.nodeid, fields, start, seconds)
        ended = span["endTimeUnixNano"]
        span |= {
            "spanId": _identify(self._report.run.id, test.nodeid, size=8),
            "parentSpanId": self._run_id,
        }
        if status == "fail":
            span["status"] = _make_error(cause.text if cause else "")
        if test.failures:
            first = _failure_fields(test.failures[0])
            span["attributes"] += _attributes(first)
            span["events"] = _exceptions_in(test.failures, ended)
        return span

    def _make_span(
        self, name: str, fields: Mapping[str, object], start: float, seconds: float
    ) -> _Json:
        began = self._began_ns + _nanoseconds(start)
        return {
            "traceId": self._trace_id,
            "name": _valid(name),
            "kind": _INTERNAL,
            "startTimeUnixNano": str(began),
            "endTimeUnixNano": str(began + _nanoseconds(seconds)),
            "attributes": _attributes(fields),
        }


def _suite_status(report: FailureReport) -> str:
    if report.completeness == "running":
        return "in_progress"
    if report.verdict is not None:
        return _SUITE_STATUSES.get(report.verdict.reason, "failure")
    has_run = report.summary.passed or report.summary.xfailed or report.summary.xpassed
    return "skipped" if report.summary.skipped and not has_run else "success"


def _cause_fields(cause: CauseSummary) -> dict[str, object]:
    return {
        "failure_taxonomy.cause": cause.key,
        "failure_taxonomy.reason": cause.reason,
        "failure_taxonomy.kind": cause.kind,
        "failure_taxonomy.charge_to": cause.charge_to,
        "failure_taxonomy.owner": cause.owner,
        "failure_taxonomy.what": cause.text,
        "failure_taxonomy.fix": cause.fix,
    }


def _failure_fields(failure: Failure) -> dict[str, object]:
    place = failure.location
    raised = failure.exception
    return {
        "code.line.number": place.line if place else None,
        "error.type": raised.type if raised else failure.kind,
        "failure_taxonomy.fingerprint": failure.fingerprint,
    }


def _exceptions_in(failures: Sequence[Failure], time: str) -> list[_Json]:
    events = []
    for failure in failures:
        if failure.exception is not None:
            fields = {
                "exception.type": failure.exception.type,
                "exception.message": failure.exception.message,
                "exception.stacktrace": failure.traceback,
            }
            events.append(_make_event("exception", fields, time))
    return events


def _make_event(name: str, fields: Mapping[str, object], time: str) -> _Json:
    return {"name": name, "timeUnixNano": time, "attributes": _attributes(fields)}


def _attributes(fields: Mapping[str, object]) -> list[_Json]:
    """Return what has a value as OTLP has it: a list of keys with typed values."""
    attributes = []
    for key, field in fields.items():
        if field is None:
            continue
        typed: _Json = {"stringValue": _valid(str(field))}
        if isinstance(field, bool):
            typed = {"boolValue": field}
        elif isinstance(field, int):
            typed = {"intValue": str(field)}
        attributes.append({"key": key, "value": typed})
    return attributes


def _make_error(message: str) -> _Json:
    return {"code": _ERROR, "message": _valid(message)}


def _nanoseconds(seconds: float) -> int:
    """Return nanoseconds; a report of anybody's may say more than OTLP has bits for."""
    return round(min(seconds, _LONGEST_SECONDS) * 1e9)


def _valid(text: str) -> str:
    """Return a text that is UTF-8, as Protocol Buffers want it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _identify(*parts: str, size: int) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return blake2s(text, digest_size=size).hexdigest()
