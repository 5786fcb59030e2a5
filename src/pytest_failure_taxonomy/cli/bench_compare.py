"""`failure-taxonomy bench compare`: how two runs of task classes differ, paired by case."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.cli.bench_runs import add_storage
from pytest_failure_taxonomy.cli.output import answer, answer_json, answer_lines, tell
from pytest_failure_taxonomy.report.lines import Line
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.taxonomy.words import counted, listed

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.comparing import ComparedRun
    from pytest_failure_taxonomy.bench.models import BenchComparison, CaseChange
    from pytest_failure_taxonomy.cli.options import Parsers

FORMATS: Final = ("text", "json", "markdown")
_WORSE: Final = 1
_COLORS: Final = {"worse": "red", "better": "green", "undecided": None}
_FINDINGS: Final = {
    "worse": "worse: the whole interval is below 0",
    "better": "better: the whole interval is above 0",
    "undecided": "undecided: these cases don't prove a difference",
}
_MAX_NAMES: Final = 20
"""Cases that a line names; `--format json` has all."""


def add_parser(commands: Parsers) -> None:
    """Add the command to those of `bench`."""
    parser = commands.add_parser(
        "compare",
        help="say how two runs differ, case by case",
        description="Compare two runs of the same task classes, paired by case: which cases "
        "flipped, the difference of the means with its 95 % interval, cost and time. Runs with "
        "another taxonomy, another rubric or other cases are refused. Exit code: 0, or 1 if a "
        "class got worse beyond doubt (its whole interval is below 0), or 2 if the runs can't be "
        "compared.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="how to print it; default: %(default)s"
    )
    parser.add_argument(
        "--only-common",
        action="store_true",
        help="compare the cases that both runs have, where one of them lacks some",
    )
    add_storage(parser)
    parser.add_argument(
        "old",
        metavar="OLD",
        help="a kept run (its id, the beginning of one, latest, or the path of its file), a file "
        "of --bench-json, or a report",
    )
    parser.add_argument("new", metavar="NEW", help="a later one")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print how the runs differ."""
    from pytest_failure_taxonomy.bench.comparing import compare
    from pytest_failure_taxonomy.bench.runs.earlier import read_earlier_runs

    old, new = (read_earlier_runs(each, options.storage) for each in (options.old, options.new))
    found = compare(old, new, only_common=options.only_common)
    if options.format == "json":
        models = [each.model_dump(mode="json") for each in found]
        answer_json(models)
    elif options.format == "markdown":
        answer(_as_markdown(found))
    else:
        answer_lines(line for each in found for line in _lines(each))
    _tell_rest(old, {(each.task_class, each.old_system_label) for each in found})
    _tell_rest(new, {(each.task_class, each.new_system_label) for each in found})
    return _WORSE if any(each.finding == "worse" for each in found) else 0


def _tell_rest(runs: Iterable[ComparedRun], compared: Container[tuple[str, str]]) -> None:
    for run in runs:
        if (run.task_class, run.system) not in compared:
            name = safe_text(run.name)
            tell(f"{run.where}: {name} was not compared; the other file has no run of it")


def _lines(found: BenchComparison) -> Iterator[Line]:
    yield Line(text=safe_text(f"bench {_name(found)}: {_outcome(found)}"), bold=True)
    yield Line(
        text=f"  {_FINDINGS[found.finding]}",
        color=_COLORS[found.finding],
        bold=found.finding == "worse",
    )
    for name, words in _facts(found):
        yield Line(text=f"  {name}: {safe_text(words, 2_000)}")


def _name(found: BenchComparison) -> str:
    """Return the class's name, with the labels of the systems if there are any."""
    labels = dict.fromkeys((found.old_system_label, found.new_system_label))
    return found.task_class + (f"[{' -> '.join(labels)}]" if any(labels) else "")


def _outcome(found: BenchComparison) -> str:
    from pytest_failure_taxonomy.bench.run_summary import difference_words

    return f"{counted(found.n, 'case')}, mean {_means(found)}, {difference_words(found)}"


def _means(found: BenchComparison) -> str:
    from pytest_failure_taxonomy.bench.run_report import cut_share

    return f"{cut_share(found.old_mean)} -> {cut_share(found.new_mean)}"


def _facts(found: BenchComparison) -> Iterator[tuple[str, str]]:
    """Yield the other facts, each with its name."""
    from pytest_failure_taxonomy.bench.run_summary import cost_words, duration

    for flip, name in (("now_fails", "no longer pass"), ("now_passes", "now pass")):
        flipped = [each for each in found.changes if each.flip == flip]
        if flipped:
            yield f"{name} ({len(flipped)})", _listed(flipped, is_flip=True)
    moved = [each for each in found.changes if each.flip is None]
    if moved:
        yield f"other changes ({len(moved)})", _listed(moved, is_flip=False)
    if any(each.flip for each in found.changes):
        yield "McNemar's exact test", f"p = {found.mcnemar_p:.3g}"
    if found.old_cost_usd or found.new_cost_usd:
        costs = (cost_words(each) or "$0" for each in (found.old_cost_usd, found.new_cost_usd))
        yield "cost", " -> ".join(costs)
    if found.old_mean_ms and found.new_mean_ms:
        yield "time of a case", f"{duration(found.old_mean_ms)} -> {duration(found.new_mean_ms)}"
    for what, names in (("older", found.only_old), ("newer", found.only_new)):
        if names:
            yield f"only in the {what} run ({len(names)})", _named(names)
    if found.not_checked:
        yield "not checked to be the same", ", ".join(found.not_checked)


def _listed(changes: Sequence[CaseChange], *, is_flip: bool) -> str:
    return _named([each.case_id if is_flip else _moved(each) for each in changes])


def _moved(each: CaseChange) -> str:
    return f"{each.case_id} {each.old_score:.3f} -> {each.new_score:.3f}"


def _named(names: Sequence[str]) -> str:
    return listed(names, _MAX_NAMES)


def _as_markdown(found: Sequence[BenchComparison]) -> str:
    """Return a table of all classes, and a list of facts for each."""
    from pytest_failure_taxonomy.bench.run_summary import signed

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
    shown = safe_text(text, 2_000)
    for character in "\\`*_[]<>|~#&":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("-\\>", "->")
