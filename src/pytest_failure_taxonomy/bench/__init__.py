"""Run cases with a rubric: a typed score for each, whatever breaks, and an aggregate to trust.

The public names are loaded when first used. `__init__.pyi` tells type checkers of them.
"""

from __future__ import annotations

from pytest_failure_taxonomy import load_when_used

_HOMES = {
    "Answer": "answers",
    "BenchCase": "models",
    "BenchRunReport": "models",
    "BenchScore": "models",
    "CodeResult": "isolate.code",
    "FailureMode": "models",
    "RunPlan": "models",
    "Runner": "run.runner",
    "TaskClass": "models",
    "aggregate": "report",
    "evaluate_gate": "report",
    "load_task_class": "load.task_class",
    "run_code": "isolate.code",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = load_when_used(__name__, _HOMES)
