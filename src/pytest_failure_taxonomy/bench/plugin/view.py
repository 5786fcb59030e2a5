"""Print the runs of task classes at the end of a pytest run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Final

import pytest

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.kept.reader import KeptRun
from pytest_failure_taxonomy.bench.load.cases import likely_cluster
from pytest_failure_taxonomy.bench.plugin.results import SourcedReport
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.report import (
    lines_of_system,
    summary_lines,
    table_of_systems,
)

_MAX_SHOWN: Final = 120
"""Characters of a case's result in its line of the summary."""


class SummaryView:
    """Where the runs are printed, and what is known of their files."""

    def __init__(
        self,
        terminal: pytest.TerminalReporter,
        classes: TaskClasses,
        runs: Mapping[str, KeptRun],
        *,
        are_saved: bool,
    ) -> None:
        """Prepare; nothing is printed yet.

        Args:
            terminal: Where to print.
            classes: The task classes.
            runs: The runs that have files, by id.
            are_saved: Whether the files are still there when pytest has ended.
        """
        self._terminal = terminal
        self._classes = classes
        self._runs = runs
        self._are_saved = are_saved
        self._is_detailed = terminal.verbosity > 0
        self._is_brief = terminal.verbosity < 0

    def print_runs(self, reports: Iterable[SourcedReport]) -> None:
        """Print the run of each class, or those of its systems together."""
        by_class: dict[tuple[str, str, str], list[models.BenchRunReport]] = {}
        for report, test, folder, _ in reports:
            # A whole run of a test stands alone: the test says how its runs belong together.
            alone = "" if folder else report.run_id
            by_class.setdefault((folder, test, alone), []).append(report)
        if self._is_brief:
            self._terminal.line("")
        else:
            self._terminal.write_sep("=", "bench")
        for (_, test, _), runs in by_class.items():
            if len(runs) == 1:
                lines = summary_lines(runs[0], test=test, detail=self._is_detailed)
                self._print_run(runs[0], lines, indent="  ")
                continue
            has_pairs = not self._is_brief
            for line in table_of_systems(runs, test=test, has_pairs=has_pairs):
                self._terminal.write_line(line)
            for report in runs:
                lines = lines_of_system(
                    report, detail=self._is_detailed, brief=self._is_brief
                )
                self._print_run(report, lines, indent="    ")

    def _print_run(
        self, report: models.BenchRunReport, lines: Sequence[str], indent: str
    ) -> None:
        for line in lines:
            is_failed = line.lstrip().startswith("gate: FAIL")
            self._terminal.write_line(line, red=is_failed)
        for line in self._file_lines(report):
            self._terminal.write_line(f"{indent}{line}")

    def _file_lines(self, report: models.BenchRunReport) -> Iterator[str]:
        """Yield where a run is kept, and what an earlier one had left to do."""
        run = self._runs.get(report.run_id.removeprefix(models.PARTIAL))
        if run is None:
            return
        if resumed := describe_resumption(run):
            yield f"resumed: {resumed}"
        yield from run.problems[:3]
        is_over = report.counts.graded == report.counts.scheduled
        if self._are_saved and not (self._is_brief and is_over):
            more = "" if is_over else "; --bench-resume runs what is missing"
            yield f"kept: {self._classes.shown(run.path.absolute())}{more}"

    def print_below(
        self, cases: Sequence[tuple[str, Sequence[str]]], *, has_lines: bool
    ) -> None:
        """Print cases that are below as pytest prints failures: a line each, in full if asked.

        Args:
            cases: The node id of each, with its lines.
            has_lines: Whether `--tb` allows them.
        """
        terminal = self._terminal
        if cases and not self._is_brief:
            terminal.write_sep("=", "BELOW")
        is_asked = self._is_detailed or "P" in terminal.reportchars  # -v, -rA
        if is_asked and has_lines:
            for nodeid, (_, *lines) in cases:
                name = nodeid.partition("::")[2]
                terminal.write_sep("_", name, yellow=True, bold=True)
                for line in lines:
                    terminal.write_line(line)
        for nodeid, (message, *_) in cases if "f" in terminal.reportchars else ():
            words = shorten(message, _MAX_SHOWN, placeholder="...")
            terminal.ensure_newline()
            terminal.write("BELOW", yellow=True)
            terminal.write_line(f" {nodeid} - {words}")

    def likely_clusters(self, reports: Iterable[SourcedReport]) -> Iterator[str]:
        """Yield which bounds take cases that seem to be alike for independent ones."""
        for report, _, folder, _ in reports:
            if not folder or report.lower_bound_95.value is None:
                continue
            task_class = self._classes.load(Path(folder))
            field = likely_cluster(task_class.cases)
            if field and "cluster" not in task_class.settings.model_fields_set:
                yield (
                    f"bench {report.task_class}: cases share values of {field}; if such cases"
                    f" are alike, the bound is too high: write `cluster: {field}` into"
                    " bench.yaml, or `cluster: null` if they are not"
                )


def describe_resumption(run: KeptRun) -> str:
    """Return what a session that continued a run had left to do; '' for a new run."""
    if not run.sessions:
        why_not = run.header.not_resumed
        return f"all cases run: {why_not}" if why_not else ""
    changed, done = [], 0
    for case in run.cases.values():
        call = case.done_before
        if call is None or case.scheduled is None:
            continue
        if call.input_digest != case.scheduled.digest:
            changed.append(case.case_id)
        elif run.settles(call):
            done += 1
    line = f"{done} of {len(run.cases)} cases were done before"
    if changed:
        line += f"; {len(changed)} had changed and ran again: {', '.join(changed[:5])}"
    return line
