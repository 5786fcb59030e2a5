"""The environment that a rubric sees: what Python and the system need, nothing of the user's."""

from __future__ import annotations

import os
import site
from collections.abc import Mapping
from typing import Final

from pytest_failure_taxonomy.bench.isolation.wire import MARK

_KEPT: Final = frozenset(
    {
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        # where Python and its packages are
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "DYLD_FALLBACK_LIBRARY_PATH",
        # Windows starts nothing without them
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
    }
)


def rubric_environment(given: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of a rubric's process.

    Args:
        given: the environment of this one.
        folder: the private one, which is home and the place of temporary files.
    """
    kept = {
        name: value
        for name, value in given.items()
        if name.upper() in _KEPT or name.startswith("LC_")
    }
    if given.get("PYTHONPATH"):
        parts = given["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # it would be looked for in HOME
    return {
        **kept,
        **dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        MARK: mark_of(folder),
    }


def mark_of(folder: str) -> str:
    """Return the mark of the processes that belong to a private folder."""
    return os.path.basename(folder)
