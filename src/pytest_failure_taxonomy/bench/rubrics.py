"""Several rubrics of a task class as one: each grades on its own, and one answer comes of all."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.answers import MOST_COST_USD
from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric
from pytest_failure_taxonomy.bench.models import offending_keys
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError, RubricTimeoutError
from pytest_failure_taxonomy.bench.scores import Verdict, read_answer
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings, TaskClass

_NO_ERRORS: Final[Mapping[str, RubricError]] = MappingProxyType({})


def weights_of(task_class: TaskClass) -> dict[str, float]:
    """Return the weight of each rubric, by name in the order of the names."""
    given = task_class.settings.rubrics or {}
    return {name: given.get(name, 1.0) for name in sorted(task_class.rubrics)}


def check_variables(task_class: TaskClass, where: str) -> None:
    """Refuse a task class whose rubrics need environment variables that are not set.

    Args:
        task_class: The class.
        where: The place that names them, for messages.

    Raises:
        BenchError: One is not set, or empty, as a secret that a CI job doesn't have.
    """
    missing = [name for name in task_class.settings.rubric_env if not os.environ.get(name)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise BenchError(
            f"{where}: rubric_env: {', '.join(missing)} {are} not set, or empty; set"
            " what the rubric needs, or take it off the list"
        )


def open_rubrics(
    task_class: TaskClass, settings: BenchSettings
) -> IsolatedRubric | CombinedRubrics:
    """Return what grades the cases of a task class; the caller has to close it.

    Raises:
        BenchError: The task class has no rubric of its own.
    """
    if not task_class.rubrics:
        raise BenchError(f"{task_class.name}: has no rubric.py; load it from a folder")
    opened = {
        name: IsolatedRubric(
            path,
            mode=settings.rubric_isolation,
            wall_clock_seconds=settings.rubric_wall_clock_seconds,
            memory_mb=settings.rubric_memory_mb,
            variables=settings.rubric_env,
        )
        for name, path in task_class.rubrics.items()
    }
    if len(opened) == 1:
        return next(iter(opened.values()))
    return CombinedRubrics(opened, weights_of(task_class), task_class.breakdown_keys)


class CombinedRubrics:
    """Grades each output with several isolated rubrics at a time."""

    enforces_limit = True

    def __init__(
        self,
        rubrics: Mapping[str, IsolatedRubric],
        weights: Mapping[str, float],
        breakdown_keys: frozenset[str],
    ) -> None:
        """Take the rubrics by name, the weight of each, and the keys that they may give."""
        self._rubrics = {name: rubrics[name] for name in sorted(rubrics)}
        self._weights = weights
        self._keys = breakdown_keys

    async def __call__(self, case: BenchCase, output: object) -> object:
        """Grade an output; all rubrics have answered or failed before this returns.

        Raises:
            RubricTimeoutError: A rubric that counts exceeded its limit.
            RubricError: A rubric that counts gave no verdict.
        """
        given = await asyncio.gather(
            *(rubric(case, output) for rubric in self._rubrics.values()), return_exceptions=True
        )
        answers: dict[str, Verdict] = {}
        errors: dict[str, RubricError] = {}
        for name, each in zip(self._rubrics, given, strict=True):
            try:
                if isinstance(each, BaseException):
                    raise each
                answers[name] = read_answer(each)
            except RubricError as error:
                errors[name] = error
        answer = combine(answers, self._weights, self._keys, errors)
        printed = ""
        for name, each in zip(self._rubrics, given, strict=True):
            text = getattr(each, "printed", "").strip()
            if isinstance(each, BaseException):  # how it failed as well
                text = f"{each}\n{text}".strip()
            printed += f"{name}: {text}\n" if text else ""
        text = answer.model_dump_json(exclude={"wall_clock_ms"})
        return RubricAnswer(json=text.encode(), printed=printed)

    async def aclose(self) -> None:
        """Close all rubrics; may be called again."""
        await asyncio.gather(*(rubric.aclose() for rubric in self._rubrics.values()))


def combine(
    answers: Mapping[str, Verdict],
    weights: Mapping[str, float],
    breakdown_keys: frozenset[str],
    errors: Mapping[str, RubricError] = _NO_ERRORS,
) -> Verdict:
    """Return the one answer that comes of those of several rubrics.

    The score is the weighted mean, and `passed` holds if all rubrics say so. The breakdown has the
    keys of all, and the score of each rubric by its name; failure modes stand in the order of the
    names; costs are added. A rubric of weight 0 decides nothing: its score, its keys and its cost
    are there, its failure modes are not, and it may fail. Of its keys, those that are wrong are
    left out.

    Args:
        answers: Those that were given, by the name of the rubric.
        weights: Of all rubrics; one at least is more than 0.
        breakdown_keys: Those that the task class allows.
        errors: Of the rubrics that gave no answer.

    Raises:
        RubricError: A rubric that counts failed, or two gave one key; the message names them, and
            the error has the cost of the others.
    """
    cost_usd = min(MOST_COST_USD, math.fsum(each.cost_usd for each in answers.values()))
    counting = {name: error for name, error in sorted(errors.items()) if weights[name]}
    if counting:
        first = next(iter(counting.values()))
        kind = RubricTimeoutError if isinstance(first, RubricTimeoutError) else RubricError
        raise kind(
            "; ".join(f"{name}: {error}" for name, error in counting.items()),
            traceback=next((each.traceback for each in counting.values() if each.traceback), ""),
            printed="".join(each.printed for each in counting.values()),
            cost_usd=cost_usd,
        )
    deciding = [name for name in sorted(answers) if weights[name]]
    givers: dict[str, str] = {}
    for name in deciding:
        for key in sorted(answers[name].breakdown):
            problem = ""
            if key in weights:
                problem = "is the name of a rubric; give another"
            elif key in givers:
                problem = f"is given by {givers[key]}, too"
            if problem:
                raise RubricError(f"{name}: the breakdown key {key!r} {problem}", cost_usd=cost_usd)
            givers[key] = name
    total = math.fsum(weights[name] for name in deciding)
    score = math.fsum(weights[name] / total * answers[name].score for name in deciding)
    breakdown = {
        key: part
        for name in sorted(answers, key=lambda name: (weights[name] > 0, name))
        for key, part in answers[name].breakdown.items()
        if weights[name] or not offending_keys([key], breakdown_keys)
    }
    return Verdict(
        passed=all(answers[name].passed for name in deciding),
        score=min(1.0, score),
        breakdown={**breakdown, **{name: answers[name].score for name in sorted(answers)}},
        failure_modes=tuple(mode for name in deciding for mode in answers[name].failure_modes),
        cost_usd=cost_usd,
    )


Grade = Callable[[dict[str, Any], object], dict[str, Any]]


def grade_in_process(
    grades: Mapping[str, Grade], task_class: TaskClass, case: dict[str, Any], output: object
) -> Verdict:
    """Return the answer of some of a class's rubrics in this process; what they raise is raised.

    Raises:
        RubricError: An answer doesn't have the right shape; the message names the rubric.
    """
    answers = {}
    for name, grade in sorted(grades.items()):
        try:
            answers[name] = read_answer(grade(case, output))
        except RubricError as error:
            if len(grades) == 1:
                raise
            raise RubricError(f"{name}: {error}") from None
    if len(answers) == 1:
        return next(iter(answers.values()))
    return combine(answers, weights_of(task_class), task_class.breakdown_keys)
