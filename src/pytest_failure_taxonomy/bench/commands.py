"""`failure-taxonomy bench`: creates task classes, and reads, judges and compares kept runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench import comparing, oracle
from pytest_failure_taxonomy.bench.bounds import ALPHA, NO_SCIPY, units_of
from pytest_failure_taxonomy.bench.kept import shown
from pytest_failure_taxonomy.bench.kept.lines import schedule_case
from pytest_failure_taxonomy.bench.kept.reader import (
    KeptCase,
    KeptRun,
    read_calls,
    read_run,
)
from pytest_failure_taxonomy.bench.kept.runs import (
    descriptions_of,
    find_run,
    folder_of,
    report_of,
    run_paths,
)
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.load.folder import write_starter
from pytest_failure_taxonomy.bench.models import (
    RUNNER_CODES,
    BenchRunReport,
    GateSettings,
)
from pytest_failure_taxonomy.bench.oracle import with_agreement
from pytest_failure_taxonomy.bench.report import (
    adjusted_words,
    difference_words,
    mean_words,
    signed,
    summary_lines,
)
from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.output import MAX_LINE, answer, answer_lines, tell
from pytest_failure_taxonomy.documents.problems import nearest
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.faces.terminal import Line
from pytest_failure_taxonomy.option_files import RUN_SUFFIX
from pytest_failure_taxonomy.report.markup import as_words
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.words import (
    cost_words,
    counted,
    listed,
    seconds_words,
)
from pytest_failure_taxonomy.text import change_texts, encodable, safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.kept.lines import KeptAttempt
    from pytest_failure_taxonomy.bench.kept.regrading import Regrading
    from pytest_failure_taxonomy.bench.models import BenchComparison, RubricAgreement
    from pytest_failure_taxonomy.bench.planning import Plan

_DIGITS: Final = 8
"""Of a digest that is shown for people to compare."""
_MAX_IDS: Final = 20
_MAX_REASONS: Final = 3
_FAILED: Final = 1
_INTERRUPTED: Final = 130
_COLORS: Final = {"PASS": "green", "FAIL": "red", "INCOMPLETE": "yellow"}


def init(options: argparse.Namespace) -> int:
    """Write a task class and print what to do next."""
    folder: Path = options.folder
    write_starter(folder, options.kind)
    name = os.fspath(folder)
    content = packaged_table("bench")["starters"][options.kind]
    answer(
        f"{name} is ready: {content}\n"
        f"run it:    pytest {shlex.quote(name)}\n"
        f"in CI:     failure-taxonomy run -- pytest {shlex.quote(name)}\n"
        f"check it:  failure-taxonomy validate {shlex.quote(name)}\n"
        f"change it: conftest.py calls your system, cases/ and rubric.py say what is right\n"
    )
    return 0


def _load_run(options: argparse.Namespace, *, has_outputs: bool = True) -> KeptRun:
    """Return the run that the options name; tell which lines of its file were skipped.

    Raises:
        BenchError: There is no such run, or its file can't be read.
    """
    try:
        run = read_run(find_run(options.run, options.storage), has_outputs=has_outputs)
    except BenchError as error:  # it names files, whose names may hold anything
        raise BenchError(safe_text(str(error), MAX_LINE)) from None
    for problem in run.problems:
        tell(safe_text(problem, MAX_LINE))
    return run


def _report_for(run: KeptRun) -> BenchRunReport:
    """Return the report of a run.

    Raises:
        BenchError: What its file holds makes no report.
    """
    try:
        report = report_of(run)
        if run.baseline is not None:
            report, _ = comparing.evaluate_against_baseline(report, run.baseline)
        return with_agreement(report, run.path.parent)
    except ValueError:  # a ValidationError is one
        raise BenchError(
            f"{run.path}: its amounts can't be added up; name a file that pytest wrote"
        ) from None


def _summary(report: BenchRunReport, test: str = "") -> Iterator[Line]:
    """Yield the lines of a run as pytest prints them."""
    verdict = "" if report.gate is None else report.gate.verdict
    for line in summary_lines(report, test=test, detail=True):
        is_gate = line.startswith("  gate:")
        yield _line(line, color=_COLORS.get(verdict) if is_gate else None)


def _line(words: str, *, color: str | None = None, bold: bool = False) -> Line:
    """Return one line of what may hold anything."""
    return Line(text=safe_text(words, MAX_LINE), color=color, bold=bold)


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
    for path in reversed(run_paths(options.storage)):
        try:
            rows.append(_row(read_run(path, has_outputs=False)))
        except BenchError as error:
            tell(safe_text(str(error), MAX_LINE))
            code = 2
    if options.format == "json":
        output.answer_json(rows)
    elif rows:
        answer_lines(_table("runs", rows))
    elif not code:
        tell(
            f"there is no run in {safe_text(str(options.storage))}; name a folder with --storage"
        )
    return code


def _row(run: KeptRun) -> shown.Row:
    report = _report_for(run)
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
    if counts.lost:
        parts.append(f"{counts.lost} lost")
    if counts.not_run:
        parts.append(f"{counts.not_run} not run")
    if report.stopped and parts:
        parts.append(report.stopped)
    return ", ".join(parts)


def _system(row: Mapping[str, object]) -> str:
    return " ".join(
        str(row[name]) for name in ("system", "version", "label") if row[name]
    )


def _name(found: BenchComparison) -> str:
    """Return the class's name, with the labels of the systems if there are any."""
    labels = dict.fromkeys((found.old_system_label, found.new_system_label))
    return found.task_class + (f"[{' -> '.join(labels)}]" if any(labels) else "")


