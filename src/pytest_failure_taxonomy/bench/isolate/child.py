"""What the process of one case does: load the rubric or system, call it, answer, and end."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NoReturn

from . import processes, wire


class Printed:
    """What a rubric printed: the first bytes, and the number of the others."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._dropped = 0

    def add(self, data: bytes | bytearray | memoryview) -> int:
        """Keep what fits; return the number of bytes given."""
        given = len(data)
        room = wire.MAX_PRINTED_BYTES - len(self._kept)
        self._kept += data[:room]
        self._dropped += max(0, given - room)
        return given

    def take(self) -> bytes:
        """Return what was kept, and a line about what was dropped; begin anew."""
        taken = bytes(self._kept)
        if self._dropped:
            taken += f"\n({self._dropped:,} more bytes were dropped)\n".encode()
        self._kept, self._dropped = bytearray(), 0
        return taken


class _Stream(io.RawIOBase):
    """A binary stream into `Printed` that claims a standard descriptor."""

    def __init__(self, printed: Printed, descriptor: int) -> None:
        super().__init__()
        self._printed = printed
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the descriptor that subprocesses inherit instead: the null device."""
        return self._descriptor

    def write(self, data: object, /) -> int:
        return self._printed.add(memoryview(data).cast("B"))  # type: ignore[arg-type]  # any buffer


def capture() -> Printed:
    """Redirect stdout and stderr of this process into memory."""
    printed = Printed()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = io.TextIOWrapper(
            _Stream(printed, descriptor),  # type: ignore[type-var]  # it has what TextIOWrapper calls
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return printed


FactsOf = Callable[[BaseException], Any]
"""Returns a mapping that JSON can represent."""


class NotUsableError(Exception):
    """There is nothing to call, or its answer can't be sent; the message says why."""


def load_rubric(path: str) -> Callable[..., Any]:
    """Return the `grade` of a file, and put its folder on `sys.path`."""
    from importlib.util import module_from_spec, spec_from_file_location

    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    spec = spec_from_file_location("rubric", path)
    if spec is None or spec.loader is None:
        raise NotUsableError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules["rubric"] = module
    spec.loader.exec_module(module)
    grade = getattr(module, "grade", None)
    if not callable(grade):
        raise NotUsableError(
            "it defines no function `grade(case, output)`; a script that reads stdin needs "
            "`rubric_isolation: fresh`"
        )
    return grade  # type: ignore[no-any-return]  # callable() says no more about it


def load_target(target: str, path: list[str]) -> Callable[..., Any]:
    """Return what `package.module:callable` names, after setting `sys.path`."""
    from importlib import import_module

    sys.path[:] = path
    # Before the fork: each case needs them.
    import_module("pytest_failure_taxonomy.bench.models")
    user_code = import_module("pytest_failure_taxonomy.bench.user_code")
    return user_code.import_callable(target)  # type: ignore[no-any-return]  # imported by its name


_REQUESTS_DESCRIPTOR, _SPENDS_DESCRIPTOR, VERDICT_DESCRIPTOR = 253, 254, 255
"""High, but within the limit of open files."""
_MAX_DESCRIPTORS = 65_536
PLACES = ("HOME", "TMPDIR") if os.name == "posix" else ("USERPROFILE", "TEMP", "TMP")
_MAX_MESSAGE_CHARACTERS = 2_000
_MAX_TRACEBACK_CHARACTERS = 20_000

_OUR_FOLDER = os.path.join(os.path.dirname(__file__), "")
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")

_NOT_SETTLED = 70
_VERDICT_CLOSED = 71

# Bound here because a rubric may replace them.
_closerange = os.closerange
_dumps = json.dumps
_dup2 = os.dup2
_enable_gc = gc.enable
_exit = os._exit
_getpid = os.getpid
_loads = pickle.loads
_perf_counter = time.perf_counter
_read_case = wire.read_case
_set_wakeup_fd = signal.set_wakeup_fd
_setsid = os.setsid
_to_json = json.JSONEncoder(allow_nan=False).encode
_write = os.write


class Verdict:
    """Where the answer goes, and the token that marks it as ours."""

    __slots__ = ("_descriptor", "_process_id", "_token", "printed")

    def __init__(self, descriptor: int, token: bytes, printed: Printed) -> None:
        self._descriptor = descriptor
        self._token = token
        self._process_id = _getpid()
        self.printed = printed

    def tell(self, what: bytes, body: bytes, *, is_free: bool) -> None:
        """Write an answer.

        If the case has forked, the other process may get here, too; it only ends.

        Args:
            what: A code of `wire`.
            body: What belongs to it.
            is_free: Whether this process can run another case.
        """
        if _getpid() != self._process_id:
            _exit(0)
        printed = self.printed.take()
        try:
            head = wire.MESSAGE.pack(
                self._token, what, is_free, len(body), len(printed)
            )
            write_all(self._descriptor, head + body + printed)
        except OSError:
            _exit(_VERDICT_CLOSED)

    def give(self, what: bytes, body: bytes) -> NoReturn:
        """Write the only answer and end the process."""
        self.tell(what, body, is_free=False)
        _exit(0)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, in as many pieces as the descriptor takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[_write(descriptor, rest) :]


