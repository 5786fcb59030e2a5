"""Run the cases of pytest's items: those of a unit together, while each item waits for its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_failure_taxonomy.bench.dask_backend import DaskSystem
from pytest_failure_taxonomy.bench.fan_out import FanOut, NotStartedError, Unit
from pytest_failure_taxonomy.bench.isolation.client import IsolatedRubric, IsolatedSystem
from pytest_failure_taxonomy.bench.plugin.bench_names import SYSTEM_FIXTURE
from pytest_failure_taxonomy.bench.plugin.items import CaseFailedError, CaseItem
from pytest_failure_taxonomy.bench.plugin.results import Source
from pytest_failure_taxonomy.bench.runner import Runner
from pytest_failure_taxonomy.bench.user_code import import_callable
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass
    from pytest_failure_taxonomy.bench.outcomes import CaseOutcome, SystemUnderTest
    from pytest_failure_taxonomy.bench.plugin.results import Journal, Results
    from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses

_LONG_LIVED = ("session", "package")
"""Scopes in which a fixture outlives all cases of a task class."""


class CaseRuns:
    """The running cases of one process."""

    def __init__(
        self, classes: TaskClasses, results: Results, workers: int, journal: Journal | None
    ) -> None:
        self.fan_out = FanOut()
        self._results = results
        self._classes = classes
        self._workers = workers
        self._journal = journal
        self._systems: dict[str, SystemUnderTest] = {}
        self._rubrics: dict[Path, IsolatedRubric] = {}
        self._members: dict[str, Sequence[CaseItem]] = {}
        self._units: dict[str, Unit] = {}
        self._taken: set[str] = set()

    def arrange(self, items: Mapping[Path, Sequence[CaseItem]]) -> None:
        """Split the selected cases of each task class into units."""
        for chosen in items.values():
            by_nodeid = {item.nodeid: item for item in chosen}
            task_class = chosen[0].task_class
            for unit in self._classes.units(task_class, list(by_nodeid), self._workers):
                members = [by_nodeid[each] for each in unit]
                self._members.update(dict.fromkeys(unit, members))

    def outcome_of(self, item: CaseItem) -> CaseOutcome:
        """Return the outcome of an item's case; start its unit first if necessary.

        An item that runs again, because of a plugin for flaky tests for example, runs its case
        again.

        Raises:
            NotStartedError: The cases before it exceeded the cost cap.
        """
        is_first = item.nodeid not in self._taken
        self._taken.add(item.nodeid)
        if is_first and self._outlives_cases(item):
            unit = self._units.get(item.nodeid) or self._start_unit(item)
        else:
            unit = self._start(item, [item])
        return self.fan_out.wait_for(unit, item.case)

    def grade(self, task_class: TaskClass, case: BenchCase, output: object) -> CaseOutcome:
        """Grade an output as if the system under test had returned it for a case."""
        outcomes: list[CaseOutcome] = []

        async def return_output(_: BenchCase) -> object:
            return output

        runner = Runner(on_outcome=outcomes.append, is_logging=False)
        plan = self._classes.plan(task_class, [case])
        rubric = self._rubric(task_class)
        self.fan_out.call(
            runner.execute(plan, system_under_test=return_output, rubric_runner=rubric)
        )
        return outcomes[0]

    def _start_unit(self, item: CaseItem) -> Unit:
        members = self._members[item.nodeid]
        if self._journal is not None:
            elsewhere = self._journal.started_elsewhere()
            if any(each.nodeid in elsewhere for each in members):
                # The worker that ran the unit crashed on an unknown case: run them one by one.
                return self._start(item, [item])
        unit = self._start(item, members)
        self._units.update((each.nodeid, unit) for each in members)
        return unit

    def _start(self, asking: CaseItem, items: Sequence[CaseItem]) -> Unit:
        task_class = asking.task_class
        cases = [each.case for each in items]
        plan = self._classes.plan(task_class, cases, workers=self._workers)
        source = source_of(task_class)
        if plan.max_cost_usd is not None:
            left = plan.max_cost_usd - self._spent(source)
            if left < 0:
                raise NotStartedError
            plan = plan.model_copy(update={"max_cost_usd": left})
        nodeids = {each.case.case_id: each.nodeid for each in items}
        unit = Unit(
            plan,
            self._system(asking),
            partial(self._rubric, task_class),
            lambda case_id: self._note_start(source, case_id, nodeids[case_id]),
            partial(self._note_outcome, source),
        )
        self.fan_out.start(unit)
        return unit

    def _note_start(self, source: Source, case_id: str, nodeid: str) -> None:
        self._results.of(source).started.add(case_id)
        if self._journal is not None:
            self._journal.note_start(nodeid)

    def _note_outcome(self, source: Source, outcome: CaseOutcome) -> None:
        self._results.of(source).unreported[outcome.case_id] = outcome.score
        if self._journal is not None:
            self._journal.note_score(source, outcome.case_id, outcome.score)

    def _spent(self, source: Source) -> float:
        if self._journal is not None:
            return self._journal.spent_usd(source)
        scores = self._results.of(source).unreported.values()
        return sum(score.cost_usd for score in scores)

    def _rubric(self, task_class: TaskClass) -> IsolatedRubric:
        folder = folder_of(task_class)
        if folder not in self._rubrics:
            rubric = self._rubrics[folder] = self._classes.open_rubric(task_class)
            self.fan_out.at_close(rubric.aclose)
        return self._rubrics[folder]

    def _outlives_cases(self, item: CaseItem) -> bool:
        """Return whether the item's system under test outlives all cases of its unit."""
        settings = self._classes.settings(item.task_class)
        definition = item.system_definition()
        is_long_lived = definition is not None and definition.scope in _LONG_LIVED
        return settings.sut is not None or is_long_lived

    def _system(self, item: CaseItem) -> SystemUnderTest:
        settings = self._classes.settings(item.task_class)
        if settings.sut is None:
            return _callable(item.funcargs[SYSTEM_FIXTURE])
        return self._named_system(settings.sut, settings)

    def _named_system(self, name: str, settings: BenchSettings) -> SystemUnderTest:
        key = f"{settings.sut_isolation} {name}"
        if key not in self._systems:
            self._systems[key] = self._open_system(name, settings)
        return self._systems[key]

    def check_cluster(self, task_class: TaskClass) -> None:
        """Have the cluster's workers import a task class's system, if it is called there.

        Raises:
            BenchError: The cluster can't be reached, or can't call the system.
        """
        settings = self._classes.settings(task_class)
        if self._classes.backend is not None and settings.sut is not None:
            system = self._named_system(settings.sut, settings)
            if isinstance(system, DaskSystem):
                self.fan_out.call(system.check())

    def _open_system(self, name: str, settings: BenchSettings) -> SystemUnderTest:
        if self._classes.backend is not None:
            far = DaskSystem(
                name,
                self._classes.backend,
                isolation=settings.sut_isolation,
                limit_seconds=settings.timeout_per_case_seconds,
            )
            self.fan_out.at_close(far.aclose)
            with suppress(BenchError):  # each case says so
                self.fan_out.call(far.connect())
            return far
        if settings.sut_isolation == "process":
            isolated = IsolatedSystem(name)
            self.fan_out.at_close(isolated.aclose)
            return isolated
        return import_callable(name, "sut")


def _callable(system: object) -> SystemUnderTest:
    if callable(system):
        return system
    raise CaseFailedError.of_line(
        f"the fixture {SYSTEM_FIXTURE} returned an object of type {type(system).__name__}, which"
        " can't be called; return an async or a plain function that takes the case"
    )


def folder_of(task_class: TaskClass) -> Path:
    """Return the folder from which a collected task class was loaded."""
    if task_class.folder is None:
        raise ValueError(f"the task class {task_class.name!r} was made in code")
    return task_class.folder


def source_of(task_class: TaskClass) -> Source:
    """Return the source of the scores of the items of a task class."""
    return Source(str(folder_of(task_class)))


def group_by_class(items: Sequence[pytest.Item]) -> dict[Path, list[CaseItem]]:
    """Return the cases among a session's items by the folder of their task class."""
    found: dict[Path, list[CaseItem]] = {}
    for item in items:
        if isinstance(item, CaseItem):
            found.setdefault(folder_of(item.task_class), []).append(item)
    return found
