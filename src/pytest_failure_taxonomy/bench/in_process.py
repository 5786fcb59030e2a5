"""A task class's rubric in this process, to test the rubric itself; it is not isolated here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.bench.models import TaskClass
from pytest_failure_taxonomy.errors import BenchError


def load_rubric(task_class: TaskClass) -> Callable[[dict[str, Any], object], dict[str, Any]]:
    """Return the function `grade` of a task class, from a module loaded anew.

    Raises:
        BenchError: the task class has no rubric with a function `grade`.
    """
    if task_class.rubric is None:
        raise BenchError(f"{task_class.name}: has no rubric.py; load it from a folder")
    folder = str(task_class.rubric.parent)
    sys.path.insert(0, folder)  # a rubric may import a module that stands beside it
    try:
        module = _load(task_class.rubric, f"rubric_of_{task_class.name}")
    finally:
        sys.path.remove(folder)
    grade = getattr(module, "grade", None)
    if not callable(grade):
        raise BenchError(f"{task_class.rubric}: has no function `grade`; only it can be tested so")
    return grade  # type: ignore[no-any-return]  # the author's function


def _load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BenchError(f"{path}: can't be imported; give it the suffix .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
