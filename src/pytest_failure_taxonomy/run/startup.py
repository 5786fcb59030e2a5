"""Errors that leave pytest itself: what they are, and the status that pytest makes of them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.recorder.describe import (
    cause_of,
    is_import_failure,
    is_of_the_user,
    location,
    words_of,
)
from pytest_failure_taxonomy.recorder.origin import frames_of
from pytest_failure_taxonomy.recorder.refusal import words_of_usage_error
from pytest_failure_taxonomy.recorder.session import SessionRecorder
from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit

_ABOUT_A_PLUGIN: Final = ("Error importing plugin", "Missing required plugin")
"""How pytest's usage errors begin that name a plugin which is not there."""

_IMPORT_FAILURE_CODES: Final = {"ConftestImportFailure": 4, "PluginImportFailure": 3}


def record_startup_error(
    session: SessionRecorder, error: BaseException, config: pytest.Config
) -> ProcessExit:
    """Record an error that left pytest, and return the exit status that follows from it."""
    rootdir = config.rootpath
    if isinstance(error, KeyboardInterrupt | pytest.exit.Exception):
        session.pytest_keyboard_interrupt(pytest.ExceptionInfo.from_exception(error))
    elif is_import_failure(error):
        _record_import_failure(session, error, rootdir)
    elif isinstance(error, pytest.UsageError):
        session.record_error(
            "plugin" if str(error).startswith(_ABOUT_A_PLUGIN) else "usage",
            error,
            message=words_of_usage_error(error, config),
        )
    else:
        conftest = _conftest_left_by(error)
        session.record_error(
            "plugin" if conftest is None else "conftest",
            error,
            message=conftest and words_of(error, rootdir, location(conftest, None, rootdir).path),
            traceback=_short_traceback(error),
        )
    return _exit_after(error)


def exit_code_of(status: int) -> int:
    """Return the exit code that a shell shows when a process ends with this status."""
    return status & (0xFF if os.name == "posix" else 0xFFFF_FFFF)


def _exit_after(error: BaseException) -> ProcessExit:
    """Return the exit status that pytest, or else Python, makes of an error."""
    if isinstance(error, KeyboardInterrupt):
        return ProcessExit(code=130, signal="SIGINT", source="exception")
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif isinstance(error, pytest.UsageError):
        code = 4
    else:
        code = _IMPORT_FAILURE_CODES.get(type(error).__name__, 1)
    return ProcessExit(code=exit_code_of(code), source="exception")


def _record_import_failure(session: SessionRecorder, error: BaseException, rootdir: Path) -> None:
    cause = cause_of(error)
    path = getattr(error, "path", None)
    loaded = str(error) if path is None else location(str(path), None, rootdir).path
    session.record_error(
        "plugin" if path is None else "conftest",
        error,
        message=words_of(cause, rootdir, loaded),
        traceback=_short_traceback(cause),
    )


def _conftest_left_by(error: BaseException) -> str | None:
    """Return the conftest whose own code an exception has left that pytest does not catch.

    Such are `sys.exit` and `pytest.skip`. What leaves a plugin that it names is the plugin's.
    """
    for each in frames_of(error.__traceback__):
        code = each.tb_frame.f_code
        if code.co_name == "import_plugin":
            break
        if code.co_name == "<module>" and os.path.basename(code.co_filename) == "conftest.py":
            return code.co_filename
    return None


def _short_traceback(error: BaseException) -> str | None:
    """Return the frames that are neither pytest's nor the import system's, as pytest shows them."""
    with suppress(Exception):  # foreign objects are rendered; without them there is still a message
        excinfo = pytest.ExceptionInfo.from_exception(error)
        frames = excinfo.traceback.filter(lambda entry: is_of_the_user(str(entry.path)))
        if not frames:
            return excinfo.exconly()
        excinfo.traceback = frames
        return str(excinfo.getrepr(style="short"))
    return None
