"""Tell whether a thread of another Python process holds its GIL.

That takes three words of its memory, which the system lets root read, and the same user unless the
security module Yama forbids it. Where they lie is found in this very process, which has to run the
same program: the lock is a part of `_PyRuntime`, where CPython has the interval of switches, the
thread that was the last to hold it, and whether it is held (`struct _gil_runtime_state`; 3.11 to
3.13). Where it isn't found the answer is `None`.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

_LOCK: Final = struct.Struct("=QQi")
"""Interval in microseconds, address of a thread's state, 1 if it is held."""
_MAX_RUNTIME_BYTES: Final = 1 << 20
"""`_PyRuntime` has 100 KiB to 750 KiB."""
_LOOKS: Final = 3
_LOOK_SECONDS: Final = 0.01


class _Mapping(NamedTuple):
    start: int
    end: int
    file: tuple[str, str]
    """Device and inode, as they are printed."""


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
        base = _base_of(_mappings(process_id), place[0])
        if base is None:
            return None
        seen = set()
        with open(f"/proc/{process_id}/mem", "rb", buffering=0) as memory:
            for look in range(_LOOKS):
                time.sleep(_LOOK_SECONDS if look else 0)
                interval, holder, is_held = _LOCK.unpack(
                    os.pread(memory.fileno(), _LOCK.size, base + place[1])
                )
                if is_held not in (0, 1) or not 0 < interval < 1 << 40:
                    return None
                seen.add((holder, is_held))
    except (OSError, ValueError, OverflowError, struct.error):
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
    mappings = list(_mappings(os.getpid()))
    file = next((each.file for each in mappings if each.start <= runtime < each.end), None)
    base = None if file is None else _base_of(mappings, file)
    if file is None or base is None:
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
    return file, runtime + at - base


def _mappings(process_id: int) -> Iterator[_Mapping]:
    with open(f"/proc/{process_id}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            addresses, _, _, device, inode, *_ = line.split()
            start, _, end = addresses.partition("-")
            yield _Mapping(int(start, 16), int(end, 16), (device, inode))


def _base_of(mappings: Iterator[_Mapping] | list[_Mapping], file: tuple[str, str]) -> int | None:
    """Return where a file begins in memory."""
    return min((each.start for each in mappings if each.file == file), default=None)
