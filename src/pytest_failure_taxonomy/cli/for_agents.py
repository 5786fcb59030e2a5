"""`failure-taxonomy run --for agent`: stdout has our answer alone, a file the command's output."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.cli.output import answer, tell_plainly
from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.write import make_folder
from pytest_failure_taxonomy.survive import layout
from pytest_failure_taxonomy.survive.folder import record_folder
from pytest_failure_taxonomy.survive.mailbox import read_message
from pytest_failure_taxonomy.survive.report_without_plugin import (
    is_pytest,
    only_asks,
)
from pytest_failure_taxonomy.system.files import CAREFUL, read_file
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.words import seconds_words

_VARIABLE: Final = "FAILURE_TAXONOMY_FOR"
_ENDED: Final = layout.COUNTERS.index("rerun")
"""How many counters are of tests that have ended."""
_READERS: Final = ("agent", "human")
_OFF: Final = ("", "0", "false")
"""Values of an agent's variable that say that there is none."""
_HEAD: Final = (
    b"# failure-taxonomy: the output of the last command that ran for an agent\n"
)
"""The first line of a file that we may replace, because we made it."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | CAREFUL


def is_for_agent(reader: str | None, command: Sequence[str]) -> bool:
    """Tell whether an agent is to read the answer about a command.

    Args:
        reader: the value of `--for`.
        command: its words. Only of a pytest an agent is expected to want nothing but the answer.

    Raises:
        SettingsError: the environment variable names no reader.
    """
    reader = reader or os.environ.get(_VARIABLE)
    if not reader:
        return is_pytest(command) and any(map(_is_on, packaged_table("agents")))
    if reader not in _READERS:
        raise SettingsError(
            f"{_VARIABLE}: {reader!r} is no reader; give agent or human"
        )
    return reader == "agent"


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in _OFF


class OutputLog:
    """The file that a command's output goes to, beside the report where that is possible."""

    def __init__(self, report: Path) -> None:
        """Open the file, which is then empty but for its first line.

        Raises:
            OSError: not even the temporary folder can be written to.
        """
        self.path = report.with_suffix(".log")
        try:
            make_folder(report.parent)
            self.descriptor = _open_own(self.path, report)
        except OSError:
            self.descriptor, name = tempfile.mkstemp(".log", "failure-report-")
            self.path = Path(name)
        os.write(self.descriptor, _HEAD)

    def answer(self, report: FailureReport) -> None:
        """Print the answer for agents; one line if nothing failed."""
        from pytest_failure_taxonomy.faces import agent

        here = Path.cwd()
        shown = path_from(here, self.path)
        answer(agent.render(report, log=str(shown), folder=str(here)))


def path_from(folder: Path, path: Path) -> Path:
    """Return a path relative to a folder if it is in it."""
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def log_of(
    reader: str | None, command: Sequence[str], report: Path
) -> OutputLog | None:
    """Return the file for a command's output; `None` if a human reads the answer."""
    if is_for_agent(reader, command) and not only_asks(command):
        with suppress(OSError):  # of a machine that can't keep it, the agent reads all
            return OutputLog(report)
    return None


def _open_own(path: Path, report: Path) -> int:
    """Open a new file, in the place of one of ours.

    Raises:
        OSError: it can't be created, or something that is not ours is there.
    """
    with suppress(FileNotFoundError):
        if path == report or read_file(path, len(_HEAD)) != _HEAD:
            raise FileExistsError(path)
        path.unlink()
    return os.open(path, _NEW, 0o666)


def tell_progress(mailbox: Path, started: float) -> None:
    """Say on stderr in one line how far a run is.

    Args:
        mailbox: which its pytest has answered.
        started: when it was, in seconds of the monotonic clock.
    """
    words = ""
    with suppress(OSError, KeyError):  # no pytest has begun, or its record is gone
        message = read_message(mailbox)
        record = record_folder(Path(message["report"] or ""), message["run_id"] or "")
        state = read_file(record / layout.STATE, layout.PAGE)
        (selected,) = layout.numbers_at(state, layout.COUNT_AT, 1)
        counts = layout.numbers_at(state, layout.COUNTERS_AT, _ENDED)
        _, failed, errors, *_ = counts
        words = f"{sum(counts):,} of {selected:,} tests, {failed + errors:,} failed, "
    tell_plainly(f"… {words}{seconds_words(time.monotonic() - started)}")
