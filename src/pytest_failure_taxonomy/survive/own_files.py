"""Which files are the user's own, and how their paths are shown.

For the frames of this process and for those that another process has printed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.taxonomy.code_owners import LIBRARIES, NOT_SOURCES
from pytest_failure_taxonomy.taxonomy.evidence import Location

STANDARD_LIBRARY: Final = os.path.join(os.path.dirname(os.__file__), "")
_NOT_THE_USERS: Final = (
    f"{os.sep}_pytest{os.sep}",
    f"{os.sep}pluggy{os.sep}",
    f"{os.sep}importlib{os.sep}",
    f"{os.sep}pytest_failure_taxonomy{os.sep}",
    "<frozen ",
)


def is_own(path: str, rootdir: Path) -> bool:
    """Tell whether a file lies below the root directory and was not installed there."""
    return _classify_path(path, rootdir)[0]


def _classify_path(path: str, rootdir: Path) -> tuple[bool, str]:
    """Return whether a file is the user's own, and its path as it is shown."""
    if path.startswith("<"):  # code of no file
        return False, path
    absolute = path if path.startswith(os.sep) else os.path.abspath(path)
    is_own, shown = _classify_file(absolute, str(rootdir))
    # A compiled module's functions name a file of the machine that built it.
    is_there = os.path.isabs(path) or os.path.isfile(path)
    return is_own and is_there, shown


@lru_cache(maxsize=1_000)  # many failures are of few files
def _classify_file(absolute: str, root: str) -> tuple[bool, str]:
    prefix = f"{root.rstrip(os.sep)}{os.sep}"
    if not absolute.startswith(prefix):
        return False, absolute.replace(os.sep, "/")
    parts = absolute[len(prefix) :].split(os.sep)
    shown = "/".join(parts)
    if absolute.startswith(STANDARD_LIBRARY) or not LIBRARIES.isdisjoint(parts):
        return False, shown
    return parts[0] not in NOT_SOURCES or len(parts) == 1, shown


def depth_of_libraries(parts: Sequence[str]) -> int:
    """Return how many parts of a path lead to a `site-packages`; 0 for none."""
    for depth in range(len(parts), 0, -1):
        if parts[depth - 1] in LIBRARIES:
            return depth
    return 0


def is_of_the_user(path: str) -> bool:
    """Tell whether a file belongs neither to pytest nor to the import system."""
    return not any(part in path for part in _NOT_THE_USERS)


def location(path: str, line: int | None, rootdir: Path) -> Location:
    """Return a place: relative to the root directory if below it, else absolute.

    Args:
        path: from pytest or Python; pytest gives it relative to where it was started.
        line: counted from 1.
        rootdir: absolute.
    """
    return Location(path=_classify_path(path, rootdir)[1], line=line)
