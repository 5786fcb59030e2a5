"""Complete the report of a run whose process has ended, from its record.

Watcher, supervisor and `failure-taxonomy finalize` use it. It imports no pytest.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypedDict

from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.options import NEIGHBOURS
from pytest_failure_taxonomy.redaction.secrets import Secrets, search_again
from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.report.amend import add_late_end, amend
from pytest_failure_taxonomy.report.build import build_report
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.model import FailureReport, Limits
from pytest_failure_taxonomy.report.trim import is_cut
from pytest_failure_taxonomy.report.write import write_report, write_what_fits
from pytest_failure_taxonomy.rules.matching import apply_rules
from pytest_failure_taxonomy.survive import crash_output, layout, observed, reader
from pytest_failure_taxonomy.survive.facts import (
    Observed,
    ProcessEnd,
    facts_of,
    limits_around,
    stalled_activities,
)
from pytest_failure_taxonomy.survive.folder import (
    RUN_ID,
    explain_remains,
    record_folder,
    remove_record,
    worker_of,
)
from pytest_failure_taxonomy.survive.lock import ReportLock, hold_record
from pytest_failure_taxonomy.survive.machine import look_closer
from pytest_failure_taxonomy.system import import_named
from pytest_failure_taxonomy.system.files import (
    Folder,
    closing_descriptor,
    open_folder,
    read_file,
)
from pytest_failure_taxonomy.system.process import (
    command_of,
    has_process,
    is_alive,
    read_oom_count,
)
from pytest_failure_taxonomy.taxonomy.amendments import Amendment, SectionPlace
from pytest_failure_taxonomy.taxonomy.classification import name_libraries
from pytest_failure_taxonomy.taxonomy.evidence import Completeness, Faces, ProcessExit
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    TIME_LIMIT_EXIT_CODES,
    Evidence,
    exit_code_from_returncode,
    signal_name,
)
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict
from pytest_failure_taxonomy.text import safe_text

WATCHER_SECONDS: Final = 3.0
"""How long a watcher may take with a report.

It takes 30 ms on an idle machine, a second on a busy one.
"""
_WATCHER: Final = "watcher.py"
"""The script that it runs."""
LOCK_SECONDS: Final = 1.0
"""How long to wait for a process that is rewriting the report of a stalled run."""

MAX_SECTION_SECONDS: Final = 60.0
"""How long reading a neighbour's section may take.

Ten thousand cases of a bench take about two seconds.
"""
_OF_RECORD: Final = (
    *("failures", "groups", "causes", "collection_errors", "internal_errors"),
    *("not_run", "order", "changes", "limits", "notes", "faults", "attributions"),
    *("session_exit_code", "redacted", "extensions"),
)
"""The fields that a report gets from the record, where it was cut."""
_PROGRAM: Final = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from pytest_failure_taxonomy.system import import_named
json.dump(import_named(sys.argv[2])(*sys.argv[3:]), sys.stdout)
"""


class UnwrittenReportError(OSError):
    """A complete report could not be written."""

    def __init__(self, error: OSError, report: FailureReport) -> None:
        super().__init__(error.errno, error.strerror)
        self.report = report


def end_of_process(
    returncode: int | None, source: str, ended_ns: int | None
) -> ProcessEnd:
    """Return the end of a process, whose return code may be unknown.

    Args:
        returncode: in the sense of `subprocess`: negative for a death by signal.
        source: who has seen it.
        ended_ns: when, on the monotonic clock.
    """
    ended = ProcessExit(
        code=None if returncode is None else exit_code_from_returncode(returncode),
        signal=signal_name(-returncode)
        if returncode is not None and returncode < 0
        else None,
        observed=returncode is not None,
        source=source,
    )
    return ProcessEnd(exit=ended, ended_ns=ended_ns)


