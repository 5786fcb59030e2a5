"""Say why a pytest run failed: one typed reason, its evidence, a report that always exists.

The public names are loaded when first used, because every pytest run in an environment imports
this package, whether its option is given or not.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would be half of what the watcher imports when it starts
if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.load import load_report
    from pytest_failure_taxonomy.report.merging import merge_reports
    from pytest_failure_taxonomy.report.model import FailureReport
    from pytest_failure_taxonomy.report.read.log_lines import find_marker
    from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure
    from pytest_failure_taxonomy.taxonomy.judgement import (
        FailureReason,
        FailureType,
        RecoveryAction,
        Stage,
        is_circular_fix,
        primary_reason,
        recommend_recovery,
    )

__all__ = [
    "FailureReason",
    "FailureReport",
    "FailureType",
    "RecoveryAction",
    "Stage",
    "classify_failure",
    "find_marker",
    "is_circular_fix",
    "load_report",
    "merge_reports",
    "primary_reason",
    "recommend_recovery",
]

_HOMES = {
    "FailureReason": "taxonomy.judgement",
    "FailureReport": "report.model",
    "FailureType": "taxonomy.judgement",
    "RecoveryAction": "taxonomy.judgement",
    "Stage": "taxonomy.judgement",
    "classify_failure": "taxonomy.failure_text",
    "find_marker": "report.read.log_lines",
    "is_circular_fix": "taxonomy.judgement",
    "load_report": "report.load",
    "merge_reports": "report.merging",
    "primary_reason": "taxonomy.judgement",
    "recommend_recovery": "taxonomy.judgement",
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
