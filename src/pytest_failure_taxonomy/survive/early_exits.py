"""Find who left a pytest with status 0 before its time, from the sources alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.survive.own_files import location
from pytest_failure_taxonomy.survive.statements import find_statement, sources_below
from pytest_failure_taxonomy.taxonomy.evidence import IntegrityFinding, Location
from pytest_failure_taxonomy.taxonomy.values import replace

_LEAVES: Final = (
    r"\b_exit\b|\bexec[lv]|\bkill\(",
    r"sys\.exit|SystemExit|\bexit\(",
)
"""Statements that end a process, the ones that skip pytest's own end first."""
_SHADOWS: Final = (
    "pytest.py",
    "pytest/__init__.py",
    "_pytest/__init__.py",
    "pluggy.py",
)
_CONFIGURATIONS: Final = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_SWITCHED_OFF: Final = re.compile("no:failure_taxonomy|disable-plugin-autoload")


def add_early_exit(report: FailureReport) -> FailureReport:
    """Return a report with the statement that left the process with status 0.

    Args:
        report: of a run that has a verdict, although its process ended with status 0.
    """
    kinds = {reason.kind for reason in report.reasons}
    was_left = report.session_exit_code or "process.exited" in kinds
    if not was_left or report.integrity:
        return report
    failed = [failure.nodeid for failure in report.failures]
    running = [test.nodeid for test in report.in_flight]
    stopped = dict.fromkeys([*running, *report.not_run.nodeids])
    finding = IntegrityFinding(
        kind="integrity.early_exit",
        nodeids=tuple(stopped or dict.fromkeys(failed)),
        where=_find_exit(Path(report.run.invocation.rootdir)),
        hook=None,
        detail="ended the process with status 0 before pytest had finished",
    )
    return replace(report, integrity=(finding,))


def find_unrecorded(folder: Path) -> IntegrityFinding:
    """Say why a pytest ended with status 0 and nobody has recorded it.

    Args:
        folder: where it was started.
    """
    return IntegrityFinding(
        kind="integrity.record_changed",
        nodeids=(),
        where=_find_switch(folder),
        hook=None,
        detail="kept this run of pytest from being recorded",
    )


def _find_exit(root: Path) -> Location | None:
    for pattern in _LEAVES:
        for path in sources_below(root):
            line = find_statement(path, [pattern])
            if line is not None:
                return location(path, line, root)
    return None


def _find_switch(folder: Path) -> Location | None:
    """Return what shadows pytest in a folder, or switches this plugin off."""
    for name in _SHADOWS:
        if (folder / name).is_file():
            return Location(path=name, line=1)
    for name, line, text in _lines_of(folder):
        if _SWITCHED_OFF.search(text):
            return Location(path=name, line=line)
    return None


def _lines_of(folder: Path) -> Iterable[tuple[str, int, str]]:
    for name in _CONFIGURATIONS:
        if (folder / name).is_file():
            text = (folder / name).read_text("utf-8", "replace")
            for line, content in enumerate(text.splitlines(), 1):
                yield name, line, content
