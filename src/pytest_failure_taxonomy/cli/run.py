"""`failure-taxonomy run`: run any command of any stage, and report exactly how it ended."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from pytest_failure_taxonomy.cli import for_agents
from pytest_failure_taxonomy.cli.output import (
    annotate,
    let_go_of_streams,
    print_verdict,
    tell,
)
from pytest_failure_taxonomy.errors import (
    FailureTaxonomyError,
    ReportError,
    SettingsError,
)
from pytest_failure_taxonomy.options import DEFAULT_REPORT
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.write import (
    refuse_special_file,
    remove_report,
    write_report,
)
from pytest_failure_taxonomy.survive import complete
from pytest_failure_taxonomy.survive.complete import complete_run
from pytest_failure_taxonomy.survive.crash_output import show_dump
from pytest_failure_taxonomy.survive.facts import ProcessEnd
from pytest_failure_taxonomy.survive.mailbox import Mailbox
from pytest_failure_taxonomy.survive.report_without_plugin import (
    Absence,
    Command,
    OutputFile,
    explain_absence,
    is_pytest,
    is_pytest_itself,
    output_files,
    report_of_command,
    timestamp,
)
from pytest_failure_taxonomy.survive.supervisor import CommandEnd, Supervisor, end_like
from pytest_failure_taxonomy.system.interpreter import our_command
from pytest_failure_taxonomy.taxonomy.deaths import ENDED_AS_STALLED
from pytest_failure_taxonomy.taxonomy.evidence import Faces, ProcessExit, RunError
from pytest_failure_taxonomy.taxonomy.judgement import ChargedTo, Stage
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import counted, words_of_integrity

EXIT_LIMIT: Final = 124
"""The exit code of GNU `timeout`."""
EXIT_STALLED: Final = 1
"""As for a failed test."""
_STDERR: Final = 2
_MAX_STATUS: Final = 255
_MAX_DIGITS: Final = 3
EXIT_UNCERTIFIED: Final = 1
"""As for a failed test."""
EXIT_UNFINISHED: Final = 3
"""pytest returned 0 before its session had ended."""


def run(options: argparse.Namespace) -> int:
    """Run the command, complete or write its report, and return or die as it did."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise SettingsError(
            "run: no command; give one after --, as in: run -- pytest -x"
        )
    statuses = _read_statuses(options.exit_code)
    retry = _make_retries(options, command)
    folder = Path.cwd()
    path = folder / (options.report or DEFAULT_REPORT)
    refuse_special_file(path, "run --report: ")
    stage = Stage(options.stage or Stage.FINAL_TEST)
    log = for_agents.log_of(options.reader, command, path)
    started_at = datetime.now(UTC)
    outputs = output_files() if log is None else (OutputFile(log.descriptor),)
    given = Command(
        words=command,
        stage=stage,
        folder=folder,
        started_at=started_at,
        outputs=outputs,
        is_certified=options.certify,
    )
    until = None if options.timeout is None else time.monotonic() + options.timeout
    named = path if options.report else None
    try:
        end, mailbox = _supervise(command, options, named, log)
    except FailureTaxonomyError:
        earlier = complete.read_report(path)
        if earlier is not None and earlier.completeness != "running":
            remove_report(path)  # nobody must take it for this run's
        raise
    except Exception as error:
        raise SettingsError(f"run: the command can't be watched: {error}") from error
    if end.fault is not None:
        tell(f"run: the command was ended, because its supervisor failed: {end.fault}")
    report: FailureReport | None = None
    try:
        path = Path(mailbox.report or path)
        report, problem = _report_end(given, end, mailbox, path, options)
        if retry is not None and report.verdict is not None:
            again = partial(_run_again, command, options, log)
            save = partial(_save_whole, path, mailbox.faces)
            end, report = retry(until, again, save).run(end, report)
        if log is not None:
            log.answer(report)
        else:
            shown = for_agents.path_from(folder, path)
            _complete_answer(report, shown, mailbox, problem)
    except Exception as error:  # noqa: BLE001 - the command's status stands
        tell(f"{path}: the report can't be made: {type(error).__name__}: {error}")
    return _status(end, report, mailbox, options.certify, statuses)


