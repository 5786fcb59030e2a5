"""The task classes of one pytest process, with the settings that its options give them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.isolation.client import IsolatedRubric
from pytest_failure_taxonomy.bench.loading.load import load_task_class
from pytest_failure_taxonomy.bench.loading.places import is_task_class
from pytest_failure_taxonomy.bench.models import RunPlan
from pytest_failure_taxonomy.bench.plugin.options import effective_settings
from pytest_failure_taxonomy.bench.plugin.units import share_of
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    import pytest

    from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass


class TaskClasses:
    """Task classes by their folder; each is read once."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._loaded: dict[Path, TaskClass | BenchError] = {}
        self._settings: dict[str, BenchSettings] = {}

    def load(self, folder: Path) -> TaskClass:
        """Return the task class in a folder.

        Raises:
            BenchError: it can't be used; a line for each problem.
        """
        if folder not in self._loaded:
            try:
                self._loaded[folder] = load_task_class(folder)
            except BenchError as error:
                text = str(error).replace(f"{folder}{os.sep}", f"{self.shown(folder)}{os.sep}")
                self._loaded[folder] = BenchError(text)
        found = self._loaded[folder]
        if isinstance(found, BenchError):
            raise found
        return found

    def find(self, name: str) -> TaskClass:
        """Return the task class that a mark or a test names.

        Args:
            name: of a folder in `bench_root`, or its path relative to the root directory.

        Raises:
            BenchError: there is none, or it can't be used.
        """
        root = self._config.rootpath
        places = [root / str(self._config.getini("bench_root")) / name, root / name]
        for place in places:
            if is_task_class(place):
                return self.load(place)
        looked_at = " or ".join(self.shown(place) for place in dict.fromkeys(places))
        raise BenchError(
            f"{name}: there is no task class in {looked_at}; name a folder with a"
            " failure_modes.yaml (ini: bench_root)"
        )

    def settings(self, task_class: TaskClass) -> BenchSettings:
        """Return the settings of a task class, the options and the ini values in them."""
        key = str(task_class.folder or task_class.name)
        if key not in self._settings:
            self._settings[key] = effective_settings(self._config, task_class)
        return self._settings[key]

    def plan(
        self, task_class: TaskClass, cases: Sequence[BenchCase] | None = None, *, workers: int = 0
    ) -> RunPlan:
        """Return the plan for cases of a task class, in one of so many workers."""
        settings = self.settings(task_class)
        chosen = None if cases is None else tuple(cases)
        plan = RunPlan.of(task_class.model_copy(update={"settings": settings}), chosen)
        return plan.model_copy(update={"concurrency": share_of(plan.concurrency, workers)})

    def open_rubric(self, task_class: TaskClass) -> IsolatedRubric:
        """Return a new isolated rubric of a task class, for the caller to close.

        Raises:
            BenchError: the task class has no rubric of its own.
        """
        if task_class.rubric is None:
            raise BenchError(f"{task_class.name}: has no rubric.py; load it from a folder")
        settings = self.settings(task_class)
        return IsolatedRubric(
            task_class.rubric,
            mode=settings.rubric_isolation,
            wall_clock_seconds=settings.rubric_wall_clock_seconds,
            memory_mb=settings.rubric_memory_mb,
        )

    def shown(self, path: Path) -> str:
        """Return a path as a user would type it."""
        started_in = self._config.invocation_params.dir
        return os.path.relpath(path, started_in) if path.is_relative_to(started_in) else str(path)

    def register_tag(self, tag: str) -> None:
        """Make a case's tag a mark that `--strict-markers` knows."""
        known = self._config.getini("markers")
        if not any(line.split(":")[0].split("(")[0].strip() == tag for line in known):
            self._config.addinivalue_line("markers", f"{tag}: a tag of bench cases")
