"""Read the stacks of another process from outside, and name its children."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.record.stack_dumps import find_py_spy
from pytest_failure_taxonomy.system.files import CAREFUL, identity_of
from pytest_failure_taxonomy.system.process import (
    catches,
    command_of,
    descendants,
    is_restarted,
    is_running,
    name_of,
    state_of,
)
from pytest_failure_taxonomy.watcher.stalls.gil import is_gil_held
from pytest_failure_taxonomy.watcher.stalls.stacks import (
    MAX_STACKS_CHARACTERS,
    Stacks,
    parse_faulthandler,
    parse_py_spy,
)

MAX_CHILDREN: Final = 20
"""Child processes that are named."""
MAX_COMMAND: Final = 200
"""Characters kept of a command line."""

_MAX_COMPLAINT: Final = 4096
_MAX_REASON: Final = 200
_LOOK_SECONDS: Final = 0.005
_QUIET_SECONDS: Final = 0.03
"""faulthandler doesn't say when it is done; it takes a millisecond for the stacks of a pytest."""


class _NoStacksError(Exception):
    """The stacks can't be read; says why."""


def read_stacks(
    process_id: int,
    *,
    dump: Path | int | None,
    ask: Callable[[], object] | int | None,
    seconds: float = 2.0,
    why_not: Callable[[str], object] | None = None,
) -> Stacks | None:
    """Return the stacks of a process that is blocked or frozen, or `None`.

    py-spy reads them where it is installed and allowed to. Or else the process is asked to write
    them, which faulthandler does in a signal handler without the GIL. Don't ask a process that is
    busy: its stacks change while they are written.

    Args:
        process_id: the process.
        dump: the file that it writes its own stacks to: a path, or a descriptor that this process
            holds. What is read is removed from it.
        ask: the signal that `prepare_to_be_read` returned in that process, or what else makes it
            write them.
        seconds: how long each of both may take.
        why_not: called once with the reason, where the answer is `None`.
    """
    reasons = []
    for read in (_from_py_spy, _from_its_own):
        try:
            return read(process_id, dump, ask, seconds)
        except _NoStacksError as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(error.strerror or str(error))
    if why_not is not None:
        why_not("; ".join(reasons))
    return None


def children_of(process_id: int, redact: Callable[..., Sequence[str]] = list) -> tuple[str, ...]:
    """Return the command lines of a process's descendants, by process id.

    Args:
        process_id: the process.
        redact: removes the secrets from the words of a command.
    """
    lines: list[str] = []
    for child in sorted(descendants(process_id)):
        if len(lines) == MAX_CHILDREN:
            break
        if is_running(child):
            words = command_of(child)[:-1] or [f"[{name_of(child)}]"]
            lines.append(shlex.join(redact(words))[:MAX_COMMAND])
    return tuple(lines)


# By py-spy.


def _from_py_spy(process_id: int, _dump: object, _ask: object, seconds: float) -> Stacks:
    program = find_py_spy()
    if program is None:
        raise _NoStacksError("py-spy is not installed")
    command = [program, "dump", "--nonblocking", "--json", "--pid", str(process_id)]
    output, complaint = _output_of(command, seconds)
    stacks = parse_py_spy(output)
    if stacks is None or not any(thread.frames for thread in stacks.threads):
        said = " ".join(complaint.split())[:_MAX_REASON]
        raise _NoStacksError(f"py-spy: {said}" if said else "py-spy printed no stacks")
    return stacks


def _output_of(command: list[str], seconds: float) -> tuple[str, str]:
    """Run a command; return what it prints on its standard output and error.

    Raises:
        OSError: if it can't be started.
        _NoStacksError: if it takes too long or prints too much; it is killed then.
    """
    deadline = time.monotonic() + seconds
    with _started(command) as child, selectors.DefaultSelector() as selector:
        kept = {}
        for stream, most in ((child.stdout, MAX_STACKS_CHARACTERS), (child.stderr, _MAX_COMPLAINT)):
            assert stream is not None  # noqa: S101 - both are pipes
            kept[stream.fileno()] = bytearray()
            selector.register(stream, selectors.EVENT_READ, most)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _NoStacksError(f"py-spy took more than {seconds:g} s")
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                elif len(kept[key.fd]) + len(piece) <= key.data:
                    kept[key.fd] += piece
                elif key.data == MAX_STACKS_CHARACTERS:
                    raise _NoStacksError("py-spy printed too much")
        output, complaint = (bytes(each).decode("utf-8", "replace") for each in kept.values())
    return output, complaint


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a process group of its own, and kill that at the end."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(  # noqa: S603 - the arguments are ours
        command, stdin=null, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        yield child
    finally:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)


# By the process itself.


def _from_its_own(
    process_id: int, dump: Path | int | None, ask: Callable[[], object] | int | None, seconds: float
) -> Stacks:
    if dump is None or ask is None:
        raise _NoStacksError("the process does not write its stacks itself")
    descriptor = os.open(dump, os.O_RDWR | CAREFUL) if isinstance(dump, Path) else os.dup(dump)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise _NoStacksError("what should be the file for its stacks is none")
        if callable(ask):
            ask()
        else:
            _send(process_id, ask, before)
        text = _added_to(descriptor, before.st_size, seconds)
        with suppress(OSError):  # what the process writes at its end is read apart from this
            os.ftruncate(descriptor, before.st_size)
    finally:
        os.close(descriptor)
    stacks = parse_faulthandler(text)
    if stacks is None:
        raise _NoStacksError(f"the process did not write its stacks within {seconds:g} s")
    return stacks


def _added_to(descriptor: int, size: int, seconds: float) -> str:
    """Return what is added to a file of a size, once nothing more is."""
    deadline = time.monotonic() + seconds
    seen, changed = size, time.monotonic()
    while (now := time.monotonic()) < deadline:
        if (found := os.fstat(descriptor).st_size) != seen:
            seen, changed = found, now
        elif seen > size and now - changed > _QUIET_SECONDS:
            break
        time.sleep(_LOOK_SECONDS)
    length = min(max(0, seen - size), MAX_STACKS_CHARACTERS)
    return os.pread(descriptor, length, size).decode("utf-8", "replace")


def _send(process_id: int, number: int, file: os.stat_result) -> None:
    """Send a process the signal, if it is sure that this makes it write to the file.

    Without a handler the signal would end the process. And a test may have closed the descriptor
    and opened a file of its own under that number.

    Raises:
        OSError: if the process is gone, or it can't be known.
        _NoStacksError: if it is not so.
    """
    process = os.pidfd_open(process_id)
    try:
        state = state_of(process_id)
        if state is None or state in "ZX":
            raise _NoStacksError("the process has ended")
        if state in "Tt":
            raise _NoStacksError("the process is stopped")
        if not _has_open(process_id, file):
            raise _NoStacksError("the process has closed the file for its stacks")
        if not catches(process_id, number):
            raise _NoStacksError("the process no longer writes its stacks when it is asked to")
        if not is_restarted(process_id) and is_gil_held(process_id):
            raise _NoStacksError("the process is in a C function that a signal might end early")
        signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)


def _has_open(process_id: int, file: os.stat_result) -> bool:
    folder = f"/proc/{process_id}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):
            if identity_of(os.stat(f"{folder}/{name}")) == identity_of(file):
                return True
    return False
