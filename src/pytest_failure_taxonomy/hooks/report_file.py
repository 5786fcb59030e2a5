"""The report's file, and what completes it after a death: lock, record, watcher."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.report import write
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.lock import ReportLock, hold_record
from pytest_failure_taxonomy.survive.start_watcher import Watch, is_observable
from pytest_failure_taxonomy.survive.writer import DiskRecord, Record, StackDump
from pytest_failure_taxonomy.system import process
from pytest_failure_taxonomy.system.interpreter import our_command

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.model import FailureReport
    from pytest_failure_taxonomy.survive.facts import Observed

LOOK_SECONDS: Final = 1.0
"""How long pytest waits at its end for a watcher that rewrites the report."""


class ReportFile:
    """The file of one run's report, from the first report, `running`, to the last one.

    Beside it are the lock of its path, the run's record, the watcher, and the stacks.
    """

    def __init__(self, settings: Settings, run_id: str) -> None:
        """Check the path, and touch nothing.

        Raises:
            SettingsError: if there is something at the path that is not a regular file.
        """
        write.refuse_special_file(settings.report, f"{settings.report_by}: ")
        self.path = settings.report
        self.record: Record = Record()
        # When process 1 of a container ends, its watcher is ended, too.
        self.is_watched = settings.watcher and is_observable() and os.getpid() != 1
        """A process is to be started that completes the report if this one dies."""
        self.watcher_id: int | None = None
        """The process that looks at the run, if there is one."""
        self.remains: str | None = None
        """A sentence about what could not be removed of the record, set by `close`."""
        self._settings = settings
        self._run_id = run_id
        self.moved = ""
        """Why the path is not the one that was asked for, where it isn't."""
        self._lock = ReportLock(self.path)
        self._watch = Watch()
        self._at_sigterm = StackDump()
        self._asked = StackDump()

    def open(self, report: FailureReport, header: dict[str, object]) -> None:
        """Write the first report, in the temporary folder if need be.

        The record begins before: a report that says `running` can be completed from
        then on.

        Args:
            report: the first one.
            header: the first event of the record.

        Raises:
            SettingsError: if the path that the user gave can't be written.
        """
        try:
            write.make_folder(self.path.parent)
            # If another run or user has locked the path, one beside it is taken.
            try:
                is_free = self._lock.acquire()
                why = None
                if not is_free:
                    why = f"another run writes to {self.path.name}"
                elif self.path == self._settings.report_before:
                    name = self.path.name
                    why = f"{name} belongs to an earlier pytest of the same command"
            except PermissionError:
                if not os.path.lexists(self._lock.path):
                    raise
                why = f"{self._lock.path.name} belongs to another user"
            if why is not None:
                self._move(write.path_of_run(self.path, self._run_id), why)
            self._begin_record(header)
            write.write_report(self.path, report)
        except OSError as error:
            write.remove_report(self.path)
            if self._settings.report_was_named:
                self._let_go(keep_record=False)
                raise SettingsError(
                    f"{self._settings.report_by}: {self.path} can't be written: "
                    f"{error.strerror}; "
                    "give a path in a folder that can be"
                ) from error
            with suppress(OSError):  # the last line of the run says so, then
                why = f"{self.path.parent} can't be written"
                self._move(write.fallback_path(self.path, self._run_id), why)
                self._begin_record(header)
                write.write_report(self.path, report)

    def _begin_record(self, header: dict[str, object]) -> None:
        """Begin the record on disk, or in memory if that is not possible."""
        try:
            record = DiskRecord(record_folder(self.path, self._run_id))
        except OSError as error:
            self.record = Record(f"no record could be kept: {error.strerror or error}")
            return
        memory_events = process.oom_events_file()
        record.write(
            "run",
            **header,
            run_id=self._run_id,
            process=process.read_identity(os.getpid()),
            enclosing_limits=process.enclosing_limits(os.getpid()),
            memory={
                "events_file": memory_events,
                "oom_kills": process.read_oom_count(memory_events),
            },
        )
        if record.lost is not None:  # a record without its first event can't be read
            record.remove()
            self.record = Record(
                f"no record could be kept: {record.lost.rpartition(': ')[2]}"
            )
            return
        self.record = record

    def _move(self, path: Path, why: str) -> None:
        self._let_go(keep_record=False)
        self.path = path
        self.record = Record()
        self._lock = ReportLock(path)
        self.moved = why

    def watch(self) -> str | None:
        """Start the watcher; return why there is none, if one was wanted."""
        settings = self._settings
        record = self.record
        with suppress(OSError):  # the disk is nearly full, and the record matters more
            os.close(
                record.open_file(layout.RESERVE, os.O_WRONLY, layout.RESERVE_BYTES)
            )
        self._at_sigterm.begin_at_sigterm(record)
        stall_seconds = 0.0
        if settings.observer and is_observable():
            stall_seconds = settings.stall_seconds
        if not self.is_watched and not stall_seconds:
            return None
        why = record.lost
        if why is None:
            with suppress(OSError):
                os.close(record.open_file(layout.MEMORY, os.O_WRONLY))
            libraries: Sequence[str] = ()
            if settings.faces.html is not None:
                from pytest_failure_taxonomy.faces import LIBRARIES

                libraries = LIBRARIES["html"]
            why = self._watch.start(
                self.path,
                self._run_id,
                self.record_files,
                libraries,
                stall_seconds=stall_seconds,
                ends_stalled=settings.ends_stalled,
                completes=self.is_watched,
            )
            self.watcher_id = self._watch.watcher_id
        if why is None and stall_seconds:
            self._asked.begin_when_asked(record, self.watcher_id)
        return why if self.is_watched else None

    @property
    def record_files(self) -> list[Path]:
        """The files of the record; none if the record is in memory."""
        folder = self.record.folder
        if folder is None:
            return []
        return [folder / layout.STATE, folder / layout.EVENTS]

    def hand_over(self, descriptors: Mapping[str, int]) -> bool:
        """Give descriptors of what this process leaves to the one that sees its end.

        Returns:
            Whether that reads the stacks of a crash and shows them on stderr.
        """
        if self._settings.mailbox is not None and self._settings.is_child:
            from pytest_failure_taxonomy.survive.mailbox import send_to_supervisor

            return send_to_supervisor(self._settings.mailbox, self._run_id, descriptors)
        terminal = descriptors.get(layout.TERMINAL)
        if terminal is not None and not process.outlives_this_process(terminal):
            of_crash = (layout.CRASH_FILE, layout.TERMINAL)
            descriptors = {
                name: descriptor
                for name, descriptor in descriptors.items()
                if name not in of_crash
            }
        return self._watch.hand_over(descriptors) and layout.CRASH_FILE in descriptors

    def leave_to_parent(self) -> None:
        """Let go of everything in a forked child."""
        self._asked.end(is_child=True)
        self._at_sigterm.end(is_child=True)
        self._watch.leave_to_parent()

    def begin_to_tell_tasks(self) -> None:
        """Let the watcher ask where asyncio's tasks wait, now that tests are loaded."""
        self._asked.begin_to_tell_tasks(self.record)

    def correct(self, report: FailureReport) -> None:
        """Replace the first report, if there is room for that."""
        with suppress(OSError):
            write.write_report(self.path, report)

    def discard(self) -> None:
        """Remove the file, which is not a report of this run."""
        write.remove_report(self.path)

    def has_lost_watcher(self) -> bool:
        """Tell whether the watcher was started and has ended."""
        return self.is_watched and self._watch.is_lost()

    def read_observed(self) -> Observed | None:
        """Return what the watcher has seen of the run; `None` if it has seen nothing.

        To be called once the session has ended: the watcher does not rewrite the report
        from here on.
        """
        if self.watcher_id is None:
            return None
        with suppress(OSError), self.record.opened() as folder:
            with hold_record(folder, LOOK_SECONDS):
                pass  # the watcher is done with the report
            if layout.OBSERVED in folder.names():
                from pytest_failure_taxonomy.survive.observed import read_observed

                return read_observed(folder)
        return None

    def close(self, report: FailureReport) -> str | None:
        """Write the last report.

        If it could not be written completely, the record stays for `failure-taxonomy
        finalize`.

        Returns:
            What went wrong, for the line that names the report's path; `None` if
            nothing did.
        """
        reserve = record_folder(self.path, self._run_id) / layout.RESERVE
        problem = None
        is_whole = True
        place: Path | None = None
        is_cut = False
        try:
            write.write_report(self.path, report, reserve)
        except OSError as error:
            why = error.strerror or str(error)
            with suppress(OSError):
                elsewhere = write.fallback_path(self.path, self._run_id)
                write.write_report(elsewhere, report)
                place = elsewhere
            with suppress(OSError):
                write.write_what_fits(self.path, report, reserve)
                is_cut = True
            is_whole = place is not None and is_cut
            fault = "has room for a part of it" if is_cut else "can't be written"
            problem = f"{self.path} {fault}: {why}"
            if place is not None:
                problem = f"{place} ({problem})"
            elif is_cut:
                command = our_command("finalize", str(self.path))
                problem += f"; make room and complete it by: {command}"
            else:
                problem = f"could not be written to {self.path}: {why}"
        self.remains = self._let_go(keep_record=not is_whole)
        if place is not None and not is_cut:
            self.path = place  # where the supervisor has to look, too
        return problem

    def give_up(self, error: OSError) -> str:
        """Leave report and record to `failure-taxonomy finalize`; return why."""
        self._let_go(keep_record=True)
        return f"could not be written to {self.path}: {error.strerror or error}"

    def _let_go(self, *, keep_record: bool) -> str | None:
        """Unlock the path and stop the watcher; remove the record unless `keep_record`.

        Returns:
            A sentence about what could not be removed, or `None`.
        """
        remains = None
        self._watch.stop()
        self._asked.end()
        self._at_sigterm.end()
        if not keep_record:
            self.record.set_byte(layout.WRITTEN_AT, 1)
            remains = self.record.remove()
        self._lock.release()
        return remains

    def path_from(self, started_in: Path) -> str:
        """Return the report's path, relative to pytest's start folder if below it."""
        path = self.path
        return str(
            path.relative_to(started_in) if path.is_relative_to(started_in) else path
        )
