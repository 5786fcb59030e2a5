"""The environment variables of a rubric, and of the code that it runs."""

from __future__ import annotations

import os
import site
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.bench.isolate import wire
from pytest_failure_taxonomy.taxonomy import packaged_table

_KEPT: Final = frozenset(packaged_table("bench")["kept_for_rubrics"])
"""The variables of the user's environment that a rubric sees, besides `LC_*`."""
_FOLDERS: Final = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP")

SET_FOR_RUBRICS: Final = frozenset(
    {*_KEPT, *_FOLDERS, wire.MARK}
    | {"PYTHONPATH", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
)
"""Variables that each rubric has, with values that are not the user's to choose."""


def rubric_environment(
    given: Mapping[str, str], folder: str, variables: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of a rubric: what Python and the system need.

    Args:
        given: The environment of this process.
        folder: The private folder, used as home and for temporary files.
        variables: The names of the variables that the user lets through.
    """
    kept = {
        name: value
        for name, value in given.items()
        if name.upper() in _KEPT or name.startswith("LC_") or name in variables
    }
    if given.get("PYTHONPATH"):
        parts = given["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # Python would look for it in HOME
    return {
        **kept,
        **dict.fromkeys(_FOLDERS, folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        wire.MARK: mark_of(folder),
    }


def mark_of(folder: str) -> str:
    """Return the mark of the processes that belong to a private folder."""
    return os.path.basename(folder)
