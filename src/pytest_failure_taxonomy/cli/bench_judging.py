"""`failure-taxonomy bench compare`, `regrade` and `regate`: judge kept runs, again or in pairs."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.kept.reader import KeptRun, folder_of, read_run
from pytest_failure_taxonomy.bench.models import GateSettings
from pytest_failure_taxonomy.bench.report import (
    cost_words,
    cut_share,
    difference_words,
    duration,
    signed,
)
from pytest_failure_taxonomy.cli.bench import MAX_IDS, MAX_LINE, load_run, report_for, summary
from pytest_failure_taxonomy.cli.output import answer, answer_json, answer_lines, tell
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import RUN_SUFFIX
from pytest_failure_taxonomy.report.render.terminal import Line
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.words import counted, listed

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.kept.regrading import Fate, Regrading
    from pytest_failure_taxonomy.bench.models import BenchComparison, BenchRunReport

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_COLORS: Final = {"worse": "red", "better": "green", "undecided": None}
_FINDINGS: Final = {
    "worse": "worse: the whole interval is below 0",
    "better": "better: the whole interval is above 0",
    "undecided": "undecided: these cases don't prove a difference",
}


# Two runs.


def compare(options: argparse.Namespace) -> int:
    """Print how the runs differ."""
    from pytest_failure_taxonomy.bench.comparing import compare as compare_runs
    from pytest_failure_taxonomy.bench.comparing import read_earlier_runs

    old, new = (read_earlier_runs(each, options.storage) for each in (options.old, options.new))
    found = compare_runs(old, new, only_common=options.only_common)
    if options.format == "json":
        answer_json([each.model_dump(mode="json") for each in found])
    elif options.format == "markdown":
        answer(_as_markdown(found))
    else:
        answer_lines(line for each in found for line in _lines(each))
    for runs, compared in (
        (old, {(each.task_class, each.old_system_label) for each in found}),
        (new, {(each.task_class, each.new_system_label) for each in found}),
    ):
        for run in runs:
            if (run.task_class, run.system) not in compared:
                name = safe_text(run.name)
                tell(f"{run.where}: {name} was not compared; the other file has no run of it")
    return _FAILED if any(each.finding == "worse" for each in found) else 0


def _lines(found: BenchComparison) -> Iterator[Line]:
    words = f"{counted(found.n, 'case')}, mean {_means(found)}, {difference_words(found)}"
    yield Line(text=safe_text(f"bench {_name(found)}: {words}"), bold=True)
    yield Line(
        text=f"  {_FINDINGS[found.finding]}",
        color=_COLORS[found.finding],
        bold=found.finding == "worse",
    )
    for name, words in _facts(found):
        yield Line(text=f"  {name}: {safe_text(words, MAX_LINE)}")


def _name(found: BenchComparison) -> str:
    """Return the class's name, with the labels of the systems if there are any."""
    labels = dict.fromkeys((found.old_system_label, found.new_system_label))
    return found.task_class + (f"[{' -> '.join(labels)}]" if any(labels) else "")


def _means(found: BenchComparison) -> str:
    return f"{cut_share(found.old_mean)} -> {cut_share(found.new_mean)}"


def _facts(found: BenchComparison) -> Iterator[tuple[str, str]]:
    """Yield the other facts, each with its name."""
    for flip, name in (("now_fails", "no longer pass"), ("now_passes", "now pass")):
        flipped = [each for each in found.changes if each.flip == flip]
        if flipped:
            yield f"{name} ({len(flipped)})", _listed([each.case_id for each in flipped])
    moved = [each for each in found.changes if each.flip is None]
    if moved:
        changes = (f"{each.case_id} {each.old_score:.3f} -> {each.new_score:.3f}" for each in moved)
        yield f"other changes ({len(moved)})", _listed([*changes])
    if any(each.flip for each in found.changes):
        yield "McNemar's exact test", f"p = {found.mcnemar_p:.3g}"
    if found.old_cost_usd or found.new_cost_usd:
        costs = (cost_words(each) or "$0" for each in (found.old_cost_usd, found.new_cost_usd))
        yield "cost", " -> ".join(costs)
    if found.old_mean_ms and found.new_mean_ms:
        yield "time of a case", f"{duration(found.old_mean_ms)} -> {duration(found.new_mean_ms)}"
    for what, names in (("older", found.only_old), ("newer", found.only_new)):
        if names:
            yield f"only in the {what} run ({len(names)})", _listed(names)
    if found.not_checked:
        yield "not checked to be the same", ", ".join(found.not_checked)