def complete_run(
    path: Path,
    run_id: str,
    end: ProcessEnd,
    *,
    warn: Callable[[str], None] | None = None,
    annotate: Callable[[str], None] | None = None,
) -> FailureReport | None:
    """Complete the report of one run, and return it.

    The record of the run is removed once a complete report is on disk.

    Args:
        path: of the report; a test may have removed or replaced it.
        run_id: the run. The report of a later run is left alone (returns `None`).
        end: how its process ended.
        warn: called with a line about what could not be removed of the record.
        annotate: called with each line that annotates the run for a CI system.

    Raises:
        ReportError: if the record is missing or can't be parsed.
        UnwrittenReportError: if the report can't be written; the record is kept.
    """
    with _open_record(record_folder(path, run_id), end) as (folder, remains, end):
        current = read_report(path)
        writer_id = _run_id_in(path) if current is None else current.run.id
        if writer_id not in (None, run_id):
            # A later run writes its report after this run's process has ended, or its
            # session, in the same process. Before that, a test has forged one.
            has_finished = end.contents is not None and layout.has_ended(
                end.contents[0]
            )
            if has_finished or _is_written_after(path, end) is not False:
                return None
            current = None
        completed, is_whole = _complete_report(
            current, path, run_id, end, folder, remains, annotate
        )
        if completed.exit.code == 0 and completed.verdict is not None:
            from pytest_failure_taxonomy.survive.early_exits import add_early_exit

            completed = add_early_exit(completed)
        if completed != current:
            written = _write(path, completed, folder)
            is_whole = is_whole and written is completed
            completed = written
        if current is not None and annotate is not None:
            annotate_late(current, annotate)
        stays = remains
        if folder is not None:
            # The record is kept if it has more than the report.
            stays = remove_record(folder) if is_whole else None
    if stays is not None and warn is not None:
        warn(stays)
    lock = ReportLock(path)  # its file may be one that the dead process has left
    with suppress(OSError):
        if lock.acquire(make=False):
            lock.release()
    return completed


def _complete_report(
    current: FailureReport | None,
    path: Path,
    run_id: str,
    end: ProcessEnd,
    folder: Folder | None,
    remains: str | None,
    annotate: Callable[[str], None] | None,
) -> tuple[FailureReport, bool]:
    """Return a run's complete report, and whether it has all of the record."""
    if current is not None and _is_trusted(current, path, end):
        stalls = stalled_activities(end.observed, end.ended_ns, is_over=True)
        with suppress(ValueError):  # it is none of ours
            late = _late_exit(current, run_id, end)
            amended = add_late_end(current, late, stalls)
            return _fill_report(amended, is_cut(current), run_id, end, folder)
    if end.contents is None and remains is not None:
        raise ReportError(f"the record can't be read: {remains}")
    state, events = end.contents or (b"", b"")
    run = reader.parse_record(state, events, run_id, str(record_folder(path, run_id)))
    made = reconstruct(run, folder, end, faults=[remains] if remains else [])
    # What its pytest was asked for besides the report.
    context = run.header.context
    if context.history is not None:
        ask_history = import_named(NEIGHBOURS["history"]["amends"])
        amendment: Amendment = ask_history(made, context.history)
        made = amend(made, amendment)
        if amendment.problem:
            made = _add_faults(made, [amendment.problem])
    if context.faces != Faces():
        from pytest_failure_taxonomy.faces import show_faces

        faults = show_faces(made, context.faces, annotate)
        if annotate is None and context.faces.printed:
            # The watcher has nowhere to print them: what it held open is closed.
            made = replace(made, is_unannotated=True)
        made = _add_faults(made, faults)
    return made, not run.is_lost


def _late_exit(report: FailureReport, run_id: str, end: ProcessEnd) -> ProcessExit:
    """Return a late end with what pytest's own report can't have of it.

    That is the limits around the process, the seconds since the session, and the thread
    that the interpreter waited for. They are read from the record if it is still there.
    """
    # A process that left by itself needs none, and a large record takes long to read.
    is_ended = (
        end.exit.signal is not None
        or end.exit.enforced_limit_seconds is not None
        or end.exit.code in TIME_LIMIT_EXIT_CODES  # of GNU `timeout`, its parent
        or end.exit.code != report.exit.code  # a thread may have ended it
    )
    if not is_ended or end.contents is None or end.ended_ns is None:
        return end.exit
    try:
        state, events = end.contents
        run = reader.parse_record(state, events, run_id, "the record")
    except ReportError:
        return end.exit
    seconds = (end.ended_ns - run.header.started_ns) / 1e9
    threads = [thread.words for thread in run.list_facts("thread")]
    return replace(
        end.exit,
        limits=tuple(limits_around(run.header.enclosing_limits, end.ended_ns)),
        late_seconds=seconds - (report.run.duration_seconds or seconds),
        waited_for=next(iter(threads), None),
    )


