"""Read what stands beside an exception: what a program has printed before it failed.

An exception says that a program ended with status 128. Why it did so, the program has
said itself: in the exception's `stderr` or `output`, or in what pytest has captured of
the test.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks import inspection

COMPLETED_PROCESS: Final = "subprocess.CompletedProcess"

_MAX_READ: Final = 20_000
"""Characters that are searched from the end of an output."""
_MAX_LINE: Final = 500

_TELLING: Final = (
    r"(?:(?:stderr: ')?(?:\S{1,100}: ){0,2}(?:fatal|[Ee]rror|ERROR|\*\*\*)[:\[ ]"
    r"|FAIL|ssh: |E: |npm (?:ERR!|error)"
    r"|(?:[a-z_]\w*\.){0,9}[A-Z]\w{0,80}(?:Error|Exception)(?::|$))"
    r"|.{1,200}: (?:(?:command )?not found|[Nn]o such file or directory|[Pp]ermission denied)\.?$"
)
"""What a line looks like that says why a program failed."""
_CLOSING: Final = (
    r"fatal: (?:Could not read from remote repository|[Tt]he remote end hung up)"
    r"|error: failed to push some refs|npm (?:ERR!|error) A complete log"
    r"|make(?:\[\d+\])?: \*\*\* .{1,300} Error \d+$"
)
"""What programs print last, after they have said why."""
_SIGNS: Final = (
    *("CompletedProcess(", "function system>", "function call at "),
    *("returncode", "exit code", "exit status", "exit_code", "git"),
)
"""One of them is in what is said of a program by whoever started it."""


def is_about_a_program(message: str) -> bool:
    """Tell whether the message of an exception seems to be about a program that failed."""
    return any(map(message.__contains__, _SIGNS))


def telling_line(printed: object, *, or_last: bool = False) -> str:
    """Return the last line of an output that says what is wrong; empty where none does.

    Args:
        printed: a text or bytes; anything else says nothing.
        or_last: take the last line that isn't blank where none looks like an error's.
    """
    if type(printed) is bytes:
        printed = printed[-_MAX_READ:].decode(errors="replace")
    if type(printed) is not str:
        return ""
    lines = [line.strip() for line in printed[-_MAX_READ:].splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if re.match(_TELLING, line)]
    reasons = [line for line in telling if not re.match(_CLOSING, line)]
    shown = reasons or telling or (lines if or_last else [])
    if shown:
        return shown[-1][:_MAX_LINE]
    return ""


def printed_before(
    error: BaseException,
    report: pytest.TestReport | pytest.CollectReport | None,
    *,
    is_exit: bool,
) -> str:
    """Return the line of the captured output that says why a program, or this one, failed.

    Args:
        error: tells of that.
        report: of the test or the collector; without one pytest has not come that far.
        is_exit: `sys.exit` ended this program itself: its last line is always of
            interest.
    """
    texts: list[object] = []
    if report is None:
        texts = _captured_at_start(error)
    else:
        sections = dict(report.sections)
        for stream in ("stderr", "stdout") if is_exit else ("stderr",):
            of_phase = sections.get(f"Captured {stream} {report.when}")
            texts.append(of_phase or sections.get(f"Captured {stream}"))
    lines = (telling_line(text, or_last=is_exit) for text in texts)
    return next(filter(None, lines), "")


def asserted_process(error: BaseException) -> Any:
    """Return the `CompletedProcess` that failed, of the variables where an error was raised."""
    entries = inspection.entries_of(error)
    variables = entries[-1].tb_frame.f_locals if entries else {}
    for ended in variables.values():
        if inspection.dotted_name_of(type(ended)) == COMPLETED_PROCESS:
            status = inspection.attribute_of(ended, "returncode")
            if type(status) is int and status != 0:
                return ended
    return None


def _captured_at_start(error: BaseException) -> list[object]:
    """Return what was printed while a conftest file was loaded that ended pytest.

    pytest has passed it on. Its function that did so is in the traceback, with the
    texts.
    """
    texts: list[object] = []
    for entry in inspection.entries_of(error):
        frame = entry.tb_frame
        if frame.f_globals.get("__name__") == "_pytest.capture":
            texts += [frame.f_locals.get("err"), frame.f_locals.get("out")]
    return texts