# What a case's process does before and after its rubric is written plainly, with names
# that are bound beforehand: a fork shares its memory with the server, and each page that
# it is the first to touch costs it about 3 µs. A call of one more function, or an
# `IntFlag`, is some ten pages.


def reserve_descriptors() -> None:
    """Keep the pipes of a server from the numbers that `leave_server` gives to its children."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_REQUESTS_DESCRIPTOR, VERDICT_DESCRIPTOR + 1):
        os.dup2(null, number, inheritable=False)
    os.close(null)


def leave_server(parent: int, ends: Sequence[int]) -> None:
    """Detach a new child from the server: its session, signals and descriptors.

    Args:
        parent: The server's process.
        ends: The descriptors that the child keeps, under new numbers: where the verdict goes,
            `VERDICT_DESCRIPTOR`; where a system tells what it spends, `_SPENDS_DESCRIPTOR`; and
            where its next cases come from, `_REQUESTS_DESCRIPTOR`.
    """
    # The handler of SIGCHLD stays: it does nothing, and removing it costs 50 µs of page faults.
    _set_wakeup_fd(-1)
    processes.die_with_parent(parent)
    _setsid()
    number = VERDICT_DESCRIPTOR
    for end in ends:
        _dup2(end, number, False)  # noqa: FBT003 - it is called by position: see above
        number -= 1
    _closerange(3, number + 1)
    _closerange(VERDICT_DESCRIPTOR + 1, _MAX_DESCRIPTORS)


def settle(folder: str) -> None:
    """Work one level below a case's folder, so that `../x` is still inside.

    It is created unless an earlier case has left it untouched.
    """
    work = f"{folder}/work"
    if not processes.is_untouched(folder):
        processes.create_case_folder(folder)
    os.chdir(work)
    for name in PLACES:
        os.environ[name] = work


def forget_temporary_folder() -> None:
    """Have `tempfile`, if a rubric has imported it, look for its folder anew."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # type: ignore[attr-defined]  # it is the module


