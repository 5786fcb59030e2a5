"""What the commands print of a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.report.render.terminal import verdict_lines
from pytest_failure_taxonomy.report.shown_paths import AS_REPORTED, ShownPaths

_STYLES: Final = {"red": "31", "green": "32", "yellow": "33"}
_WIDTH: Final = 80


def print_verdict(report: dict[str, Any], path: Path) -> None:
    """Print the verdict to stderr, where it can't get between what the command itself printed."""
    colored = _is_colored()
    sys.stderr.write("\n")  # a run that was cut short has left the cursor anywhere
    for line in verdict_lines(report, str(path), paths=_paths_from_here(report)):
        text = f" {line.text} ".center(_WIDTH, "=") if line.is_title else line.text
        style = ";".join([*(["1"] if line.bold else []), *_style(line.color)])
        shown = f"\x1b[{style}m{text}\x1b[0m" if colored and style else text
        sys.stderr.write(f"{shown}\n")


def warn(line: str) -> None:
    """Print a line that is about our own files and not about the run."""
    sys.stderr.write(f"failure-taxonomy: {line}\n")


def _paths_from_here(report: dict[str, Any]) -> ShownPaths:
    """Show paths from where the user stands, unless the report is of another machine."""
    rootdir = report["run"]["invocation"]["rootdir"]
    try:
        return ShownPaths(rootdir, os.getcwd()) if os.path.isdir(rootdir) else AS_REPORTED
    except OSError:  # the folder is gone
        return AS_REPORTED


def _style(color: str | None) -> list[str]:
    return [] if color is None else [_STYLES[color]]


def _is_colored() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    )
