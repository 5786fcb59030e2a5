"""What the commands print of a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.report.render.terminal import verdict_lines

_STYLES: Final = {"red": "31", "green": "32", "yellow": "33"}
_WIDTH: Final = 80


def print_verdict(report: dict[str, Any], path: Path) -> None:
    """Print the verdict to stderr, where it can't get between what the command itself printed."""
    colored = _is_colored()
    sys.stderr.write("\n")  # a run that was cut short has left the cursor anywhere
    for line in verdict_lines(report, str(path)):
        text = f" {line.text} ".center(_WIDTH, "=") if line.is_title else line.text
        style = ";".join([*(["1"] if line.bold else []), *_style(line.color)])
        shown = f"\x1b[{style}m{text}\x1b[0m" if colored and style else text
        sys.stderr.write(f"{shown}\n")


def warn(line: str) -> None:
    """Print a line that is about our own files and not about the run."""
    sys.stderr.write(f"failure-taxonomy: {line}\n")


def _style(color: str | None) -> list[str]:
    return [] if color is None else [_STYLES[color]]


def _is_colored() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    )
