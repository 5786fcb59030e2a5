"""Complete the report of a run whose process has ended, from what the run left behind.

Used by the watcher, by the supervisor and by `failure-taxonomy finalize`. It imports no pytest.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import Any, Final

from pytest_failure_taxonomy.aftermath.lock import ReportLock
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.recorder.record.layout import (
    RESERVE,
    STACKS,
    record_folder,
    worker_of,
)
from pytest_failure_taxonomy.recorder.record.reader import (
    RecordedRun,
    has_ended,
    parse_record,
    read_contents,
    read_record,
    read_worker,
)
from pytest_failure_taxonomy.recorder.record.rebuild import context_of, evidence_of
from pytest_failure_taxonomy.recorder.record.removal import remove_record, what_stays, why_it_stays
from pytest_failure_taxonomy.recorder.secrets import Secrets, searched_again
from pytest_failure_taxonomy.report.build import amend_report, build_report
from pytest_failure_taxonomy.report.limits import MAX_REPORT_BYTES, is_cut
from pytest_failure_taxonomy.report.text import safe_text
from pytest_failure_taxonomy.report.write import write_report, write_what_fits
from pytest_failure_taxonomy.rules.attribute import attribute
from pytest_failure_taxonomy.system.own_files import Folder, open_folder, read_file
from pytest_failure_taxonomy.system.process import is_alive, read_oom_count
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.reasons import exit_code_from_returncode, signal_name
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

MAX_STACKS_BYTES: Final = 1024 * 1024
"""The stacks of some thousand threads; what is behind them is left out."""

_RUN_ID: Final = re.compile("[0-9a-f]{32}")
_COMPLETENESS: Final = frozenset({"full", "reconstructed", "running"})
_SHAPE: Final[dict[str, type | tuple[type, ...]]] = {
    "run": dict,
    "completeness": str,
    "exit": dict,
    "verdict": (dict, NoneType),
    "reasons": list,
    "summary": dict,
    "failures": list,
    "extensions": dict,
}
"""What tells a report from other JSON, which a test may have put in its place."""


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
    return end_from_returncode(os.waitstatus_to_exitcode(status), source, ended_ns)


def end_from_returncode(returncode: int, source: str, ended_ns: int | None) -> ProcessEnd:
    """Return the end of a process from the number that `subprocess` gives it."""
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
    path: Path,
    run_id: str,
    end: ProcessEnd,
    *,
    contents: list[bytes] | None = None,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Any] | None:
    """Complete the report of one run, and return it.

    The run's record is removed when a complete report that was made from it is on disk.

    Args:
        path: where the report is, or should be: a test may have removed or replaced it.
        run_id: the run. A report of a later one is left alone, and nothing returned.
        end: how its process ended.
        contents: the record's two files, where they have been held open.
        warn: told in one line what stays of the record although it was to be removed.

    Raises:
        ReportError: the run's record is not there, or not to be understood.
        UnwrittenReportError: the report can't be written; the record is kept.
    """
    with _opened_record(record_folder(path, run_id)) as (folder, kept):
        if contents is None and folder is not None:
            contents = list(read_contents(folder))
        current = read_report(path)
        if current is not None and current["run"]["id"] != run_id:
            if _is_of_later_run(path, end, contents):
                return None
            current = None
        completed, is_whole = _completed(current, path, run_id, end, contents, folder, kept)
        if completed != current:
            written = _write(path, completed, folder)
            is_whole = is_whole and written is completed
            completed = written
        stays = kept
        if folder is not None:
            # It stays where it holds more than the report, or the rest of what was lost.
            stays = remove_record(folder) if is_whole else None
    if stays is not None and warn is not None:
        warn(stays)
    _remove_lock(path)
    return completed


def _completed(
    current: dict[str, Any] | None,
    path: Path,
    run_id: str,
    end: ProcessEnd,
    contents: list[bytes] | None,
    folder: Folder | None,
    kept: str | None,
) -> tuple[dict[str, Any], bool]:
    """Return the report that a run comes to, and whether nothing of it is lost."""
    if current is not None and _is_trusted(current, path, end, contents):
        amended = _amended(current, end.exit)
        if amended is not None and contents is not None and is_cut(current):
            return _fill_up(amended, contents, run_id, folder, end)
        if amended is not None:
            return amended, amended["completeness"] == "full" or not _is_lacking(contents, run_id)
    if contents is None and kept is not None:
        raise ReportError(f"the record can't be read: {kept}")
    state, events = contents or (b"", b"")
    run = parse_record(state, events, run_id, str(record_folder(path, run_id)))
    made = reconstruct(run, folder, end, faults=[kept] if kept else [])
    return made, not run.missing


def _is_lacking(contents: list[bytes] | None, run_id: str) -> bool:
    """Tell whether a record has lost events, so that no report made from it is complete."""
    if contents is None:
        return False
    state, events = contents
    try:
        return bool(parse_record(state, events, run_id, "the record").missing)
    except ReportError:
        return False


def _write(path: Path, completed: dict[str, Any], folder: Folder | None) -> dict[str, Any]:
    """Write a report, or what there is room for of it; return what was written."""
    reserve = None if folder is None else folder.path / RESERVE
    try:
        write_report(path, completed, reserve)
    except OSError as error:
        with suppress(OSError):
            if reserve is not None:
                return write_what_fits(path, completed, reserve)
        raise UnwrittenReportError(error, completed) from error
    return completed


def _fill_up(
    report: dict[str, Any],
    contents: list[bytes],
    run_id: str,
    folder: Folder | None,
    end: ProcessEnd,
) -> tuple[dict[str, Any], bool]:
    """Put into a report that was cut to fit what its record holds; tell whether that is all."""
    state, events = contents
    try:
        run = parse_record(state, events, run_id, "the record")
        made = reconstruct(run, folder, end)
    except ReportError:
        return report, False
    if run.is_reported or _omitted(made) >= _omitted(report):
        return report, run.is_reported
    lists = ("failures", "groups", "collection_errors", "internal_errors", "not_run", "limits")
    filled = {**report, **{name: made[name] for name in lists}}
    return {**filled, "extensions": made["extensions"]}, not run.missing


def _omitted(report: dict[str, Any]) -> int:
    """Return how many failures, tracebacks and so on a report lacks."""
    return sum(count for name, count in report["limits"].items() if name.endswith("_omitted"))


@contextmanager
def _opened_record(path: Path) -> Iterator[tuple[Folder | None, str | None]]:
    """Yield a run's record, and what of it will stay in words; nothing where it is gone."""
    try:
        folder = open_folder(path)
    except FileNotFoundError:
        yield None, None
    except OSError as error:
        yield None, why_it_stays(path, error)
    else:
        with folder:
            yield folder, what_stays(folder)


