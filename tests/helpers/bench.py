"""Plans and runs for tests of the bench layer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
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
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from tests.helpers.rubrics import in_process_stub_rubric

SOON_SECONDS = 0.1
"""A limit that what hangs in a test overruns."""
NEVER_SECONDS = 60.0
"""A limit that nothing in a test reaches, or how long something that is to be ended would take."""


def make_stub_plan(
    *,
    case_ids: Iterable[str],
    breakdown_keys: frozenset[str] = frozenset({"correctness"}),
    failure_mode_taxonomy: Mapping[str, Severity] | None = None,
    **limits: Any,
) -> RunPlan:
    """Return a plan of cases that have an id and nothing else.

    Args:
        case_ids: in the order in which they are started.
        breakdown_keys: of the task class.
        failure_mode_taxonomy: of the task class.
        limits: further fields of the plan.
    """
    cases = tuple(BenchCase(case_id=case_id) for case_id in case_ids)
    task_class = TaskClass(
        name="stub",
        breakdown_keys=breakdown_keys,
        failure_mode_taxonomy=failure_mode_taxonomy or {},
        cases=cases,
    )
    return RunPlan(task_class=task_class, cases=cases, **limits)


def execute(
    plan: RunPlan, system: Any, rubric: Any = in_process_stub_rubric
) -> BenchRunReport:
    """Run a plan on an event loop of its own."""
    return asyncio.run(
        Runner().execute(plan, system_under_test=system, rubric_runner=rubric)
    )


def outcome_of(
    system: Any, rubric: Any = in_process_stub_rubric, **plan: Any
) -> CaseOutcome:
    """Run a plan of one case and return its outcome."""
    outcomes: list[CaseOutcome] = []
    runner = Runner(on_outcome=outcomes.append)
    stub = make_stub_plan(case_ids=["a"], **plan)
    asyncio.run(runner.execute(stub, system_under_test=system, rubric_runner=rubric))
    return outcomes[0]


def mode_of(
    system: Any, rubric: Any = in_process_stub_rubric, **plan: Any
) -> FailureMode:
    """Run a plan of one case and return its only failure mode."""
    return only_mode(outcome_of(system, rubric, **plan).score)


def only_mode(score: BenchScore) -> FailureMode:
    """Return the failure mode of a score that has failed for one reason alone."""
    assert not score.passed
    (mode,) = score.failure_modes
    assert mode.severity == "block"
    return mode


def codes_by_case(report: BenchRunReport) -> dict[str, tuple[str, ...]]:
    """Return the codes of each case of a report."""
    return {
        case_id: tuple(mode.code for mode in score.failure_modes)
        for case_id, score in report.per_case
    }
