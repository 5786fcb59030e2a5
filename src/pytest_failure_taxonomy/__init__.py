"""Say why a pytest run failed: one typed reason, its evidence, a report that always exists.

The public names are loaded when first used, because every pytest run in an environment imports
this package, whether its option is given or not. `__init__.pyi` tells type checkers of them.
"""

from __future__ import annotations

VERSION = "0.1.0"
"""The version of the package; the build reads it from here."""

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

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
