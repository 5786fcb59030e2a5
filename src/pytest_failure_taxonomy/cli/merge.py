"""`failure-taxonomy merge`: one report of several runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.options import STDOUT, add_output
from pytest_failure_taxonomy.cli.output import answer_json, print_verdict, tell, writing_to
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.write import refuse_special_file, write_report
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.watcher.complete import (
    ProcessEnd,
    complete_run,
    is_still_running,
    read_report,
)
from pytest_failure_taxonomy.watcher.start import wait_for_watcher

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

_FAILED: Final = 1
_MAX_SHARDS: Final = 10_000


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "merge",
        help="make one report of those of shards, reruns or stages",
        description="Merge the reports of shards of one run, of reruns, or of the stages of one "
        "attempt into one report, judged as that of one run. A run that is given twice counts "
        "once; a report that was left running is completed first. Exit code: 0 for success, 1 if "
        "the merged run failed or a shard is missing, 2 if a report can't be used.",
        allow_abbrev=False,
    )
    parser.add_argument("reports", metavar="REPORT", nargs="+", type=Path)
    add_output(parser, "the merged report")
    parser.add_argument(
        "--expect",
        metavar="N",
        type=_shards,
        help="how many shards there must be; default: as many as they say themselves",
    )
    parser.add_argument(
        "--reruns",
        action="store_true",
        help="of several runs of one stage and shard the last one counts; by default only a run "
        "with an option such as --last-failed replaces an earlier one",
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Merge the reports, write the result and print its verdict."""
    from pytest_failure_taxonomy.report.merging import Merger  # slow, and not needed by others

    merger = Merger(expect=options.expect, reruns=options.reruns, join_shards=_join_shards)
    problems: list[str] = []
    for path in options.reports:
        try:
            merger.add(_load(path))
        except ReportError as error:
            problems.append(str(error))
    if problems:
        raise ReportError("\n".join(problems))
    report = merger.result()
    if options.output == STDOUT:
        answer_json(report)
        print_verdict(report, Path("(on stdout)"))
    else:
        path = Path(options.output).absolute()
        with writing_to(path):
            refuse_special_file(path, what="")
            write_report(path, report)
        print_verdict(report, Path(options.output))
    return 0 if report["verdict"] is None else _FAILED


def _join_shards(shards: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if not shards:
        return []  # and the bench need not be imported
    from pytest_failure_taxonomy.bench.sharding import join_shards

    return join_shards(shards)


def _shards(given: str) -> int:
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= _MAX_SHARDS:
        raise argparse.ArgumentTypeError(
            f"{given!r} is no number of shards; give one from 1 to {_MAX_SHARDS}"
        )
    return int(given)


def _load(path: Path) -> dict[str, Any]:
    """Read a report, which is completed first if its pytest has died."""
    from pytest_failure_taxonomy.report.reading import load_report

    wait_for_watcher(path)
    report = load_report(path)
    if report.completeness == "running":
        _complete(path.absolute())
        report = load_report(path)
    return report.model_dump(mode="json", by_alias=True)


def _complete(path: Path) -> None:
    report = read_report(path)
    if report is None or report["completeness"] != "running":
        return
    if is_still_running(path, report):
        raise ReportError(f"{path}: the run is still going on; merge it when it has ended")
    end = ProcessEnd(exit=ProcessExit(code=None, source="finalize"))
    try:
        complete_run(path, report["run"]["id"], end, warn=tell)
    except OSError as error:
        raise ReportError(f"{path}: the report can't be written: {error.strerror}") from error
