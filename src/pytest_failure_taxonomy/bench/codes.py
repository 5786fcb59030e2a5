"""The codes that the runner itself gives, the three severities, and words no key may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Severity = Literal["block", "warn", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)

SUT_EXCEPTION: Final = "sut.exception"
SUT_TIMEOUT: Final = "sut.timeout"
RUBRIC_MALFORMED_OUTPUT: Final = "rubric.malformed_output"
RUBRIC_TIMEOUT: Final = "rubric.timeout"
RUBRIC_UNKNOWN_BREAKDOWN_KEY: Final = "rubric.unknown_breakdown_key"
RUBRIC_UNKNOWN_FAILURE_MODE: Final = "rubric.unknown_failure_mode"

RUNNER_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        SUT_EXCEPTION: "the system under test raised, or returned what JSON can't hold",
        SUT_TIMEOUT: "the system under test was not done within timeout_per_case_seconds",
        RUBRIC_MALFORMED_OUTPUT: "the rubric failed, or its answer is no score",
        RUBRIC_TIMEOUT: "the rubric was not done within rubric_wall_clock_seconds",
        RUBRIC_UNKNOWN_BREAKDOWN_KEY: "the rubric gave a breakdown key that its class doesn't list",
        RUBRIC_UNKNOWN_FAILURE_MODE: "the rubric gave a code that its class doesn't list",
    }
)
"""Codes that need no entry in a `failure_modes.yaml`, and their descriptions; always `block`."""

BANNED_IN_KEYS: Final = ("confidence", "llm", "self_reported", "model_says")
"""A breakdown key with one of these in it would be a model's opinion of itself, not a score."""


def banned_part(key: str) -> str | None:
    """Return the banned word that a breakdown key contains, in any case, or `None`."""
    lowered = key.lower()
    return next((word for word in BANNED_IN_KEYS if word in lowered), None)


def offending_keys(given: Iterable[str], allowed: frozenset[str]) -> list[str]:
    """Return the keys of a breakdown that its task class does not list, or nobody may, sorted."""
    return sorted(key for key in given if key not in allowed or banned_part(key))