def _fill_report(
    report: FailureReport,
    is_cut: bool,  # noqa: FBT001 - of six
    run_id: str,
    end: ProcessEnd,
    folder: Folder | None,
) -> tuple[FailureReport, bool]:
    """Complete a cut report from its record; return whether it has all of it."""
    if end.contents is None or (report.completeness == "full" and not is_cut):
        return report, True
    try:
        run = reader.parse_record(
            end.contents[0], end.contents[1], run_id, "the record"
        )
        if not is_cut:
            return report, not run.is_lost
        made = reconstruct(run, folder, replace(end, observed=None))
    except ReportError:
        return report, not is_cut
    is_fuller = _count_omitted(made.limits) < _count_omitted(report.limits)
    if run.is_reported or not is_fuller:
        return report, run.is_reported
    fields = {name: getattr(made, name) for name in _OF_RECORD}
    return replace(report, **fields), not run.is_lost


def _count_omitted(limits: Limits) -> int:
    """Return how many failures, tracebacks and so on a report lacks."""
    counts = to_dict(limits)
    return sum(counts[name] for name in counts if name.endswith("_omitted"))


def _add_faults(report: FailureReport, faults: Sequence[str]) -> FailureReport:
    return replace(report, faults=(*report.faults, *faults))


def annotate_late(report: FailureReport, annotate: Callable[[str], None]) -> None:
    """Print annotations for a report that the watcher completed.

    Args:
        report: of a run that was a part of the CI job.
        annotate: called with each line.
    """
    if not report.is_unannotated:
        return
    from pytest_failure_taxonomy.faces import faces_of_step, show_faces

    faces = replace(faces_of_step(), summary=None, output=None)
    show_faces(report, faces, annotate)


def _write(
    path: Path, completed: FailureReport, folder: Folder | None
) -> FailureReport:
    """Write a report, or what there is room for; return what was written."""
    reserve = None if folder is None else folder.path / layout.RESERVE
    try:
        write_report(path, completed, reserve)
    except OSError as error:
        with suppress(OSError):
            if reserve is not None:
                return write_what_fits(path, completed, reserve)
        raise UnwrittenReportError(error, completed) from error
    return completed


@contextmanager
def _open_record(
    path: Path, end: ProcessEnd
) -> Iterator[tuple[Folder | None, str | None, ProcessEnd]]:
    """Yield a record's folder, what can't be removed of it in words, and the end.

    Where nothing else is known of that end, the record decides.
    """
    try:
        folder = open_folder(path)
    except FileNotFoundError:
        yield None, None, end
    except OSError as error:
        yield None, explain_remains(path, error), end
    else:
        with folder, hold_record(folder, LOCK_SECONDS):
            if end.contents is None:
                end = replace(end, contents=reader.read_contents(folder))
            if end.observed is None:
                end = replace(end, observed=observed.read_observed(folder))
            if end.exit.memory is None:
                exit_seen = replace(end.exit, memory=observed.read_memory(folder))
                end = replace(end, exit=exit_seen)
            yield folder, remove_record(folder, only_looks=True), end


def _is_trusted(report: FailureReport, path: Path, end: ProcessEnd) -> bool:
    """Tell whether a complete report was written by this plugin, rather than by a test.

    This plugin writes it after the end of the session, which the record has. Watcher
    and supervisor write it after the end of the process.
    """
    if report.completeness == "running":
        return False
    if end.contents is None or not end.contents[1] or layout.has_ended(end.contents[0]):
        return True
    if len(end.contents[0]) < layout.PAGE:  # a test has truncated or removed it
        return True
    return (
        report.completeness == "reconstructed"
        and _is_written_after(path, end) is not False
    )


def _is_written_after(path: Path, end: ProcessEnd) -> bool | None:
    """Tell whether a file was put in place after a process ended; `None` if unknown.

    The ctime is used, which programs can't set.
    """
    if end.ended_ns is None:
        return None
    ended_ns = time.time_ns() - (time.monotonic_ns() - end.ended_ns)
    try:
        return os.lstat(path).st_ctime_ns > ended_ns
    except OSError:
        return None


