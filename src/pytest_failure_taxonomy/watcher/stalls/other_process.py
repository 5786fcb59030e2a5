"""What another process is at: its stacks, who holds its GIL, its children, where its user reads."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.record import layout
from pytest_failure_taxonomy.record.stack_dumps import find_py_spy
from pytest_failure_taxonomy.system.files import CAREFUL, identity_of
from pytest_failure_taxonomy.system.proc import fields_of, start_of
from pytest_failure_taxonomy.system.process import (
    catches,
    command_of,
    descendants,
    has_process,
    is_restarted,
    name_of,
)
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

_LOCK: Final = struct.Struct("=QQi")
"""Interval in microseconds, address of a thread's state, 1 if it is held."""
_MAX_RUNTIME_BYTES: Final = 1 << 20
"""`_PyRuntime` has 100 KiB to 750 KiB."""
_LOOKS_AT_LOCK: Final = 3
_LOOK_AT_LOCK_SECONDS: Final = 0.01

_TERMINALS: Final = ("/dev/pts/", "/dev/tty", "/dev/console")
_READS: Final = {"x86_64": (0, (23, 270, 7, 271)), "aarch64": (63, (72, 73))}
"""By machine: the numbers of the system calls `read`, and `select`, `pselect6`, `poll`, `ppoll`."""
_PIDFD_GETFD: Final = 438
"""The number of the system call on all machines (Linux 5.6)."""
_STDERR: Final = 2
_YELLOW, _PLAIN = "\x1b[33m", "\x1b[0m"


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
        if has_process(child):
            words = command_of(child)[:-1] or [f"[{name_of(child)}]"]
            lines.append(shlex.join(redact(words))[:MAX_COMMAND])
    return tuple(lines)


def send_signal(identity: tuple[int, int], number: int) -> None:
    """Send a signal to a process, unless another one has its id by now.

    Args:
        identity: its id, and its start in clock ticks since the boot.
        number: the signal.
    """
    process_id, started = identity
    with suppress(OSError):
        descriptor = os.pidfd_open(process_id)
        try:
            if start_of(process_id) == started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


# Its stacks.


class NoStacksError(Exception):
    """The stacks of a process can't be read; says why."""


def read_stacks(process_id: int, dump: Path, number: int, seconds: float = 2.0) -> Stacks:
    """Return the stacks of a process that is blocked or frozen.

    py-spy reads them where it is installed and allowed to. Or else the process is asked to write
    them, which faulthandler does in a signal handler without the GIL. Don't ask a process that is
    busy: its stacks change while they are written.

    Args:
        process_id: the process.
        dump: the file that it writes its own stacks to. What is read is removed from it.
        number: the signal that `prepare_to_be_read` returned in that process; 0 for none.
        seconds: how long each of both may take.

    Raises:
        NoStacksError: if neither works.
    """
    reasons = []
    ways = (
        partial(_ask_py_spy, process_id, seconds),
        partial(_ask_itself, process_id, dump, number, seconds),
    )
    for read in ways:
        try:
            return read()
        except NoStacksError as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(error.strerror or str(error))
    raise NoStacksError("; ".join(reasons))


def _ask_py_spy(process_id: int, seconds: float) -> Stacks:
    program = find_py_spy()
    if program is None:
        raise NoStacksError("py-spy is not installed")
    deadline = time.monotonic() + seconds
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(  # noqa: S603 - the arguments are ours
        [program, "dump", "--nonblocking", "--json", "--pid", str(process_id)],
        stdin=null,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,  # a process group of its own, which is killed at the end
    )
    assert child.stdout is not None  # noqa: S101 - both are pipes
    assert child.stderr is not None  # noqa: S101 - likewise
    output, complaint = bytearray(), bytearray()
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ, (output, MAX_STACKS_CHARACTERS))
            selector.register(child.stderr, selectors.EVENT_READ, (complaint, _MAX_COMPLAINT))
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise NoStacksError(f"py-spy took more than {seconds:g} s")
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    kept, most = key.data
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif len(kept) + len(piece) <= most:
                        kept += piece
                    elif kept is output:
                        raise NoStacksError("py-spy printed too much")
    finally:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.stderr.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    stacks = parse_py_spy(output.decode("utf-8", "replace"))
    if stacks is None or not any(thread.frames for thread in stacks.threads):
        said = " ".join(complaint.decode("utf-8", "replace").split())[:_MAX_REASON]
        raise NoStacksError(f"py-spy: {said}" if said else "py-spy printed no stacks")
    return stacks


def _ask_itself(process_id: int, dump: Path, number: int, seconds: float) -> Stacks:
    if not number:
        raise NoStacksError("the process does not write its stacks itself")
    descriptor = os.open(dump, os.O_RDWR | CAREFUL)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise NoStacksError("what should be the file for its stacks is none")
        _send_if_sure(process_id, number, before)
        deadline = time.monotonic() + seconds
        size, changed = before.st_size, time.monotonic()
        while (now := time.monotonic()) < deadline:
            if (larger := os.fstat(descriptor).st_size) != size:
                size, changed = larger, now
            elif size > before.st_size and now - changed > _QUIET_SECONDS:
                break
            time.sleep(_LOOK_SECONDS)
        length = min(max(0, size - before.st_size), MAX_STACKS_CHARACTERS)
        text = os.pread(descriptor, length, before.st_size).decode("utf-8", "replace")
        with suppress(OSError):  # what the process writes at its end is read apart from this
            os.ftruncate(descriptor, before.st_size)
    finally:
        os.close(descriptor)
    stacks = parse_faulthandler(text)
    if stacks is None:
        raise NoStacksError(f"the process did not write its stacks within {seconds:g} s")
    return stacks


def _send_if_sure(process_id: int, number: int, file: os.stat_result) -> None:
    """Send a process the signal, if it is sure that this makes it write to the file.

    Without a handler the signal would end the process. And a test may have closed the descriptor
    and opened a file of its own under that number.

    Raises:
        OSError: if the process is gone, or it can't be known.
        NoStacksError: if it is not so.
    """
    process = os.pidfd_open(process_id)
    try:
        if not has_process(process_id):
            raise NoStacksError("the process has ended")
        if fields_of(process_id)[:1] in ([b"T"], [b"t"]):
            raise NoStacksError("the process is stopped")
        folder, opened = f"/proc/{process_id}/fd", set()
        for name in os.listdir(folder):
            with suppress(OSError):
                opened.add(identity_of(os.stat(f"{folder}/{name}")))
        if identity_of(file) not in opened:
            raise NoStacksError("the process has closed the file for its stacks")
        if not catches(process_id, number):
            raise NoStacksError("the process no longer writes its stacks when it is asked to")
        if not is_restarted(process_id) and is_gil_held(process_id):
            raise NoStacksError("the process is in a C function that a signal might end early")
        signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)


# Its GIL. To tell who holds it takes three words of the memory of the process, which the system
# lets root read, and the same user unless the security module Yama forbids it. Where they lie is
# found in this very process, which has to run the same program: the lock is a part of `_PyRuntime`,
# where CPython has the interval of switches, the thread that was the last to hold it, and whether
# it is held (`struct _gil_runtime_state`; 3.11 to 3.13).


def is_gil_held(process_id: int) -> bool | None:
    """Tell whether one thread of a process holds the GIL for 20 ms without a break.

    Of a process that uses no CPU time it is one that waits in a C function.

    Returns:
        `None` if it can't be known: on another system than Linux, of another program than this one,
        without the right to read its memory, or of a Python without a GIL.
    """
    try:
        place = _place_of_lock()
        if place is None:
            return None
        file, offset = place
        base = min(start for start, _, mapped in _mappings(process_id) if mapped == file)
        seen = set()
        with open(f"/proc/{process_id}/mem", "rb", buffering=0) as memory:
            for look in range(_LOOKS_AT_LOCK):
                time.sleep(_LOOK_AT_LOCK_SECONDS if look else 0)
                content = os.pread(memory.fileno(), _LOCK.size, base + offset)
                interval, holder, is_held = _LOCK.unpack(content)
                if is_held not in (0, 1) or not 0 < interval < 1 << 40:
                    return None
                seen.add((holder, is_held))
    except (OSError, ValueError, OverflowError, struct.error):  # ValueError: no mapping of the file
        return None
    return len(seen) == 1 and seen.pop()[1] == 1


