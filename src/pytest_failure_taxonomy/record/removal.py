"""Remove things from the disk again: the record of a run, and secrets from its events.

A secret may stand bare in the text of one failure, and beside its name in that of a later one. Only
then it is known to be one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.record.layout import EVENTS, FILES, worker_of
from pytest_failure_taxonomy.report.text import CLOSED_FIELDS, change_free_texts, safe_text
from pytest_failure_taxonomy.system.files import Folder, Identity, identity_of, reason_of
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.system.journal import whole_lines
from pytest_failure_taxonomy.taxonomy.words import listed

json = isolate_module(json)
os = isolate_module(os)

_MAX_NAMES: Final = 3
_MAX_NAME: Final = 80
"""How many foreign names a message lists, and how many characters of each."""
_CLOSED_FIELDS: Final = CLOSED_FIELDS | {
    "run_id",
    "part",
    "ending",
    "origin",
    "source",
    "exception",
}
"""Fields of events whose words are our own."""
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def remove_record(folder: Folder) -> str | None:
    """Remove a record and its folder. Files that no record has stay, and so does the folder then.

    Returns:
        A sentence about what stays, or `None`.
    """
    try:
        left = _left_of(folder, has_workers=True, removes=True)
        if not left:
            folder.rmdir()
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        return why_it_stays(folder.path, error)
    return _holds_others(folder, left)


def what_stays(folder: Folder) -> str | None:
    """Return the sentence that `remove_record` would return, without removing anything."""
    try:
        left = _left_of(folder, has_workers=True, removes=False)
    except OSError as error:
        return why_it_stays(folder.path, error)
    return _holds_others(folder, left) if left else None


def _holds_others(folder: Folder, left: list[str]) -> str:
    told = listed([safe_text(name, _MAX_NAME) for name in left], _MAX_NAMES)
    return f"{safe_text(str(folder.path))} stays: it holds what no record has ({told})"


def why_it_stays(folder: Path, error: OSError) -> str:
    """Return a sentence that says why the folder of a record could not be removed."""
    return f"{safe_text(str(folder))} stays: it {reason_of(error)}"


def _left_of(folder: Folder, *, has_workers: bool, removes: bool) -> list[str]:
    """Return the names in a folder that are not a record's; remove the others if `removes`."""
    left = []
    for name in folder.names():
        try:
            if name in FILES:
                if removes:
                    folder.unlink(name)
            elif has_workers and worker_of(name) is not None:
                with folder.open_folder(name) as inner:
                    left_inside = _left_of(inner, has_workers=False, removes=removes)
                    left += [f"{name}/{each}" for each in left_inside]
                    if removes and not left_inside:
                        inner.rmdir()
            else:
                left.append(name)
        except FileNotFoundError:
            pass
        except OSError:
            left.append(name)
    return left


def erase(folder: Folder, identity: Identity, fillers: Mapping[str, str]) -> None:
    """Overwrite secrets in the events that are on disk.

    Each line keeps its length and place, so that the file is valid whenever the process dies.

    Args:
        folder: has the events.
        identity: of their file; another one in its place stays as it is.
        fillers: by the secrets that they replace. A filler is ASCII and no longer than its secret.

    Raises:
        OSError: if the file can't be read or written.
    """
    descriptor = folder.open_file(EVENTS, os.O_WRONLY)
    try:
        if identity_of(os.fstat(descriptor)) != identity:
            return
        with os.fdopen(folder.open_file(EVENTS, os.O_RDONLY), "rb") as file:
            for offset, line in whole_lines(file):
                changed = _without(line, fillers)
                if changed != line:
                    os.lseek(descriptor, offset, os.SEEK_SET)
                    os.write(descriptor, changed)
    finally:
        os.close(descriptor)


def _without(line: bytes, fillers: Mapping[str, str]) -> bytes:
    found = {value: each for value, each in fillers.items() if _as_written(value) in line}
    if not found:
        return line

    def change(text: str) -> str:
        for value, filler in found.items():
            text = text.replace(value, filler)
        return text

    with suppress(ValueError, RecursionError):
        event, fields = json.loads(line)
        changed = _encode([event, change_free_texts(fields, change, _CLOSED_FIELDS)]).encode(
            "ascii"
        )
        if len(changed) < len(line):
            return changed.ljust(len(line) - 1) + b"\n"
    return line


def _as_written(value: str) -> bytes:
    return json.dumps(value)[1:-1].encode("ascii")