def _time(system_ms: float | None) -> str:
    """Return a time of the system; nothing where it was not measured, as by earlier versions."""
    return "" if system_ms is None else seconds_words(system_ms / 1_000)


def _means(found: BenchComparison) -> str:
    return f"{mean_words(found.old_mean)} -> {mean_words(found.new_mean)}"


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "system": _system,
    "share": lambda share: "" if share is None else mean_words(share),
    "usd": cost_words,
    "time": _time,
    "state": lambda missing: missing or "complete",
    "count": lambda count: str(count or ""),
    "codes": ", ".join,
    "name": _name,
    "means": _means,
    "change": signed,
    "interval": lambda interval: (
        interval.method
        if interval.low is None
        else f"{signed(interval.low)} to {signed(interval.high)}"
    ),
}


def _table(name: str, rows: Iterable[shown.Row]) -> Iterable[Line]:
    return output.table_lines(
        output.columns_of(packaged_table("bench")[name], _WORDS), rows
    )


# One run.


def show(options: argparse.Namespace) -> int:
    """Print a run, or a case of it."""
    run = _load_run(options, has_outputs=False)
    if options.case is not None:
        _refuse_unknown(run, options.case)
        case = run.known[options.case]
        case.calls = list(read_calls(run.path, {options.case}))
    if options.format != "json":
        lines = (
            run_lines(run) if options.case is None else case_lines(run, options.case)
        )
        answer_lines(lines)
        return 0
    facts: shown.Row
    if options.case is not None:
        facts = {
            "run_id": run.header.run_id,
            "case": case.scheduled and case.scheduled.model_dump(mode="json"),
            "state": case.state,
            "attempts": [_call_facts(call) for call in case.calls],
        }
    else:
        facts = {
            "run": run.header.model_dump(mode="json"),
            "report": _report_for(run).model_dump(mode="json"),
            "cases": [_case_row(case) for case in run.cases.values()],
            "skipped": run.problems,
        }
    answer(shown.json_text(facts) + "\n")
    return 0


def _call_facts(call: KeptAttempt) -> shown.Row:
    # Pydantic would refuse an output that is nested deeply.
    facts: shown.Row = call.model_dump(mode="json", exclude={"output", "transcript"})
    return {**facts, "output": call.output, "transcript": call.transcript}


def _refuse_unknown(run: KeptRun, case_id: str) -> None:
    if case_id in run.known:
        return
    repeated = [each for each in run.cases if each.startswith(f"{case_id}#")][:3]
    near = repeated or nearest(case_id, run.cases) or list(run.cases)[:3]
    right = f"near it are {', '.join(near)}" if near else "the run has no cases"
    if repeated:
        right = f"it was repeated, so name {' or '.join(repeated)}"
    raise BenchError(
        safe_text(f"--case: {run.path} has no case {case_id!r}; {right}", MAX_LINE)
    )