def reconstruct(
    run: reader.RecordedRun,
    folder: Folder | None,
    end: ProcessEnd,
    *,
    faults: list[str] | None = None,
    completeness: Completeness = "reconstructed",
) -> FailureReport:
    """Return the report of a run that could not write it, or has not done so yet.

    Args:
        run: its record.
        folder: of the record, if it still exists.
        end: how its process ended.
        faults: further problems with the record.
        completeness: `running` for a run that goes on.

    Raises:
        ReportError: if the record has contents that this version does not know.
    """
    workers = {}
    stacks = None
    if folder is not None:
        with suppress(OSError):
            ids = filter(None, map(worker_of, folder.names()))
            workers = {worker: reader.read_worker(folder, worker) for worker in ids}
        with suppress(OSError):
            written = folder.read(layout.STACKS, layout.MAX_DUMP_BYTES)
            stacks = written.decode("utf-8", "replace") or None
        if not end.left.dump:
            with suppress(OSError):
                dump = folder.read(layout.CRASH, layout.MAX_DUMP_BYTES)
                end = replace(end, left=replace(end.left, dump=dump.rstrip(b"\0")))
    end = replace(end, exit=replace(_add_oom_kills(run, end), stacks=stacks))
    try:
        secrets = Secrets(run.header.redact)
        rootdir = Path(run.header.context.rootdir)
        # Workers outlive their controller a while. Only a process that has seen the end
        # asks what their tests had written: later, others may have their numbers.
        saw_end = end.exit.source in ("watcher", "supervisor")
        outputs = {
            worker: crash_output.output_of_process(
                state.process_id, state.capture, secrets.redact
            )
            for worker, state in workers.items()
            if saw_end and state.test is not None
        }
        traces = crash_output.read_traces(end.left, end.exit, rootdir, secrets.redact)
        snapshot = run.snapshot()
        if completeness == "running":  # its list of tests would be old at once
            snapshot = replace(snapshot, endings=b"")
        evidence = facts_of(
            snapshot, end, workers=workers, traces=traces, outputs=outputs
        )
        evidence, problems = apply_rules(
            search_again(evidence, secrets), run.header.rules
        )
        evidence = name_libraries(evidence)
        context = observed.context_of(run, end)
        if saw_end:  # later, another commit may be checked out
            commit = context.environment.git, context.repository
            environment, (_, repository) = look_closer(
                context.environment, commit, rootdir, run.header.path
            )
            context = replace(context, environment=environment, repository=repository)
        has_stall = evidence.stalls or any(test.stall for test in evidence.in_flight)
        notes = end.observed.notes if end.observed is not None and has_stall else ()
        report = build_report(
            evidence,
            judge(evidence),
            context,
            completeness=completeness,
            faults=(*run.notes, *problems, *notes, *(faults or ())),
            redaction=secrets,
        )
        if completeness == "reconstructed":
            for place in run.list_facts("section")[-1:]:  # the last one counts
                report = _add_section(report, place, secrets.redact_json)
        return report
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:  # another version's
        raise ReportError(
            f"run {run.header.run_id}: the record can't be understood "
            f"({safe_text(f'{type(error).__name__}: {error}')}); "
            "use the version of pytest-failure-taxonomy that wrote it"
        ) from error


def _add_oom_kills(run: reader.RecordedRun, end: ProcessEnd) -> ProcessExit:
    """Add whether the OOM killer was active, and what it says of the process."""
    before, after = (
        run.header.memory.oom_kills,
        read_oom_count(run.header.memory.events_file),
    )
    exit_seen = replace(
        end.exit,
        out_of_memory=before is not None and after is not None and after > before,
    )
    if exit_seen.signal != "SIGKILL" or end.ended_ns is None:
        return exit_seen
    process_id, started_ns = run.header.process.pid, run.header.started_ns
    return replace(
        exit_seen, oom_kill=observed.oom_kill_of(process_id, started_ns, end.ended_ns)
    )


class _Section(TypedDict):
    """What the program of a neighbour answers."""

    rows: list[Mapping[str, object]]
    evidence: list[str]
    nodeid: str | None
    """Of the test that was running."""