def _report_end(
    command: Command,
    end: CommandEnd,
    mailbox: Mailbox,
    path: Path,
    options: argparse.Namespace,
) -> tuple[FailureReport, str | None]:
    """Return the report of a command, and what became of it if it can't be written."""
    seen = _process_end(end, options.timeout)
    is_named = bool(options.report)
    report = _report_of_plugin(
        path, mailbox, seen, command.started_at, is_named=is_named
    )
    if report is not None:
        return report, None
    absence = explain_absence(command.words) if mailbox.run_id is None else None
    if absence is not None:
        tell(absence.words)
    refusal = partial(_refusal, command, seen, absence)
    lost_run_id = mailbox.run_id if mailbox.is_of_child else None
    report = report_of_command(command, end, seen, lost_run_id, absence, refusal)
    return report, _publish(path, report, command.words)


def _make_retries(options: argparse.Namespace, command: Sequence[str]) -> Any:
    """Return what retries a command, apart from when and how; `None` if nobody asks.

    Raises:
        SettingsError: if what is asked is no retry.
    """
    if options.retry is None:
        return None
    from pytest_failure_taxonomy.cli.retries import WAIT_SECONDS, Retries, read_retries

    wait = WAIT_SECONDS if options.retry_wait is None else options.retry_wait
    return partial(Retries, read_retries(options.retry), wait, is_pytest(command))


def _run_again(
    command: list[str],
    options: argparse.Namespace,
    log: for_agents.OutputLog | None,
    nodeids: Path,
    seconds_left: float | None,
) -> tuple[CommandEnd, FailureReport | None]:
    """Run some tests again; return how that ended, and its report."""
    path = nodeids.with_name(DEFAULT_REPORT)
    started_at = datetime.now(UTC)
    # What coverage has measured is the first run's.
    variables = {"COVERAGE_FILE": str(nodeids.with_name(".coverage"))}
    options = argparse.Namespace(**{**vars(options), "timeout": seconds_left})
    end, mailbox = _supervise(command, options, path, log, nodeids, variables)
    seen = _process_end(end, seconds_left)
    report = _report_of_plugin(path, mailbox, seen, started_at, is_named=True)
    return end, report


def _save_whole(path: Path, faces: Faces, report: FailureReport) -> None:
    """Write the report of a run with its retries in the place of that of the run."""
    from pytest_failure_taxonomy.faces import show_faces

    write_report(path, report)
    # What annotates a job and sets outputs of its step is there already.
    faces = replace(faces, github=False, output=None, teamcity=False)
    for fault in show_faces(report, faces):
        tell(fault)


def _process_end(end: CommandEnd, limit: float | None) -> ProcessEnd:
    """Return how the process of a command ended, as its supervisor has seen it."""
    seen = complete.end_of_process(end.returncode, "supervisor", end.ended_ns)
    limit = limit if end.limit_reached else None
    ended = replace(seen.exit, sender=end.sender, enforced_limit_seconds=limit)
    return replace(seen, exit=ended)


def _status(
    end: CommandEnd,
    report: FailureReport | None,
    mailbox: Mailbox,
    certifies: bool,  # noqa: FBT001 - of five
    statuses: Mapping[str, int],
) -> int:
    """Return the exit status, or die as the command did."""
    own = 0
    if report is not None and report.verdict is not None:
        own = statuses.get(report.verdict.charge_to or "", 0)
    if own and end.returncode:
        let_go_of_streams()
        return own
    status = _exit_code(end, report)
    if status == 0:  # no failure that was accepted turns red
        return _certificate(report, mailbox) if certifies else 0
    return own or status


