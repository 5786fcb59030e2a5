"""The report's model, and what is refused where a report is read."""

from __future__ import annotations

import copy
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pytest_failure_taxonomy
from pytest_failure_taxonomy.documents.content import MAX_INTEGER_DIGITS
from pytest_failure_taxonomy.documents.problems import MAX_PROBLEMS
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report import model
from pytest_failure_taxonomy.report.build import MAX_REPORT_BYTES
from pytest_failure_taxonomy.report.load import (
    load_report,
    parse_report,
)
from pytest_failure_taxonomy.report.model import (
    SCHEMA_VERSION,
    FailureReport,
    JSONObject,
)
from pytest_failure_taxonomy.report.write import encode
from pytest_failure_taxonomy.taxonomy.evidence import Location
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureReason,
    FailureType,
    KindName,
    RecoveryAction,
    Stage,
)
from pytest_failure_taxonomy.taxonomy.order import Ranges
from pytest_failure_taxonomy.taxonomy.values import (
    Bounds,
    Count,
    Positive,
    Seconds,
    Share,
    Time,
    defaults_of,
)
from pytest_failure_taxonomy.text import CLOSED_FIELDS, is_closed
from tests.helpers.report_schema import field_docs, packaged_schema
from tests.helpers.reports import assert_valid_report, make_report, make_report_value

RIGHT = "; give the path of a report, the JSON file that `pytest --why` writes"


BENCH_REPORT: Final[dict[str, Any]] = {
    "run_id": "0" * 32,
    "task_class": "vuln",
    "per_case": [
        [
            "cve-1",
            {
                "passed": False,
                "score": 0.25,
                "breakdown": {"builds": 1.0},
                "failure_modes": [
                    {"code": "sut.timeout", "severity": "block", "detail": None}
                ],
                "cost_usd": 0.5,
                "wall_clock_ms": 12.5,
                "system_ms": 7.5,
            },
        ]
    ],
    "complete": True,
    "counts": {
        "scheduled": 1,
        "started": 1,
        "graded": 1,
        "lost": 0,
        "passed": 0,
        "not_run": 0,
    },
    "mean_score": 0.0,
    "standard_error": None,
    "score_stddev": None,
    "lower_bound_95": {
        "value": None,
        "method": "none: fewer than 5 cases",
        "n": 1,
        "clusters": None,
    },
    "passed_count": 0,
    "total_cost_usd": 0.5,
    "usage": {"tokens": 96.0},
    "system": "app:answer 2",
    "system_label": "",
    "stopped": None,
    "lost_to_provider": [],
    "lost_to_environment": [],
    "block_severity_failure_modes": ["sut.timeout"],
    "gate": {"verdict": "FAIL", "reasons": ["no case passed"]},
    "reduced": [],
    "by_tag": [],
    "by_breakdown_key": [],
    "clusters": {"cve-1": "linux"},
    "digests": None,
    "rubric_agreement": None,
    "baseline": None,
    "other_systems": [],
    "shard": None,
}


def changed(*path_and_value: Any) -> bytes:
    """Return a report in which the value at a path is another."""
    *path, last, value = path_and_value
    report = make_report()
    at: Any = report
    for step in path:
        at = at[step]
    at[last] = value
    return json.dumps(report).encode()


def with_extension(text: str) -> bytes:
    """Return a report with this JSON text among its extensions."""
    written = json.dumps({**make_report(), "extensions": {"mine": "HERE"}})
    return written.replace('"HERE"', text).encode()


def refusal(data: bytes) -> str:
    """Return why these bytes are no report."""
    with pytest.raises(ReportError) as caught:
        parse_report(data, "r.json")
    return str(caught.value)


# --- What is read ------------------------------------------------------------------------------


def test_a_report_is_read_from_its_file(tmp_path: Path) -> None:
    """What was written is what is read, with members of the taxonomy for their names."""
    path = tmp_path / "failure-report.json"
    path.write_bytes(encode(make_report_value()))
    report = load_report(path)
    assert report == load_report(str(path)) == assert_valid_report(make_report())
    assert report.verdict is not None
    assert report.verdict.reason is FailureReason.TESTS_FAILED
    assert report.run.stage is Stage.FINAL_TEST
    assert report.failures[0].location == Location(path="tests/test_cart.py", line=7)


