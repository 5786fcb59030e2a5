"""`failure-taxonomy convert`: other formats of a report, and reports of other formats."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.options import STDOUT, add_output
from pytest_failure_taxonomy.cli.output import print_verdict, tell, write_answer
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.report.faces import FORMATS, render
from pytest_failure_taxonomy.report.text import safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

READ: Final = ("junit", "reportlog", "json-report", "ctrf")
"""The formats of other programs from which a report can be made."""


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    formats = "; ".join(f"{name}: {what}" for name, what in FORMATS.items())
    parser = commands.add_parser(
        "convert",
        help="write a report in another format, or make one of other files",
        description=f"Convert a report. Formats are {formats}. With --from, make a report of a "
        "file that another program has written, judged as far as that file allows. Exit code: 0 "
        "done, 2 if a file can't be used.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the report, or another file")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--to", choices=FORMATS, help="the format to write")
    which.add_argument("--from", dest="source", choices=READ, help="the format to make a report of")
    parser.add_argument(
        "--augment",
        metavar="XML",
        type=Path,
        help="with --to junit: add reasons, owners and the failures of the session to this file of "
        "pytest's --junitxml; where there is none, the whole file is made",
    )
    parser.add_argument(
        "--family",
        choices=("xunit2", "xunit1"),
        help="the dialect of JUnit XML, by pytest's name: xunit2, which Jenkins' schema allows, or "
        "xunit1, with files, lines and properties of tests, which GitLab shows; default: xunit2",
    )
    parser.add_argument(
        "--bench-storage",
        metavar="DIR",
        type=Path,
        help="with --to html: where the runs of benches are kept, to show outputs and transcripts; "
        "default: .bench in the report's root directory, or beside the report",
    )
    add_output(parser, "it")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Convert the file."""
    if options.family is not None and options.to != "junit":
        raise SettingsError("convert: --family is of JUnit XML; give --to junit with it")
    if options.augment is not None and options.to != "junit":
        raise SettingsError("convert: --augment adds to JUnit XML; give --to junit with it")
    if options.bench_storage is not None and options.to != "html":
        raise SettingsError("convert: --bench-storage is of the page; give --to html with it")
    files = (options.file, options.output)
    if options.output != STDOUT and all(map(os.path.exists, files)) and os.path.samefile(*files):
        raise SettingsError(
            f"-o: {options.output} is the file that is converted; give another file"
        )
    text = _read(options) if options.source else _render(options)
    write_answer(options.output, text, is_safe=options.to == "github")
    return 0


def _render(options: argparse.Namespace) -> str:
    from pytest_failure_taxonomy.report.reading import load_report
    from pytest_failure_taxonomy.watcher.start import wait_for_watcher

    wait_for_watcher(options.file)
    report = load_report(options.file).model_dump(mode="json", by_alias=True)
    if options.augment is not None:
        from pytest_failure_taxonomy.report.render.junit import augment

        return augment(options.augment, report)
    given: dict[str, Any] = {"family": options.family} if options.family else {}
    if options.to == "html" and report["bench"]:
        given["kept"] = _kept(report, options)
    return render(options.to, report, **given)


def _kept(report: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return what a page shows of the cases of benches, by run id."""
    from pytest_failure_taxonomy.bench.runs.shown import page_runs

    places: list[Path] = [
        Path(report["run"]["invocation"]["rootdir"]) / ".bench",
        options.file.absolute().parent / ".bench",
    ]
    if options.bench_storage is not None:
        places = [options.bench_storage]
    found = next((kept for each in places if (kept := page_runs(report["bench"], each))), {})
    if not found and options.bench_storage is not None:
        tell(f"--bench-storage: {safe_text(str(places[0]))} has no run of this report")
    return found


def _read(options: argparse.Namespace) -> str:
    from pytest_failure_taxonomy.recorder.machine import describe_environment
    from pytest_failure_taxonomy.recorder.secrets import Secrets
    from pytest_failure_taxonomy.report.foreign import report_from

    report = report_from(
        options.source,
        options.file.absolute(),
        rootdir=Path.cwd(),
        environment=describe_environment("unknown", ()),
        redaction=Secrets(),
    )
    print_verdict(report, Path("(on stdout)" if options.output == STDOUT else options.output))
    return json.dumps(report, indent=2)