def grade(
    verdict: Verdict, call: Callable[..., Any] | None, path: str, body: bytes
) -> NoReturn:
    """Call a rubric and answer with what it returns.

    Args:
        verdict: Where the answer goes.
        call: The rubric's `grade`; `None` if it is still to be loaded.
        path: The rubric.
        body: What `wire.pack_case` has made of case and output.
    """
    _enable_gc()
    try:
        case, output = _read_case(body)
        if call is None:
            call = load_rubric(path)
        answer = call(case, output)
        if hasattr(answer, "__await__"):
            answer = _Loop().wait(answer)
        text = _to_json(answer).encode()
        if len(text) > wire.MAX_VERDICT_BYTES:
            most = f"{wire.MAX_VERDICT_BYTES:,} are the most"
            raise NotUsableError(f"answered with {len(text):,} bytes of JSON; {most}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the case's result
        verdict.give(wire.RAISED, describe(error))
    verdict.give(wire.VERDICT, text)


def run_system(
    verdict: Verdict,
    call: Callable[..., Any],
    body: bytes,
    *,
    spends: int = _SPENDS_DESCRIPTOR,
    requests: int | None = _REQUESTS_DESCRIPTOR,
) -> NoReturn:
    """Call a system under test and answer with what it returns; then for the next case.

    A case that leaves something behind is the last one of its process.

    Args:
        verdict: Where the answers go.
        call: The system.
        body: The pickled case.
        spends: The descriptor of the pipe by which each amount is told as soon as it is spent.
        requests: That of the socket by which further cases come; `None` if there are none.
    """
    from pytest_failure_taxonomy.bench.answers import Spending, read_output
    from pytest_failure_taxonomy.bench.user_code import ToldError, facts_of

    began = 0.0

    def tell(cost_usd: float, usage: Mapping[str, float]) -> None:
        with suppress(OSError):  # the server is gone, and kills this process at once
            _write(spends, wire.pack_spent(cost_usd, usage))

    def pack(given: Any) -> tuple[bytes, bytes]:
        try:
            answer = read_output(tell, given)
        except ToldError as error:
            raise error.with_traceback(None) from None  # the frames are ours
        said = {"output": answer.output, "transcript": answer.transcript}
        return wire.ANSWER, _to_json(said).encode()

    def call_system(given: bytes) -> Any:
        nonlocal began
        case = _loads(given)
        began = _perf_counter()
        return call(case.spending_to(Spending(tell)))

    loop = _Loop()
    given: bytes | None = body
    gc.enable()
    before = processes.surroundings()
    while given is not None:
        what, answer = copy_context().run(
            _result_of, partial(call_system, given), loop.wait, pack, facts_of
        )
        with suppress(OSError):  # as above
            _write(spends, wire.pack_spent(0.0, {}, _perf_counter() - began))
        is_free = (
            requests is not None and loop.is_idle() and processes.is_as_before(before)
        )
        verdict.tell(what, answer, is_free=is_free)
        given = None
        if is_free and requests is not None:
            head = _read(requests, wire.LENGTH.size)
            if head is not None:
                given = _read(requests, *wire.LENGTH.unpack(head))
    _exit(0)


def _read(source: int, size: int) -> bytes | None:
    """Return as many bytes from a descriptor; `None` at its end."""
    received = bytearray()
    while len(received) < size:
        data = os.read(source, size - len(received))
        if not data:
            return None
        received += data
    return bytes(received)


class _Loop:
    """The event loop of the systems that run in this process one after another."""

    def __init__(self) -> None:
        self._runner: Any = None

    def wait(self, answer: Any) -> Any:
        """Wait for what a system has returned."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._runner is None:
            self._runner = asyncio.Runner()
        # Its threads end with the case: name resolution and `to_thread` would leave some.
        executor = ThreadPoolExecutor()
        loop = self._runner.get_loop()
        loop.set_default_executor(executor)
        task = loop.create_task(_awaited(answer), context=copy_context())
        try:
            # Not by the runner, which would take 0.1 ms to handle a SIGINT that nobody sends.
            return loop.run_until_complete(task)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def is_idle(self) -> bool:
        """Tell whether the last system has left nothing to be done."""
        if self._runner is None:
            return True
        import asyncio

        try:
            loop = self._runner.get_loop()
            if _has_nothing_to_do(loop):
                return True
            # What was due anyway, such as closing a transport.
            loop.run_until_complete(asyncio.sleep(0))
            return _has_nothing_to_do(loop)
        except BaseException:  # noqa: BLE001 - the loop is closed, or a callback has raised
            return False


def _has_nothing_to_do(loop: Any) -> bool:
    import asyncio

    due = (*getattr(loop, "_ready", ()), *getattr(loop, "_scheduled", ()))
    return not asyncio.all_tasks(loop) and all(call.cancelled() for call in due)


async def _awaited(answer: Any) -> Any:
    return await answer


def _result_of(
    call: Callable[[], Any],
    wait: Callable[[Any], Any],
    pack: Callable[[Any], tuple[bytes, bytes]],
    facts_of: FactsOf | None = None,
) -> tuple[bytes, bytes]:
    """Return what a call returns, or what is to be said of its exception."""
    try:
        answer = call()
        return pack(wait(answer) if hasattr(answer, "__await__") else answer)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the case's result
        return wire.RAISED, describe(error, facts_of)


def describe(error: BaseException, facts_of: FactsOf | None = None) -> bytes:
    """Describe an exception as a JSON object of `reason`, `type`, `message` and `traceback`.

    The traceback is without our own frames and those of the import system.

    Args:
        error: The exception.
        facts_of: Returns more to say of it.
    """
    if isinstance(error, MemoryError):
        traceback.clear_frames(
            error.__traceback__
        )  # their locals hold the memory that is missing
    name, message, shown = type(error).__name__, _message_of(error), ""
    if isinstance(error, NotUsableError):
        reason = message
    else:
        reason = f"raised {name}: {message}" if message else f"raised {name}"
        with suppress(BaseException):  # only the rubric's exception counts
            frames = rest = error.__traceback__
            while rest is not None:
                file = rest.tb_frame.f_code.co_filename
                rest = rest.tb_next
                if file.startswith((_OUR_FOLDER, "<frozen importlib")):
                    frames = rest
            taken = traceback.TracebackException(type(error), error, frames)
            if type(error).__module__.startswith("pytest_failure_taxonomy."):
                # It is for the user, who can't change our code.
                while taken.stack and taken.stack[-1].filename.startswith(_PACKAGE):
                    taken.stack.pop()
            shown = "".join(taken.format())[-_MAX_TRACEBACK_CHARACTERS:]
    said = {"reason": reason, "type": name, "message": message, "traceback": shown}
    if facts_of is not None:
        with suppress(BaseException):  # methods of the exception are called
            said |= facts_of(error)
    return _dumps(said).encode()


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE_CHARACTERS]
    except BaseException as second:  # noqa: BLE001 - `__str__` is the rubric's code
        return f"(its text is not available: {type(second).__name__})"


def run_script(path: str, body: bytes, output: int) -> NoReturn:
    """Become `python rubric.py` with the case on stdin.

    Args:
        path: The rubric.
        body: A JSON object of `case` and `output`.
        output: The descriptor that becomes stdout.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as if a shell had started it
    source = os.open("../stdin", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    write_all(source, body)
    os.lseek(source, 0, os.SEEK_SET)
    os.unlink("../stdin")
    os.dup2(source, 0)
    os.dup2(output, 1)
    os.execv(sys.executable, [sys.executable, path])  # noqa: S606 - no shell is wanted


def end_unsettled(verdict: Verdict | None, error: BaseException) -> NoReturn:
    """End a child that failed before it could call anything."""
    if verdict is None:
        _exit(_NOT_SETTLED)
    reason = f"could not be started: {type(error).__name__}: {_message_of(error)}"
    said = {"reason": reason, "type": "OSError", "message": reason, "traceback": ""}
    verdict.give(wire.RAISED, _dumps(said).encode())