def run_lines(run: KeptRun) -> Iterator[Line]:
    """Yield what is shown of a run.

    Raises:
        BenchError: What its file holds makes no report.
    """
    report = _report_for(run)
    for name, words in _facts(run):
        yield Line(text=f"{name + ':':10}{safe_text(words, MAX_LINE)}")
    yield Line(text="")
    yield from _summary(report, run.header.test)
    yield Line(text="")
    yield from _table("cases", map(_case_row, run.cases.values()))
    for state in ("lost", "not run"):
        ids = [case.case_id for case in run.cases.values() if case.state == state]
        if ids:
            words = f"{state}: {listed(ids, _MAX_IDS)}"
            yield _line(words, color="yellow")


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
        yield (
            "regraded",
            f"the outputs of {header.regraded_from}; the system was not called",
        )
    rubric = (digests.rubric or "none")[:_DIGITS]
    yield (
        "digests",
        f"rubric {rubric}, taxonomy {(digests.taxonomy or 'none')[:_DIGITS]}",
    )
    given = header.settings.get("rubric_env")
    if isinstance(given, list) and given:
        yield "secrets", f"the rubric was given {', '.join(map(str, given))}"
    yield "by", header.generator
    yield "file", str(run.path)


def _case_row(case: KeptCase) -> shown.Row:
    score = case.score
    return {
        "case_id": case.case_id,
        "state": case.state,
        "score": getattr(score, "score", None),
        "codes": [] if score is None else [mode.code for mode in score.failure_modes],
        "cost_usd": case.cost_usd,
        "wall_clock_ms": getattr(score, "wall_clock_ms", None),
        "system_ms": getattr(score, "system_ms", None),
        "attempts": max(len(case.calls), case.begun),
    }


# One case.


def case_lines(run: KeptRun, case_id: str) -> Iterator[Line]:
    """Yield what is shown of a case."""
    case = run.known[case_id]
    colors = {"passed": "green", "failed": "red"}
    title = f"case {case_id} of {run.header.task_class}: {case.state}"
    yield _line(title, bold=True, color=colors.get(case.state, "yellow"))
    if case.scheduled is not None and case.scheduled.tags:
        yield _line(f"  tags: {', '.join(case.scheduled.tags)}")
    for call in case.calls:
        yield _line(f"  {_call(call)}")
    if case.begun > len(case.calls):
        yield Line(
            text="  a call was started, and its result is not known", color="yellow"
        )
    if case.last is not None:
        yield from _score_lines(run, case.last)
        yield from _content_lines(case.last)


def _call(call: KeptAttempt) -> str:
    took = seconds_words(max(0.0, call.seconds))
    parts = [*filter(None, (shown.began_words(call), took, cost_words(call.cost_usd)))]
    parts += [f"{name} {amount:g}" for name, amount in call.usage.items()]
    if call.worker:
        parts.append(f"on {call.worker}")
    kind = f" [{call.kind}]" if call.kind else ""
    ended = f"no output: {call.ended}{kind}" if call.ended else "gave an output"
    if call.workspace:
        parts.append(f"workspace {call.workspace}")
    return f"call {call.attempt}: {ended} ({', '.join(parts)})"


def _score_lines(run: KeptRun, last: KeptAttempt) -> Iterator[Line]:
    score = last.score
    if score is None:
        return
    cost = (
        f", of the rubric {cost_words(last.rubric_cost_usd)}"
        if last.rubric_cost_usd
        else ""
    )
    money = f"{cost_words(score.cost_usd)}{cost}" if score.cost_usd else ""
    facts = filter(None, (f"score {score.score:.3f}", _time(score.system_ms), money))
    yield Line(text=f"  {', '.join(facts)}")
    known = {**RUNNER_CODES, **descriptions_of(run)}
    for mode in score.failure_modes:
        yield _line(f"  {mode.severity:<5} {mode.code}")
        for words in (known.get(mode.code), mode.detail):
            yield from _indented(words or "", 8)
    for key, amount in sorted(score.breakdown.items()):
        yield _line(f"  {key}: {amount:g}")


