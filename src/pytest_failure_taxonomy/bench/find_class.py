"""The task class of a kept run, as its folder is now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.loading.class_files import read_failure_modes
from pytest_failure_taxonomy.bench.loading.folder import MARKER_FILE, ClassFolder, is_task_class
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import TaskClass
    from pytest_failure_taxonomy.bench.runs_on_disk import KeptRun


def folder_of(run: KeptRun, given: Path | None = None) -> Path:
    """Return the folder of a run's task class.

    Args:
        run: The run. Its folder is looked for below the working directory, then below the folder
            that the storage is in: a file may come from anybody, and must not name a rubric
            elsewhere.
        given: The folder, if the user names it.

    Raises:
        BenchError: It is not there.
    """
    if given is not None:
        if is_task_class(given):
            return given
        raise BenchError(
            f"--task-class: {shown(str(given))} is no task class;"
            f" name a folder with a {MARKER_FILE}"
        )
    named = run.header.folder
    if os.path.isabs(named) or ".." in Path(named).parts:
        raise BenchError(
            f"{run.path}: its task class was in {shown(named)}, outside of the root directory;"
            " name its folder by --task-class"
        )
    for place in (Path(named), run.path.absolute().parent.parent / named):
        try:
            if named and is_task_class(place):
                return place
        except ValueError:  # no name of a file, such as one with NUL
            break
    raise BenchError(
        f"{run.path}: its task class was in {shown(named)}, where none is now;"
        " name its folder by --task-class"
    )


def load_class_of(run: KeptRun, given: Path | None = None) -> TaskClass:
    """Return a run's task class as its files are now.

    Args:
        run: The run.
        given: The folder, if the user names it.

    Raises:
        BenchError: The class is not there or can't be used.
    """
    from pytest_failure_taxonomy.bench.loading.task_class import load_task_class

    return load_task_class(folder_of(run, given))


def descriptions_of(run: KeptRun) -> dict[str, str]:
    """Return what the codes of a run's class mean; nothing if the class is not there any more."""
    try:
        return dict(read_failure_modes(ClassFolder(folder_of(run))).descriptions)
    except BenchError:
        return {}
