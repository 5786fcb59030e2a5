"""Turn a folder into a task class, or say everything that is wrong with any of its files."""

from __future__ import annotations

import os

from pytest_failure_taxonomy.bench.loading.breakdown_keys import read_breakdown_keys
from pytest_failure_taxonomy.bench.loading.cases import read_cases, repeated
from pytest_failure_taxonomy.bench.loading.failure_modes import read_failure_modes
from pytest_failure_taxonomy.bench.loading.folder import ClassFolder
from pytest_failure_taxonomy.bench.loading.oracle import read_oracle
from pytest_failure_taxonomy.bench.loading.rubric import check_rubric
from pytest_failure_taxonomy.bench.loading.settings import read_settings
from pytest_failure_taxonomy.bench.models import TaskClass


def load_task_class(path: str | os.PathLike[str]) -> TaskClass:
    """Read the folder of a task class; none of its Python is run.

    Args:
        path: of the folder; docs/reference/task-class.md says what may stand in it.

    Returns:
        The task class. Its name is that of the folder that a link may lead to; its own paths are
        absolute, with links as the path had them.

    Raises:
        BenchError: the folder can't be used; the message has one line for each problem of each
            file, by file and line, as `FILE:LINE: what is wrong; what would be right`.
    """
    folder = ClassFolder(path)
    modes = read_failure_modes(folder)
    keys = read_breakdown_keys(folder)
    settings = read_settings(folder)
    check_rubric(folder, may_be_script=settings.rubric_isolation == "fresh")
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
        rubric=folder.path / "rubric.py",
    )
