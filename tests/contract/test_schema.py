"""The published JSON Schema: that it ships, is valid, is the model's, and is closed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.codec import DecodeError
from pytest_failure_taxonomy.report.load import as_json, decode_report, parse_report
from pytest_failure_taxonomy.report.model import (
    SCHEMA_ID,
    SCHEMA_VERSION,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureReason,
    FailureType,
    RecoveryAction,
    Stage,
)
from tests.helpers.report_schema import (
    FILE_NAME,
    packaged_schema,
    render_schema,
    report_json_schema,
)
from tests.helpers.reports import (
    assert_valid_report,
    make_failure,
    make_report,
    make_run,
)

ROOT: Final = Path(__file__).parents[2]
FIRST_REPORT: Final = ROOT / "tests/data/reports/full-1.0.json"
"""What version 0.1.0 has written of a real run."""
OPEN: Final = {"$.properties.extensions", "$.$defs.Trial.properties.told"}
MAPS: Final = {
    "$.$defs.Bench.BenchScore.properties.breakdown",
    "$.$defs.BenchRunReport.properties.clusters",
    "$.$defs.BenchRunReport.properties.usage",
    "$.$defs.Order.properties.seeds",
    "$.$defs.Order.properties.workers",
    "$.$defs.MergedRun.properties.attempt.anyOf[0]",
    "$.$defs.MergedRun.properties.counts",
    "$.$defs.MergedRun.properties.kept",
    "$.properties.redacted",
}


def packaged() -> str:
    """Return the packaged schema as it is on disk."""
    return (
        files("pytest_failure_taxonomy.report").joinpath(FILE_NAME).read_text("utf-8")
    )


def objects(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Find every schema of an object, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for name, each in schema.items():
            yield from objects(each, f"{path}.{name}")
    elif isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from objects(each, f"{path}[{index}]")


def test_the_packaged_schema_is_the_models() -> None:
    """The file is generated, and was generated again after the last change of the model."""
    assert packaged() == render_schema(report_json_schema()), (
        f"run: python -m tests.helpers.report_schema > {FILE_NAME} (and see whether "
        "the schema's version must change)"
    )


def test_the_schema_is_printed_on_demand() -> None:
    """`python -m` prints what is in the package."""
    printed = subprocess.run(
        [sys.executable, "-m", "tests.helpers.report_schema"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert (printed.stdout, printed.stderr) == (packaged(), "")


def test_the_schema_says_what_it_is() -> None:
    """Dialect, id, title and description stand at its head."""
    schema = packaged_schema()
    assert list(schema)[:5] == ["$schema", "$id", "title", "description", "type"]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == SCHEMA_ID
    assert schema["properties"]["$schema"]["const"] == SCHEMA_ID
    assert schema["properties"]["schema_version"]["const"] == SCHEMA_VERSION
    assert f"failure-report-{SCHEMA_VERSION}.schema.json" == FILE_NAME


def test_the_schema_is_valid() -> None:
    """It is a schema of draft 2020-12 itself."""
    Draft202012Validator.check_schema(packaged_schema())


def test_objects_are_closed_and_every_key_is_required() -> None:
    """Only extensions are open; keys of a breakdown and ids of cases are a task class's own."""
    found = dict(objects(packaged_schema()))
    assert len(found) > 20
    assert {
        path for path, each in found.items() if each["additionalProperties"] is True
    } == OPEN
    for path in found.keys() - OPEN - MAPS:
        assert found[path]["additionalProperties"] is False, path
        assert found[path]["required"] == list(found[path]["properties"]), path


def test_the_order_of_keys_is_the_reports() -> None:
    """Who reads the schema finds the keys in the order of a report."""
    assert list(packaged_schema()["properties"]) == list(make_report())


@pytest.mark.parametrize("members", [FailureReason, Stage, FailureType, RecoveryAction])
def test_the_closed_vocabularies_are_the_taxonomys(members: Any) -> None:
    """Reasons, stages, failure types and recovery actions are listed in full."""
    assert packaged_schema()["$defs"][members.__name__]["enum"] == [
        str(each) for each in members
    ]


def test_every_field_is_described() -> None:
    """A field without a word of its own says what it is by the object that it refers to."""
    schema = packaged_schema()
    for path, each in objects(schema):
        for name, field in each.get("properties", {}).items():
            target = field.get("$ref", "").rpartition("/")[2]
            described = (
                field if "description" in field else schema["$defs"].get(target, {})
            )
            assert described.get("description", "").endswith("."), f"{path}.{name}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("more",), 1, id="unknown key"),
        pytest.param(("exit", "code"), "0", id="type"),
        pytest.param(("verdict", "reason"), "FLAKY", id="reason"),
        pytest.param(("verdict", "kind"), "Failed", id="kind"),
        pytest.param(("summary", "passed"), -1, id="count"),
        pytest.param(("run", "started_at"), "yesterday", id="time"),
        pytest.param(
            ("run", "started_at"), "2026-13-99T99:99:99Z", id="time of no clock"
        ),
        pytest.param(("run", "started_at"), "2026-00-01T00:00:00Z", id="month 0"),
        pytest.param(("run", "started_at"), "2026-01-32T00:00:00Z", id="day 32"),
        pytest.param(("run", "started_at"), "2026-01-31T24:00:00Z", id="hour 24"),
        pytest.param(("run", "started_at"), "2026-01-31T00:60:00Z", id="minute 60"),
        pytest.param(("run", "started_at"), "2026-01-31T00:00:60Z", id="second 60"),
    ],
)
def test_the_schema_refuses_what_the_model_refuses(
    path: tuple[str, ...], value: object
) -> None:
    """A validator in any language finds what is wrong."""
    report = json.loads(json.dumps(make_report()))
    assert_valid_report(report)
    at = report
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert not Draft202012Validator(packaged_schema()).is_valid(report)
    with pytest.raises(DecodeError):
        decode_report(report)


