"""Say why a pytest run failed: one typed reason, its evidence, a report that always exists.

The public names are loaded when first used, because every pytest run in an environment imports
this package, whether its option is given or not. `__init__.pyi` tells type checkers of them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "0.1.0"
"""The version of the package; the build reads it from here."""

_HOMES = {
    "FailureReason": "taxonomy.judgement",
    "FailureReport": "report.model",
    "FailureType": "taxonomy.judgement",
    "RecoveryAction": "taxonomy.judgement",
    "Stage": "taxonomy.judgement",
    "classify_failure": "taxonomy.failure_text",
    "find_marker": "logs.log_lines",
    "is_circular_fix": "taxonomy.judgement",
    "load_report": "report.load",
    "merge_reports": "report.merging",
    "primary_reason": "taxonomy.judgement",
    "recommend_recovery": "taxonomy.judgement",
}

__all__ = list(_HOMES)


def load_when_used(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, which load its public names when asked.

    Args:
        package: the name of the package.
        homes: the modules of the names, relative to it.
    """
    held = vars(sys.modules[package])

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        held[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        return held[name]

    return find, lambda: sorted({*held, *homes})


__getattr__, __dir__ = load_when_used(__name__, _HOMES)
