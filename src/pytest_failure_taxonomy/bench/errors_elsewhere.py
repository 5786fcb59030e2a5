"""Exceptions of a system under test that were raised in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_failure_taxonomy.bench.retries import kind_of, names_of_classes, retry_after_seconds


class SystemUnderTestError(Exception):
    """An exception of a system under test, raised in its own process.

    The error that reaches the caller is of a subclass named like the original's type.
    """

    bases: tuple[str, ...] | None = None
    """The names of the original's classes, with their modules, the most derived one first."""
    failure_kind: str | None = None
    """The kind of failure, such as `llm.rate_limited`, if it is known; maybe its cause's."""
    retry_after: float | None = None
    """The pause that the server of a provider asked for, in seconds."""

    def __init__(self, message: str, *, traceback: str = "", printed: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        self.printed = printed


def facts_of(error: BaseException) -> dict[str, Any]:
    """Return as plain data what decides whether the system is called again after an exception."""
    return {
        "bases": names_of_classes(error),
        "failure_kind": kind_of(error),
        "retry_after": retry_after_seconds(error),
    }


def raised_elsewhere(said: Mapping[str, Any], printed: str = "") -> SystemUnderTestError:
    """Return an exception like one that was raised in another process.

    Args:
        said: Its `type`, `message` and `traceback`, and maybe its `facts_of`.
        printed: What the process printed.
    """
    kind = type(said["type"], (SystemUnderTestError,), {"__module__": __name__})
    error: SystemUnderTestError = kind(
        said["message"], traceback=said["traceback"], printed=printed
    )
    bases = said.get("bases")
    error.bases = None if bases is None else tuple(bases)
    error.failure_kind = said.get("failure_kind")
    error.retry_after = said.get("retry_after")
    return error
