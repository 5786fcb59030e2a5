"""Say why a pytest run failed: one typed reason, its evidence, a report that always exists.

The public names are loaded when first used, because every pytest run in an environment imports
this package, whether its option is given or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.load import load_report
    from pytest_failure_taxonomy.report.model import FailureReport
    from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, primary_reason
    from pytest_failure_taxonomy.taxonomy.stages import Stage

__all__ = [
    "FailureReason",
    "FailureReport",
    "Stage",
    "load_report",
    "primary_reason",
]

_HOMES = {
    "FailureReason": "taxonomy.reasons",
    "FailureReport": "report.model",
    "Stage": "taxonomy.stages",
    "load_report": "report.load",
    "primary_reason": "taxonomy.reasons",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
