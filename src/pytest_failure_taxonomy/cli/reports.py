"""The commands about reports and other files: `show`, `convert`, `merge` and so on."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.output import (
    STDOUT,
    answer,
    print_verdict,
    tell,
)
from pytest_failure_taxonomy.documents import content
from pytest_failure_taxonomy.errors import (
    ReportError,
    SettingsError,
)
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.build import MAX_REPORT_BYTES
from pytest_failure_taxonomy.system import import_named
from pytest_failure_taxonomy.system.files import read_named_file
from pytest_failure_taxonomy.system.interpreter import our_command
from pytest_failure_taxonomy.taxonomy import judgement
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.words import counted
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.faces.terminal import Line
    from pytest_failure_taxonomy.report.model import FailureReport, Section
    from pytest_failure_taxonomy.survive.facts import ProcessEnd

_FAILED: Final = 1
HARNESSES: Final = ("swe-bench", "terminal-bench", "harbor", "inspect")
_SCHEMA: Final = b"urn:pytest-failure-taxonomy:failure-report:"
_HEAD_BYTES: Final = 256
"""What of a file in a folder is looked at to tell a report from other JSON."""
_RIGHT_FOLDER: Final = (
    "give one with reports, the JSON files that `pytest --why` writes"
)


def load(
    path: Path, watchers: Sequence[tuple[int, list[str]]] | None = None
) -> FailureReport:
    """Read a report of any version as one of the newest, checked.

    Args:
        path: of the report.
        watchers: that may still complete it; looked for by default.
    """
    from pytest_failure_taxonomy.report.load import load_report, refuse_bad_benches
    from pytest_failure_taxonomy.survive import complete

    complete.wait_for_watcher(path, watchers=watchers)
    report = load_report(path)
    refuse_bad_benches(report, str(path))
    return report


def reports_in(path: Path, problems: list[str], others: list[str]) -> Iterator[Path]:
    """Yield a file, or those in a folder and in the folders in it that are meant to be reports.

    That is said by their name, or by their beginning. Hidden folders and links to folders are not
    searched.

    Args:
        path: of the file, or where to search.
        problems: gets what can't be searched, and that there is no report.
        others: gets the JSON files that are no reports.
    """
    if not path.is_dir():
        yield path
        return
    from pytest_failure_taxonomy.options import DEFAULT_REPORT

    is_empty = True
    for place, folders, names in os.walk(
        path,
        onerror=lambda error: problems.append(
            f"{safe_text(str(error.filename))}: {content.why_unread(error)}; make it readable"
        ),
    ):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(each for each in names if each.lower().endswith(".json")):
            file = Path(place, name)
            try:
                is_report = name == DEFAULT_REPORT or _SCHEMA in read_named_file(
                    file, _HEAD_BYTES
                )
            except OSError:
                is_report = True  # reading it says what is wrong
            if is_report:
                is_empty = False
                yield file
            else:
                others.append(str(file))
    if is_empty:
        problems.append(f"{safe_text(str(path))}: has no report in it; {_RIGHT_FOLDER}")


# Show.


def show(options: argparse.Namespace) -> int:
    """Print the report, or what was asked of it."""
    from pytest_failure_taxonomy.report.load import as_json

    if options.format == "json" and (options.json is not None or options.retryable):
        raise SettingsError(
            "show: --format json prints the whole report; leave it out with --json or --retryable"
        )
    if options.format == "agent" and (
        options.json is not None or options.retryable or options.all
    ):
        raise SettingsError(
            "show: --format agent is one answer; leave it out with --all, --json or --retryable"
        )
    is_stdin = options.report == content.STDIN
    report = _load_stdin() if is_stdin else load(Path(options.report))
    if options.retryable:
        return _answer_retryable(report)
    if options.json is not None:
        texts = []
        for picked in content.pick(as_json(report), options.json):
            text = picked if isinstance(picked, str) else json.dumps(picked)
            texts.append(f"{text}\n")
        answer("".join(texts))
    elif options.format == "json":
        output.answer_json(as_json(report))
    elif options.format == "agent":
        from pytest_failure_taxonomy.faces import agent

        answer(agent.render(report))
    else:
        where = "stdin" if is_stdin else options.report
        output.answer_lines(_lines(report, where, is_all=options.all))
    is_good = report.verdict is None and report.completeness != "running"
    return 0 if is_good else _FAILED


def _load_stdin() -> FailureReport:
    from pytest_failure_taxonomy.report.load import parse_report, refuse_bad_benches

    with content.open_stdin(ReportError) as stdin:
        data = stdin.read(MAX_REPORT_BYTES + 1)
    report = parse_report(data, "stdin")
    refuse_bad_benches(report, "stdin")
    return report


def _lines(report: FailureReport, where: str, *, is_all: bool) -> Iterator[Line]:
    from pytest_failure_taxonomy.faces import terminal

    paths = output.paths_from_here(report)
    yield from terminal.verdict_lines(report, where, paths=paths)
    if report.completeness == "running":
        words = (
            "the report is `running`: pytest still runs, or has died; if it has died, complete it "
            f"by: {our_command('finalize', where)}"
        )
        yield terminal.Line(text=safe_text(words), color="yellow")
    if is_all:
        yield from terminal.detail_lines(report, paths=paths)
    else:
        yield from terminal.merged_lines(report)


def _answer_retryable(report: FailureReport) -> int:
    from pytest_failure_taxonomy.report.summary import codes_of

    verdict = report.verdict
    is_worth_it = False
    if report.completeness == "running":
        words = "not known: the report is `running`"
    elif verdict is None:
        words = "no: nothing failed"
    else:
        is_worth_it = verdict.retryable is True
        helps = {True: "yes", False: "no", None: "not known"}[verdict.retryable]
        words = f"{helps}: {verdict.message} {codes_of(verdict)}"
    answer(f"{safe_text(words)}\n")
    return 0 if is_worth_it else _FAILED


# Convert.


def convert(options: argparse.Namespace) -> int:
    """Convert the file, or what a harness of agents has left."""
    if options.family is not None and options.to != "junit":
        raise SettingsError(
            "convert: --family is for JUnit XML; give --to junit with it"
        )
    if options.augment is not None and options.to != "junit":
        raise SettingsError(
            "convert: --augment adds to JUnit XML; give --to junit with it"
        )
    if options.bench_storage is not None and options.to != "html":
        raise SettingsError(
            "convert: --bench-storage is for the HTML page; give --to html with it"
        )
    if options.source in HARNESSES:
        from pytest_failure_taxonomy.cli import trials

        return trials.convert(options)
    if options.compare:
        raise SettingsError(
            f"convert: --compare is for harnesses; give --from with one of {', '.join(HARNESSES)}"
        )
    if len(options.files) > 1:
        raise SettingsError(
            "convert: it takes one file, or folders of a harness; give one file"
        )
    (options.file,) = options.files
    files = (options.file, options.output)
    if (
        options.output != STDOUT
        and all(map(os.path.exists, files))
        and os.path.samefile(*files)
    ):
        raise SettingsError(
            f"-o: {options.output} is the file that is converted; give another file"
        )
    if options.source:
        output.answer_report(_read(options), options.output)
    else:
        output.write_answer(
            options.output,
            _render(options),
            is_safe=options.to in ("github", "teamcity"),
        )
    return 0


def _render(options: argparse.Namespace) -> str:
    from pytest_failure_taxonomy.faces import render

    report = load(options.file)
    if options.augment is not None:
        from pytest_failure_taxonomy.faces.junit import augment

        return augment(options.augment, report)
    if options.family:
        return render(options.to, report, family=options.family)
    if options.to == "html" and report.bench:
        return render(options.to, report, kept=_find_cases(report, options))
    return render(options.to, report)


def _find_cases(
    report: FailureReport, options: argparse.Namespace
) -> dict[str, object]:
    """Return what a page shows of the cases of benches, by run id."""
    from pytest_failure_taxonomy.option_files import STORAGE

    read_cases: Callable[[Any, Path], dict[str, object]]
    read_cases = import_named(options.asks["cases"])
    if options.bench_storage is not None:
        cases = read_cases(report.bench, options.bench_storage)
        if not cases:
            place = safe_text(str(options.bench_storage))
            tell(f"--bench-storage: {place} has no run of this report")
        return cases
    rootdir = Path(report.run.invocation.rootdir)
    for folder in (rootdir, options.file.absolute().parent):
        if cases := read_cases(report.bench, folder / STORAGE):
            return cases
    return {}


def _read(options: argparse.Namespace) -> FailureReport:
    from pytest_failure_taxonomy.logs.foreign import report_from
    from pytest_failure_taxonomy.survive.machine import describe_environment

    return report_from(
        options.source,
        options.file.absolute(),
        rootdir=Path.cwd(),
        environment=describe_environment("unknown", ()),
        redaction=Secrets(),
    )


# Merge and finalize.


def merge(options: argparse.Namespace) -> int:
    """Merge the reports, write the result and print its verdict."""
    from pytest_failure_taxonomy.report.merging import Merger, tasks_of  # slow
    from pytest_failure_taxonomy.survive import complete

    if options.by and options.output == STDOUT:
        raise SettingsError(
            "merge: --by task writes a report for each task; give -o FOLDER for them"
        )

    def join_shards(shards: Section) -> Section:
        if not shards:
            return ()  # and the bench need not be imported
        return tuple(import_named(options.asks["shards"])(shards))

    mergers: dict[str, Merger] = {}
    problems: list[str] = []
    # Looked for once, as there may be many reports.
    watchers = complete.running_watchers()
    for path in (
        each for given in options.reports for each in reports_in(given, problems, [])
    ):
        try:
            report = _load_ended(path, watchers)
            tasks = tasks_of(report) if options.by else {""}
            if len(tasks) != 1:
                what = f"it is of {counted(len(tasks), 'task')}"
                raise ReportError(
                    f"{path}: {what}; give reports of attempts at one task each"
                )
            (task,) = tasks
            if task not in mergers:
                mergers[task] = Merger(
                    expect=options.expect,
                    reruns=options.reruns,
                    join_shards=join_shards,
                )
            mergers[task].add(report, os.fspath(path))
        except ReportError as error:
            problems.append(str(error))
    if problems:
        raise ReportError("\n".join(problems))
    if options.by:
        from pytest_failure_taxonomy.cli.trials import write_by_task

        return write_by_task(mergers, Path(options.output))
    report = mergers[""].result()
    output.answer_report(report, options.output)
    return 0 if report.verdict is None else _FAILED


def _load_ended(path: Path, watchers: Sequence[tuple[int, list[str]]]) -> FailureReport:
    """Read a report, which is completed first if its pytest has died."""
    from pytest_failure_taxonomy.survive import complete
    from pytest_failure_taxonomy.survive.facts import ProcessEnd

    report = load(path, watchers)
    if report.completeness != "running":
        return report
    left = complete.read_report(path.absolute())
    if left is not None and left.completeness == "running":
        _complete(path.absolute(), left, ProcessEnd(exit=_UNSEEN), "merge")
    return load(path)


_UNSEEN: Final = ProcessExit(code=None, source="finalize")


def _complete(
    path: Path, report: FailureReport, end: ProcessEnd, verb: str, **options: Any
) -> FailureReport | None:
    from pytest_failure_taxonomy.survive import complete

    if report.completeness == "running" and complete.is_still_running(path, report):
        raise ReportError(
            f"{path}: the run is still going on; {verb} it when it has ended"
        )
    try:
        return complete.complete_run(path, report.run.id, end, warn=tell, **options)
    except OSError as error:
        raise ReportError(
            f"{path}: the report can't be written: {error.strerror}"
        ) from error


def finalize(options: argparse.Namespace) -> int:
    """Complete the report and print its verdict."""
    from pytest_failure_taxonomy.survive import complete
    from pytest_failure_taxonomy.survive.facts import ProcessEnd

    path = Path(options.report).absolute()
    code: int | None = options.exit_code
    if code is not None and not 0 <= code <= 255:
        raise ReportError(f"--exit-code: {code} is no exit code; give 0 to 255")
    load(path)  # raises if it is not a report
    report = complete.read_report(path)
    if report is None:  # it was replaced in the meantime, or is not a regular file
        raise ReportError(
            f"{path}: not a regular file; give the name of the report itself"
        )
    seen = _UNSEEN
    if code is not None:
        seen = ProcessExit(
            code=code,
            signal=judgement.signal_of_exit_code(code),
            observed=True,
            source="finalize",
        )
    end = ProcessEnd(exit=seen)
    report = (
        _complete(path, report, end, "finalize", annotate=output.annotate) or report
    )
    print_verdict(report, Path(options.report))
    return 0 if report.verdict is None else _FAILED


# Logs and the schema.


def classify(options: argparse.Namespace) -> int:
    """Print why a run failed of which there is only a log."""
    from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
    from pytest_failure_taxonomy.logs.log_lines import open_log

    code: int | None = options.exit_code
    if code is not None and not -64 <= code <= 255:
        raise SettingsError(
            f"--exit-code: {code} is no exit code; give 0 to 255, or -1 to -64"
        )
    with open_log(options.log) as chunks:
        found = classify_log(
            chunks,
            name="stdin" if options.log == content.STDIN else options.log,
            stage=judgement.Stage(options.stage),
            exit_code=None
            if code is None
            else judgement.exit_code_from_returncode(code),
            shown=Secrets().redact,
        )
    output.answer_json(ANSWERS.encode(found))
    return 0 if found.reason is None else _FAILED


def schema(options: argparse.Namespace) -> int:
    """Print the schema, byte for byte as it is packaged."""
    name = f"failure-report-{options.version}.schema.json"
    answer(files("pytest_failure_taxonomy.report").joinpath(name).read_text("utf-8"))
    return 0
