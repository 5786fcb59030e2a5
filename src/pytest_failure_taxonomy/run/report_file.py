"""Where a run's report goes, and what keeps it alive until it is there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.aftermath.lock import lock_path
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.recorder.record.layout import RESERVE, record_folder
from pytest_failure_taxonomy.report.write import (
    fallback_path,
    make_folder,
    path_of_run,
    refuse_special_file,
    remove_report,
    write_report,
    write_what_fits,
)
from pytest_failure_taxonomy.run.crash_record import CrashRecord
from pytest_failure_taxonomy.run.settings import Settings


class ReportFile:
    """The report's file of one run, from `running` to its last word."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        """Refuse a path that can't be a report's.

        Raises:
            SettingsError: it names something else; that has not been touched.
        """
        refuse_special_file(settings.report)
        self.path = settings.report
        self.crash_record = CrashRecord(self.path, run_id)
        self._settings = settings
        self._run_id = run_id
        self._moved = ""
        self.stays: str | None = None
        """In words, what of the run's record could not be removed at its end."""

    def open(self, report: dict[str, Any]) -> None:
        """Write the first report where it should be, or as near to that as can be.

        Raises:
            SettingsError: it can't be written where the user wants it.
        """
        try:
            make_folder(self.path.parent)
            self._claim()
            write_report(self.path, report)
        except OSError as error:
            remove_report(self.path)
            if self._settings.report_was_named:
                self.crash_record.close(keep_record=False)
                raise SettingsError(
                    f"--failure-taxonomy-report: {self.path} can't be written: {error.strerror}; "
                    "give a path in a folder that can be"
                ) from error
            with suppress(OSError):  # where nothing can be written at all, the last line says so
                why = f"{self.path.parent} can't be written"
                self._move(fallback_path(self.path, self._run_id), why)
                write_report(self.path, report)

    def _claim(self) -> None:
        """Take the report's path, or one beside it where another run or user has that."""
        try:
            why = None if self.crash_record.claim() else f"another run writes to {self.path.name}"
        except PermissionError:
            lock = lock_path(self.path)
            if not os.path.lexists(lock):
                raise
            why = f"{lock.name} belongs to another user"
        if why is not None:
            self._move(path_of_run(self.path, self._run_id), why)

    def correct(self, report: dict[str, Any]) -> None:
        """Replace the first report by one that says more, if there is room for that."""
        with suppress(OSError):
            write_report(self.path, report)

    def discard(self) -> None:
        """Take back what was written: it is not the report of this run."""
        remove_report(self.path)

    def close(self, report: dict[str, Any]) -> str | None:
        """Write the last report; return what went wrong in words, or `None`.

        Where it could not be written whole, the record stays for `failure-taxonomy finalize`.
        """
        reserve = record_folder(self.path, self._run_id) / RESERVE
        problem = None
        is_whole = True
        try:
            write_report(self.path, report, reserve)
        except OSError as error:
            why = error.strerror or str(error)
            place = self._write_elsewhere(report)
            is_cut = self._write_a_part(report, reserve)
            is_whole = place is not None and is_cut
            problem = _what_became_of(self.path, place, why, is_cut=is_cut)
        self.stays = self.crash_record.close(keep_record=not is_whole)
        return problem

    def give_up(self, error: OSError) -> str:
        """Leave what says `running` and the record to `failure-taxonomy finalize`; say so."""
        self.crash_record.close(keep_record=True)
        return f"could not be written to {self.path}: {error.strerror or error}"

    def shown_path(self, started_in: Path) -> str:
        """Return the report's path as short as it is clear from where pytest was started."""
        path = self.path
        shown = path.relative_to(started_in) if path.is_relative_to(started_in) else path
        return f"{shown} ({self._moved})" if self._moved else str(shown)

    def _write_elsewhere(self, report: dict[str, Any]) -> Path | None:
        """Write the last report to the temporary folder; return where it is."""
        with suppress(OSError):
            place = fallback_path(self.path, self._run_id)
            write_report(place, report)
            return place
        return None

    def _write_a_part(self, report: dict[str, Any], reserve: Path) -> bool:
        """Write what there is room for of the last report; tell whether there was."""
        with suppress(OSError):
            write_what_fits(self.path, report, reserve)
            return True
        return False

    def _move(self, path: Path, why: str) -> None:
        self.crash_record.close(keep_record=False)
        self.crash_record = CrashRecord(path, self._run_id)
        self.path = path
        self._moved = why


def _what_became_of(path: Path, elsewhere: Path | None, why: str, *, is_cut: bool) -> str:
    """Say where a report is that could not be written whole where it belongs."""
    if elsewhere is not None and is_cut:
        return f"{elsewhere} ({path} has room for a part of it: {why})"
    if elsewhere is not None:
        return f"{elsewhere} ({path} can't be written: {why})"
    if is_cut:
        return (
            f"{path} has room for a part of it: {why}; make room and complete it by: "
            "failure-taxonomy finalize"
        )
    return f"could not be written to {path}: {why}"
