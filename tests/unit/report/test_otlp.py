"""A report as spans: what a collector reads, and formats that distributions add."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]  # has no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from pytest_failure_taxonomy import faces
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.faces import render
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.write import encode
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    ContinuousIntegration,
    RaisedException,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.past_runs import report_as_json
from tests.helpers.reports import make_failure, make_report_value, make_run


def spans_in(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return attributes of the resource and all spans, as Protocol Buffers read them."""
    document = json.loads(text)
    (resource,) = document["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    assert resource["schemaUrl"] == scope["schemaUrl"]
    assert scope["schemaUrl"] == "https://opentelemetry.io/schemas/1.38.0"
    for span in scope["spans"]:
        # OTLP writes ids in hexadecimal digits, and JSON of other messages in base 64.
        for name, size in (("traceId", 16), ("spanId", 8), ("parentSpanId", 8)):
            if name in span:
                number = bytes.fromhex(span[name])
                assert len(number) == size
                span[name] = b64encode(number).decode()
    request = json_format.ParseDict(document, ExportTraceServiceRequest())
    read = json_format.MessageToDict(request)["resourceSpans"][0]
    spans = read["scopeSpans"][0]["spans"]
    assert len({span["spanId"] for span in spans}) == len(spans)
    for span in spans:
        span["attributes"] = plain(span["attributes"])
        for event in span.get("events", ()):
            event["attributes"] = plain(event["attributes"])
    return plain(read["resource"]["attributes"]), spans


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return attributes as a dictionary."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in attributes}


def test_a_run_and_its_tests() -> None:
    """The run is the parent of its tests; each has its result, a failure its exception."""
    report = report_as_json(1, test_a="failed", test_b="passed", test_c="skipped")
    _, (run, *tests) = spans_in(render("otlp", decode_report(report)))
    assert run["attributes"]["test.suite.run.status"] == "failure"
    assert run["attributes"]["failure_taxonomy.reason"] == "TESTS_FAILED"
    assert run["status"]["code"] == "STATUS_CODE_ERROR"
    (cause,) = run["events"]
    assert cause["attributes"]["failure_taxonomy.cause"] == report["causes"][0]["key"]
    statuses = [test["attributes"]["test.case.result.status"] for test in tests]
    assert statuses == ["fail", "pass", "skipped"]
    assert {test["parentSpanId"] for test in tests} == {run["spanId"]}
    assert {test["traceId"] for test in tests} == {run["traceId"]}
    failed = tests[0]
    assert failed["name"] == "tests/test_x.py::test_a"
    attributes = failed["attributes"]
    assert (
        attributes["test.suite.name"]
        == attributes["code.file.path"]
        == "tests/test_x.py"
    )
    assert attributes["error.type"] == "AssertionError"
    assert attributes["failure_taxonomy.charge_to"] == "subject"
    (event,) = failed["events"]
    assert event["name"] == "exception"
    assert event["attributes"]["exception.message"] == "assert 3 == 4"


def test_the_job_of_a_run() -> None:
    """What the CI system calls it, and what it tested."""
    report = make_report_value()
    job = ContinuousIntegration(
        provider="github", run_id="77", job="tests", commit="c" * 40
    )
    report = replace(report, environment=replace(report.environment, ci=job, git=None))
    resource, (run, *_) = spans_in(render("otlp", report))
    assert resource["cicd.pipeline.run.id"] == "77"
    assert resource["vcs.ref.head.revision"] == "c" * 40
    assert run["attributes"]["cicd.pipeline.task.name"] == "tests"


def test_every_outcome_has_a_status() -> None:
    """But for a test that has no result."""
    outcomes = packaged_table("outcomes")
    without = [name for name, row in outcomes.items() if "opentelemetry" not in row]
    assert without == ["in_flight", "not_run"]


@pytest.mark.parametrize("text", ["\ud800", "\0", "x" * 100_000, "\U0001f600"])
def test_any_text_and_time_can_be_read(text: str) -> None:
    """A collector refuses a request as a whole if one text is none."""
    raised = RaisedException(type=f"E{text}", module="t", message=text)
    failure = make_failure(
        nodeid=f"t.py::test_{text}", exception=raised, duration_seconds=1e300
    )
    _, spans = spans_in(
        render("otlp", make_report_value(make_run(failures=(failure,))))
    )
    assert len(spans) == 2


def test_ids_are_the_same_each_time() -> None:
    """So a file that is sent twice makes no second trace."""
    report = make_report_value()
    assert render("otlp", report) == render("otlp", report)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda report: report.verdict.reason, ""),
        (
            lambda _: {"a": 1}["b"],
            "failure-taxonomy: convert: ours of acme-faces failed: KeyError: 'b'; update or remove acme-faces\n",
        ),
    ],
)
def test_a_format_of_another_distribution(
    answer: Any,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is a choice of `--to`; where it fails, one line says whose it is."""
    entry = SimpleNamespace(
        name="ours", load=lambda: answer, dist=SimpleNamespace(name="acme-faces")
    )
    monkeypatch.setattr(faces, "_find_added", lambda: [entry])
    path = tmp_path / "report.json"
    path.write_bytes(encode(make_report_value()))
    assert main(["convert", "--to", "ours", str(path)]) == (2 if error else 0)
    assert capsys.readouterr() == ("" if error else "TESTS_FAILED\n", error)
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    assert "ours: added by acme-faces" in " ".join(capsys.readouterr().out.split())
