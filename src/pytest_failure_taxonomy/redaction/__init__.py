"""Remove secrets from texts before they are kept, written or shown."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Redactor", "check_patterns", "redact_arguments"]

MARK_START: Final = "[REDACTED:"


def is_cut(text: str) -> bool:
    """Return whether something may have been cut out of the text."""
    return "..." in text or "…" in text


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in ("Redactor", "check_patterns"):
        from pytest_failure_taxonomy.redaction import redactor

        return getattr(redactor, name)
    if name == "redact_arguments":
        from pytest_failure_taxonomy.redaction.names import redact_arguments

        return redact_arguments
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