def _add_section(
    report: FailureReport, place: SectionPlace, redact: Callable[[Any], Any]
) -> FailureReport:
    """Add what a neighbour has recorded of a run, and what that says of its end.

    Args:
        report: of the run.
        place: where that is kept.
        redact: removes secrets from a JSON value.
    """
    name = NEIGHBOURS.get(place.name, {}).get("program")
    if name is None:  # of another version
        return report
    package = Path(__file__).resolve().parents[2]
    arguments = str(package), name, place.folder, place.session
    section: _Section = {"rows": [], "evidence": [], "nodeid": None}
    problem = ""
    try:  # a program of its own may import pydantic
        done = subprocess.run(  # noqa: S603 - this Python, with a program of ours
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAX_SECTION_SECONDS,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode == 0:
            section = json.loads(done.stdout)
        else:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            problem = lines[-1] if lines else f"exit status {done.returncode}"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = f"{type(error).__name__}: {error}"
    rows = build.fit_benches(redact(section["rows"]))
    report = replace(report, **{place.name: rows})
    if problem:
        report = _add_faults(report, [f"the benches could not be read: {problem}"])
    quoted = [Evidence(source=place.name, detail=text) for text in section["evidence"]]
    return amend(report, Amendment(evidence=tuple(quoted), nodeid=section["nodeid"]))


def write_running(
    path: Path, run: reader.RecordedRun, folder: Folder, stalls: Observed
) -> None:
    """Write the report of a running run anew, with its stalls."""
    end = ProcessEnd(
        exit=ProcessExit(code=None, source="none"),
        ended_ns=time.monotonic_ns(),
        observed=stalls,
    )
    write_report(path, reconstruct(run, folder, end, completeness="running"))


def is_still_running(path: Path, report: FailureReport) -> bool:
    """Tell whether the process of a `running` report still runs.

    Raises:
        ReportError: if the record is missing or can't be parsed.
    """
    run_id = report.run.id
    folder = record_folder(path, run_id)
    return is_alive(to_dict(reader.read_record(folder, run_id).header.process))


def read_report(path: Path) -> FailureReport | None:
    """Return the report in a file; `None` if there is no report in it."""
    try:
        text = read_file(path, build.MAX_REPORT_BYTES + 1)
        content = json.loads(text) if len(text) <= build.MAX_REPORT_BYTES else None
        return decode_report(content) if isinstance(content, dict) else None
    except (OSError, ValueError, RecursionError):
        return None


def _run_id_in(path: Path) -> str | None:
    """Return the run that a file names which is no report that this version reads.

    A later version may have written it, in a later run.
    """
    with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        run_id = json.loads(read_file(path, build.MAX_REPORT_BYTES))["run"]["id"]
        if RUN_ID.fullmatch(run_id):
            return str(run_id)
    return None


def running_watchers() -> list[tuple[int, list[str]]]:
    """Return the processes that watch a pytest, and their command lines in words."""
    with suppress(OSError):
        ids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        commands = [(process_id, command_of(process_id)) for process_id in ids]
        return [
            (process_id, words)
            for process_id, words in commands
            if any(os.path.basename(word) == _WATCHER for word in words[:6])
        ]
    return []


def wait_for_watcher(
    report: Path,
    seconds: float = WATCHER_SECONDS,
    watchers: Sequence[tuple[int, list[str]]] | None = None,
) -> None:
    """Wait while a watcher completes a report whose pytest has ended.

    A report that is read earlier is not complete. Return at once if pytest still runs,
    or if there is no watcher.

    Args:
        report: the report's path.
        seconds: how long to wait at most.
        watchers: as `running_watchers` returns them; looked for by default.
    """
    deadline = time.monotonic() + seconds
    for process_id, words in running_watchers() if watchers is None else watchers:
        place = os.path.realpath(report)
        watched = [word for word in words if word.isdigit()]
        is_of_report = any(os.path.realpath(word) == place for word in words if word)
        if is_of_report and not any(
            has_process(int(watched_id)) for watched_id in watched
        ):
            with (
                suppress(OSError),  # it has ended; and it is no child
                closing_descriptor(os.pidfd_open(process_id)) as watcher,
            ):
                select.select([watcher], [], [], max(0.0, deadline - time.monotonic()))