def test_the_public_names_are_these() -> None:
    """The package offers the model and the function that reads it."""
    assert pytest_failure_taxonomy.FailureReport is FailureReport
    assert pytest_failure_taxonomy.load_report is load_report


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(changed("run", "shard", {"index": 1, "total": 4}), id="a shard"),
        pytest.param(
            changed("run", "started_at", "2026-01-31T12:00:00+00:00"),
            id="UTC as +00:00",
        ),
        pytest.param(changed("exit", "code", None), id="exit code not known"),
        pytest.param(changed("verdict", None), id="success"),
        pytest.param(
            changed("verdict", "kind", "sandbox.docker.gone"), id="a kind not ours"
        ),
        pytest.param(
            changed("verdict", "ambiguous", ["oom", "killed"]), id="ambiguous"
        ),
        pytest.param(
            changed(
                "groups",
                [
                    {
                        "fingerprint": "f" * 16,
                        "reason": "TESTS_FAILED",
                        "kind": "test.failed",
                        "title": "AssertionError in test_total",
                        "count": 2,
                        "nodeids": ["a.py::a", "a.py::b"],
                        "owner": "dependency",
                        "history": None,
                    }
                ],
            ),
            id="a group",
        ),
        pytest.param(changed("bench", [BENCH_REPORT]), id="a bench"),
        pytest.param(changed("environment", "ci", None), id="no CI"),
        pytest.param(
            changed("extensions", {"a": {"b": [1, -0.5, None, True, "x", {}, 10**40]}}),
            id="extensions",
        ),
        pytest.param(
            with_extension("[" * 150 + "]" * 150), id="nested as deep as anybody needs"
        ),
        *(
            pytest.param(
                changed("verdict", "failure_type", str(each)), id=f"type {each}"
            )
            for each in FailureType
        ),
        *(
            pytest.param(
                changed("verdict", "recovery_action", str(each)), id=f"action {each}"
            )
            for each in RecoveryAction
        ),
        *(
            pytest.param(changed("verdict", "reason", str(each)), id=f"reason {each}")
            for each in FailureReason
        ),
        *(
            pytest.param(changed("run", "stage", str(each)), id=f"stage {each}")
            for each in Stage
        ),
    ],
)
def test_what_the_schema_allows_is_read_and_given_back(data: bytes) -> None:
    """Places that this version leaves empty can be filled, and come back as they were."""
    assert parse_report(data, "r.json") == assert_valid_report(json.loads(data))


