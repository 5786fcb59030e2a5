"""What a process may use, and whose death ends it; what a system does not know is left out."""

from __future__ import annotations

import math
import os
import signal
import sys
from typing import Any


def _load_resource() -> Any:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource


resource = _load_resource()  # here: in each fork it would cost a millisecond

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MIB = 1 << 20

MAX_OPEN_FILES = 256
MAX_FILE_BYTES = 1 << 30
SPARE_CPU_SECONDS = 5
"""Beyond the time limit; the processor's limit is only for when nobody is left to keep that one."""


def limit_process(memory_mb: int, limit_seconds: float) -> None:
    """Limit this process and all that it starts.

    Args:
        memory_mb: address space in MiB (macOS does not keep to it).
        limit_seconds: of wall clock, all processors may work so long; 0 for no limit.
    """
    if resource is None:
        return
    wanted = {
        resource.RLIMIT_AS: memory_mb * _MIB,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
    }
    if limit_seconds:
        seconds = math.ceil(limit_seconds) * (os.cpu_count() or 1) + SPARE_CPU_SECONDS
        wanted[resource.RLIMIT_CPU] = seconds
    for which, most in wanted.items():
        _lower(which, most)


def _lower(which: int, most: int) -> None:
    try:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(which, (most, most))
    except (OSError, ValueError):
        pass  # a limit that this system does not have


def load_library() -> Any:
    """Return the C library on Linux, `None` elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        library = ctypes.CDLL(None)
        _ = library.prctl
    except (ImportError, OSError, AttributeError):
        return None
    return library


def die_with_parent(library: Any, parent: int) -> None:
    """Have the kernel kill this process when its parent dies; at once if that is dead already."""
    if library is not None:
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def outlive_parent(library: Any) -> None:
    """Take `die_with_parent` back."""
    if library is not None:
        library.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt_orphans(library: Any) -> None:
    """Become the parent of descendants whose own parent dies."""
    if library is not None:
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def be_first_to_go() -> None:
    """Ask the kernel to kill a rubric, and not pytest, when the machine runs out of memory."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")
    except OSError:
        pass