def _read_statuses(text: str | None) -> dict[str, int]:
    """Return the exit statuses that are asked for, by whom a failure is charged to.

    Raises:
        SettingsError: if the text is none of that.
    """
    statuses: dict[str, int] = {}
    for part in text.split(",") if text else ():
        owner, _, status = part.strip().partition("=")
        is_number = status.isdecimal() and len(status) <= _MAX_DIGITS
        is_status = is_number and 1 <= int(status) <= _MAX_STATUS
        if owner in statuses:
            raise SettingsError(
                f"run --exit-code: {owner!r} is given twice; give one status for it"
            )
        if owner not in get_args(ChargedTo) or not is_status:
            right = "give OWNER=N with N from 1 to 255, such as environment=75"
            owners = ", ".join(get_args(ChargedTo))
            wrong = (
                f"{part!r} is wrong"
                if part.strip()
                else f"{text!r} has a comma too many"
            )
            raise SettingsError(f"run --exit-code: {wrong}; {right}; owners: {owners}")
        statuses[owner] = int(status)
    return statuses


def _complete_answer(
    report: FailureReport, path: Path, mailbox: Mailbox, problem: str | None
) -> None:
    """Print the verdict if pytest has not, or if its process ended in another way later."""
    ended_later = report.exit.source == "supervisor" and report.exit.code != 0
    ended_later = ended_later or report.merged is not None
    if report.completeness != "full" or ended_later:
        is_of_pytest = mailbox.run_id is not None and mailbox.is_of_child
        print_verdict(report, path, problem=problem, is_of_pytest=is_of_pytest)


def _certificate(report: FailureReport | None, mailbox: Mailbox) -> int:
    """Return 0 if the tests alone made a green result; else say what else did."""
    if report is None or mailbox.run_id is None:
        tell("run --certify: no pytest was recorded, so there is nothing to certify")
        return EXIT_UNCERTIFIED
    for found in report.integrity:
        tell(f"run --certify: {words_of_integrity(found)}")
    return EXIT_UNCERTIFIED if report.integrity else 0


def _refusal(
    command: Command,
    seen: ProcessEnd,
    absence: Absence | None,
    shown: Sequence[RunError],
) -> RunError | None:
    """Return the error that a pytest ended with before it loaded this plugin, if it is seen."""
    from pytest_failure_taxonomy.cli.early_refusals import early_refusal

    place = command.words, os.environ, command.folder
    lacks_us = absence is not None and absence.lacks_us
    return early_refusal(*place, seen.exit.code, lacks_us=lacks_us, shown=shown)


