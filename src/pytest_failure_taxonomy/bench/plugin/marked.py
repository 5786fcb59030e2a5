"""Tests with the mark `bench`: ordinary tests that run once for each case of a task class."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.plugin.results import Source
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import TaskClass
    from pytest_failure_taxonomy.bench.plugin.classes import TaskClasses

ARGUMENT = "case"
_EXAMPLE = '@pytest.mark.bench("name")'


class MarkedCase(NamedTuple):
    """What a test with the mark `bench` runs."""

    task_class: TaskClass
    case: BenchCase
    source: Source


def named_by(mark: pytest.Mark) -> str:
    """Return the name of the task class that a mark gives.

    Raises:
        BenchError: the mark gives something else.
    """
    if len(mark.args) == 1 and not mark.kwargs and isinstance(mark.args[0], str):
        return mark.args[0]
    raise BenchError(f"the mark bench takes the name of one task class; write {_EXAMPLE}")


def marked_case(item: pytest.Item, classes: TaskClasses) -> MarkedCase | None:
    """Return the case that a test runs by its mark; `None` for any other test."""
    mark = item.get_closest_marker("bench")
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get(ARGUMENT) if callspec is not None else None
    if mark is None or not isinstance(case, BenchCase):
        return None
    task_class = classes.find(named_by(mark))
    test = item.nodeid.partition("[")[0]
    return MarkedCase(task_class, case, Source(str(task_class.folder), test))


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark, classes: TaskClasses) -> None:
    """Give a test each case of its task class, unless it names its cases itself.

    Raises:
        BenchError: the task class can't be used.
    """
    for given in metafunc.definition.iter_markers("parametrize"):
        names = given.args[0] if given.args else given.kwargs.get("argnames", ())
        split = names.replace(",", " ").split() if isinstance(names, str) else names
        if ARGUMENT in split:
            return
    cases = []
    for case in classes.find(named_by(mark)).cases:
        for tag in case.tags:
            classes.register_tag(tag)
        marks = [getattr(pytest.mark, tag) for tag in case.tags]
        cases.append(pytest.param(case, id=case.case_id, marks=marks))
    metafunc.parametrize(ARGUMENT, cases)