def _content_lines(last: KeptAttempt) -> Iterator[Line]:
    for name in last.truncated:
        yield Line(text=f"  {name}: was too long to save", color="yellow")
    if last.is_redacted:
        yield Line(
            text="  secrets were removed from what is shown below", color="yellow"
        )
    if last.has_output:
        yield Line(text="output", bold=True)
        yield from _indented(shown.text_of(last.output), 2)
    if last.transcript is not None:
        yield Line(text="transcript", bold=True)
        messages = shown.messages_of(last.transcript)
        if messages is None:
            yield from _indented(shown.text_of(last.transcript), 2)
        for message in messages or ():
            yield _line(f"  {message.role}:", bold=True)
            yield from _indented(message.text, 4)
            yield from _indented(message.rest, 4)
    if last.printed:
        yield Line(text="the rubric printed", bold=True)
        yield from _indented(last.printed.rstrip("\n"), 2)


def _indented(text: str, by: int) -> Iterator[Line]:
    """Yield all lines of a text, whatever their length, with control characters escaped."""
    for line in text.split("\n") if text else ():
        yield Line(
            text=" " * by + safe_text(line.expandtabs(), 6 * len(line.expandtabs()) + 1)
        )


# A run as a table.


def export(options: argparse.Namespace) -> int:
    """Write the run."""
    run = _load_run(options)
    rows = shown.rows_of(run)
    if not rows:
        raise BenchError(f"{run.path}: the run has no cases; name one that has")
    if options.to == "json":
        text = shown.json_text(rows) + "\n"
    else:
        text = output.csv_text([_as_cells(row) for row in rows], is_quoted=True)
    output.write_answer(options.output, encodable(text))
    return 0


def _as_cells(row: shown.Row) -> shown.Row:
    """Return a row as CSV holds it: JSON for what may be anything, nothing for what is missing."""
    cells: shown.Row = {
        name: str(each).lower() if isinstance(each, bool) else each
        for name, each in row.items()
    }
    transcript, output = row["transcript"], row["output"]
    cells["transcript"] = None if transcript is None else json.dumps(transcript)
    # As a text, -5 would be taken for a formula.
    if isinstance(output, bool) or not isinstance(output, int | float):
        cells["output"] = json.dumps(output) if row["has_output"] else None
    return cells


# Two runs.


def compare(options: argparse.Namespace) -> int:
    """Print how the runs differ."""
    old, new = (
        comparing.read_earlier_runs(each, options.storage)
        for each in (options.old, options.new)
    )
    found = comparing.compare(old, new, only_common=options.only_common)
    if options.format == "json":
        output.answer_json([each.model_dump(mode="json") for each in found])
    elif options.format == "markdown":
        answer(_as_markdown(found))
    else:
        answer_lines(line for each in found for line in _lines(each))
    for each in found:
        if each.old_run_id == each.new_run_id and not each.changes:
            tell(
                f"{safe_text(_name(each))}: the run {each.new_run_id} is compared with itself"
            )
    for runs, compared in (
        (old, {(each.task_class, each.old_system_label) for each in found}),
        (new, {(each.task_class, each.new_system_label) for each in found}),
    ):
        for run in runs:
            if (run.task_class, run.system) not in compared:
                name = safe_text(run.name)
                tell(
                    f"{run.where}: {name} was not compared; the other file has no run of it"
                )
    return _FAILED if any(each.finding == "worse" for each in found) else 0


def _lines(found: BenchComparison) -> Iterator[Line]:
    words = (
        f"{counted(found.n, 'case')}, mean {_means(found)}, {difference_words(found)}"
    )
    yield Line(text=safe_text(f"bench {_name(found)}: {words}"), bold=True)
    p_value = found.interval_95.p_value
    is_apart = p_value is not None and p_value < ALPHA
    is_chance = is_apart and found.finding == "undecided"
    name = "chance" if is_chance else str(found.finding)
    finding, *color = packaged_table("bench")["findings"][name]
    yield Line(
        text=f"  {finding}{adjusted_words(found)}",
        color=next(iter(color), None),
        bold=found.finding == "worse",
    )
    for name, words in _comparison_facts(found):
        yield Line(text=f"  {name}: {safe_text(words, MAX_LINE)}")


