"""What the terminal says of the runs of a session: a summary of each, or a table of systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.bench.plugin.results import SourcedReport
from pytest_failure_taxonomy.bench.run_summary import (
    lines_of_system,
    summary_lines,
    table_of_systems,
)

LinesOfKept = Callable[[BenchRunReport], Iterable[str]]
"""Returns where a run is kept, and what an earlier one had left to do."""


def is_gate_failed(report: BenchRunReport) -> bool:
    """Return whether the task class has a gate and its run failed it."""
    return report.gate is not None and report.gate.verdict == "FAIL"


def print_runs(
    terminal: pytest.TerminalReporter, reports: Iterable[SourcedReport], lines_of_kept: LinesOfKept
) -> None:
    """Print the run of each class, or those of its systems together."""
    by_class: dict[tuple[str, str, str], list[BenchRunReport]] = {}
    for report, test, folder, _ in reports:
        # A whole run of a test stands alone: the test says how its runs belong together.
        alone = "" if folder else report.run_id
        by_class.setdefault((folder, test, alone), []).append(report)
    for (_, test, _), runs in by_class.items():
        if len(runs) == 1:
            lines = summary_lines(runs[0], test=test, detail=terminal.verbosity > 0)
            _print(terminal, runs[0], [*lines, *lines_of_kept(runs[0])])
        else:
            _print_systems(terminal, runs, test, lines_of_kept)


def _print_systems(
    terminal: pytest.TerminalReporter,
    runs: Sequence[BenchRunReport],
    test: str,
    lines_of_kept: LinesOfKept,
) -> None:
    for line in table_of_systems(runs, test=test):
        terminal.write_line(line)
    if terminal.verbosity < 0:
        return
    for report in runs:
        lines = lines_of_system(report, detail=terminal.verbosity > 0)
        _print(terminal, report, [*lines, *(f"  {each}" for each in lines_of_kept(report))])


def _print(terminal: pytest.TerminalReporter, report: BenchRunReport, lines: Sequence[str]) -> None:
    is_red = is_gate_failed(report)
    for line in lines:
        terminal.write_line(line, red=is_red and line.lstrip().startswith("gate:"))
