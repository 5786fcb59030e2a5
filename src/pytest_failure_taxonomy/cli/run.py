"""`failure-taxonomy run`: run any command of any stage, and report exactly how it ended."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.output import print_verdict, warn
from pytest_failure_taxonomy.completion import (
    ProcessEnd,
    UnwrittenReportError,
    complete_run,
    end_from_status,
    read_report,
)
from pytest_failure_taxonomy.errors import ReportError, SettingsError
from pytest_failure_taxonomy.recorder.machine import ci_job, platform_name, python_version
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.recorder.supervision import (
    SUPERVISOR_VARIABLE,
    RecordInbox,
    read_note,
    supervisor_value,
    write_note,
)
from pytest_failure_taxonomy.redaction.arguments import redact_arguments
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.write import refuse_special_file, write_report
from pytest_failure_taxonomy.supervisor import CommandEnd, Supervisor, end_like, is_pytest
from pytest_failure_taxonomy.taxonomy.evidence import Environment, RunContext, RunError, RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.stages import Stage
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

EXIT_LIMIT: Final = 124
"""As GNU `timeout` says it."""
EXIT_UNFINISHED: Final = 3
"""pytest answered 0 and had not finished its session."""


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a command and report how it ended",
        usage="%(prog)s [--stage STAGE] [--timeout SECONDS] [--report PATH] -- COMMAND ...",
        description="Run a command of any stage as its parent, and write a report of how it ended. "
        "A pytest gets the plugin's full report, completed with the exact exit status. Ends as the "
        f"command ended, except with {EXIT_LIMIT} when its time was up, and with {EXIT_UNFINISHED} "
        "where pytest answered 0 without having finished.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--stage",
        choices=[stage.value for stage in Stage],
        metavar="STAGE",
        help="the step of an attempt: %(choices)s",
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="end the command after that time"
    )
    parser.add_argument("--report", type=Path, metavar="PATH", help="default: failure-report.json")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command, complete or write its report, and end as it ended."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise SettingsError("run: no command; give one after --, as in: run -- pytest -x")
    path = (options.report or Path("failure-report.json")).absolute()
    refuse_special_file(path)
    started_at = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="failure-taxonomy-") as folder:
        note = Path(folder) / "note"
        write_note(note, stage=options.stage, report=options.report and str(path))
        environment = {**os.environ, SUPERVISOR_VARIABLE: supervisor_value(note)}
        inbox = RecordInbox(note)
        supervisor = Supervisor(command, timeout_seconds=options.timeout)
        try:
            end = supervisor.run(environment)
        except OSError as error:
            raise SettingsError(f"run: {command[0]} can't be started: {error.strerror}") from error
        said = read_note(note)
        contents = inbox.contents(said.get("run_id", ""))
    seen = _process_end(end, options.timeout)
    report = None
    if "run_id" in said:
        path = Path(said["report"])
        report = _complete(path, said["run_id"], seen, contents)
    elif not options.report:
        report = _report_from_within(path, started_at)
    if report is None:
        report = _report_of_command(
            command,
            Stage(options.stage or Stage.FINAL_TEST),
            seen,
            started_at,
            lost_run_id=said.get("run_id"),
        )
        _write(path, report)
    if report["completeness"] != "full":
        print_verdict(report, _shown(path))
    return _exit_code(end, report)


def _report_from_within(path: Path, started_at: datetime) -> dict[str, Any] | None:
    """Return the report of a pytest that the command, a shell say, has run: it knows more."""
    report = read_report(path)
    if report is None or report["run"]["started_at"] < _timestamp(started_at):
        return None
    return report


def _timestamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _complete(
    path: Path, run_id: str, seen: ProcessEnd, contents: list[bytes] | None
) -> dict[str, Any] | None:
    """Complete the plugin's report; `None` where nothing is left of it."""
    try:
        return complete_run(path, run_id, seen, contents=contents, warn=warn)
    except UnwrittenReportError as error:
        sys.stderr.write(
            f"failure-taxonomy: {path}: the report can't be written: {error.strerror}; make room "
            "and complete it by: failure-taxonomy finalize\n"
        )
        return error.report
    except (ReportError, OSError) as error:
        sys.stderr.write(f"failure-taxonomy: {path}: the run's own record is lost: {error}\n")
        return None


def _process_end(end: CommandEnd, timeout_seconds: float | None) -> ProcessEnd:
    seen = end_from_status(end.status, "supervisor", end.ended_ns)
    return replace(
        seen,
        exit=replace(
            seen.exit,
            sender=end.sender,
            enforced_limit_seconds=timeout_seconds if end.limit_reached else None,
        ),
    )


def _report_of_command(
    command: list[str],
    stage: Stage,
    seen: ProcessEnd,
    started_at: datetime,
    *,
    lost_run_id: str | None,
) -> dict[str, Any]:
    """Return the report of a command of which no plugin has told anything.

    Where a plugin has begun a run of which nothing is left, its session came to no end: it would
    have written its report.
    """
    duration = (datetime.now(UTC) - started_at).total_seconds()
    evidence = RunEvidence(
        stage=stage,
        recorded=False,
        is_pytest=is_pytest(command),
        early_refusal=_early_refusal(command) if lost_run_id is None else None,
        finished=seen.exit.signal is None
        and seen.exit.enforced_limit_seconds is None
        and lost_run_id is None,
        exit=seen.exit,
    )
    secrets = Secrets()
    context = RunContext(
        id=lost_run_id or os.urandom(16).hex(),
        started_at=_timestamp(started_at),
        duration_seconds=duration,
        args=redact_arguments(command, secrets.redact),
        rootdir=str(Path.cwd()),
        environment=Environment(
            python=python_version(), platform=platform_name(), pytest="unknown", ci=ci_job()
        ),
    )
    return build_report(
        evidence,
        judge(evidence),
        context,
        completeness="reconstructed",
        redaction=secrets,
    )


def _early_refusal(command: list[str]) -> RunError | None:
    """Return what a pytest can't have got past that has not come to load our plugin."""
    if not is_pytest(command):
        return None
    from pytest_failure_taxonomy.early_refusals import early_refusal

    try:
        return early_refusal(command, os.environ, Path.cwd())
    except Exception:  # noqa: BLE001 - foreign files are read; without them the exit code still tells
        return None


def _write(path: Path, report: dict[str, Any]) -> None:
    try:
        write_report(path, report)
    except OSError as error:
        sys.stderr.write(
            f"failure-taxonomy: {path}: the report can't be written: {error.strerror}; "
            "give --report a path that can be\n"
        )


def _exit_code(end: CommandEnd, report: dict[str, Any]) -> int:
    if end.limit_reached:
        return EXIT_LIMIT
    kinds = {reason["kind"] for reason in report["reasons"]}
    if end.status == 0 and "process.exited" in kinds:
        return EXIT_UNFINISHED
    return end_like(end.status)


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _seconds(text: str) -> float:
    """Read a time limit; an error of argparse says the rest."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds
