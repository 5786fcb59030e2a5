"""Create files with allocated blocks, and map them into memory without an open descriptor."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.system.files import Folder
from pytest_failure_taxonomy.system.interpreter import isolate_module

os = isolate_module(os)

_FLAGS: Final = os.O_RDWR | os.O_CREAT


def allocate_file(folder: Folder, name: str, size: int) -> None:
    """Create a file that reserves room on the disk.

    It has the mode that `open()` would give it, because it may become the report.

    Raises:
        OSError: if there is no room or no permission; no file is left then.
    """
    descriptor = folder.open_file(name, _FLAGS, 0o666)
    try:
        _allocate(descriptor, size)
    except OSError:
        with suppress(OSError):
            folder.unlink(name)
        raise
    finally:
        os.close(descriptor)


def map_file(folder: Folder, name: str, size: int, *, make: bool = True) -> memoryview:
    """Create or enlarge a file, and map it. Its blocks are allocated, in case the disk fills up.

    Args:
        folder: has the file.
        name: of the file.
        size: in bytes.
        make: create the file if it does not exist.

    Raises:
        OSError: if there is no room, no permission, or no file and `make` is false.
    """
    descriptor = folder.open_file(name, _FLAGS if make else os.O_RDWR)
    try:
        _allocate(descriptor, size)
        return _map(descriptor, size)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.truncate(descriptor, size)


def _map(descriptor: int, size: int) -> memoryview:
    """Map a file without keeping a descriptor of it.

    `mmap` keeps a duplicate with the lowest free number, and closes that number in the end, even if
    it belongs to another file by then. Since Python 3.13 it has an option not to.
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