PARTS: Final = [
    part
    for part in vars(model).values()
    if isinstance(part, type) and hasattr(part, "_defaults") and part is not Bounds
]
"""The classes of which a report is made."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.__name__))
def test_every_part_is_described(part: type) -> None:
    """No part of a report, and no field of one, says nothing."""
    assert part.__doc__
    docs = field_docs(part)
    published = model.PUBLISHED.get(part) or docs
    assert [name for name in published if not docs[name]] == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.__name__))
def test_what_is_published_can_be_read_again(part: type) -> None:
    """A field that a report has not of a class has a default."""
    published = model.PUBLISHED.get(part) or get_type_hints(part)
    assert set(published) | set(defaults_of(part)) == set(get_type_hints(part))


def test_a_report_can_not_be_changed() -> None:
    """A report is evidence."""
    report = assert_valid_report(make_report())
    with pytest.raises(AttributeError, match="never changes"):
        report.verdict = None  # type: ignore[misc]  # which is what is tested


_SHARES: Final = st.floats(min_value=0, max_value=1)
_FOR_ANNOTATIONS: Final[dict[Any, st.SearchStrategy[Any]]] = {
    KindName: st.sampled_from(["test.failed", "a.b.c_9"]),
    Time: st.sampled_from(["2026-01-31T12:00:00.125Z", "2024-02-29T23:59:59+00:00"]),
    Share: _SHARES,
    Seconds: st.floats(min_value=0, max_value=1e9),
    Count: st.integers(min_value=0, max_value=1 << 62),
    Positive: st.integers(min_value=1, max_value=1 << 62),
    Ranges: st.sampled_from(["0", "0-41 60"]),
    int: st.integers(min_value=-(1 << 62), max_value=1 << 62),
    float: st.floats(min_value=-1e9, max_value=1e9),
    str: st.text(alphabet=st.characters(codec="utf-8"), max_size=9),
    bool: st.booleans(),
    JSONObject: st.dictionaries(st.text("ab"), st.integers() | st.none(), max_size=2),
}
_PATTERNS: Final = {
    "^[0-9a-f]{32}$": "0" * 32,
    "^[0-9a-f]{16}$": "0" * 16,
}


def values_of(  # noqa: C901, PLR0911 - a case for each form of an annotation
    hint: Any,
) -> st.SearchStrategy[Any]:
    """Return what a field with an annotation may hold."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _FOR_ANNOTATIONS:
        return _FOR_ANNOTATIONS[hint]
    if origin is Annotated:
        marks = {mark: _PATTERNS[mark] for mark in arguments[1:] if mark in _PATTERNS}
        if marks:
            return st.sampled_from([*marks.values()])
        bounds = [mark for mark in arguments[1:] if isinstance(mark, Bounds)]
        if bounds and get_origin(arguments[0]) is tuple:
            entries = values_of(get_args(arguments[0])[0])
            return st.lists(entries, min_size=1, max_size=2).map(tuple)
        if bounds:
            return st.integers(int(bounds[0].low), int(bounds[0].high or 9))
        return values_of(arguments[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(st.text("ab"), values_of(arguments[1]), max_size=2)
    if hint is NoneType:
        return st.none()
    if issubclass(hint, Enum):
        return st.sampled_from([*hint])
    hints = get_type_hints(hint, include_extras=True)
    names = model.PUBLISHED.get(hint) or hints
    fields = st.fixed_dictionaries({name: values_of(hints[name]) for name in names})
    return fields.map(lambda chosen: hint(**chosen))


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(report=values_of(FailureReport))
def test_what_is_written_is_read(report: FailureReport) -> None:
    """Any report that can be made is the same after it was written and read."""
    assert parse_report(encode(report), "r.json") == report


# --- What is refused: files ----------------------------------------------------------------------


def _missing(folder: Path) -> Path:
    return folder / "missing.json"


def _directory(folder: Path) -> Path:
    return folder


def _below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "r.json"


def _fifo(folder: Path) -> Path:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no FIFOs")
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def _device(folder: Path) -> Path:
    if not Path("/dev/zero").is_char_device():
        pytest.skip("this system has no /dev/zero")
    return Path("/dev/zero")


def _socket(folder: Path) -> Path:
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        pytest.skip("this system has no sockets that are files")
    here = os.getcwd()
    os.chdir(folder)  # the path of a socket may have some 100 characters only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.chdir(here)
    return folder / "socket"


def _nul(folder: Path) -> Path:
    return folder / "a\0b"


def _huge(folder: Path) -> Path:
    with (folder / "huge").open("wb") as file:
        file.truncate(MAX_REPORT_BYTES + 1)
    return folder / "huge"


def _with_a_line_end(folder: Path) -> Path:
    return folder / "a\n\x1b[31mb"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(_missing, "there is no such file", id="missing"),
        pytest.param(_directory, "is a directory and not a file", id="directory"),
        pytest.param(
            _below_a_file, "can't be read (Not a directory)", id="below a file"
        ),
        pytest.param(
            _fifo, "is a named pipe and not a file", id="FIFO without a writer"
        ),
        pytest.param(_device, "is a device and not a file", id="device"),
        pytest.param(_socket, "is a socket and not a file", id="socket"),
        pytest.param(_huge, "bigger than 64 MiB", id="too big"),
        pytest.param(
            _with_a_line_end, "there is no such file", id="controls in the path"
        ),
    ],
)
def test_what_is_no_file_to_read_is_refused(
    make: Callable[[Path], Path], words: str, tmp_path: Path
) -> None:
    """Whatever the path names, one line says where, what is wrong and what would be right."""
    path = make(tmp_path)
    with pytest.raises(ReportError) as caught:
        load_report(path)
    where = str(path).replace("\n", r"\x0a").replace("\x1b", r"\x1b")
    assert str(caught.value) == f"{where}: {words}{RIGHT}"


