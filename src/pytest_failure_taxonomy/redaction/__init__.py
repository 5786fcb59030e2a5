"""What must not be read by others is taken out of every text before anything holds it."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Redactor", "check_patterns", "redact_arguments"]

MARK_START: Final = "[REDACTED:"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "Redactor":
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        return Redactor
    if name == "check_patterns":
        from pytest_failure_taxonomy.redaction.custom import check_patterns

        return check_patterns
    if name == "redact_arguments":
        from pytest_failure_taxonomy.redaction.arguments import redact_arguments

        return redact_arguments
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
