"""What a process is to run, the environment that it gets, and what its reply means."""

from __future__ import annotations

import json
import os
import signal
import site
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.bench.isolate import wire
from pytest_failure_taxonomy.taxonomy.values import value

_KEPT: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ"),
        # Where Python and its packages are.
        *("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        # Windows starts no process without them.
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT"),
        *("NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
    }
)
"""The variables of the user's environment that a rubric sees, besides `LC_*`."""
_FOLDERS: Final = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP")

SET_FOR_RUBRICS: Final = frozenset(
    {*_KEPT, *_FOLDERS, wire.MARK}
    | {"PYTHONPATH", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
)
"""Variables that each rubric has, with values that are not the user's to choose."""


@value
class Task:
    """What a process is to run."""

    memory_mb: int = 0
    max_bytes: int = wire.MAX_VERDICT_BYTES
    loads_first: bool = True
    is_script: bool = False
    rubric: str = ""
    variables: tuple[str, ...] = ()
    """Names of variables of our environment that the rubric sees besides its own."""
    target: str = ""
    """A system under test instead of a rubric."""

    def hello(self, folder: str) -> dict[str, Any]:
        """Return the first message to the process.

        Args:
            folder: The private folder of the process.
        """
        return {
            "folder": "" if self.target else folder,
            "load": self.loads_first,
            "max_bytes": self.max_bytes,
            "memory_mb": self.memory_mb,
            "parent": os.getpid(),
            "path": sys.path if self.target else [],
            "rubric": self.rubric,
            "script": self.is_script,
            "target": self.target,
        }

    def environment(self, folder: str) -> Mapping[str, str]:
        """Return the environment of the process; a system gets all of ours, it needs its keys."""
        if self.target:
            return {**os.environ, wire.MARK: mark_of(folder)}
        return rubric_environment(os.environ, folder, self.variables)


def rubric_environment(
    given: Mapping[str, str], folder: str, variables: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of a rubric: what Python and the system need, nothing of the user's.

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


@value
class Reply:
    """The reply of a server: one of the codes of `wire`, and what belongs to it."""

    what: bytes
    status: int = 0
    body: bytes = b""


@value
class Message:
    """The answer that the process of a case wrote to its own descriptor."""

    what: bytes
    body: bytes
    printed: str

    def raised(self) -> dict[str, Any]:
        """Return the description of an exception."""
        said: dict[str, Any] = json.loads(self.body)
        return said


def message_of(reply: Reply) -> Message | None:
    """Return the answer in a reply; `None` if there is no complete one."""
    if reply.what != wire.ANSWERED:
        return None
    _, what, body_bytes, _ = wire.MESSAGE.unpack_from(reply.body)
    begin = wire.MESSAGE.size
    body = reply.body[begin : begin + body_bytes]
    printed = reply.body[begin + body_bytes :].decode("utf-8", "backslashreplace")
    return Message(what=what, body=body, printed=printed)


def how_it_ended(returncode: int) -> str:
    """Return in words how a process ended.

    Args:
        returncode: As `subprocess` gives it: negative for a signal.
    """
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"