def test_a_path_that_no_system_knows_is_refused(tmp_path: Path) -> None:
    """A NUL in a path is an error of the user's, not a bug of ours."""
    with pytest.raises(ReportError, match=r"a\\x00b: is no path \(.*null"):
        load_report(_nul(tmp_path))


# --- What is refused: bytes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "not JSON (Expecting value at column 1)", id="nothing"),
        pytest.param(
            encode(make_report_value())[:500].rpartition(b",")[0],
            "not JSON (Expecting ',' delimiter at line",
            id="torn",
        ),
        pytest.param(
            encode(make_report_value()) * 2,
            "not JSON (Extra data at line",
            id="two of them",
        ),
        pytest.param(b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0", id="UTF-16"),
        pytest.param(
            b"\xef\xbb\xbf{}", "not JSON (Unexpected UTF-8 BOM", id="byte order mark"
        ),
        pytest.param(b'{"a": "\xe9"}', "not UTF-8 at byte 7", id="Latin-1"),
        pytest.param(
            b'{"a": "\xed\xa0\x80"}', "not UTF-8 at byte 7", id="surrogate in UTF-8"
        ),
        pytest.param(
            b'{"a": "\n"}', "not JSON (Invalid control character at", id="control"
        ),
        pytest.param(b"[]", "it is no JSON object", id="array"),
        pytest.param(b'"x"', "it is no JSON object", id="string"),
        pytest.param(b"1", "it is no JSON object", id="integer"),
        pytest.param(b"1.5", "it is no JSON object", id="float"),
        pytest.param(b"true", "it is no JSON object", id="boolean"),
        pytest.param(b"null", "it is no JSON object", id="null"),
        pytest.param(
            b'{"schema_version": "1.0", "schema_version": "1.0"}',
            "the key 'schema_version' stands twice in one object",
            id="a key twice",
        ),
        pytest.param(
            with_extension('[{"a": 1, "\\u0061\\n": 2, "a\\n": 3}]'),
            "the key 'a\\n' stands twice in one object",
            id="a key twice in an extension",
        ),
        pytest.param(with_extension("NaN"), "'NaN' is no number to JSON", id="NaN"),
        pytest.param(
            with_extension("[-Infinity]"),
            "'-Infinity' is no number to JSON",
            id="infinity",
        ),
        pytest.param(
            with_extension("1e999"), "the number '1e999' is too big", id="1e999"
        ),
        pytest.param(
            with_extension("-1E+999"), "the number '-1E+999' is too big", id="-1E+999"
        ),
        pytest.param(
            with_extension("9" * 400 + ".5"),
            "the number '" + "9" * 59 + "…' is",
            id="9999.5",
        ),
        pytest.param(
            with_extension("9" * 5_000),
            f"an integer of more than {MAX_INTEGER_DIGITS} digits",
            id="5,000 digits",
        ),
        pytest.param(
            with_extension("[" * 100_000), "nested too deep", id="100,000 arrays"
        ),
        pytest.param(
            with_extension('{"a":' * 100_000 + "1" + "}" * 100_000),
            "nested too deep",
            id="100,000 objects",
        ),
        pytest.param(
            with_extension("[" * 300 + "]" * 300),
            "nested too deep",
            id="300 arrays",
        ),
        pytest.param(
            with_extension('"\\ud800"'),
            "holds half a character (",
            id="half a surrogate pair",
        ),
        pytest.param(
            with_extension('{"\\udc00": 1}'),
            "holds half a character (",
            id="half a surrogate pair as a key",
        ),
        pytest.param(b" " * (MAX_REPORT_BYTES + 1), "bigger than 64 MiB", id="too big"),
    ],
)
def test_what_is_no_json_of_ours_is_refused(data: bytes, words: str) -> None:
    """One line says what is wrong, and nothing of the input can break that line."""
    said = refusal(data)
    assert said.startswith(f"r.json: {words}")
    assert said.endswith(RIGHT)
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("version", ["1.4", "2.0", "10.0", "999999.0"])
def test_a_newer_report_asks_for_a_newer_program(version: str) -> None:
    """What a later version wrote is not judged by this version's schema."""
    assert refusal(b'{"schema_version": "%s"}' % version.encode()) == (
        f"r.json: schema version {version} is newer than this program reads ({SCHEMA_VERSION});"
        " upgrade pytest-failure-taxonomy"
    )


