"""The line that says how far the cases are, on a terminal of its own."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import child_environment, pytest_command
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import BENCH, passing_cases, task_class_files

COLUMNS: Final = 80
CONTROL: Final = re.compile(r"\x1b\[(\d*)(?:;\d+)*([mKD])|\r|\n|(.)", re.DOTALL)
LIVE: Final = re.compile(r"\[\d+ of 9 cases.*?\]")


def printed_on_terminal(folder: Path, *args: str, **env: str | None) -> str:
    """Run pytest on a terminal, and return what it wrote there."""
    import pty  # not on Windows

    ours, theirs = pty.openpty()
    given = {
        "TERM": "xterm",
        "CI": None,
        "BUILD_NUMBER": None,
        "COLUMNS": str(COLUMNS),
        **env,
    }
    with subprocess.Popen(
        pytest_command("bench", *args, plugins=[BENCH, "xdist"]),
        cwd=folder,
        env=child_environment(given),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        written = b""
        with suppress(OSError):  # at its end
            while more := os.read(ours, 65_536):
                written += more
    os.close(ours)
    return written.decode()


def seen_in_the_end(written: str) -> list[str]:
    """Return the lines that a terminal shows after it got a text."""
    lines, column = [""], 0
    for found in CONTROL.finditer(written):
        number, control, text = found.groups()
        if control == "D":
            assert column < COLUMNS  # what was drawn fits into the line
            column -= int(number)
        elif control == "K":
            lines[-1] = lines[-1][:column]
        elif found[0] == "\r":
            column = 0
        elif found[0] == "\n":
            lines.append("")
            column = 0
        elif text is not None:
            lines[-1] = (
                lines[-1][:column].ljust(column) + text + lines[-1][column + 1 :]
            )
            column += 1
    varies = re.compile(r"<?[\d.]+ m?s\b|[\d.]+s\b|\S+-echo-\S+|=+$|(?<=slowest).*")
    differs_in_ci = ("bench: a system that runs in pytest's own process", "FAILED ")
    return [
        varies.sub("", line).rstrip()
        for line in lines
        if not line.startswith(differs_in_ci)
    ]


@pytest.mark.lowest
@pytest.mark.posix("pseudoterminals")
@pytest.mark.parametrize(
    "args", [(), ("-v",), ("-n", "2")], ids=["serial", "verbose", "xdist"]
)
def test_what_is_drawn_leaves_no_trace(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """It says what is done, failed and spent, and the screen is in the end as without it."""
    cases = [{**case, "sleep": 0.6, "rubric_cost": 0.1} for case in passing_cases(8)]
    cases.insert(0, {"id": "wrong", "input": 1, "answer": 2})
    runs.write(task_class_files(cases, settings="concurrency: 3\n"))
    written = printed_on_terminal(runs.path, *args)
    drawn = LIVE.findall(written)
    form = r"\[\d of 9 cases(, 1 failed)?(, \$[\d.]+)?(, .* left)?\]"
    assert all(re.fullmatch(form, each) for each in drawn), drawn
    if "-n" not in args:  # the controller draws when a report comes
        assert all(
            any(what in each for each in drawn) for what in ("1 failed", "$0.")
        ), drawn
    without = printed_on_terminal(runs.path, *args, CI="1")
    assert not LIVE.search(without)
    shown, expected = seen_in_the_end(written), seen_in_the_end(without)
    if "-n" in args:  # cases end there in any order, on any worker
        shown, expected = (
            sorted("".join(sorted(re.sub(r"\d+%|gw\d", "", line))) for line in lines)
            for lines in (shown, expected)
        )
    assert shown == expected


@pytest.mark.posix("pseudoterminals")
@pytest.mark.parametrize(
    ("args", "env"),
    [
        pytest.param(["-q"], {}, id="quiet"),
        pytest.param(["-s"], {}, id="what-tests-print"),
        pytest.param(["-o", "log_cli=true"], {}, id="live-log"),
        pytest.param([], {"NO_COLOR": "1"}, id="no-color"),
        pytest.param([], {"TERM": "dumb"}, id="dumb"),
    ],
)
def test_where_nothing_is_drawn(
    runs: PytestRuns, args: list[str], env: dict[str, str]
) -> None:
    """Nor is it where output is no terminal, as any other test shows."""
    cases = [{**case, "sleep": 0.8} for case in passing_cases(9)]
    runs.write(task_class_files(cases))
    written = printed_on_terminal(runs.path, *args, **env)
    assert "9 passed" in written
    assert not LIVE.search(written)