def _comparison_facts(found: BenchComparison) -> Iterator[tuple[str, str]]:
    """Yield the other facts, each with its name."""
    for flip, name in (("now_fails", "no longer pass"), ("now_passes", "now pass")):
        flipped = [change.case_id for change in found.changes if change.flip == flip]
        if flipped:
            yield f"{name} ({len(flipped)})", _listed(flipped)
    moved = [
        f"{change.case_id} {change.old_score:.3f} -> {change.new_score:.3f}"
        for change in found.changes
        if change.flip is None
    ]
    if moved:
        yield f"other changes ({len(moved)})", _listed(moved)
    if len(moved) < len(found.changes):
        of = " (a cluster counts as one flip)"
        if found.interval_95.clusters is None:
            of = ""
        yield "McNemar's exact test", f"p = {found.mcnemar_p:.3g}{of}"
    yield from _cost_facts(found)
    for what, names in (("older", found.only_old), ("newer", found.only_new)):
        if names:
            yield f"only in the {what} run ({len(names)})", _listed(names)
    if found.not_checked:
        yield "not checked to be the same", ", ".join(found.not_checked)


def _cost_facts(found: BenchComparison) -> Iterator[tuple[str, str]]:
    if found.old_cost_usd or found.new_cost_usd:
        costs = [cost_words(found.old_cost_usd), cost_words(found.new_cost_usd)]
        yield "cost", " -> ".join(cost or "$0" for cost in costs)
    if found.old_system_ms is not None and found.new_system_ms is not None:
        old, new = _time(found.old_system_ms), _time(found.new_system_ms)
        yield "time of a case", f"{old} -> {new}"


def _as_markdown(found: Sequence[BenchComparison]) -> str:
    """Return a table of all classes, and a list of facts for each."""
    columns = output.columns_of(packaged_table("bench")["comparisons"], _WORDS)
    text = output.markdown_table(columns, found)
    for each in found:
        facts = [
            f"- {name}: {as_words(words)}" for name, words in _comparison_facts(each)
        ]
        if facts:
            text += "\n".join(["", f"**{as_words(_name(each))}**", "", *facts, ""])
    return text


# Regrade.


def regrade(options: argparse.Namespace) -> int:
    """Grade a run again and say what has changed."""
    from pytest_failure_taxonomy.bench.kept import regrading
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class
    from pytest_failure_taxonomy.redaction.secrets import Secrets

    run = _load_run(options)
    task_class = load_task_class(folder_of(run, options.task_class))
    plan = regrading.plan_regrading(run, task_class, takes_changed=options.changed)
    secrets = Secrets()
    header = regrading.new_header(plan)
    path = run.path.with_name(f"{header.run_id}{RUN_SUFFIX}")
    cases = [schedule_case(case) for case in plan.cases.values()]
    file = RunFile(path, cases, lambda given: change_texts(given, secrets.redact))
    file.create(header)
    problem = file.problem
    if problem:
        raise BenchError(f"{problem}; copy the run to a folder that can be written")

    try:
        asyncio.run(regrading.regrade(plan, file))
    except KeyboardInterrupt:
        tell(
            f"interrupted; what was graded is in {safe_text(os.fspath(path), MAX_LINE)}"
        )
        return _INTERRUPTED
    finally:
        file.close()
    if file.problem:
        tell(safe_text(file.problem, MAX_LINE))
    new = read_run(path, has_outputs=False)
    report = _report_for(new)
    answer_lines(_regraded_lines(plan, new, report))
    is_good = report.complete and not file.problem
    is_failed = report.gate is not None and report.gate.verdict == "FAIL"
    return 0 if is_good and not is_failed else _FAILED


def _regraded_lines(
    plan: Regrading, new: KeptRun, report: BenchRunReport
) -> Iterator[Line]:
    graded = plan.having("graded")
    run_id = plan.run.header.run_id
    yield _line(f"regraded {counted(len(graded), 'case')} of {run_id}", bold=True)
    for words in _notes(plan):
        yield _line(f"  {words}", color="yellow")
    yield from _summary(report, new.header.test)
    for words in _changes(plan.run, new):
        yield _line(f"  {words}")
    yield _line(f"  kept as {new.path}")


