"""Plans and scores of cases, with the fewest words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchRunReport,
    BenchScore,
    FailureMode,
    RunPlan,
    Severity,
    TaskClass,
)
from pytest_failure_taxonomy.bench.report import aggregate


def make_plan(case_ids: Iterable[str], **settings: Any) -> RunPlan:
    """Return a plan to run cases of these ids; ``x#2`` is the second run of ``x``."""
    cases = tuple(
        BenchCase(case_id=case_id, repetition=int(case_id.partition("#")[2] or 1))
        for case_id in case_ids
    )
    task_class = TaskClass(
        name="vuln", breakdown_keys=frozenset(), failure_mode_taxonomy={}, cases=cases
    )
    return RunPlan(task_class=task_class, cases=cases, **settings)


def make_score(
    score: float = 1.0,
    *,
    passed: bool | None = None,
    codes: Mapping[str, Severity] | None = None,
    cost_usd: float = 0.0,
    wall_clock_ms: float = 0.0,
    system_ms: float | None = None,
) -> BenchScore:
    """Return a score, passed where it is above 0."""
    return BenchScore(
        passed=score > 0 if passed is None else passed,
        score=score,
        failure_modes=tuple(
            FailureMode(code=code, severity=severity)
            for code, severity in (codes or {}).items()
        ),
        cost_usd=cost_usd,
        wall_clock_ms=wall_clock_ms,
        system_ms=system_ms,
    )


def make_run(
    scores: Sequence[BenchScore],
    *,
    lost: int = 0,
    not_run: int = 0,
    run_id: str = "run",
    **settings: Any,
) -> BenchRunReport:
    """Return the report of a run of cases ``c000``, ``c001`` …: graded, then lost, then not run."""
    case_ids = [f"c{i:03}" for i in range(len(scores) + lost + not_run)]
    return aggregate(
        make_plan(case_ids, **settings),
        zip(case_ids, scores, strict=False),
        run_id=run_id,
        started=case_ids[: len(scores) + lost],
    )
