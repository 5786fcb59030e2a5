"""Where the files of a report lie in the repository that a CI system has checked out."""

from __future__ import annotations

import os
import re
from typing import Final

from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import CauseSummary, Failing
from pytest_failure_taxonomy.taxonomy.evidence import InFlightTest, Location

_NOT_THE_USERS: Final = frozenset({"dependency", "plugin", "pytest", "python"})
"""Owners of code that is no file of the repository, even where it is installed in it."""
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:")


class Repository:
    """Finds the files of a report in the repository that a CI system has checked out."""

    def __init__(self, report: FailureReport, workspace: str | None) -> None:
        """Find out where pytest's root directory is in it.

        Args:
            report: of a run.
            workspace: absolute path of the repository; paths stay relative to pytest's root
                directory where that does not lie in it, or nobody says.
        """
        rootdir = report.run.invocation.rootdir
        self._prefix = _below(rootdir, workspace) or ""
        self._rootdir = rootdir if self._prefix else ""
        self._workspace = workspace
        self._running = {test.nodeid: test for test in report.in_flight}

    def place_of_cause(self, cause: CauseSummary) -> Location | None:
        """Return where the first failure of a cause was raised, or else its test's file."""
        running = [
            self._running[nodeid] for nodeid in cause.nodeids if nodeid in self._running
        ]
        for failure in (*cause.failures, *running):
            place = self.place_of(failure)
            if place is not None:
                return place
        return next(filter(None, map(self.file_of, cause.nodeids)), None)

    def place_of(self, failure: Failing | InFlightTest) -> Location | None:
        """Return the place of a failure or a test in flight, if it is in the user's own files."""
        location = failure.location
        if location is not None and not _is_of_others(failure):
            path = self.path(location.path)
            if path is not None:
                return Location(path=path, line=location.line)
        return self.file_of(failure.nodeid)

    def file_of(self, nodeid: str) -> Location | None:
        """Return the file that a node id begins with; `None` if it begins with none."""
        path = self.path(nodeid.partition("::")[0])
        return None if path is None else Location(path=path, line=None)

    def path(self, path: str) -> str | None:
        """Return a path of the report relative to the repository; `None` if it is outside."""
        if not path or path.startswith("<"):
            return None
        if _ABSOLUTE.match(path):
            return _below(path, self._workspace) or None
        whole = os.path.normpath(os.path.join(self._prefix, path)).replace(os.sep, "/")
        return None if whole in (".", "..") or whole.startswith("../") else whole


def _is_of_others(failure: Failing | InFlightTest) -> bool:
    origin = None if isinstance(failure, InFlightTest) else failure.origin
    return origin is not None and origin.owner in _NOT_THE_USERS


def _below(path: str, folder: str | None) -> str | None:
    """Return a path relative to a folder that it lies in; `.` for the folder, `None` outside."""
    if not folder or not _ABSOLUTE.match(path) or not os.path.isabs(folder):
        return None
    try:
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:  # another drive, or no path at all
        return None
    return None if relative == ".." or relative.startswith("../") else relative