def _is_of_later_run(path: Path, end: ProcessEnd, contents: list[bytes] | None) -> bool:
    """Tell whether a report of another run is a later one's, and not what a test has left.

    The lock keeps runs apart: another run's report comes there after the end of this one's process,
    or of its session where the process goes on to a second one.
    """
    has_finished = contents is not None and has_ended(contents[0])
    return has_finished or is_written_after(path, end) is not False


def _is_trusted(
    report: dict[str, Any], path: Path, end: ProcessEnd, contents: list[bytes] | None
) -> bool:
    """Tell whether a report that says it is complete was made by pytest or by one of us.

    A test can write one as well. But pytest writes none before its session has ended, which the
    record says, and the others none before its process has.
    """
    if report["completeness"] == "running":
        return False
    if contents is None or not contents[1] or has_ended(contents[0]):
        return True
    return report["completeness"] == "reconstructed" and is_written_after(path, end) is not False


def is_written_after(path: Path, end: ProcessEnd) -> bool | None:
    """Tell whether a file came to its place after a process ended; `None` if that is unknown.

    The time is one that no program can set.
    """
    if end.ended_ns is None:
        return None
    ended_ns = time.time_ns() - (time.monotonic_ns() - end.ended_ns)
    try:
        return os.lstat(path).st_ctime_ns > ended_ns
    except OSError:
        return None


def _amended(report: dict[str, Any], end: ProcessExit) -> dict[str, Any] | None:
    """Return a report with the end of its process in it; `None` where it is no report of ours."""
    try:
        return amend_report(report, end)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _remove_lock(path: Path) -> None:
    """Remove the file of a lock that its dead owner has left; another run may have it by now."""
    lock = ReportLock(path)
    with suppress(OSError):
        if lock.acquire(make=False):
            lock.release()


def reconstruct(
    run: RecordedRun, folder: Folder | None, end: ProcessEnd, *, faults: list[str] | None = None
) -> dict[str, Any]:
    """Return the report of a run that did not live to write it.

    Args:
        run: its record.
        folder: of the record, where that is still there.
        end: how its process ended.
        faults: what else there is to be said of the record.

    Raises:
        ReportError: the record holds what this version does not know.
    """
    workers = {}
    stacks = None
    if folder is not None:
        with suppress(OSError):
            ids = filter(None, map(worker_of, folder.names()))
            workers = {worker: read_worker(folder, worker) for worker in ids}
        with suppress(OSError):
            stacks = folder.read(STACKS, MAX_STACKS_BYTES).decode("utf-8", "replace") or None
    exit_seen = replace(_with_memory(run, end.exit), stacks=stacks)
    try:
        secrets = Secrets(run.header.redact)
        seen = evidence_of(run, exit_seen, ended_ns=end.ended_ns, workers=workers)
        evidence = searched_again(seen, secrets)
        context = context_of(run, ended_ns=end.ended_ns)
        evidence, problems = attribute(evidence, run.header.rules)
        return build_report(
            evidence,
            judge(evidence),
            context,
            completeness="reconstructed",
            faults=(*run.notes, *problems, *(faults or ())),
            redaction=secrets,
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # of another version, say
        raise ReportError(
            f"run {run.header.run_id}: the record can't be understood "
            f"({safe_text(f'{type(error).__name__}: {error}')}); "
            "use the version of pytest-failure-taxonomy that wrote it"
        ) from error


def is_still_running(path: Path, report: dict[str, Any]) -> bool:
    """Tell whether the process that a `running` report is of still runs.

    Raises:
        ReportError: the run's record is not there, or not to be understood.
    """
    run_id = report["run"]["id"]
    return is_alive(to_dict(read_record(record_folder(path, run_id), run_id).header.process))


def _with_memory(run: RecordedRun, end: ProcessExit) -> ProcessExit:
    """Add whether the OOM killer was at work in the run's cgroup while the run lasted."""
    before, after = run.header.memory.oom_kills, read_oom_count(run.header.memory.events_file)
    return replace(end, out_of_memory=before is not None and after is not None and after > before)


def read_report(path: Path) -> dict[str, Any] | None:
    """Return a report of ours as it is on disk; `None` where there is none, or something else.

    That it has a report's shape is all that is checked.
    """
    try:
        content = read_file(path, MAX_REPORT_BYTES + 1)
        report = json.loads(content) if len(content) <= MAX_REPORT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("completeness") not in _COMPLETENESS:
        return None
    if not all(isinstance(report.get(name), kind) for name, kind in _SHAPE.items()):
        return None
    run_id, started_at = (report["run"].get(name) for name in ("id", "started_at"))
    if not isinstance(run_id, str) or not isinstance(started_at, str):
        return None
    return report if _RUN_ID.fullmatch(run_id) else None
