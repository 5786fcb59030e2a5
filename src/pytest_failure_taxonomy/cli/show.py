"""`failure-taxonomy show`: what a report says, in the terminal or field by field."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.options import add_report
from pytest_failure_taxonomy.cli.output import answer, answer_json, answer_lines, paths_from_here
from pytest_failure_taxonomy.documents.json_path import pick
from pytest_failure_taxonomy.errors import ReportError, SettingsError
from pytest_failure_taxonomy.report.limits import MAX_REPORT_BYTES
from pytest_failure_taxonomy.report.lines import Line
from pytest_failure_taxonomy.report.render.details import detail_lines, merged_lines
from pytest_failure_taxonomy.report.render.terminal import verdict_lines
from pytest_failure_taxonomy.report.summary import codes_of
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.system.interpreter import our_command
from pytest_failure_taxonomy.watcher.start import wait_for_watcher

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

FORMATS: Final = ("text", "agent", "json")
_STDIN: Final = "-"
_FAILED: Final = 1


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "show",
        help="print what a report says, or one field of it",
        description="Print why the run of a report failed, as the terminal has shown it. "
        "Exit code: 0 for success, 1 if the run failed or its report is still `running`, 2 if "
        "there is no such report or field.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text; agent: what an agent needs to go on, in at most 2,000 tokens; or the whole "
        "report as json of the newest schema version; default: %(default)s",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--all", action="store_true", help="print causes, failures, and all else that it holds"
    )
    what.add_argument(
        "--json",
        metavar="PATH",
        help="print one field, such as verdict.kind, failures[0].nodeid or groups[].title; texts "
        "as they are, anything else as JSON",
    )
    what.add_argument(
        "--retryable",
        action="store_true",
        help="say whether a retry can help; exit code 0 only if so, 1 if not or not known, and for "
        "a run without a failure",
    )
    add_report(parser, "; -: stdin")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the report, or what was asked of it."""
    if options.format == "json" and (options.json is not None or options.retryable):
        raise SettingsError(
            "show: --format json prints the whole report; leave it out with --json or --retryable"
        )
    if options.format == "agent" and (options.json is not None or options.retryable or options.all):
        raise SettingsError(
            "show: --format agent is one answer; leave it out with --all, --json or --retryable"
        )
    report = _load(options.report)
    if options.retryable:
        return _answer_retryable(report)
    if options.json is not None:
        answer("".join(f"{_shown(value)}\n" for value in list(pick(report, options.json))))
    elif options.format == "json":
        answer_json(report)
    elif options.format == "agent":
        from pytest_failure_taxonomy.report.render.agent import render

        answer(render(report))
    else:
        where = "stdin" if options.report == _STDIN else options.report
        answer_lines(_lines(report, where, is_all=options.all))
    return _FAILED if report["verdict"] is not None or _is_running(report) else 0


def _load(path: str) -> dict[str, Any]:
    """Read a report of any version as one of the newest, checked."""
    from pytest_failure_taxonomy.report.reading import (
        load_report,  # slow, and not needed by other commands
        parse_report,
    )

    if path == _STDIN:
        if sys.stdin is None:
            raise ReportError("stdin: it is closed; give a file")
        try:
            content = sys.stdin.buffer.read(MAX_REPORT_BYTES + 1)
        except OSError as error:
            raise ReportError(
                f"stdin: the report can't be read: {error.strerror}; give a file"
            ) from None
        report = parse_report(content, "stdin")
    else:
        wait_for_watcher(Path(path))
        report = load_report(path)
    return report.model_dump(mode="json", by_alias=True)


def _is_running(report: dict[str, Any]) -> bool:
    return bool(report["completeness"] == "running")


def _lines(report: dict[str, Any], where: str, *, is_all: bool) -> Iterator[Line]:
    paths = paths_from_here(report)
    yield from verdict_lines(report, where, paths=paths)
    if _is_running(report):
        words = (
            "the report is `running`: pytest still runs, or has died; if it has died, complete it "
            f"by: {our_command('finalize', where)}"
        )
        yield Line(text=safe_text(words), color="yellow")
    yield from detail_lines(report, paths=paths) if is_all else merged_lines(report)


def _answer_retryable(report: dict[str, Any]) -> int:
    verdict = report["verdict"]
    if _is_running(report):
        words, is_worth_it = "not known: the report is `running`", False
    elif verdict is None:
        words, is_worth_it = "no: nothing failed", False
    else:
        said = {True: "yes", False: "no", None: "not known"}[verdict["retryable"]]
        message = verdict["message"]
        words = f"{said}: {message} {codes_of(verdict)}"
        is_worth_it = verdict["retryable"] is True
    answer(f"{safe_text(words)}\n")
    return 0 if is_worth_it else _FAILED


def _shown(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
