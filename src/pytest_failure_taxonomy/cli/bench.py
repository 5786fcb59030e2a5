"""`failure-taxonomy bench`: creates task classes, and reads the runs that are kept."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.kept import reader, shown
from pytest_failure_taxonomy.bench.kept.file import KeptAttempt
from pytest_failure_taxonomy.bench.kept.reader import KeptCase, KeptRun, read_run
from pytest_failure_taxonomy.bench.load.folder import write_starter
from pytest_failure_taxonomy.bench.models import RUNNER_CODES, BenchRunReport, GateSettings
from pytest_failure_taxonomy.bench.report import cut_share, duration, summary_lines
from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.output import Column, answer, answer_lines, table_lines, tell
from pytest_failure_taxonomy.documents.problems import nearest
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.report.render.terminal import Line
from pytest_failure_taxonomy.report.text import encodable, safe_text
from pytest_failure_taxonomy.taxonomy.words import listed

_DIGITS: Final = 8
"""Of a digest that is shown for people to compare."""
MAX_IDS: Final = 20
MAX_LINE: Final = 2_000
_COLORS: Final = {"PASS": "green", "FAIL": "red", "INCOMPLETE": "yellow"}
_AS_JSON: Final = ("tags", "usage", "breakdown", "failure_modes", "transcript", "truncated")
"""Columns of CSV that hold JSON, beside `output`."""


def init(options: argparse.Namespace) -> int:
    """Write a task class and print what to do next."""
    folder: Path = options.folder
    write_starter(folder)
    name = os.fspath(folder)
    answer(
        f"{name} is ready: a system that finds e-mail addresses, three cases, and their rubric\n"
        f"run it:    pytest {shlex.quote(name)}\n"
        f"in CI:     failure-taxonomy run -- pytest {shlex.quote(name)}\n"
        f"check it:  failure-taxonomy validate {shlex.quote(name)}\n"
        f"change it: conftest.py calls your system, cases/ and rubric.py say what is right\n"
    )
    return 0


def load_run(options: argparse.Namespace, *, has_outputs: bool = True) -> KeptRun:
    """Return the run that the options name; tell which lines of its file were skipped.

    Raises:
        BenchError: There is no such run, or its file can't be read.
    """
    try:
        run = read_run(reader.find_run(options.run, options.storage), has_outputs=has_outputs)
    except BenchError as error:  # it names files, whose names may hold anything
        raise BenchError(safe_text(str(error), MAX_LINE)) from None
    for problem in run.problems:
        tell(safe_text(problem, MAX_LINE))
    return run


def report_for(run: KeptRun, gate: GateSettings | None = None) -> BenchRunReport:
    """Return the report of a run.

    Raises:
        BenchError: What its file holds makes no report.
    """
    try:
        return reader.report_of(run, gate)
    except ValueError:  # a ValidationError is one
        raise BenchError(
            f"{run.path}: its amounts can't be added up; name a file that pytest wrote"
        ) from None


def summary(report: BenchRunReport, test: str = "") -> Iterator[Line]:
    """Yield the lines of a run as pytest prints them."""
    verdict = "" if report.gate is None else report.gate.verdict
    for line in summary_lines(report, test=test, detail=True):
        is_gate = line.startswith("  gate:")
        yield Line(text=safe_text(line, MAX_LINE), color=_COLORS.get(verdict) if is_gate else None)


# The list.


def list_runs(options: argparse.Namespace) -> int:
    """Print a line for each run."""
    if options.storage.exists() and not options.storage.is_dir():
        raise BenchError(
            safe_text(
                f"--storage: {options.storage} is a file; name a folder, or show the run by"
                f" bench show {options.storage}",
                MAX_LINE,
            )
        )
    rows, code = [], 0
    for path in reversed(reader.run_paths(options.storage)):
        try:
            rows.append(_row(read_run(path, has_outputs=False)))
        except BenchError as error:
            tell(safe_text(str(error), MAX_LINE))
            code = 2
    if options.format == "json":
        output.answer_json(rows)
    elif rows:
        answer_lines(table_lines(_LISTED, rows))
    elif not code:
        tell(f"there is no run in {safe_text(str(options.storage))}; name a folder by --storage")
    return code


def _row(run: KeptRun) -> dict[str, Any]:
    report = report_for(run)
    header, counts = run.header, report.counts
    return {
        "run_id": header.run_id,
        "task_class": header.task_class,
        "system": header.system.name,
        "version": header.system.version,
        "label": header.system.label,
        "started_at": header.started_at,
        "passed": counts.passed,
        "scheduled": counts.scheduled,
        "mean_score": report.mean_score,
        "total_cost_usd": report.total_cost_usd,
        "complete": report.complete,
        "missing": _missing(run, report),
        "regraded_from": header.regraded_from,
        "gate": None if report.gate is None else report.gate.verdict,
    }


def _missing(run: KeptRun, report: BenchRunReport) -> str:
    """Return why a run is no complete one of its class, in words; empty if it is."""
    counts, header = report.counts, run.header
    parts = []
    if header.shard is not None:
        parts.append(f"shard {header.shard.index} of {header.shard.total}")
    elif counts.scheduled < header.cases_in_class:
        parts.append(f"{counts.scheduled} of {header.cases_in_class} cases chosen")
    if lost := counts.started - counts.graded:
        parts.append(f"{lost} lost")
    if counts.not_run:
        parts.append(f"{counts.not_run} not run")
    if report.stopped and parts:
        parts.append(report.stopped)
    return ", ".join(parts)


def _system(row: dict[str, Any]) -> str:
    return " ".join(str(row[name]) for name in ("system", "version", "label") if row[name])


def _share(share: float | None) -> str:
    return "" if share is None else cut_share(share)


def _usd(cost_usd: float) -> str:
    return f"${cost_usd:.4f}" if cost_usd else ""


_LISTED: Final = (
    Column("run", lambda row: row["run_id"]),
    Column("class", lambda row: row["task_class"]),
    Column("system", _system),
    Column("began", lambda row: row["started_at"]),
    Column("passed", lambda row: f"{row['passed']}/{row['scheduled']}", is_number=True),
    Column("mean", lambda row: _share(row["mean_score"]), is_number=True),
    Column("cost", lambda row: _usd(row["total_cost_usd"]), is_number=True),
    Column("gate", lambda row: row["gate"] or ""),
    Column("state", lambda row: row["missing"] or "complete"),
)


# One run.


def show(options: argparse.Namespace) -> int:
    """Print a run, or a case of it."""
    run = load_run(options, has_outputs=False)
    if options.case is not None:
        _refuse_unknown(run, options.case)
        case = run.known[options.case]
        case.calls = list(reader.read_calls(run.path, {options.case}))
    if options.format == "json" and options.case is not None:
        facts: dict[str, Any] = {
            "run_id": run.header.run_id,
            "case": case.scheduled and case.scheduled.model_dump(mode="json"),
            "state": case.state,
            # Pydantic would refuse an output that is nested deeply.
            "attempts": [
                {
                    **call.model_dump(mode="json", exclude={"output", "transcript"}),
                    "output": call.output,
                    "transcript": call.transcript,
                }
                for call in case.calls
            ],
        }
        answer(shown.json_text(facts) + "\n")
    elif options.format == "json":
        facts = {
            "run": run.header.model_dump(mode="json"),
            "report": report_for(run).model_dump(mode="json"),
            "cases": [_case_row(case) for case in run.cases.values()],
            "skipped": run.problems,
        }
        answer(shown.json_text(facts) + "\n")
    else:
        answer_lines(run_lines(run) if options.case is None else case_lines(run, options.case))
    return 0


def _refuse_unknown(run: KeptRun, case_id: str) -> None:
    if case_id in run.known:
        return
    repeated = [each for each in run.cases if each.startswith(f"{case_id}#")][:3]
    near = repeated or nearest(case_id, run.cases) or list(run.cases)[:3]
    right = f"near it are {', '.join(near)}" if near else "the run has no cases"
    if repeated:
        right = f"it was repeated, so name {' or '.join(repeated)}"
    raise BenchError(safe_text(f"--case: {run.path} has no case {case_id!r}; {right}", MAX_LINE))


def run_lines(run: KeptRun) -> Iterator[Line]:
    """Yield what is shown of a run.

    Raises:
        BenchError: What its file holds makes no report.
    """
    report = report_for(run)
    for name, words in _facts(run):
        yield Line(text=f"{name + ':':10}{safe_text(words, MAX_LINE)}")
    yield Line(text="")
    yield from summary(report, run.header.test)
    yield Line(text="")
    rows = [_case_row(case) for case in run.cases.values()]
    yield from table_lines(_CASES, rows)
    for state in ("lost", "not run"):
        ids = [row["case_id"] for row in rows if row["state"] == state]
        if ids:
            words = f"{state}: {listed(ids, MAX_IDS)}"
            yield Line(text=safe_text(words, MAX_LINE), color="yellow")


def _facts(run: KeptRun) -> Iterator[tuple[str, str]]:
    header, digests = run.header, run.header.digests
    yield "run", header.run_id
    yield "class", f"{header.task_class} in {header.folder}"
    system = header.system
    yield "system", _system(system.model_dump() | {"system": system.name})
    yield "began", header.started_at
    if header.commit:
        yield "commit", header.commit
    if header.shard:
        yield "shard", f"{header.shard.index} of {header.shard.total}"
    if header.regraded_from:
        yield "regraded", f"the outputs of {header.regraded_from}; the system was not called"
    rubric = (digests.rubric or "none")[:_DIGITS]
    yield "digests", f"rubric {rubric}, taxonomy {(digests.taxonomy or 'none')[:_DIGITS]}"
    given = header.settings.get("rubric_env")
    if isinstance(given, list) and given:
        yield "secrets", f"the rubric was given {', '.join(map(str, given))}"
    yield "by", header.generator
    yield "file", str(run.path)


def _case_row(case: KeptCase) -> dict[str, Any]:
    score = case.score
    return {
        "case_id": case.case_id,
        "state": case.state,
        "score": None if score is None else score.score,
        "codes": [] if score is None else [mode.code for mode in score.failure_modes],
        "cost_usd": case.cost_usd,
        "wall_clock_ms": None if score is None else score.wall_clock_ms,
        "attempts": max(len(case.calls), case.begun),
    }


def _time(wall_clock_ms: float | None) -> str:
    return "" if wall_clock_ms is None else duration(wall_clock_ms)


_CASES: Final = (
    Column("case", lambda row: row["case_id"]),
    Column("result", lambda row: row["state"]),
    Column("score", lambda row: _share(row["score"]), is_number=True),
    Column("cost", lambda row: _usd(row["cost_usd"]), is_number=True),
    Column("time", lambda row: _time(row["wall_clock_ms"]), is_number=True),
    Column("calls", lambda row: str(row["attempts"] or ""), is_number=True),
    Column("codes", lambda row: ", ".join(row["codes"])),
)


# One case.


def case_lines(run: KeptRun, case_id: str) -> Iterator[Line]:
    """Yield what is shown of a case."""
    case = run.known[case_id]
    colors = {"passed": "green", "failed": "red"}
    title = f"case {case_id} of {run.header.task_class}: {case.state}"
    yield Line(text=safe_text(title, MAX_LINE), bold=True, color=colors.get(case.state, "yellow"))
    if case.scheduled is not None and case.scheduled.tags:
        yield Line(text=safe_text(f"  tags: {', '.join(case.scheduled.tags)}", MAX_LINE))
    for call in case.calls:
        yield Line(text=safe_text(f"  {_call(call)}", MAX_LINE))
    if case.begun > len(case.calls):
        yield Line(text="  a call was begun of which nothing is known", color="yellow")
    if case.last is not None:
        yield from _score_lines(run, case.last)
        yield from _content_lines(case.last)


def _call(call: KeptAttempt) -> str:
    took = _time(max(0.0, call.seconds) * 1000)
    parts = [*filter(None, (shown.began_words(call), took, _usd(call.cost_usd)))]
    parts += [f"{name} {amount:g}" for name, amount in call.usage.items()]
    if call.worker:
        parts.append(f"on {call.worker}")
    kind = f" [{call.kind}]" if call.kind else ""
    ended = f"no output: {call.ended}{kind}" if call.ended else "gave an output"
    return f"call {call.attempt}: {ended} ({', '.join(parts)})"


def _score_lines(run: KeptRun, last: KeptAttempt) -> Iterator[Line]:
    score = last.score
    if score is None:
        return
    cost = f", of the rubric {_usd(last.rubric_cost_usd)}" if last.rubric_cost_usd else ""
    money = f", {_usd(score.cost_usd)}{cost}" if score.cost_usd else ""
    yield Line(text=f"  score {score.score:.3f}, {_time(score.wall_clock_ms)}{money}")
    known = {**RUNNER_CODES, **reader.descriptions_of(run)}
    for mode in score.failure_modes:
        yield Line(text=safe_text(f"  {mode.severity:<5} {mode.code}", MAX_LINE))
        for words in (known.get(mode.code), mode.detail):
            yield from _indented(words or "", 8)
    for key, amount in sorted(score.breakdown.items()):
        yield Line(text=safe_text(f"  {key}: {amount:g}", MAX_LINE))


def _content_lines(last: KeptAttempt) -> Iterator[Line]:
    for name in last.truncated:
        yield Line(text=f"  {name}: was too long to be kept", color="yellow")
    if last.is_redacted:
        yield Line(text="  secrets were removed from what is shown below", color="yellow")
    if last.has_output:
        yield Line(text="output", bold=True)
        yield from _indented(shown.text_of(last.output), 2)
    if last.transcript is not None:
        yield Line(text="transcript", bold=True)
        messages = shown.messages_of(last.transcript)
        if messages is None:
            yield from _indented(shown.text_of(last.transcript), 2)
        for message in messages or ():
            yield Line(text=safe_text(f"  {message.role}:", MAX_LINE), bold=True)
            yield from _indented(message.text, 4)
            yield from _indented(message.rest, 4)
    if last.printed:
        yield Line(text="the rubric printed", bold=True)
        yield from _indented(last.printed.rstrip("\n"), 2)


def _indented(text: str, by: int) -> Iterator[Line]:
    """Yield all lines of a text, whatever their length, with control characters escaped."""
    for line in text.split("\n") if text else ():
        yield Line(text=" " * by + safe_text(line.expandtabs(), 6 * len(line.expandtabs()) + 1))


# A run as a table.


def export(options: argparse.Namespace) -> int:
    """Write the run."""
    run = load_run(options)
    rows = shown.rows_of(run)
    if not rows:
        raise BenchError(f"{run.path}: the run has no cases; name one that has")
    if options.to == "json":
        text = shown.json_text(rows) + "\n"
    else:
        text = output.csv_text([_as_cells(row) for row in rows], is_quoted=True)
    output.write_answer(options.output, encodable(text))
    return 0


def _as_cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as CSV holds it: nested values as JSON, and what is missing as nothing."""
    cells = {
        name: str(each).lower() if isinstance(each, bool) else each for name, each in row.items()
    }
    cells |= {name: json.dumps(row[name]) for name in _AS_JSON}
    output = row["output"]
    # As a text, -5 would be taken for a formula.
    is_number = isinstance(output, int | float) and not isinstance(output, bool)
    cells["output"] = None
    if row["has_output"]:
        cells["output"] = output if is_number else json.dumps(output)
    if row["transcript"] is None:
        cells["transcript"] = None
    return cells
