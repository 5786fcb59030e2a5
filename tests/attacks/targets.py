"""The readers of what others may have written, each as a function of bytes.

A target takes any bytes, lets our documented errors pass, and checks what comes out. Whatever else
it raises is a fault of the reader. Hypothesis and atheris feed the same targets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy import FailureReason, FailureType, find_marker, load_report
from pytest_failure_taxonomy.errors import LogError, ReportError, RulesError
from pytest_failure_taxonomy.faces import FORMATS, render
from pytest_failure_taxonomy.faces.agent import render as render_for_agents
from pytest_failure_taxonomy.logs.foreign import report_from
from pytest_failure_taxonomy.logs.harness_folders import trials_in
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, LogAnswer, classify_log
from pytest_failure_taxonomy.logs.trials import Trial, report_of
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.load import (
    as_json,
    decode_report,
    parse_report,
    refuse_bad_benches,
)
from pytest_failure_taxonomy.report.write import encode
from pytest_failure_taxonomy.rules.files import load_rules
from pytest_failure_taxonomy.survive.complete import complete_run, end_of_process
from pytest_failure_taxonomy.survive.facts import ProcessEnd
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.taxonomy.judgement import MARKER_REASONS
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import assert_valid_report

CORPUS: Final = Path(__file__).with_name("corpus")
MAX_INPUT_BYTES: Final = 64 * 1024
"""Of an input that is made up; the caps of the readers have tests of their own."""

BETWEEN: Final = b"\n--- events ---\n"
"""What stands in an input between the two files of a record."""
RUN_ID: Final = "0123456789abcdef" * 2
"""Of the record in the corpus."""

REASONS: Final = frozenset({None, *FailureReason})
TYPES: Final = frozenset({None, *FailureType})
KILLED: Final = 9
PIECE: Final = 37


def record(data: bytes, folder: Path) -> None:
    """Complete a run from its record: it gives a valid report, or a `ReportError`."""
    state, _, events = data.partition(BETWEEN)
    with suppress(ReportError):
        _complete(folder / "report.json", RUN_ID, state, events)


def report(data: bytes, folder: Path) -> None:
    """Load a report: it is one that can be written and amended, or a `ReportError`."""
    path = folder / "report.json"
    path.write_bytes(data)
    with suppress(ReportError):
        model = load_report(path)
        again = json.dumps(as_json(model)).encode("ascii")
        assert parse_report(again, "again") == model
        _complete(path, model.run.id, b"", b"")


def report_in_the_way(data: bytes, folder: Path) -> None:
    """Complete a killed run where something else is in its report's place."""
    path = folder / "report.json"
    path.write_bytes(data)
    state, _, events = (CORPUS / "record" / "killed").read_bytes().partition(BETWEEN)
    with suppress(ReportError):
        _complete(path, RUN_ID, state, events)


def rules(data: bytes, folder: Path) -> None:
    """Load a file of rules: they are rules, or each problem has a line in a `RulesError`."""
    path = folder / "rules.yaml"
    path.write_bytes(data)
    refusal = ""
    try:
        loaded = load_rules(path)
        assert loaded
        assert {rule.reason for rule in loaded} <= REASONS
    except RulesError as error:
        refusal = str(error)
    assert all(line.startswith(str(path)) for line in refusal.splitlines())


def marker(data: bytes, folder: Path) -> None:
    """Find a marker in a file and in a text: the same one, and a known one."""
    path = folder / "log"
    path.write_bytes(data)
    found = find_marker(path, known=("NEW",))
    assert found in {*MARKER_REASONS, "NEW"}
    find_marker(data.decode("utf-8", "surrogateescape"), known=("NEW",))


def log(data: bytes, folder: Path) -> None:
    """Classify a log: an answer of known words, or a `LogError`; whole and in pieces the same."""
    answer = _classify([data])
    pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
    assert _classify(pieces) == answer
    if answer is not None:
        content = ANSWERS.encode(answer)
        assert content["reason"] in REASONS
        assert content["failure_type"] in TYPES
        json.dumps(content, allow_nan=False).encode("ascii")


def faces(data: bytes, folder: Path) -> None:
    """Show a report in every format: each is made of any report that can be loaded."""
    del folder
    with suppress(ReportError):
        report = parse_report(data, "given")
        refuse_bad_benches(report, "given")
        loaded = as_json(report)
        for name in FORMATS:
            render(name, decode_report(loaded))
        assert render_for_agents(decode_report(loaded)).startswith("verdict: ")


def junit(data: bytes, folder: Path) -> None:
    """Make a report of a JUnit file: it is a valid one, or a `ReportError`."""
    _make("junit", data, folder)


def reportlog(data: bytes, folder: Path) -> None:
    """Make a report of the lines of pytest-reportlog."""
    _make("reportlog", data, folder)


def ctrf(data: bytes, folder: Path) -> None:
    """Make a report of a CTRF file."""
    _make("ctrf", data, folder)


def trials(data: bytes, folder: Path) -> None:
    """Read results of harnesses: each trial has a valid report, and all else a `ReportError`."""
    place = folder / "trial"
    place.mkdir(exist_ok=True)
    for harness, name in RESULTS:
        (place / name).write_bytes(data)
        for found in trials_in(harness, [place / name]):
            if isinstance(found, Trial):
                made, _ = report_of(found, rootdir=folder, redaction=Secrets())
                assert_valid_report(json.loads(encode(made)))
        (place / name).unlink()


RESULTS: Final = (
    ("terminal-bench", "results.json"),
    ("harbor", "result.json"),
    ("swe-bench", "report.json"),
    ("inspect", "log.json"),
    ("inspect", "log.eval"),
)
"""What harnesses call the files of their results."""

TARGETS: Final[dict[str, Callable[[bytes, Path], None]]] = {
    each.__name__: each
    for each in (
        *(record, report, report_in_the_way, rules, marker, log),
        *(faces, junit, reportlog, ctrf, trials),
    )
}
_CORPUS_OF: Final = {"report_in_the_way": "report", "faces": "report"}
"""Targets that have the inputs of another one."""


def folder_of(target: str) -> Path:
    """Return the folder of a target's inputs."""
    return CORPUS / _CORPUS_OF.get(target, target)


def corpus_of(target: str) -> Iterator[bytes]:
    """Yield the inputs that are kept for a target, in the order of their names."""
    for path in sorted(folder_of(target).iterdir()):
        yield path.read_bytes()


def _make(source: str, data: bytes, folder: Path) -> None:
    path = folder / "foreign"
    path.write_bytes(data)
    with suppress(ReportError):
        environment = describe_environment("unknown", ())
        made = report_from(
            source, path, rootdir=folder, environment=environment, redaction=None
        )
        assert_valid_report(as_json(made))


def _complete(path: Path, run_id: str, state: bytes, events: bytes) -> None:
    end: ProcessEnd = end_of_process(-KILLED, "finalize", ended_ns=None)
    try:
        completed = complete_run(path, run_id, replace(end, contents=(state, events)))
    finally:
        written = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
    if completed is not None:
        # An older one, which has nothing to be completed, stays as it is.
        assert parse_report(written, "completed") == completed
        assert_valid_report(as_json(completed))


def _classify(chunks: list[bytes]) -> LogAnswer | None:
    try:
        return classify_log(chunks, name="log")
    except LogError:
        return None
