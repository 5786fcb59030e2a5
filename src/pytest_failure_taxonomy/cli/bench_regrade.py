"""`failure-taxonomy bench regrade` and `bench regate`: judge a kept run again."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.bench_runs import (
    add_run,
    load_run,
    report_for,
    summary,
)
from pytest_failure_taxonomy.cli.output import answer_lines, tell
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.report.lines import Line
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.words import counted, listed

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchRunReport, GateSettings
    from pytest_failure_taxonomy.bench.run.regrading import Fate, Regrading
    from pytest_failure_taxonomy.bench.runs.reader import KeptRun
    from pytest_failure_taxonomy.cli.options import Parsers

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_MAX_IDS: Final = 20
_MAX_LINE: Final = 2_000
_BOUND: Final = "lower_bound_95"


def add_parsers(commands: Parsers) -> None:
    """Add both commands to those of `bench`."""
    regrade = commands.add_parser(
        "regrade",
        help="grade the outputs of a run again, by the rubric as it is now",
        description="Grade the kept outputs of a run again, by the class's rubric and gate as they "
        "are now. The system is not called. The result is kept as a new run. Exit code: 0, 1 if "
        "the gate fails or cases have no score, 2 if the run can't be graded again.",
        allow_abbrev=False,
    )
    add_run(regrade)
    _add_task_class(regrade, "its folder; default: where the run says it was")
    regrade.add_argument(
        "--changed",
        action="store_true",
        help="also grade the outputs of cases that have changed since; without it they count as "
        "lost, because they may be other questions now",
    )
    regrade.set_defaults(execute=execute_regrade)
    regate = commands.add_parser(
        "regate",
        help="decide again whether a run passes its gate, or another one",
        description="Decide whether a kept run passes a gate: its own, that of a task class, or "
        "the one given. No file is changed. Exit code: 0 for PASS, 1 for FAIL and INCOMPLETE, 2 if "
        "it can't be decided.",
        allow_abbrev=False,
    )
    add_run(regate)
    _add_task_class(regate, "take the gate of this folder's bench.yaml; default: the run's own")
    regate.add_argument(
        "--lower-bound-95",
        metavar="X",
        type=_share,
        help="the least lower bound of the mean score, from 0 to 1",
    )
    regate.add_argument(
        "--min-passed-cases",
        metavar="N",
        type=_count,
        help="the fewest distinct cases that must have passed",
    )
    regate.set_defaults(execute=execute_regate)


def _add_task_class(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--task-class", metavar="DIR", type=Path, help=meaning)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a number from 0 to 1")
    return share


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; give a whole number from 1")
    return int(text)


# Regrade.


def execute_regrade(options: argparse.Namespace) -> int:
    """Grade a run again and say what has changed."""
    from pytest_failure_taxonomy.bench.run.regrading import plan_regrading
    from pytest_failure_taxonomy.bench.runs.reader import load_class_of

    run = load_run(options)
    plan = plan_regrading(
        run, load_class_of(run, options.task_class), takes_changed=options.changed
    )
    path, problem = _regraded(plan)
    if path is None:
        tell(f"interrupted; what was graded is in {safe_text(problem, _MAX_LINE)}")
        return _INTERRUPTED
    if problem:
        tell(safe_text(problem, _MAX_LINE))
    from pytest_failure_taxonomy.bench.runs.reader import read_run

    new = read_run(path, has_outputs=False)
    report = report_for(new)
    answer_lines(_regraded_lines(plan, new, report))
    is_good = report.complete and not problem
    is_failed = report.gate is not None and report.gate.verdict == "FAIL"
    return 0 if is_good and not is_failed else _FAILED


def _regraded(plan: Regrading) -> tuple[Path | None, str]:
    """Grade the outputs; return the file of the new run, and what went wrong with it.

    There is no file but its name if the user interrupted it.
    """
    from pytest_failure_taxonomy.bench.rubrics import check_variables, open_rubrics
    from pytest_failure_taxonomy.bench.run.regrading import new_header, regrade
    from pytest_failure_taxonomy.bench.runs.file import SUFFIX, RunFile, scheduled
    from pytest_failure_taxonomy.recorder.secrets import Secrets
    from pytest_failure_taxonomy.redaction.secret_names import declare_secret_variables
    from pytest_failure_taxonomy.report.text import change_texts

    secrets = Secrets()
    declare_secret_variables(plan.task_class.settings.rubric_env)
    check_variables(plan.task_class, plan.task_class.name)
    rubric = open_rubrics(plan.task_class, plan.task_class.settings)
    header = new_header(plan)
    path = plan.run.path.with_name(f"{header.run_id}{SUFFIX}")
    file = RunFile(path, lambda given: change_texts(given, secrets.redact))
    file.create(header, [scheduled(case) for case in plan.cases.values()])
    if file.problem:
        raise BenchError(f"{file.problem}; copy the run to a folder that can be written")

    async def grade_and_close() -> None:
        try:
            await regrade(plan, file, rubric)
        finally:
            await rubric.aclose()

    try:
        asyncio.run(grade_and_close())
    except KeyboardInterrupt:
        return None, os.fspath(path)
    finally:
        file.close()
    return path, file.problem


def _regraded_lines(plan: Regrading, new: KeptRun, report: BenchRunReport) -> Iterator[Line]:
    graded = plan.having("graded")
    run_id = plan.run.header.run_id
    yield Line(
        text=safe_text(f"regraded {counted(len(graded), 'case')} of {run_id}", _MAX_LINE), bold=True
    )
    for words in _notes(plan):
        yield Line(text=safe_text(f"  {words}", _MAX_LINE), color="yellow")
    yield from summary(report, new.header.test)
    for words in _changes(plan.run, new):
        yield Line(text=safe_text(f"  {words}", _MAX_LINE))
    yield Line(text=safe_text(f"  kept as {new.path}", _MAX_LINE))


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
    return listed(names, _MAX_IDS)


# Regate.


def execute_regate(options: argparse.Namespace) -> int:
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
    from pytest_failure_taxonomy.bench.models import GateSettings
    from pytest_failure_taxonomy.bench.runs.reader import load_class_of

    gate, source = run.header.gate, "the run's own"
    if options.task_class is not None:
        gate, source = load_class_of(run, options.task_class).settings.gate, "the task class's"
    (min_passed,) = GateSettings.model_fields.keys() - {_BOUND}  # it was called min_cases once
    given: dict[str, Any] = {
        name: each
        for name, each in (
            (_BOUND, options.lower_bound_95),
            (min_passed, options.min_passed_cases),
        )
        if each is not None
    }
    if gate is None and not given:
        raise BenchError(
            f"{run.path}: there is no gate to decide by; give --lower-bound-95 or"
            " --min-passed-cases, or a --task-class with a gate: in its bench.yaml"
        )
    if given:
        source = f"{source}, with the options" if gate is not None else "that of the options"
    base = {} if gate is None else gate.model_dump()
    return GateSettings.model_validate({**base, **given}), source
