"""Grade the examples of a task class's oracle: the self-test of its rubric."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.isolate.client import open_rubrics
from pytest_failure_taxonomy.bench.models import RunPlan
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import check_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_failure_taxonomy.bench.models import (
        BenchCase,
        BenchScore,
        OracleExample,
        TaskClass,
    )
    from pytest_failure_taxonomy.bench.scores import CaseOutcome


def grade_examples(
    task_class: TaskClass, examples: Sequence[OracleExample]
) -> dict[str, CaseOutcome]:
    """Return what the rubrics make of examples, by the id of each, in their isolation.

    Raises:
        BenchError: The class has no rubric of its own, or its variables are not set.
    """
    check_variables(task_class, task_class.name)
    outcomes: dict[str, CaseOutcome] = {}
    outputs = {example.example_id: example.output for example in examples}
    answered = {case.id_in_file: case for case in task_class.cases}
    # An example is a case that is answered already; several may answer one.
    cases = tuple(
        answered[example.case_id].model_copy(
            update={"case_id": example.example_id, "max_cost_usd": None}
        )
        for example in examples
    )

    async def kept_output(case: BenchCase) -> object:
        return outputs[case.case_id]

    async def grade() -> None:
        rubric = open_rubrics(task_class, task_class.settings)
        runner = Runner(
            on_outcome=lambda outcome: outcomes.update({outcome.case_id: outcome}),
            is_logging=False,
        )
        plan = RunPlan.of(task_class, cases).model_copy(
            update={"max_cost_usd": None, "stop_after_same_failure": 0}
        )
        try:
            await runner.run_cases(plan, system_under_test=kept_output, rubric_runner=rubric)
        finally:
            await rubric.aclose()

    asyncio.run(grade())
    return {example_id: outcomes[example_id] for example_id in outputs}


def why_wrong(example: OracleExample, score: BenchScore) -> str:
    """Return how a rubric's score is not what an example expects; empty if it is."""
    if score.passed == (example.expect == "gold"):
        return ""
    return "null: must not pass, and passed" if score.passed else "gold: must pass, and did not"
