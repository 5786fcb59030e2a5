"""Errors that leave pytest itself: what they are, and the status that pytest makes of them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pytest_failure_taxonomy.recorder.describe import cause_of
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit

_ABOUT_A_PLUGIN = ("Error importing plugin", "Missing required plugin")
"""How pytest's usage errors begin that name a plugin which is not there."""


def record_startup_error(session: SessionRecorder, error: BaseException) -> ProcessExit:
    """Record an error that left pytest, and return the exit status that follows from it."""
    if isinstance(error, KeyboardInterrupt):
        excinfo = pytest.ExceptionInfo.from_exception(error)
        session.pytest_keyboard_interrupt(excinfo)
        return ProcessExit(code=130, signal="SIGINT", source="exception")
    if isinstance(error, SystemExit):
        session.record_error("plugin", error)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return ProcessExit(code=code, source="exception")
    cause = cause_of(error)
    if cause is not error:
        session.record_error("conftest", error, traceback=_short_traceback(cause))
        return ProcessExit(code=4, source="exception")
    about_plugin = str(error).startswith(_ABOUT_A_PLUGIN)
    if isinstance(error, pytest.UsageError):
        session.record_error(
            "plugin" if about_plugin else "usage", error, message=_without_usage(str(error))
        )
        return ProcessExit(code=4, source="exception")
    session.record_error("plugin", error, traceback=_short_traceback(error))
    code = 3 if type(error).__name__ == "PluginImportFailure" else 1
    return ProcessExit(code=code, source="exception")


def _without_usage(text: str) -> str:
    """Return what a usage error says, without the synopsis that argparse puts before it."""
    synopsis, found, rest = text.partition(": error: ")
    return rest if found and synopsis.startswith("usage:") else text


def _short_traceback(error: BaseException) -> str | None:
    with suppress(Exception):  # foreign objects are rendered; without them there is still a message
        return str(pytest.ExceptionInfo.from_exception(error).getrepr(style="short"))
    return None