# --- What is refused: content --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(
            changed("schema_version", "0.9"), "schema_version: ", id="older version"
        ),
        pytest.param(
            changed("schema_version", "2.0\n"), "schema_version: ", id="no version"
        ),
        pytest.param(
            changed("schema_version", "9" * 5_000 + ".0"),
            "schema_version: ",
            id="huge version",
        ),
        pytest.param(
            changed("schema_version", 1.0), "schema_version: ", id="version as number"
        ),
        pytest.param(changed("$schema", "urn:x"), "$schema: ", id="another schema"),
        pytest.param(
            changed("more", 1), "more: is no key of this object", id="unknown key"
        ),
        pytest.param(
            changed("exit", "a'b\n", 1),
            r"""exit["a'b\n"]: is no key""",
            id="unknown odd key",
        ),
        pytest.param(changed("verdict", []), "verdict: ", id="array for an object"),
        pytest.param(
            changed("run", "id", "A" * 32), "run.id: ", id="run id in capitals"
        ),
        pytest.param(
            changed("run", "started_at", 0), "run.started_at: ", id="time as number"
        ),
        pytest.param(
            changed("run", "started_at", "2026-01-31T12:00:00+02:00"),
            "run.started_at: ",
            id="time not in UTC",
        ),
        pytest.param(
            changed("run", "started_at", "٢٠٢٦-01-31T12:00:00Z"),
            "run.started_at: ",
            id="time in other digits",
        ),
        pytest.param(
            changed("run", "started_at", "2026-02-30T12:00:00Z"),
            "run.started_at: ",
            id="a day that no calendar has",
        ),
        pytest.param(
            changed("run", "duration_seconds", -0.5),
            "run.duration_seconds: ",
            id="negative time",
        ),
        pytest.param(
            changed("run", "duration_seconds", "1"),
            "run.duration_seconds: ",
            id="time as text",
        ),
        pytest.param(
            changed("run", "duration_seconds", 10**400),
            "run.duration_seconds: ",
            id="more than a float can hold",
        ),
        pytest.param(
            changed("run", "stage", "test"), "run.stage: ", id="unknown stage"
        ),
        pytest.param(
            changed("run", "shard", {"index": 0, "total": 4}),
            "run.shard.index: ",
            id="shard 0",
        ),
        pytest.param(
            changed("completeness", "done"), "completeness: ", id="completeness"
        ),
        pytest.param(changed("exit", "code", "0"), "exit.code: ", id="code as text"),
        pytest.param(
            changed("exit", "code", True), "exit.code: ", id="code as boolean"
        ),
        pytest.param(changed("exit", "code", 1.0), "exit.code: ", id="code as float"),
        pytest.param(
            changed("exit", "observed", 1), "exit.observed: ", id="boolean as number"
        ),
        pytest.param(
            changed("verdict", "reason", "FLAKY"), "verdict.reason: ", id="reason"
        ),
        pytest.param(
            changed("verdict", "reason", "tests_failed"),
            "verdict.reason: ",
            id="reason's case",
        ),
        pytest.param(
            changed("verdict", "precedence", 16), "verdict.precedence: ", id="rank 16"
        ),
        pytest.param(
            changed("verdict", "precedence", 0), "verdict.precedence: ", id="rank 0"
        ),
        pytest.param(
            changed("verdict", "confidence", "sure"),
            "verdict.confidence: ",
            id="confidence",
        ),
        *(
            pytest.param(
                changed("verdict", "kind", kind), "verdict.kind: ", id=f"kind {kind!r}"
            )
            for kind in (
                "",
                "failed",
                "Test.failed",
                "test..failed",
                ".a",
                "a.",
                "a.b\n",
                "a.é",
            )
        ),
        pytest.param(
            changed("summary", "passed", -1), "summary.passed: ", id="negative count"
        ),
        pytest.param(
            changed("failures", 1, "phase", "collect"),
            "failures[1].phase: ",
            id="phase",
        ),
        pytest.param(
            changed("failures", 0, "location", "line", 0),
            "failures[0].location.line: ",
            id="line 0",
        ),
        pytest.param(
            changed("failures", 0, "nodeid", None),
            "failures[0].nodeid: ",
            id="null for a text",
        ),
        pytest.param(changed("bench", ["x"]), "bench[0]: ", id="bench of a string"),
        pytest.param(
            changed("extensions", []), "extensions: ", id="extensions as array"
        ),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, problem: str) -> None:
    """A value out of place is named by its JSON path, on a line of its own."""
    head, line = refusal(data).splitlines()
    assert head == (
        f"r.json: not a report of schema version {SCHEMA_VERSION}, 1 problem;"
        " `failure-taxonomy schema` prints what would be right"
    )
    assert line.startswith(f"  {problem}")
    assert len(line) < 600


