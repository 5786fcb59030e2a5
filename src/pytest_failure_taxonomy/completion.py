"""Complete the report of a run whose process has ended, from what the run left behind.

Used by the watcher, by the supervisor and by `failure-taxonomy finalize`. It imports no pytest.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.recorder.lock import lock_path
from pytest_failure_taxonomy.recorder.process import is_alive, read_oom_count
from pytest_failure_taxonomy.recorder.record.evidence import context_of, evidence_of, rules_of
from pytest_failure_taxonomy.recorder.record.layout import RESERVE, STACKS, record_folder
from pytest_failure_taxonomy.recorder.record.reader import (
    RecordedRun,
    parse_record,
    read_record,
    read_worker,
)
from pytest_failure_taxonomy.recorder.record.writer import remove_folder
from pytest_failure_taxonomy.recorder.secrets import Secrets
from pytest_failure_taxonomy.report.amend import amend_report
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.rules.attribute import attribute
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.reasons import exit_code_from_returncode
from pytest_failure_taxonomy.taxonomy.signals import signal_name
from pytest_failure_taxonomy.taxonomy.values import replace, value


class UnwrittenReportError(OSError):
    """A report is complete, but there is no place for it."""

    def __init__(self, error: OSError, report: dict[str, Any]) -> None:
        super().__init__(error.errno, error.strerror)
        self.report = report


@value
class ProcessEnd:
    """How and when a process ended, as a second process saw it."""

    exit: ProcessExit
    ended_ns: int | None = None
    """On the monotonic clock of this boot."""


def end_from_status(status: int | None, source: str, ended_ns: int | None) -> ProcessEnd:
    """Return the end of a process from the status that `waitpid` gives, `None` if there is none."""
    if status is None:
        return ProcessEnd(exit=ProcessExit(code=None, source=source), ended_ns=ended_ns)
    returncode = os.waitstatus_to_exitcode(status)
    return ProcessEnd(
        exit=ProcessExit(
            code=exit_code_from_returncode(returncode),
            signal=signal_name(-returncode) if returncode < 0 else None,
            observed=True,
            source=source,
        ),
        ended_ns=ended_ns,
    )


def complete_watched(
    report: str, run_id: str, status: int | None, ended_ns: int, contents: list[bytes]
) -> None:
    """Complete a report for the watcher, from the record's files that it has held open."""
    end = end_from_status(status, "watcher", ended_ns)
    complete_run(Path(report), run_id, end, contents=contents)


def complete_run(
    path: Path, run_id: str, end: ProcessEnd, *, contents: list[bytes] | None = None
) -> dict[str, Any] | None:
    """Complete the report of one run, and return it.

    Args:
        path: where the report is, or should be: a test may have removed it.
        run_id: the run. A report of a later one is left alone, and nothing returned.
        end: how its process ended.
        contents: the record's two files, where they have been held open.

    Raises:
        ReportError: the run's record is not there, or not to be understood.
        UnwrittenReportError: the report can't be written; the record is kept.
    """
    current = read_report(path)
    folder = record_folder(path, run_id)
    if current is not None and current["run"]["id"] != run_id:
        remove_folder(folder)
        return None
    if current is not None and current["completeness"] != "running":
        completed = amend_report(current, end.exit)
    else:
        if contents is None:
            run = read_record(folder, run_id)
        else:
            state, events = contents
            run = parse_record(state, events, run_id, str(folder))
        completed = reconstruct(run, folder, end)
    if completed != current:
        try:
            write_report(path, completed, folder / RESERVE)
        except OSError as error:
            raise UnwrittenReportError(error, completed) from error
    remove_folder(folder)
    with suppress(OSError):
        lock_path(path).unlink()
    return completed


def reconstruct(run: RecordedRun, folder: Path, end: ProcessEnd) -> dict[str, Any]:
    """Return the report of a run that did not live to write it.

    Raises:
        ReportError: the record holds what this version does not know.
    """
    workers = {}
    with suppress(OSError):
        workers = {
            entry.name: read_worker(Path(entry.path))
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
            if entry.is_dir(follow_symlinks=False)
        }
    try:
        exit_seen = replace(_with_memory(run, end.exit), stacks=_read_stacks(folder / STACKS))
        evidence = evidence_of(run, exit_seen, ended_ns=end.ended_ns, workers=workers)
        context = context_of(run, ended_ns=end.ended_ns)
        evidence, problems = attribute(evidence, rules_of(run))
        secrets = Secrets(run.header["redact"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # of another version, say
        raise ReportError(
            f"{folder}: the record can't be understood ({type(error).__name__}: {error}); "
            "use the version of pytest-failure-taxonomy that wrote it"
        ) from error
    return build_report(
        evidence,
        judge(evidence),
        context,
        completeness="reconstructed",
        faults=(*run.notes, *problems),
        redaction=secrets,
    )


def is_still_running(path: Path, report: dict[str, Any]) -> bool:
    """Tell whether the process that a `running` report is of still runs.

    Raises:
        ReportError: the run's record is not there, or not to be understood.
    """
    run_id = report["run"]["id"]
    return is_alive(read_record(record_folder(path, run_id), run_id).header["process"])


def _with_memory(run: RecordedRun, end: ProcessExit) -> ProcessExit:
    """Add whether the OOM killer was at work in the run's cgroup while the run lasted."""
    memory = run.header["memory"]
    before, after = memory["oom_kills"], read_oom_count(memory["events_file"])
    return replace(end, out_of_memory=before is not None and after is not None and after > before)


def _read_stacks(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace") or None
    except OSError:
        return None


def read_report(path: Path) -> dict[str, Any] | None:
    """Return a report of ours as it is on disk, unchecked; `None` where none can be read."""
    try:
        report: dict[str, Any] = json.loads(path.read_bytes())
        return report if {"run", "completeness"} <= report.keys() else None
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
