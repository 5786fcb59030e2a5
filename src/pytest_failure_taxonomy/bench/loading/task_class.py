"""Read a task class from its folder, or report everything that is wrong with its files."""

from __future__ import annotations

import os

from pytest_failure_taxonomy.bench.loading.cases import read_cases, read_oracle, repeated
from pytest_failure_taxonomy.bench.loading.class_files import (
    read_breakdown_keys,
    read_failure_modes,
    read_settings,
)
from pytest_failure_taxonomy.bench.loading.folder import RUBRIC, ClassFolder
from pytest_failure_taxonomy.bench.loading.python_files import (
    check_rubric,
    check_rubric_names,
    rubric_files,
)
from pytest_failure_taxonomy.bench.models import TaskClass


def load_task_class(path: str | os.PathLike[str]) -> TaskClass:
    """Read the folder of a task class; of its Python, only a `cases.py` is run.

    Args:
        path: Of the folder; docs/reference/task-class.md describes its content.

    Returns:
        The task class. It has the name of the real folder if the path is a link; its paths are
        absolute and keep the links of the given path.

    Raises:
        BenchError: The folder can't be used; the message has one line for each problem, sorted by
            file and line, as `FILE:LINE: what is wrong; what would be right`.
    """
    folder = ClassFolder(path)
    rubrics = rubric_files(folder)
    modes = read_failure_modes(folder)
    keys = read_breakdown_keys(folder, rubrics)
    settings = read_settings(folder, rubrics)
    for name in rubrics.values():
        check_rubric(folder, name, may_be_script=settings.rubric_isolation == "fresh")
    if len(rubrics) > 1:
        check_rubric_names(folder, rubrics)
    found = read_cases(folder)
    oracle = read_oracle(folder, found.ids)
    folder.raise_problems()
    return TaskClass(
        name=folder.name,
        breakdown_keys=keys,
        failure_mode_taxonomy=modes.severities,
        descriptions=modes.descriptions,
        cases=tuple(repeated(found.cases, settings.repeat)),
        oracle=oracle,
        settings=settings,
        folder=folder.path,
        rubric=folder.path / RUBRIC if RUBRIC in rubrics.values() else None,
        rubrics={name: folder.path / file for name, file in rubrics.items()},
    )