def _notes(plan: Regrading) -> Iterator[str]:
    for fate, words in packaged_table("bench")["not_regraded"].items():
        if ids := plan.having(fate):
            yield f"{words}: {_listed(ids)}"
    graded = set(plan.having("graded"))
    if ids := [case_id for case_id in plan.changed if case_id in graded]:
        yield f"graded by cases that have changed since: {_listed(ids)}"
    if plan.redacted:
        yield f"graded without the secrets that were in their outputs: {_listed(plan.redacted)}"
    if plan.added:
        yield f"in the class, but not in the run: {_listed(plan.added)}"


def _changes(old: KeptRun, new: KeptRun) -> Iterator[str]:
    """Yield what changed by case."""
    before, after = old.scores(), new.scores()
    pairs = [
        (case_id, before[case_id], after[case_id])
        for case_id in sorted(after)
        if case_id in before
    ]
    for passes, words in ((True, "now pass"), (False, "no longer pass")):
        flips = [
            case_id
            for case_id, was, score in pairs
            if score.passed is passes is not was.passed
        ]
        if flips:
            yield f"{words} ({len(flips)}): {_listed(flips)}"
    moved = [
        f"{case_id} {was.score:.3f} -> {score.score:.3f}"
        for case_id, was, score in pairs
        if was.passed == score.passed and was.score != score.score
    ]
    if moved:
        yield f"other scores ({len(moved)}): {_listed(moved)}"


def _listed(names: Sequence[str]) -> str:
    return listed(names, _MAX_IDS)


# Plan.


def plan(options: argparse.Namespace) -> int:
    """Print how many cases a gate needs, and which loss a number of cases can show."""
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class

    task_class = None if options.folder is None else load_task_class(options.folder)
    name = "" if task_class is None else task_class.name
    if len(options.source) > 2:
        raise BenchError(
            f"--from: {len(options.source)} runs are given; give one, or two"
        )
    runs = [
        comparing.read_earlier_run(each, options.storage, name)
        for each in options.source
    ]
    gate = _with_options(
        None if task_class is None else task_class.settings.gate, options
    )
    scores = comparing.scores_of_units(runs[0]) if runs else []
    differences = comparing.differences_of_units(*runs) if len(runs) > 1 else []
    cases = () if task_class is None else task_class.cases
    clusters = [*{case.id_in_file: case.cluster for case in cases}.values()]
    if runs:
        clusters = [case.cluster for case in runs[0].cases.values()]
    of_clusters = any(clusters)
    units = len(set(units_of(clusters)))
    counts = options.cases or [units] * bool(units)
    if gate is not None and of_clusters and gate.min_passed_cases is not None:
        tell(
            "min_passed_cases is not planned for: it counts cases, and clusters are the units"
        )
        gate = gate.model_copy(update={"min_passed_cases": None})
    if gate is None and not counts:
        raise BenchError(
            "bench plan: there is nothing to plan; name a task class, or give --lower-bound-95 or"
            " --cases"
        )
    if not options.truth and not runs:
        raise BenchError(
            "--truth: is missing; say what the true mean may be, such as --truth 0.9, or give an"
            " earlier run with --from"
        )
    try:
        from pytest_failure_taxonomy.bench import planning
    except ImportError:
        raise BenchError(f"bench plan: {NO_SCIPY.removeprefix('none: ')}") from None
    found = planning.plan(
        gate,
        counts,
        options.power,
        truths=options.truth,
        scores=scores,
        differences=differences,
    )
    found["unit"] = "cluster" if of_clusters else "case"
    if options.format == "json":
        output.answer_json(found)
    else:
        answer_lines(map(_line, _plan_lines(found)))
    return 0


def _with_options(
    gate: GateSettings | None, options: argparse.Namespace
) -> GateSettings | None:
    """Return a gate with what the options ask for; the same one if they ask for nothing."""
    asked = {
        name: getattr(options, name)
        for name in _ASKED
        if getattr(options, name) is not None
    }
    if not asked:
        return gate
    base = {} if gate is None else gate.model_dump()
    return GateSettings.model_validate({**base, **asked})


_ASKED: Final = ("lower_bound_95", "min_passed_cases")
"""What a gate asks for that an option can ask for, too."""


