"""The objects behind the fixtures: run task classes, grade outputs, test rubrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.load.folder import is_task_class
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    TaskClass,
)
from pytest_failure_taxonomy.bench.plugin.bench_session import BenchSession
from pytest_failure_taxonomy.bench.plugin.items import marked_case, named_by
from pytest_failure_taxonomy.bench.plugin.results import reported_by
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.scores import (
    RubricRunner,
    SystemUnderTest,
    grade_in_process,
    graded_score,
)
from pytest_failure_taxonomy.bench.sharding import digests_of
from pytest_failure_taxonomy.bench.user_code import Grade, load_rubric
from pytest_failure_taxonomy.documents.problems import right_words
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import replace

P = ParamSpec("P")
T = TypeVar("T")


def _in_background(
    method: Callable[Concatenate[Bench, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Bench, P], T]:
    """Return a method that runs another one on the systems' loop, and waits."""

    @wraps(method)
    def call(self: Bench, /, *args: P.args, **kwargs: P.kwargs) -> T:
        fan_out = self._session.runs.fan_out
        work = method(self, *args, **kwargs)
        return fan_out.call(work, on=fan_out.loop_of_systems())  # type: ignore[no-any-return]  # as the method

    return call


class Bench:
    """Runs task classes and grades outputs for one test."""

    def __init__(self, request: pytest.FixtureRequest, session: BenchSession) -> None:
        self._item: pytest.Item = request.node
        self._session = session
        self._began = time.perf_counter()

    async def run(
        self,
        task_class: str | Path | TaskClass,
        system_under_test: SystemUnderTest,
        *,
        case_ids: Sequence[str] | None = None,
        rubric_runner: RubricRunner | None = None,
        gate: bool = True,
    ) -> BenchRunReport:
        """Run a task class; return its report, which the failure report has, too.

        The system is called on the event loop of the caller.

        Args:
            task_class: Its name in `bench_root`, its path, or a task class that is
                already loaded.
            system_under_test: A plain or an async callable that takes a `BenchCase`.
            case_ids: Run only these cases; an id of the file stands for all its
                repetitions.
            rubric_runner: Grades instead of the task class's own `rubric.py`.
            gate: Whether to evaluate the gate of the task class, which may fail the
                pytest run, as cases without a score do. `False` is for a system that is
                meant to be bad; the report's `gate` is then `None`.

        Raises:
            BenchError: There is no such task class or case, or it can't be used.
        """
        classes = self._session.classes
        found = self._find(task_class)
        plan = classes.plan(found, _chosen(found, case_ids))
        if not gate:
            plan = plan.model_copy(update={"gate": None, "stop_after_same_failure": 0})
        digests = digests_of(found, plan.cases)
        if rubric_runner is not None:
            digests = digests.model_copy(update={"rubric": None})
        async with AsyncExitStack() as opened:
            if rubric_runner is None:
                isolated = rubric_runner = classes.open_rubric(found)
                opened.push_async_callback(isolated.aclose)
            runner, run_id = self._session.open_run(self._item, plan, system_under_test)
            report = await runner.execute(
                plan, system_under_test=system_under_test, rubric_runner=rubric_runner
            )
        named = {"run_id": models.id_of_run(run_id, report.stopped)} if run_id else {}
        report = report.model_copy(update={"digests": digests, **named})
        run = report.model_dump(mode="json")
        reported_by(self._item).append(("run", self._item.nodeid, run, gate))
        return report

    run_sync = _in_background(run)
    """Like `run`, for a plain test; the system is called on an event loop in the
    background."""

    def score(self, output: object, *, cost_usd: float = 0.0) -> BenchScore:
        """Grade the output of the test's own case; call it once.

        The score counts for the task class. If the score is not passed, the test fails
        when it ends, whatever it asserts.

        Args:
            output: Anything that JSON can represent.
            cost_usd: What the output cost, in US dollars. The score's `cost_usd` is the
                sum of this and the rubric's, which is for the cost of grading: give
                each amount once.

        Raises:
            BenchError: The test has no case of its own.
        """
        found = marked_case(self._item, self._session.classes)
        if found is None:
            raise BenchError(
                f"{self._item.nodeid}: bench.score grades the case of a test with the mark bench;"
                ' write @pytest.mark.bench("name") and take the argument `case`'
            )
        if found.task_class.settings.workspace is not None:
            raise BenchError(
                f"{self._item.nodeid}: its case has no workspace, and"
                f" {found.task_class.name} asks for one; call bench.run_sync instead"
            )
        outcome = self._session.runs.grade(found.task_class, found.case, output)
        took_ms = (time.perf_counter() - self._began) * 1000
        whole = {
            "cost_usd": add_exactly(outcome.score.cost_usd, cost_usd),
            "wall_clock_ms": took_ms,
        }
        score = BenchScore(
            **{**vars(outcome.score), **whole}
        )  # which refuses a bad cost
        self._session.note_score(
            self._item, found, replace(outcome, score=score), cost_usd
        )
        return score

    def _find(self, task_class: str | Path | TaskClass) -> TaskClass:
        if isinstance(task_class, TaskClass):
            return task_class
        if isinstance(task_class, Path):
            return self._session.classes.load(task_class.absolute())
        return self._session.classes.find(task_class)