def test_a_report_from_before_failures_were_charged_is_read() -> None:
    """An earlier report of this version lacks the field in its verdict."""
    report = make_report(make_run(failures=(make_failure(),)))
    del report["verdict"]["charge_to"]
    report["causes"][0]["charge_to"] = None
    report |= {"$schema": SCHEMA_ID.replace("1.3", "1.2"), "schema_version": "1.2"}
    loaded = parse_report(json.dumps(report).encode(), "r.json")
    assert loaded.verdict is not None
    assert loaded.verdict.charge_to is None


def test_a_report_of_the_first_version_is_read() -> None:
    """A report that version 1.0 has written is read as 1.1 would have said it."""
    stored = FIRST_REPORT.read_bytes()
    said = json.loads(stored)
    assert said["schema_version"] == "1.0"
    assert not Draft202012Validator(packaged_schema()).is_valid(said)
    loaded = parse_report(stored, "r.json")
    assert loaded.environment.watcher is None
    expected = {**said, "$schema": SCHEMA_ID, "schema_version": SCHEMA_VERSION}
    expected["environment"] = {
        **said["environment"],
        **dict.fromkeys(("watcher", "memory", "git", "distributions")),
    }
    expected |= {"stalls": [], "tests": None, "order": None}
    expected["limits"] = {**said["limits"], "causes_omitted": 0}
    added = dict.fromkeys(("owner", "charge_to", "history"))
    expected["verdict"] = {**said["verdict"], **added}
    expected |= {"notes": [], "faults": [], "attributions": [], "redacted": {}}
    expected |= {"changes": [], "integrity": [], "entered": None}
    expected |= {"is_unannotated": False, "extensions": {}}
    expected |= dict.fromkeys(
        (
            *("repository", "attempt", "known", "trial", "merged", "surroundings"),
            "session_exit_code",
        )
    )
    for field, new in (
        ("failures", ["origin"]),
        ("groups", ["owner", "history"]),
        ("collection_errors", ["origin"]),
        ("in_flight", ["stall", "output", "stack", "location"]),
        ("workers", ["peak_rss_bytes"]),
    ):
        expected[field] = [{**each, **dict.fromkeys(new)} for each in said[field]]
    found = as_json(loaded)
    causes = {cause["kind"]: cause["count"] for cause in found["causes"]}
    assert causes == {held["kind"]: held["count"] for held in said["reasons"]}
    assert found == {**expected, "causes": found["causes"]}
    assert_valid_report(found)


def test_the_first_versions_schema_still_ships() -> None:
    """What is named by the `$schema` of a stored report can be had, and describes that report."""
    text = files("pytest_failure_taxonomy.report").joinpath(
        "failure-report-1.0.schema.json"
    )
    schema = json.loads(text.read_text("utf-8"))
    stored = json.loads(FIRST_REPORT.read_bytes())
    assert schema["$id"] == stored["$schema"]
    Draft202012Validator(schema).validate(stored)


@pytest.mark.parametrize("lacks", ["environment", "verdict"])
def test_no_version_lets_a_field_be_missing(lacks: str) -> None:
    """Only what 1.1 has added may be missing, and only from a report that says 1.0."""
    said = json.loads(FIRST_REPORT.read_bytes())
    with pytest.raises(ReportError, match=f"{lacks}: is missing"):
        parse_report(
            json.dumps({k: v for k, v in said.items() if k != lacks}).encode(), "r.json"
        )
    newer = {**said, "$schema": SCHEMA_ID, "schema_version": SCHEMA_VERSION}
    with pytest.raises(ReportError, match=r"environment.watcher: is missing"):
        parse_report(json.dumps(newer).encode(), "r.json")


def test_the_schema_is_in_the_wheel() -> None:
    """It ships with the package; hatchling leaves out what .gitignore names."""
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not in a source tree")
    wheel = pytest.importorskip("hatchling.builders.wheel")
    builder = wheel.WheelBuilder(str(ROOT))
    shipped = {each.distribution_path for each in builder.recurse_included_files()}
    assert f"pytest_failure_taxonomy/report/{FILE_NAME}" in shipped
