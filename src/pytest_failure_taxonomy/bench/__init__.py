"""Run cases with a rubric: a typed score for each, whatever breaks, and an aggregate to trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.answers import Answer
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class
    from pytest_failure_taxonomy.bench.models import (
        BenchCase,
        BenchRunReport,
        BenchScore,
        FailureMode,
        RunPlan,
        TaskClass,
    )
    from pytest_failure_taxonomy.bench.report import aggregate, evaluate_gate
    from pytest_failure_taxonomy.bench.run.runner import Runner

__all__ = [
    "Answer",
    "BenchCase",
    "BenchRunReport",
    "BenchScore",
    "FailureMode",
    "RunPlan",
    "Runner",
    "TaskClass",
    "aggregate",
    "evaluate_gate",
    "load_task_class",
]

_HOMES = {
    "Answer": "answers",
    "Runner": "run.runner",
    "aggregate": "report",
    "evaluate_gate": "report",
    "load_task_class": "load.task_class",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_HOMES.get(name, 'models')}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
