"""Rubrics that run in the test's own process, for tests of the runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchScore,
    FailureMode,
    Severity,
)

Rubric = Callable[[BenchCase, Any], Awaitable[object]]
PASSING: Mapping[str, Any] = {
    "passed": True,
    "score": 1.0,
    "breakdown": {"correctness": 1.0},
}


async def in_process_stub_rubric(case: BenchCase, output: object) -> object:
    """Let everything pass."""
    return PASSING


def answering_rubric(answer: object) -> Rubric:
    """Return a rubric that answers so."""

    async def grade(case: BenchCase, output: object) -> object:
        return answer

    return grade


def banned_breakdown_key_rubric(key: str) -> Rubric:
    """Return a rubric that gives such a breakdown key beside a good one."""
    return answering_rubric({**PASSING, "breakdown": {"correctness": 1.0, key: 0.9}})


def unknown_failure_mode_rubric(
    *, emitted_code: str, emitted_severity: Severity = "warn"
) -> Rubric:
    """Return a rubric that lets everything pass, with such a failure mode."""
    return mixed_severity_rubric({}, default=[(emitted_code, emitted_severity)])


def mixed_severity_rubric(
    modes: Mapping[str, Sequence[tuple[str, Severity]]],
    *,
    default: Sequence[tuple[str, Severity]] = (),
) -> Rubric:
    """Return a rubric that gives each case failure modes of its own.

    Args:
        modes: code and severity of each, by case id.
        default: those of the other cases.
    """

    async def grade(case: BenchCase, output: object) -> object:
        given = modes.get(case.case_id, default)
        return BenchScore(
            passed=True,
            score=1.0,
            failure_modes=tuple(
                FailureMode(code=code, severity=level) for code, level in given
            ),
        )

    return grade