def test_all_problems_are_told_at_once() -> None:
    """Who fixes a file wants to fix it once."""
    report = copy.deepcopy(make_report())
    report["exit"]["code"] = "zero"
    report["verdict"]["reason"] = "FLAKY"
    report["failures"][2].pop("phase")
    report["not_run"]["\x1b[31m"] = 1
    head, *lines = refusal(json.dumps(report).encode()).splitlines()
    assert head.startswith(
        f"r.json: not a report of schema version {SCHEMA_VERSION}, 4 problems; "
    )
    assert [line.partition(": ")[0] for line in lines] == [
        "  exit.code",
        "  verdict.reason",
        "  failures[2].phase",
        r'  not_run["\u001b[31m"]',
    ]
    assert lines[0].endswith(', found "zero"')
    assert lines[2] == "  failures[2].phase: is missing"


def test_an_object_without_anything_misses_everything() -> None:
    """Every key is required, whatever its value."""
    head, *lines = refusal(b"{}").splitlines()
    assert "36 problems" in head
    assert lines[0] == "  $schema: is missing"
    assert lines[-1] == "  extensions: is missing"


def test_a_list_of_problems_has_an_end() -> None:
    """A file full of problems is told by the first hundred and their number."""
    report = {**make_report(), "bench": [0] * (MAX_PROBLEMS + 23)}
    head, *lines = refusal(json.dumps(report).encode()).splitlines()
    assert f"{MAX_PROBLEMS + 23} problems" in head
    assert len(lines) == MAX_PROBLEMS + 1
    assert lines[-1] == "  ... and 23 more"


def test_the_name_of_the_source_stays_on_one_line() -> None:
    """Whoever names the source may have it from a foreign hand."""
    with pytest.raises(ReportError, match=r"^a\\x0ab: it is no JSON object; "):
        parse_report(b"[]", "a\nb")


def closed_fields(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of a report that the schema lets hold one of some words alone."""
    definitions = schema["$defs"]

    def has_own_words(field: dict[str, Any]) -> bool:
        if "$ref" in field:
            return has_own_words(definitions[field["$ref"].rpartition("/")[2]])
        variants = [
            each for each in field.get("anyOf", ()) if each.get("type") != "null"
        ]
        if variants:
            return all(map(has_own_words, variants))
        return not field.keys().isdisjoint({"enum", "const", "pattern", "format"})

    for part in (schema, *definitions.values()):
        for name, field in part.get("properties", {}).items():
            if has_own_words(field):
                yield name


def test_no_search_for_secrets_changes_what_the_schema_closes() -> None:
    """A secret that is one of these words would make a report that nobody can read."""
    found = set(closed_fields(packaged_schema()))
    assert found - {"type"} <= CLOSED_FIELDS
    assert is_closed("type", "order.polluted")
    assert not is_closed("type", "MyError")
    assert {"id", "reason", "kind", "stage", "completeness"} <= found