@lru_cache(maxsize=1)
def _place_of_lock() -> tuple[tuple[str, str], int] | None:
    """Return the file with the interpreter's code, and the place of the lock relative to it."""
    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython":
        return None
    if sys.maxsize < 1 << 32:  # other sizes, below and in the call of the C library
        return None
    import ctypes

    try:
        runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        state = ctypes.pythonapi.PyThreadState_Get
    except (ValueError, AttributeError):
        return None
    state.restype = ctypes.c_size_t
    mappings = _mappings(os.getpid())
    file = next((mapped for start, end, mapped in mappings if start <= runtime < end), None)
    if file is None:
        return None
    held = _LOCK.pack(round(sys.getswitchinterval() * 1e6), state(), 1)
    # By a system call, which ends at what can't be read, where an access would end the process; and
    # by ctypes, because `os.pread` releases the GIL meanwhile.
    pread = ctypes.PyDLL(None).pread
    pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    buffer = ctypes.create_string_buffer(_MAX_RUNTIME_BYTES)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        length = pread(memory.fileno(), buffer, _MAX_RUNTIME_BYTES, runtime)
    content = buffer.raw[: max(0, length)]
    at = content.find(held)
    if at < 0 or content.find(held, at + 1) >= 0:
        return None
    return file, runtime + at - min(start for start, _, mapped in mappings if mapped == file)


def _mappings(process_id: int) -> list[tuple[int, int, tuple[str, str]]]:
    """Return start, end, and the file of each part of a process's memory: device and inode."""
    found = []
    with open(f"/proc/{process_id}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            addresses, _, _, device, inode, *_ = line.split()
            start, _, end = addresses.partition("-")
            found.append((int(start, 16), int(end, 16), (device, inode)))
    return found


# Its terminal.


def waits_for_input(process_id: int) -> bool:
    """Tell whether the main thread of a process waits for a line from a terminal."""
    try:
        with open(f"/proc/{process_id}/syscall", encoding="ascii") as file:
            words = file.read().split()
        number, descriptor = int(words[0]), int(words[1], 16)
        read, waits = _READS.get(os.uname().machine, (-1, ()))
        if number in waits and descriptor in (0, 1):  # readline waits for standard input alone
            descriptor = 0
        elif number != read:
            return False
        return os.readlink(f"/proc/{process_id}/fd/{descriptor}").startswith(_TERMINALS)
    except (OSError, ValueError, IndexError):
        return False


def print_on_terminal(process_id: int, state: bytes, line: str) -> bool:
    """Print a line where the user of a pytest reads; tell whether that worked.

    While a test runs, pytest's capture has the test's output, and keeps a copy of the real standard
    error. The record says which descriptor that is. This process opens the same file through
    `/proc`, writes, and closes it: it holds no pipe that somebody may be waiting for.

    Args:
        process_id: the pytest process.
        state: the contents of its record's state file.
        line: without control characters.
    """
    if len(state) < layout.PAGE:
        return False
    device, inode, number, flags = layout.READER.unpack_from(state, layout.READER_AT)
    if not flags & layout.IS_SHOWN:
        return False
    shown = line_of_its_own(line, is_coloured=bool(flags & layout.IS_COLOURED))
    # Once the capture has ended, standard error is itself again.
    for each in dict.fromkeys((number, _STDERR)):
        with suppress(OSError, ValueError):
            descriptor = _open_for_writing(process_id, each, (device, inode))
            try:
                return os.write(descriptor, shown) > 0
            finally:
                os.close(descriptor)
    return False


def line_of_its_own(line: str, *, is_coloured: bool) -> bytes:
    """Return what prints a line by itself, even if pytest has written half of one."""
    return f"\n{_YELLOW}{line}{_PLAIN}\n".encode() if is_coloured else f"\n{line}\n".encode()


def _open_for_writing(process_id: int, number: int, identity: tuple[int, int]) -> int:
    """Open what a process has open under a number, if that is still the same file.

    Raises:
        OSError: if it is not, or can't be opened.
    """
    path = f"/proc/{process_id}/fd/{number}"
    status = os.stat(path)
    if identity_of(status) != identity:
        raise FileNotFoundError(path)
    appends = True
    if stat.S_ISREG(status.st_mode):
        with open(f"/proc/{process_id}/fdinfo/{number}", encoding="ascii") as file:
            words = file.read().split()
        appends = bool(int(words[words.index("flags:") + 1], 8) & os.O_APPEND)
    if appends:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(path, flags)
    # What is written by another opening of the file, pytest would write over. So get a descriptor
    # that has its position in common with that of the process.
    import ctypes

    call: Any = ctypes.CDLL(None, use_errno=True).syscall
    process = os.pidfd_open(process_id)
    try:
        descriptor = int(call(_PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor
