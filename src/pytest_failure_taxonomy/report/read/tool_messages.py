"""Read from the output of pip, uv, npm, git and Docker what their exit codes don't say.

`taxonomy/data/tools.toml` has the wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pytest_failure_taxonomy.report.read.log_lines import Line
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine, ToolCause, ToolMessage

MAX_LINES_AFTER: Final = 50
"""How far from the end a message may be: what came long before was got over."""

MAX_COLUMNS: Final = 2_000
"""How much of a line is looked at: a pattern can begin at many places of it."""


class Wording(NamedTuple):
    """How one tool says what went wrong."""

    tool: str
    cause: ToolCause
    pattern: re.Pattern[str]
    is_vague: bool = False
    """A better message may stand before it."""


def _wordings() -> Iterator[Wording]:
    """Yield what each tool says, in the order of the table; the first that fits a line decides."""
    for row in packaged_table("tools")["wording"]:
        for pattern in row["patterns"]:
            is_vague = pattern.startswith("~")
            yield Wording(
                row["tool"], row["cause"], re.compile(pattern.removeprefix("~")), is_vague
            )


WORDINGS: Final = tuple(_wordings())

_ANY: Final = re.compile(
    "rror|ERROR|ERR!|fatal:|daemon|Podman|Docker|docker|ssh: |Max retries|Credentials"
    "|No solution|Failed|Caused by|Permission denied|key verification|kex_|Retrying"
)
"""What a line has to have that is looked at more closely."""
_RETRIED: Final = re.compile(r"WARNING: Retrying \(Retry\(.*\)\) after connection broken by ")
_NOTHING_FOUND: Final = "(from versions: none)"


class ToolOutput:
    """The last message of a tool that says why it failed."""

    wants_all = False

    def __init__(self) -> None:
        self._clear: tuple[Line, Wording] | None = None
        self._vague: tuple[Line, Wording] | None = None
        self._retried: Line | None = None

    def feed(self, line: Line) -> None:
        """Read the next line."""
        text = line.text[:MAX_COLUMNS]
        if _ANY.search(text) is None:
            return
        if _RETRIED.search(text):
            self._retried = line
            return
        found = next((each for each in WORDINGS if each.pattern.search(text)), None)
        if found is None:
            return
        if found.is_vague:
            self._vague = line, found
        elif self._retried is not None and _NOTHING_FOUND in text:
            # pip takes an index that can't be reached for one that has no such project.
            self._clear = self._retried, found._replace(cause="network")
            self._retried = line
        else:
            self._clear = line, found

    def message(self, line_count: int) -> ToolMessage | None:
        """Return why a tool has failed; `None` if none says so near the end.

        Args:
            line_count: how many lines the output has.
        """
        noted = self._clear or self._vague
        if noted is None:
            return None
        line, wording = noted
        at_end = line if wording.cause != "network" or self._retried is None else self._retried
        if at_end.number < line_count - MAX_LINES_AFTER:
            return None
        return ToolMessage(
            tool=wording.tool, cause=wording.cause, line=OutputLine(line.number, line.text.strip())
        )
