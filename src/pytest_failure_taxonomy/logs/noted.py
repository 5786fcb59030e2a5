"""What was noted of a line of a log."""

from __future__ import annotations

from typing import Final

from pytest_failure_taxonomy.logs.reader import Line
from pytest_failure_taxonomy.taxonomy.values import value

MAX_NOTED: Final = 1_000
"""Of anything; pytest's last line has the true counts."""


@value
class Noted:
    """One thing that a line said."""

    line: Line
    text: str = ""
    subject: str = ""
    """What it is about: a node id, a worker, a file."""
    status: str = ""


def note(
    kept: list[Noted], line: Line, text: str = "", *, subject: str = "", status: str = ""
) -> None:
    """Keep what a line said with the others of its sort, of which there may be `MAX_NOTED`."""
    if len(kept) < MAX_NOTED:
        kept.append(Noted(line=line, text=text, subject=subject, status=status))


def note_together(kept: list[list[Line]], line: Line) -> None:
    """Keep a line with the one right before it, else as the first of the next ones."""
    last = kept[-1] if kept else []
    if last and last[-1].number + 1 == line.number and len(last) < MAX_NOTED:
        last.append(line)
    elif len(kept) < MAX_NOTED:
        kept.append([line])
