"""Run the cases of pytest's items: those of a unit together, while each item waits for its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric, IsolatedSystem
from pytest_failure_taxonomy.bench.kept.lines import SystemGiven
from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass
from pytest_failure_taxonomy.bench.plugin.items import (
    SYSTEM_FIXTURE,
    CaseFailedError,
    CaseItem,
    system_definition,
)
from pytest_failure_taxonomy.bench.plugin.results import Results, reported_by
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.fan_out import FanOut, Unit
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import (
    CaseAttempt,
    CaseOutcome,
    CombinedRubrics,
    SystemUnderTest,
)
from pytest_failure_taxonomy.bench.user_code import import_callable
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace

_SKIPS = ("skip", "skipif")
"""Marks, of the author's or added by a hook, by which pytest may skip an item."""
_LONG_LIVED = ("session", "package")
"""Scopes in which a fixture outlives all cases of a task class."""


class CaseScheduler:
    """The running cases of one process."""

    def __init__(self, classes: TaskClasses, results: Results, workers: int) -> None:
        self.fan_out = FanOut()
        self._results = results
        self._classes = classes
        self._workers = workers
        self._systems: dict[str, SystemUnderTest] = {}
        self._rubrics: dict[Path | None, IsolatedRubric | CombinedRubrics] = {}
        self._members: dict[str, Sequence[CaseItem]] = {}
        self._units: dict[str, Unit] = {}
        self._taken: set[str] = set()
        self.notes: dict[str, str] = {}
        """What the user is to be told of systems."""

    def arrange(self, items: Sequence[CaseItem]) -> None:
        """Split the selected cases of each task class and system into units."""
        by_nodeid = {item.nodeid: item for item in items}
        cases = (
            (Path(item.source.folder), item.source.system, each)
            for each, item in by_nodeid.items()
        )
        for _, _, unit in self._classes.units(cases, self._workers):
            members = [by_nodeid[each] for each in unit]
            # A case that may be skipped is not called before its item is set up.
            together = [
                each
                for each in members
                if not any(map(each.get_closest_marker, _SKIPS))
            ]
            self._members.update({each.nodeid: [each] for each in members})
            self._members.update({each.nodeid: together for each in together})

    def outcome_of(self, item: CaseItem) -> CaseOutcome:
        """Return the outcome of an item's case; start its unit first if necessary.

        A case that pytest has collected twice, with `--keep-duplicates`, runs twice.

        Raises:
            NotStartedError: The run was stopped before, by its cost cap for example.
        """
        is_first = item.nodeid not in self._taken
        self._taken.add(item.nodeid)
        definition = system_definition(item)
        outlives_cases = self._classes.settings(item.task_class).sut is not None or (
            definition is not None and definition.scope in _LONG_LIVED
        )
        if not (is_first and outlives_cases):
            unit = self._start(item, [item])
        elif item.nodeid in self._units:
            unit = self._units[item.nodeid]
        else:
            unit = self._start(item, self._members[item.nodeid])
        return unit.wait_for(item.case)

    def grade(
        self, task_class: TaskClass, case: BenchCase, output: object
    ) -> CaseOutcome:
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
        score = outcomes[0].score.model_copy(
            update={"system_ms": None}
        )  # none was called
        return replace(outcomes[0], score=score)

    def _start(self, asking: CaseItem, items: Sequence[CaseItem]) -> Unit:
        """Start the unit's cases; after a worker was killed, start only the caller's.

        Another process may have called the system for them, and what that has cost counts.
        """
        task_class, source = asking.task_class, asking.source
        plan = self._classes.plan(
            task_class, [each.case for each in items], workers=self._workers
        )
        system = self._system(asking)
        for note in self.notes.values():
            reported_by(asking).append(("note", note))
        self.notes.clear()
        settings, results = plan.task_class.settings, self._results.sources[source]
        given = facts_of_system(system, settings).model_copy(
            update={"label": source.system}
        )
        results.system = str(given)
        if results.admission is None:  # of all units of the source
            cases = self._results.scheduled_cases(source, plan.task_class)
            results.file = self._results.files.open(
                source, plan.task_class, given, cases, plan.shard
            )
            results.admission = Admission(plan, results.file)
        earlier: dict[str, tuple[CaseAttempt, ...]] = {}
        done: dict[str, CaseOutcome] = {}
        is_resumed = results.file is not None and results.file.is_resumed
        is_shared = self._results.is_shared
        before = results.before() if is_shared or is_resumed else None
        if before is not None:
            ids = [item.case.case_id for item in items]
            kept_cases = [
                before.known[case_id] for case_id in ids if case_id in before.known
            ]
            own = self._results.worker
            of_others = []
            if is_shared:
                of_others = [
                    case for case in kept_cases if case.begun_by not in (None, own)
                ]
            if any(case.score is None for case in of_others):
                # The worker that ran the unit crashed on an unknown case: run them one by one.
                items = [asking]
                plan = plan.model_copy(update={"cases": (asking.case,)})
                kept_cases = [
                    case for case in kept_cases if case.case_id == asking.case.case_id
                ]
            for case in kept_cases:
                calls, last = case.all_calls(), case.last
                is_settled = is_resumed and last is not None and before.settles(last)
                if case.score is not None and (is_settled or case in of_others):
                    done[case.case_id] = CaseOutcome(
                        case_id=case.case_id, score=case.score, attempts=calls
                    )
                elif calls:
                    earlier[case.case_id] = calls
        results.admission.nodeids.update(
            {each.case.case_id: each.nodeid for each in items}
        )
        unit = Unit(plan, done)
        if len(items) > 1:
            self._units.update((each.nodeid, unit) for each in items)
        work = Runner(
            on_outcome=unit.deliver,
            on_lost=unit.lose,
            results=results,
            admission=results.admission,
            workspaces=self._results.files.workspaces(plan.task_class, results.file),
            loop=self.fan_out.loop_of_systems,
            is_logging=False,
        ).run_cases(
            unit.left,
            system_under_test=system,
            rubric_runner=self._rubric(task_class),
            earlier=earlier,
        )
        self.fan_out.start(unit, work)
        return unit

    def _rubric(self, task_class: TaskClass) -> IsolatedRubric | CombinedRubrics:
        folder = task_class.folder
        if folder not in self._rubrics:
            rubric = self._rubrics[folder] = self._classes.open_rubric(task_class)
            self.fan_out.at_close(rubric.aclose)
        return self._rubrics[folder]

    def _system(self, item: CaseItem) -> SystemUnderTest:
        settings = self._classes.settings(item.task_class)
        if settings.sut is not None:
            try:
                named = self.named_system(settings.sut, settings)
                if isinstance(named, IsolatedSystem):
                    # Fixtures may have changed our variables, which are the system's, too.
                    self.fan_out.call(named.connect())
            except BenchError as error:
                raise CaseFailedError(str(error)) from None
            return named
        system = item.funcargs[SYSTEM_FIXTURE]
        if not callable(system):
            raise CaseFailedError(
                f"the fixture {SYSTEM_FIXTURE} returned an object of type {type(system).__name__},"
                " which can't be called; return an async or a plain function that takes the case"
            )
        return system

    def check_cluster(self, task_class: TaskClass) -> None:
        """Have the cluster's workers import a task class's system, if it is called there.

        Raises:
            BenchError: The cluster can't be reached, or can't call the system.
        """
        settings = self._classes.settings(task_class)
        if self._classes.backend is not None and settings.sut is not None:
            self.named_system(settings.sut, settings)

    def named_system(self, name: str, settings: BenchSettings) -> SystemUnderTest:
        """Return a system by its name, imported where it runs.

        Raises:
            BenchError: It can't be imported, or the cluster can't be reached.
        """
        key = f"{settings.is_system_isolated} {name}"
        if key in self._systems:
            return self._systems[key]
        system: SystemUnderTest
        if self._classes.backend is not None:
            from pytest_failure_taxonomy.bench.dask import DaskSystem

            system = DaskSystem(
                name,
                self._classes.backend,
                limit_seconds=settings.timeout_per_case_seconds,
            )
            self.fan_out.at_close(system.aclose)
            self.fan_out.call(system.check())
        elif settings.is_system_isolated:
            system = IsolatedSystem(name)
            self.fan_out.at_close(system.aclose)
            self.fan_out.call(system.connect())
            if system.starts_threads:
                right = "start them in the call, or write `sut_isolation: thread`"
                self.notes[key] = (
                    f"bench: {name} starts threads on import; no fork has them: {right}"
                )
        else:
            system = import_callable(name)
        self._systems[key] = system
        return system


def facts_of_system(
    system: object, settings: BenchSettings | None = None
) -> SystemGiven:
    """Return the name and the version of a callable: those of the settings, or its own.

    Its own name is its module's and its own, its version a text in an attribute `version`.
    """
    named = system if hasattr(system, "__qualname__") else type(system)
    version = getattr(system, "version", None)
    name, given = (
        (None, None) if settings is None else (settings.sut, settings.sut_version)
    )
    return SystemGiven(
        name=name or f"{named.__module__}:{getattr(named, '__qualname__', '')}",
        version=given or (version if isinstance(version, str) and version else None),
    )
