"""What the process of one case does: settle, call what was loaded, answer, and end."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from . import limits, wire
from .capture import Printed
from .loading import NotUsableError, load_rubric

_VERDICT_DESCRIPTOR = 255
"""High, and within the limit of open files."""
_MAX_DESCRIPTORS = 65_536
_PLACES = ("HOME", "TMPDIR") if os.name == "posix" else ("USERPROFILE", "TEMP", "TMP")
_MAX_MESSAGE_CHARACTERS = 2_000
_MAX_TRACEBACK_CHARACTERS = 20_000

_OUR_FOLDER = os.path.join(os.path.dirname(__file__), "")

_NOT_SETTLED = 70
_VERDICT_CLOSED = 71

# Bound here: a rubric may put its own in their place.
_dumps = json.dumps
_exit = os._exit
_getpid = os.getpid
_write = os.write


class Verdict:
    """Where the answer goes, and what makes it known as ours."""

    __slots__ = ("_descriptor", "_process_id", "_token", "printed")

    def __init__(self, descriptor: int, token: bytes, printed: Printed) -> None:
        self._descriptor = descriptor
        self._token = token
        self._process_id = _getpid()
        self.printed = printed

    def give(self, what: bytes, body: bytes) -> NoReturn:
        """Write the answer and end the process.

        A rubric may have forked, and both processes have come here.
        """
        if _getpid() != self._process_id:
            _exit(0)
        printed = self.printed.content()
        try:
            head = wire.MESSAGE.pack(self._token, what, len(body), len(printed))
            rest = memoryview(head + body + printed)
            while rest:
                rest = rest[_write(self._descriptor, rest) :]
        except OSError:
            _exit(_VERDICT_CLOSED)
        _exit(0)


def leave_server(parent: int, library: Any, descriptor: int) -> int:
    """Cut what ties a new child to the server: its session, signals and descriptors.

    Returns:
        The descriptor of the verdict, which is another one now.
    """
    # The handler of SIGCHLD stays: it does nothing, and to take it away costs 50 µs of page faults.
    signal.set_wakeup_fd(-1)
    limits.die_with_parent(library, parent)
    os.setsid()
    os.dup2(descriptor, _VERDICT_DESCRIPTOR, inheritable=False)
    os.closerange(3, _VERDICT_DESCRIPTOR)
    os.closerange(_VERDICT_DESCRIPTOR + 1, _MAX_DESCRIPTORS)
    return _VERDICT_DESCRIPTOR


def settle(folder: str) -> None:
    """Make the case's folder and live there; one level down, so that `../x` is still inside."""
    work = f"{folder}/work"
    try:
        os.mkdir(folder, 0o700)
        os.mkdir(work, 0o700)
    except FileNotFoundError:  # an earlier case has removed the folder of all
        os.makedirs(work, 0o700)
    os.chdir(work)
    for name in _PLACES:
        os.environ[name] = work
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # type: ignore[attr-defined]  # it is the module


def grade(verdict: Verdict, call: Callable[..., Any] | None, path: str, body: bytes) -> NoReturn:
    """Call a rubric and answer with what it returns.

    Args:
        verdict: where the answer goes.
        call: the rubric's `grade`; `None`: it is still to be loaded.
        path: the rubric.
        body: a JSON object of `case` and `output`.
    """
    gc.enable()
    _answer(verdict, lambda: _grade(call, path, body), wire.MAX_VERDICT_BYTES)


def _grade(call: Callable[..., Any] | None, path: str, body: bytes) -> Any:
    given = json.loads(body)
    return (call or load_rubric(path))(given["case"], given["output"])


def run_system(verdict: Verdict, call: Callable[..., Any], body: bytes) -> NoReturn:
    """Call a system under test and answer with what it returns.

    Args:
        verdict: where the answer goes.
        call: the system.
        body: the pickled case.
    """
    gc.enable()
    # Our own client pickled it.
    _answer(verdict, lambda: call(pickle.loads(body)), None)  # noqa: S301


def _answer(verdict: Verdict, call: Callable[[], Any], most: int | None) -> NoReturn:
    try:
        answer = call()
        if hasattr(answer, "__await__"):
            import asyncio

            answer = asyncio.run(_result_of(answer))
        what, body = wire.VERDICT, _to_json(answer, most)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the case's result
        what, body = wire.RAISED, describe(error)
    verdict.give(what, body)


async def _result_of(answer: Any) -> Any:
    return await answer


class _NoVerdictError(Exception):
    """The answer can't be sent; says why."""


def _to_json(answer: Any, most: int | None) -> bytes:
    text = _dumps(answer, allow_nan=False).encode()
    if most is not None and len(text) > most:
        raise _NoVerdictError(f"answered with {len(text):,} bytes of JSON; {most:,} are the most")
    return text


def describe(error: BaseException) -> bytes:
    """Return what is to be said of an exception, as JSON: `reason, type, message, traceback`."""
    if isinstance(error, MemoryError):
        traceback.clear_frames(error.__traceback__)  # they hold what there was no memory for
    name = type(error).__name__
    message = _message_of(error)
    own_words = isinstance(error, (_NoVerdictError, NotUsableError))
    reason = message if own_words else f"raised {name}: {message}" if message else f"raised {name}"
    said = {"reason": reason, "type": name, "message": message, "traceback": ""}
    if not own_words:
        said["traceback"] = _traceback_of(error)
    return _dumps(said).encode()


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE_CHARACTERS]
    except BaseException as second:  # noqa: BLE001 - `__str__` is the rubric's, too
        return f"(its text can't be had: {type(second).__name__})"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback from where our own frames, and those of the import system, end."""
    try:
        frames = rest = error.__traceback__
        while rest is not None:
            name = rest.tb_frame.f_code.co_filename
            rest = rest.tb_next
            if name.startswith((_OUR_FOLDER, "<frozen importlib")):
                frames = rest
        lines = traceback.format_exception(type(error), error, frames)
        return "".join(lines)[-_MAX_TRACEBACK_CHARACTERS:]
    except BaseException:  # noqa: BLE001 - it is the rubric's exception that counts
        return ""


def run_script(path: str, body: bytes, output: int) -> NoReturn:
    """Become `python rubric.py` with the case on stdin.

    Args:
        path: the rubric.
        body: a JSON object of `case` and `output`.
        output: the descriptor that stdout is to go to.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as a shell would start it
    source = os.open("../stdin", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    rest = memoryview(body)
    while rest:
        rest = rest[_write(source, rest) :]
    os.lseek(source, 0, os.SEEK_SET)
    os.unlink("../stdin")
    os.dup2(source, 0)
    os.dup2(output, 1)
    os.execv(sys.executable, [sys.executable, path])  # noqa: S606 - no shell is wanted


def end_unsettled(verdict: Verdict | None, error: BaseException) -> NoReturn:
    """End a child that could not even begin."""
    if verdict is None:
        _exit(_NOT_SETTLED)
    reason = f"could not be started: {type(error).__name__}: {_message_of(error)}"
    said = {"reason": reason, "type": "OSError", "message": reason, "traceback": ""}
    verdict.give(wire.RAISED, _dumps(said).encode())
