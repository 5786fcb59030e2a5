"""The understanding between `failure-taxonomy run` and the pytest that it runs.

The supervisor names itself in the environment; the plugin checks that it really is its parent, so
that a pytest that a test starts is not taken for the supervised one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

SUPERVISOR_VARIABLE: Final = "FAILURE_TAXONOMY_SUPERVISOR"
"""Process id of the supervisor, a colon, and the path of the note; `plugin` reads it, too."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def supervisor_value(note: Path) -> str:
    """Return what the supervisor puts into the environment of its command."""
    return f"{os.getpid()}:{note}"


_taken: set[Path] = set()
"""Notes that a run of this process has taken: a pytest that is run inside of one of its tests has
the same parent, and is not the one that was asked for."""


def find_note() -> Path | None:
    """Return where the supervisor and its pytest leave notes, `None` if there is no supervisor."""
    process_id, _, name = os.environ.get(SUPERVISOR_VARIABLE, "").partition(":")
    note = Path(name)
    return note if name and process_id == str(os.getppid()) and note not in _taken else None


def take_note(note: Path, *, report: str, run_id: str) -> None:
    """Answer the supervisor, and be its pytest until the note is given back."""
    write_note(note, report=report, run_id=run_id)
    _taken.add(note)


def give_note_back(note: Path) -> None:
    """Let a later run of this process be the supervisor's pytest."""
    _taken.discard(note)


def write_note(note: Path, **said: str | None) -> None:
    """Tell the other side: `stage` and `report` that are wanted, then `report` and `run_id`."""
    with suppress(OSError):
        note.write_text(json.dumps(said), "utf-8")


def read_note(note: Path | None) -> dict[str, Any]:
    """Return what the other side has said; nothing where it has not, or there is none."""
    if note is not None:
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(note.read_text("utf-8"))
            return found
    return {}


def die_with_parent() -> None:
    """Have this process end when its supervisor is killed: nobody would see its own end."""
    parent = os.getppid()
    if _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM)) and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def adopt_orphans() -> bool:
    """Become the parent of orphaned descendants, so that none is left behind; Linux alone can."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False
