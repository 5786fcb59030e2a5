"""Remove secrets from texts before they are kept, written or shown."""

from __future__ import annotations

import json
import pkgutil
from typing import Any, Final

__all__ = ["Redactor", "check_patterns", "redact_arguments"]

MARK_START: Final = "[REDACTED:"
WORDS: Final[dict[str, Any]] = json.loads(pkgutil.get_data(__name__, "words.json") or b"{}")
"""Lists of words by their names: what secrets stand beside, and what is none."""


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
