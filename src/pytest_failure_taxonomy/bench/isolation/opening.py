"""Make the isolated rubric of a task class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.isolation.client import IsolatedRubric
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchSettings, TaskClass


def open_rubric(task_class: TaskClass, settings: BenchSettings) -> IsolatedRubric:
    """Return a new isolated rubric of a task class, which the caller has to close.

    Raises:
        BenchError: The task class has no rubric of its own.
    """
    if task_class.rubric is None:
        raise BenchError(f"{task_class.name}: has no rubric.py; load it from a folder")
    return IsolatedRubric(
        task_class.rubric,
        mode=settings.rubric_isolation,
        wall_clock_seconds=settings.rubric_wall_clock_seconds,
        memory_mb=settings.rubric_memory_mb,
    )
