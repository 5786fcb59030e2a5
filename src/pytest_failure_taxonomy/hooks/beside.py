"""Find what a program printed before it failed, beside an exception.

An exception says that a program ended with status 128. Why it did so, the program has
said itself: in the exception's `stderr` or `output`, or in what pytest has captured of
the test.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.taxonomy.program_words import telling_line

COMPLETED_PROCESS: Final = "subprocess.CompletedProcess"


def find_printed_line(
    error: BaseException,
    report: pytest.TestReport | pytest.CollectReport | None,
    *,
    is_exit: bool,
) -> str:
    """Return the captured line that says why a program, or this one, failed.

    Args:
        error: tells of that.
        report: of the test or the collector; without one pytest has not come that far.
        is_exit: `sys.exit` ended this program itself: its last line is always of
            interest.
    """
    texts: list[object] = []
    if report is None:
        texts = _read_startup_output(error)
    else:
        sections = dict(report.sections)
        for stream in ("stderr", "stdout") if is_exit else ("stderr",):
            of_phase = sections.get(f"Captured {stream} {report.when}")
            texts.append(of_phase or sections.get(f"Captured {stream}"))
    lines = (telling_line(text, or_last=is_exit) for text in texts)
    return next(filter(None, lines), "")


def find_asserted_process(error: BaseException) -> Any:
    """Return the failed `CompletedProcess` among the variables of the raising frame."""
    entries = inspection.entries_of(error)
    variables = entries[-1].tb_frame.f_locals if entries else {}
    for ended in variables.values():
        if inspection.dotted_name_of(type(ended)) == COMPLETED_PROCESS:
            status = inspection.attribute_of(ended, "returncode")
            if type(status) is int and status != 0:
                return ended
    return None


def _read_startup_output(error: BaseException) -> list[object]:
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
