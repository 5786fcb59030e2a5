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
