"""Make files whose blocks are there, and map them without a descriptor that stays open."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from contextlib import suppress

# Bound here, because a test may replace them in their module.
from os import close
from typing import Any, Final

from pytest_failure_taxonomy.system.own_files import Folder

_FLAGS: Final = os.O_RDWR | os.O_CREAT


def allocate_file(folder: Folder, name: str, size: int) -> None:
    """Make a file that keeps its room on the disk for later.

    It has the mode that `open()` would give it, because it may be moved to where the report goes.

    Raises:
        OSError: there is no room, or no right; no file is left.
    """
    descriptor = folder.open_file(name, _FLAGS, 0o666)
    try:
        _allocate(descriptor, size)
    except OSError:
        with suppress(OSError):
            folder.unlink(name)
        raise
    finally:
        close(descriptor)


def map_file(folder: Folder, name: str, size: int, *, make: bool = True) -> memoryview:
    """Map a file, made or made larger, whose blocks are there: a full disk can't hurt it later.

    Args:
        folder: where it is.
        name: of the file.
        size: in bytes.
        make: make it where it is not there; a new one has lost what the old one held.

    Raises:
        OSError: there is no room, or no right, or no file.
    """
    descriptor = folder.open_file(name, _FLAGS if make else os.O_RDWR)
    try:
        _allocate(descriptor, size)
        return _map(descriptor, size)
    finally:
        close(descriptor)


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.truncate(descriptor, size)


def _map(descriptor: int, size: int) -> memoryview:
    """Map a descriptor, and hold on to none.

    `mmap` keeps a duplicate under the lowest number that is free, and closes that number at its
    end, whosever file it is by then; only Python 3.13 can be told not to.
    """
    if os.name != "posix":
        return memoryview(mmap.mmap(descriptor, size))
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(descriptor, size, trackfd=False))
    return _map_by_the_system(descriptor, size)


def _map_by_the_system(descriptor: int, size: int) -> memoryview:
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    call, undo = system.mmap, system.munmap
    call.restype = ctypes.c_void_p
    call.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        *[ctypes.c_int] * 3,
        ctypes.c_long,
    )
    undo.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    address: Any = call(
        None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0
    )
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    content = (ctypes.c_char * size).from_address(address)
    weakref.finalize(content, undo, address, size).atexit = False
    return memoryview(content).cast("B")
