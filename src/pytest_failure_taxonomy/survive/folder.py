"""The folder of a record: its path, the folders of workers in it, and its removal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.write import path_beside
from pytest_failure_taxonomy.survive.layout import FILES
from pytest_failure_taxonomy.system.files import Folder, reason_of
from pytest_failure_taxonomy.taxonomy.words import listed
from pytest_failure_taxonomy.text import safe_text

RUN_ID: Final = re.compile("[0-9a-f]{32}")
_MAX_NAMES: Final = 3
_MAX_NAME: Final = 80
"""How many foreign names a message lists, and how many characters of each."""
_WORKER: Final = re.compile("gw[0-9]{1,6}")
_CHOSEN_WORKER: Final = re.compile("gw-((?:[0-9a-f]{2}){1,100})")


def record_folder(report: Path, run_id: str) -> Path:
    """Return the folder of the record that belongs to a report and a run."""
    return path_beside(report, f".{run_id}")


def worker_folder(worker: str) -> str:
    """Return a worker's folder name: its id, in hexadecimal if the user chose it."""
    if _WORKER.fullmatch(worker):
        return worker
    return f"gw-{worker.encode().hex()}"


def worker_of(name: str) -> str | None:
    """Return the id of the worker that a folder belongs to, or `None`."""
    if _WORKER.fullmatch(name):
        return name
    chosen = _CHOSEN_WORKER.fullmatch(name)
    if chosen is None:
        return None
    return bytes.fromhex(chosen[1]).decode("utf-8", "replace")


def remove_record(folder: Folder, *, only_looks: bool = False) -> str | None:
    """Remove a record and its folder; other files stay, and the folder with them.

    Args:
        folder: of the record.
        only_looks: remove nothing, and return what would be returned.

    Returns:
        A sentence about what stays, or `None`.
    """
    try:
        left = _list_foreign_names(folder, has_workers=True, removes=not only_looks)
        if not left and not only_looks:
            folder.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return explain_remains(folder.path, error)
    if not left:
        return None
    names = listed([safe_text(name, _MAX_NAME) for name in left], _MAX_NAMES)
    path = safe_text(str(folder.path))
    return f"{path} stays: it holds files that belong to no record ({names})"


def explain_remains(folder: Path, error: OSError) -> str:
    """Return a sentence that says why the folder of a record could not be removed."""
    return f"{safe_text(str(folder))} stays: it {reason_of(error)}"


def _list_foreign_names(
    folder: Folder, *, has_workers: bool, removes: bool
) -> list[str]:
    """Return the names that aren't a record's; remove the others if `removes`."""
    left = []
    for name in folder.names():
        try:
            if name in FILES:
                if removes:
                    folder.unlink(name)
            elif has_workers and worker_of(name) is not None:
                with folder.open_folder(name) as inner:
                    left_inside = _list_foreign_names(
                        inner, has_workers=False, removes=removes
                    )
                    left += [f"{name}/{inside}" for inside in left_inside]
                    if removes and not left_inside:
                        inner.rmdir()
            else:
                left.append(name)
        except FileNotFoundError:
            pass
        except OSError:
            left.append(name)
    return left