def _as_markdown(found: Sequence[BenchComparison]) -> str:
    """Return a table of all classes, and a list of facts for each."""
    rows = [
        "| task class | cases | mean | difference | 95 % interval | |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        low, high = each.interval_95.low, each.interval_95.high
        interval = each.interval_95.method
        if low is not None and high is not None:
            interval = f"{signed(low)} to {signed(high)}"
        cells = (
            _escaped(_name(each)),
            str(each.n),
            _means(each),
            signed(each.difference),
            interval,
            each.finding,
        )
        rows.append(f"| {' | '.join(cells)} |")
    text = "\n".join(rows) + "\n"
    for each in found:
        facts = [f"- {name}: {_escaped(words)}" for name, words in _facts(each)]
        if facts:
            text += "\n".join(["", f"**{_escaped(_name(each))}**", "", *facts, ""])
    return text


def _escaped(text: str) -> str:
    """Return a text of which Markdown and HTML make nothing."""
    shown = safe_text(text, MAX_LINE)
    for character in "\\`*_[]<>|~#&":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("-\\>", "->")


# Regrade.


def regrade(options: argparse.Namespace) -> int:
    """Grade a run again and say what has changed."""
    from pytest_failure_taxonomy.bench.isolate.client import open_rubrics
    from pytest_failure_taxonomy.bench.kept import regrading
    from pytest_failure_taxonomy.bench.kept.file import RunFile, scheduled
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class
    from pytest_failure_taxonomy.bench.scores import check_variables
    from pytest_failure_taxonomy.recorder.secrets import Secrets
    from pytest_failure_taxonomy.redaction.names import declare_secret_variables
    from pytest_failure_taxonomy.report.text import change_texts

    run = load_run(options)
    task_class = load_task_class(folder_of(run, options.task_class))
    plan = regrading.plan_regrading(run, task_class, takes_changed=options.changed)
    secrets = Secrets()
    declare_secret_variables(task_class.settings.rubric_env)
    check_variables(task_class, task_class.name)
    rubric = open_rubrics(task_class, task_class.settings)
    header = regrading.new_header(plan)
    path = run.path.with_name(f"{header.run_id}{RUN_SUFFIX}")
    file = RunFile(path, lambda given: change_texts(given, secrets.redact))
    file.create(header, [scheduled(case) for case in plan.cases.values()])
    problem = file.problem
    if problem:
        raise BenchError(f"{problem}; copy the run to a folder that can be written")

    async def grade_and_close() -> None:
        try:
            await regrading.regrade(plan, file, rubric)
        finally:
            await rubric.aclose()

    try:
        asyncio.run(grade_and_close())
    except KeyboardInterrupt:
        tell(f"interrupted; what was graded is in {safe_text(os.fspath(path), MAX_LINE)}")
        return _INTERRUPTED
    finally:
        file.close()
    if file.problem:
        tell(safe_text(file.problem, MAX_LINE))
    new = read_run(path, has_outputs=False)
    report = report_for(new)
    answer_lines(_regraded_lines(plan, new, report))
    is_good = report.complete and not file.problem
    is_failed = report.gate is not None and report.gate.verdict == "FAIL"
    return 0 if is_good and not is_failed else _FAILED


def _regraded_lines(plan: Regrading, new: KeptRun, report: BenchRunReport) -> Iterator[Line]:
    graded = plan.having("graded")
    run_id = plan.run.header.run_id
    yield Line(
        text=safe_text(f"regraded {counted(len(graded), 'case')} of {run_id}", MAX_LINE), bold=True
    )
    for words in _notes(plan):
        yield Line(text=safe_text(f"  {words}", MAX_LINE), color="yellow")
    yield from summary(report, new.header.test)
    for words in _changes(plan.run, new):
        yield Line(text=safe_text(f"  {words}", MAX_LINE))
    yield Line(text=safe_text(f"  kept as {new.path}", MAX_LINE))


_SAID: Final[dict[Fate, str]] = {
    "no output": "keep their scores, because the system gave no output",
    "cut": "lost, because their outputs were too long to be kept",
    "changed": "lost, because the cases have changed since (--changed grades them as they are now)",
    "lost": "lost, as before",
    "not run": "not run, as before",
    "gone": "left out, because they are no longer in the class",
}


def _notes(plan: Regrading) -> Iterator[str]:
    for fate, words in _SAID.items():
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
    both = [case_id for case_id in after if case_id in before]
    for is_passed, words in ((True, "now pass"), (False, "no longer pass")):
        flips = [
            case_id
            for case_id in both
            if after[case_id].passed is is_passed is not before[case_id].passed
        ]
        if flips:
            yield f"{words} ({len(flips)}): {_listed(sorted(flips))}"
    moved = [
        f"{case_id} {before[case_id].score:.3f} -> {after[case_id].score:.3f}"
        for case_id in sorted(both)
        if before[case_id].passed == after[case_id].passed
        and before[case_id].score != after[case_id].score
    ]
    if moved:
        yield f"other scores ({len(moved)}): {_listed(moved)}"


def _listed(names: Sequence[str]) -> str:
    return listed(names, MAX_IDS)


# Regate.


def regate(options: argparse.Namespace) -> int:
    """Decide again and print the result."""
    run = load_run(options, has_outputs=False)
    gate, source = _gate(run, options)
    report = report_for(run, gate)
    answer_lines([*summary(report, run.header.test), Line(text=f"  the gate is {source}")])
    return 0 if report.gate is not None and report.gate.verdict == "PASS" else _FAILED


def _gate(run: KeptRun, options: argparse.Namespace) -> tuple[GateSettings, str]:
    """Return the gate to decide by, and where it is from.

    Raises:
        BenchError: There is none.
    """
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class

    gate, source = run.header.gate, "the run's own"
    if options.task_class is not None:
        task_class = load_task_class(folder_of(run, options.task_class))
        gate, source = task_class.settings.gate, "the task class's"
    asked = {name: getattr(options, name) for name in ("lower_bound_95", "min_passed_cases")}
    given = {name: each for name, each in asked.items() if each is not None}
    if gate is None and not given:
        raise BenchError(
            f"{run.path}: there is no gate to decide by; give --lower-bound-95 or"
            " --min-passed-cases, or a --task-class with a gate: in its bench.yaml"
        )
    if given:
        source = f"{source}, with the options" if gate is not None else "that of the options"
    base = {} if gate is None else gate.model_dump()
    return GateSettings.model_validate({**base, **given}), source