def _supervise(
    command: list[str],
    options: argparse.Namespace,
    report: Path | None,
    log: for_agents.OutputLog | None,
    nodeids: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[CommandEnd, Mailbox]:
    """Run the command; return how it ended, and what its pytest has answered.

    Args:
        command: its words.
        options: of `run`.
        report: where its report goes; `None` for where pytest would put it.
        log: what takes its output.
        nodeids: the file with the tests to run again; `None` for a first run.
        variables: more of its environment.
    """
    mailbox = Mailbox(
        stage=options.stage,
        report=None if report is None else str(report),
        certifies=options.certify,
        stderr=_STDERR if log is None else log.descriptor,
        retried=nodeids,
    )
    try:
        progress = partial(for_agents.tell_progress, mailbox.path, time.monotonic())
        supervisor = Supervisor(
            command,
            options.timeout,
            keeps_output=log is None and not is_pytest_itself(command),
            output=None if log is None else log.descriptor,
            tell=None if log is None else progress,
        )
        end = supervisor.run({**os.environ, **mailbox.environment, **(variables or {})})
        mailbox.collect()
        if mailbox.left.dump:
            show_dump(mailbox.left.dump, log.descriptor if log else _STDERR)
        return end, mailbox
    finally:
        mailbox.close()


def _tell_of_others(mailbox: Mailbox, report: FailureReport, seen: ProcessEnd) -> None:
    """Say which of several pytests of a command the report belongs to, and what it can't say."""
    if mailbox.replaced:
        passed = counted(mailbox.replaced, "pytest")
        tell(f"run: {passed} of the command passed before the reported one")
    if mailbox.later:
        later = counted(mailbox.later, "more pytest")
        tell(f"run: {later} of the command ran beside or after the reported one")
    if report.verdict is not None and seen.exit.code == 0:
        tell("run: the command ended with status 0, although its pytest did not pass")


def _report_from_within(
    path: Path, seen: ProcessEnd, started_at: datetime
) -> FailureReport | None:
    """Return the report of a pytest that the command has run, which may be a shell.

    If the time limit has ended that pytest, complete its report.
    """
    complete.wait_for_watcher(path)
    report = complete.read_report(path)
    if report is None or report.run.started_at < timestamp(started_at):
        return None
    is_running = report.completeness == "running"
    has_failed = report.verdict is not None
    limit = seen.exit.enforced_limit_seconds
    if is_running or (has_failed and limit is not None):
        # Nobody has seen a pytest die that the command ran; one that has finished went on as a
        # part of the command until the limit.
        if is_running:
            end = ProcessExit(
                code=None, source="supervisor", enforced_limit_seconds=limit
            )
            seen = replace(seen, exit=end)
        with suppress(ReportError, OSError):
            if not (is_running and complete.is_still_running(path, report)):
                run_id = report.run.id
                return complete_run(path, run_id, seen, annotate=annotate) or report
    if report.verdict is None and report.exit.code != seen.exit.code:
        return None  # that pytest passed, and something else in the command failed
    complete.annotate_late(report, annotate)
    return report


def _report_of_plugin(
    path: Path,
    mailbox: Mailbox,
    seen: ProcessEnd,
    started_at: datetime,
    *,
    is_named: bool,
) -> FailureReport | None:
    """Return the plugin's report, completed; `None` if there is none or nothing is left of it."""
    if mailbox.run_id is None and is_named:
        return None
    if mailbox.run_id is None or not mailbox.is_of_child:
        report = _report_from_within(path, seen, started_at)
        if report is not None and mailbox.run_id is not None:
            _tell_of_others(mailbox, report, seen)
        return report
    seen = replace(seen, left=mailbox.left, contents=mailbox.record)
    try:
        return complete_run(path, mailbox.run_id, seen, warn=tell, annotate=annotate)
    except complete.UnwrittenReportError as error:
        tell(
            f"{path}: the report can't be written: {error.strerror}; make room "
            f"and complete it by: {our_command('finalize', str(path))}"
        )
        return error.report
    except (ReportError, OSError) as error:
        tell(f"{path}: the run's own record is lost: {error}")
        return None


def _publish(path: Path, report: FailureReport, command: Sequence[str]) -> str | None:
    """Write the report of a command that no plugin has recorded, and tell GitHub if it failed.

    Returns:
        What became of the report if it can't be written.
    """
    problem = None
    try:
        write_report(path, report)
    except OSError as error:
        why, right = error.strerror, "give --report a path that can be"
        tell(f"{path}: the report can't be written: {why}; {right}")
        problem = "could not be written"
    if report.verdict is not None and "--failure-taxonomy-github=off" not in command:
        from pytest_failure_taxonomy.faces import faces_of_step, show_faces

        for fault in show_faces(report, faces_of_step(), annotate):
            tell(fault)
    return problem


def _exit_code(end: CommandEnd, report: FailureReport | None) -> int:
    if end.limit_reached:
        return EXIT_LIMIT
    if report is not None:
        status = _status_behind(report) if end.returncode == 0 else 0
        if status:
            return status
        evidence = report.verdict.evidence if report.verdict else ()
        is_stall = any(quoted.source == ENDED_AS_STALLED for quoted in evidence)
        if is_stall and report.exit.signal is not None:
            return EXIT_STALLED  # killed because of --failure-taxonomy-end-stalled
    let_go_of_streams()  # a signal would leave no time for that
    return end_like(end.returncode)


def _status_behind(report: FailureReport) -> int:
    """Return the status that a pytest should have ended with instead of 0; 0 if none."""
    run = report.run
    if report.exit.code != 0 or run.stage is Stage.BASELINE_RUN:
        return 0
    status = report.session_exit_code
    if status:
        tell(
            f"run: pytest's session ended with status {status}, although its process ended with 0"
        )
        return status
    # A `sys.exit(0)` outside of the session; where tests were only listed, none has failed.
    lists = {"--co", "--collect-only"}.intersection(run.invocation.args)
    was_left = report.exit.source == "exception" and not lists
    kinds = {held.kind for held in report.reasons}
    if was_left or "process.exited" in kinds:
        tell("run: pytest ended with status 0, but never finished its session")
        return EXIT_UNFINISHED
    return 0