def _plan_lines(found: Plan) -> Iterator[str]:
    chance = f"with a chance of {_percent(found['power'])}"
    units = f"{found['unit']}s"
    if found["gate"] is not None:
        asked = ", ".join(
            f"{name} {found['gate'][name]:g}"
            for name in _ASKED
            if found["gate"][name] is not None
        )
        yield f"to pass the gate ({asked or 'a passed case'}) {chance} it takes"
    for needed in found["cases_needed"]:
        words = f"more than {found['most_cases']:,} {units}"
        if needed["cases"] is not None:
            words = f"{needed['cases']:,} {units}"
        elif needed["is_never"]:
            words = f"more than any number of {units}: what they prove is less than the true mean"
        yield f"  {words} if the true mean is {needed['truth']:.3g}"
    for able in found["with_cases"]:
        loss, easiest = able["least_loss"], able["least_loss_if_none_improves"]
        words = "can't show a loss of any size"
        if loss is not None:
            words = f"show a loss of {loss:.3f}"
        if easiest is not None:
            words += f" ({easiest:.3f} if no {found['unit']} improves)"
        yield f"{able['cases']:,} {units}, if the true mean is {able['truth']:.3g}"
        if able["chance_of_gate"] is not None:
            yield f"  pass the gate with a chance of {_percent(able['chance_of_gate'])}"
        yield f"  {words} {chance}"
    yield found["method"]


def _percent(share: float) -> str:
    """Return a chance in words; only a certain one is 100 %."""
    return f"{math.floor(share * 100 + 1e-9)} %"


# Judge.


def judge(options: argparse.Namespace) -> int:
    """Grade the labelled outputs of a class, and print how far the rubric agrees with people."""
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class
    from pytest_failure_taxonomy.redaction.secrets import Secrets

    task_class = load_task_class(options.folder)
    labelled = [example for example in task_class.oracle if example.label is not None]
    if not labelled:
        raise BenchError(
            f"{options.folder}: no example in its oracle/ has a label; give outputs that people"
            " have judged a label: pass or label: fail"
        )
    if find_spec("scipy") is None:
        raise BenchError(f"bench judge: {NO_SCIPY.removeprefix('none: ')}")
    outcomes = oracle.grade_examples(task_class, labelled)
    redact = Secrets().redact
    scores = {name: outcome.score for name, outcome in outcomes.items()}
    reasons = {name: oracle.why_no_verdict(score) for name, score in scores.items()}
    problems = {name: redact(why) for name, why in reasons.items() if why}
    words = _without_verdict(problems, len(scores))
    if len(problems) == len(scores):
        raise BenchError(f"{options.folder}: {words}; nothing was measured")
    judged = {name: score for name, score in scores.items() if name not in problems}
    found = oracle.measure(task_class, judged)
    kept = oracle.keep(found, options.storage)
    if options.format == "json":
        agreement = found.model_dump(mode="json")
        output.answer_json({"agreement": agreement, "without_verdict": problems})
    else:
        answer_lines(map(_line, _agreement_lines(found, words)))
        answer(f"  kept as {kept}\n")
    return 0


def _without_verdict(problems: Mapping[str, str], count: int) -> str:
    """Return how many outputs a rubric could not judge, and why; '' for none."""
    if not problems:
        return ""
    reasons = listed([*dict.fromkeys(problems.values())], _MAX_REASONS)
    return f"no verdict for {len(problems)} of {count}: {reasons}"


def _agreement_lines(found: RubricAgreement, problems: str) -> Iterator[str]:
    outputs = counted(found.agreement.n, "labelled output")
    yield f"bench {found.task_class}: its rubric on {outputs}"
    if problems:
        yield f"  {problems}"
    rates = {
        "agreement": found.agreement,
        "true positive rate": found.true_positive_rate,
        "true negative rate": found.true_negative_rate,
    }
    for name, rate in rates.items():
        words = "not known: no output has such a label"
        if rate is not None:
            interval = f"95 % between {rate.low:.3f} and {rate.high:.3f}"
            words = f"{rate.value:.3f} ({interval}, n={rate.n})"
        yield f"  {name}: {words}"
    kappa = (
        "not known: all say the same" if found.kappa is None else f"{found.kappa:.3f}"
    )
    yield f"  Cohen's kappa: {kappa}, where people pass {found.base_rate:.3f}"
    for name, ids in (
        ("passes", found.wrongly_passed),
        ("fails", found.wrongly_failed),
    ):
        if ids:
            yield f"  {name} against the label ({len(ids)}): {_listed(ids)}"
