"""`failure-taxonomy finalize`: complete a report whose run has died."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.cli.options import add_exit_code, add_report
from pytest_failure_taxonomy.cli.output import annotate, print_verdict, tell
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.reasons import signal_of_exit_code
from pytest_failure_taxonomy.watcher.complete import (
    ProcessEnd,
    complete_run,
    is_still_running,
    read_report,
)
from pytest_failure_taxonomy.watcher.start import wait_for_watcher

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "finalize",
        help="complete the report of a run that was killed",
        description="Complete a report that was left running when its pytest died, and say why the "
        "run failed. A report that is complete stays as it is, so this can run after every run. "
        "Exit code: 0 for success, 1 if the run failed, 2 if there is no such report or its "
        "pytest still runs.",
        allow_abbrev=False,
    )
    add_exit_code(parser, "the exit code of pytest, as a shell shows it ($?)")
    add_report(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Complete the report and print its verdict."""
    from pytest_failure_taxonomy.report.reading import (
        load_report,  # slow, and not needed by other commands
    )

    path = Path(options.report).absolute()
    if options.exit_code is not None and not 0 <= options.exit_code <= 255:
        raise ReportError(f"--exit-code: {options.exit_code} is no exit code; give 0 to 255")
    wait_for_watcher(path)
    load_report(path)  # raises if it is not a report
    report = read_report(path)
    if report is None:  # it was replaced in the meantime, or is not a regular file
        raise ReportError(f"{path}: not a regular file; give the name of the report itself")
    if report["completeness"] == "running" and is_still_running(path, report):
        raise ReportError(f"{path}: the run is still going on; finalize it when it has ended")
    try:
        completed = complete_run(
            path, report["run"]["id"], _end(options.exit_code), warn=tell, annotate=annotate
        )
    except OSError as error:
        raise ReportError(f"{path}: the report can't be written: {error.strerror}") from error
    report = completed or report
    print_verdict(report, Path(options.report))
    return 0 if report["verdict"] is None else 1


def _end(exit_code: int | None) -> ProcessEnd:
    if exit_code is None:
        return ProcessEnd(exit=ProcessExit(code=None, source="finalize"))
    return ProcessEnd(
        exit=ProcessExit(
            code=exit_code,
            signal=signal_of_exit_code(exit_code),
            observed=True,
            source="finalize",
        )
    )