class BenchRubric:
    """The rubrics of a task class in this process: a test sees what they raise."""

    def __init__(self, task_class: TaskClass, only: str | None = None) -> None:
        if not task_class.rubrics:
            raise BenchError(
                f"{task_class.name}: has no rubric.py; load it from a folder"
            )
        self.task_class = task_class
        self._grades = {
            name: load_rubric(path, f"{name}_of_{task_class.name}")
            for name, path in task_class.rubrics.items()
            if only in (None, name)
        }

    def named(self, name: str) -> BenchRubric:
        """Return one rubric: NAME of `rubrics/NAME.py`, or `rubric` for `rubric.py`.

        Raises:
            BenchError: There is no such rubric.
        """
        rubrics = self.task_class.rubrics
        if name not in rubrics:
            right = right_words(
                name, rubrics, otherwise=f"the rubrics are {', '.join(rubrics)}"
            )
            raise BenchError(f"{self.task_class.name}: has no rubric {name!r}; {right}")
        return BenchRubric(self.task_class, name)

    @property
    def grade(self) -> Grade:
        """The function `grade` of the rubric.

        Raises:
            BenchError: There are several rubrics.
        """
        if len(self._grades) > 1:
            raise BenchError(
                f"{self.task_class.name}: has the rubrics {', '.join(self._grades)}; take one:"
                " bench_rubric.named(NAME).grade"
            )
        return next(iter(self._grades.values()))

    def __call__(
        self, case: str | BenchCase | Mapping[str, object], output: object
    ) -> BenchScore:
        """Grade an output, and check the answer as a run does.

        Args:
            case: The id of a case, a case, or a dict that takes the place of a case.
            output: What a system under test would have returned.

        Raises:
            BenchError: There is no such case.
            RubricError: The rubric's answer doesn't have the right shape.
        """
        if isinstance(case, str):
            case = _chosen(self.task_class, [case])[0]
        fields = case.fields if isinstance(case, BenchCase) else case
        answer = grade_in_process(self._grades, self.task_class, fields, output)
        return graded_score(answer, self.task_class, wall_clock_ms=0.0)


def task_class_of(request: pytest.FixtureRequest, classes: TaskClasses) -> TaskClass:
    """Return the task class that a test's mark names, or whose folder has the test.

    Raises:
        BenchError: The test belongs to no task class.
    """
    mark = request.node.get_closest_marker("bench")
    if mark is not None:
        return classes.find(named_by(mark))
    for folder in request.path.parents:
        if is_task_class(folder):
            return classes.load(folder)
    raise BenchError(
        f'{request.node.nodeid}: is about no task class; write @pytest.mark.bench("name"), or'
        " have the test in the task class's folder"
    )


def _chosen(
    task_class: TaskClass, case_ids: Sequence[str] | None
) -> tuple[BenchCase, ...]:
    """Return the cases with these ids; a file's id stands for all repetitions."""
    if case_ids is None:
        return task_class.cases
    by_id: dict[str, list[BenchCase]] = {}
    for case in task_class.cases:
        for name in {case.case_id, str(case.id_in_file)}:
            by_id.setdefault(name, []).append(case)
    missing = [each for each in case_ids if each not in by_id]
    if missing:
        raise BenchError(
            f"{task_class.name}: has no case {', '.join(map(repr, missing))}; "
            f"its cases are {', '.join(case.case_id for case in task_class.cases)}"
        )
    chosen = {case.case_id: case for each in case_ids for case in by_id[each]}
    return tuple(chosen.values())
