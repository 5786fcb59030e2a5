"""What must not be read by others is taken out of every text before anything holds it."""

from __future__ import annotations

from typing import Any

__all__ = ["Redactor", "check_patterns"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "Redactor":
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        return Redactor
    if name == "check_patterns":
        from pytest_failure_taxonomy.redaction.custom import check_patterns

        return check_patterns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
