"""What makes a run's report outlive its process: the lock, the record, the watcher, the stacks."""

from __future__ import annotations

import faulthandler
import os
import signal
import weakref
from contextlib import suppress
from os import close  # bound here, because a test may replace it and never put it back
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.aftermath.lock import ReportLock
from pytest_failure_taxonomy.aftermath.watcher import Watch
from pytest_failure_taxonomy.recorder.record.layout import (
    EVENTS,
    STATE,
    record_folder,
)
from pytest_failure_taxonomy.recorder.record.writer import (
    DiskRecord,
    MemoryRecord,
    Record,
)
from pytest_failure_taxonomy.system.process import (
    enclosing_limits,
    oom_events_file,
    read_identity,
    read_oom_count,
)
from pytest_failure_taxonomy.taxonomy.evidence import WatcherState

_NO_STACKS: Final = -1


class CrashRecord:
    """Keep on disk what a run would take with it into its death."""

    def __init__(self, report: Path, run_id: str) -> None:
        self.record: Record = MemoryRecord()
        self._report = report
        self._run_id = run_id
        self._lock = ReportLock(report)
        self._watch = Watch()
        self._stacks = _NO_STACKS

    def claim(self) -> bool:
        """Take the report's path for this run; tell whether no other run has it.

        Raises:
            OSError: the report's folder, which has to be there, can't be written.
        """
        return self._lock.acquire()

    def begin(self, header: dict[str, Any], *, watch: bool) -> str | None:
        """Begin the record, and have the process watched; return why it is not, if it should be."""
        why = self._begin_record(header)
        if not watch:
            return None
        return why or self._watch.start(self._report, self._run_id, self.files)

    def _begin_record(self, header: dict[str, Any]) -> str | None:
        """Begin the record on disk; return why there is none."""
        try:
            record = DiskRecord(record_folder(self._report, self._run_id))
        except OSError as error:
            return self._do_without(error.strerror or str(error))
        memory_events = oom_events_file()
        record.write(
            "run",
            **header,
            run_id=self._run_id,
            process=read_identity(os.getpid()),
            enclosing_limits=enclosing_limits(os.getpid()),
            memory={"events_file": memory_events, "oom_kills": read_oom_count(memory_events)},
        )
        if record.lost is not None:  # without its beginning nothing could be read from it
            record.remove()
            return self._do_without(record.lost.rpartition(": ")[2])
        self.record = record
        with suppress(OSError):  # the disk is nearly full; the record comes first
            record.keep_room()
        self._dump_stacks_at_sigterm(record)
        return None

    def _do_without(self, why: str) -> str:
        lost = f"no record could be kept: {why}"
        self.record = MemoryRecord(lost)
        return lost

    def note_watcher(self, watcher: WatcherState) -> None:
        """Note what has become of the watcher, for who completes the report without it."""
        self.record.write("watcher", watcher=watcher)

    def has_lost_watcher(self) -> bool:
        """Tell whether the process was watched and is no more."""
        return self._watch.is_lost()

    @property
    def files(self) -> list[Path]:
        """The record's files, none where there is no record on disk."""
        if not isinstance(self.record, DiskRecord):
            return []
        return [self.record.folder / name for name in (STATE, EVENTS)]

    def note_end(self, exit_code: int, should_fail: str, coverage: str) -> None:
        """Note that the session has ended, before its report is written."""
        if isinstance(self.record, DiskRecord):
            self.record.write("end", should_fail=should_fail, coverage=coverage)
            self.record.finish(exit_code)

    def close(self, *, keep_record: bool) -> str | None:
        """Let go of the path, and of the record unless the report could not be written.

        Returns:
            In words, what stays of a record that was to be removed; `None` where nothing does.
        """
        stays = None
        self._watch.stop()
        if self._stacks != _NO_STACKS:
            _stop_dumping()
            with suppress(OSError):
                close(self._stacks)
            self._stacks = _NO_STACKS
        if isinstance(self.record, DiskRecord) and not keep_record:
            self.record.mark_written()
            stays = self.record.remove()
        self._lock.release()
        return stays

    def leave_to_parent(self) -> None:
        """In a forked child: none of this is the child's."""
        if self._stacks != _NO_STACKS:
            _stop_dumping()

    def _dump_stacks_at_sigterm(self, record: DiskRecord) -> None:
        """Have all stacks written down when somebody ends the run, even in the middle of C code.

        Python's own view of the signal and the exit status stay as they are.
        """
        if (
            not hasattr(faulthandler, "register")
            or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        ):
            return
        with suppress(OSError, RuntimeError):
            self._stacks = record.open_stacks()
            faulthandler.register(signal.SIGTERM, file=self._stacks, all_threads=True, chain=True)


def _stop_dumping() -> None:
    """Take faulthandler's handler back, unless the user has put one of their own in its place.

    It would put back what was there before it, and a program's own way to end would be gone.
    """
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        faulthandler.unregister(signal.SIGTERM)


def call_after_fork(*methods: Any) -> None:
    """Call bound methods in each forked child of this process, as long as their objects live."""
    if not hasattr(os, "register_at_fork"):
        return
    references = [weakref.WeakMethod(method) for method in methods]

    def call() -> None:
        for reference in references:
            method = reference()
            if method is not None:
                method()

    os.register_at_fork(after_in_child=call)
