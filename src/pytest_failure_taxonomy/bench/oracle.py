"""The oracle of a task class: the self-test of its rubric, and outputs that people have labelled.

How agreement is measured: docs/bench/grade.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Final

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.answers import Answer
from pytest_failure_taxonomy.bench.bounds import interval_95
from pytest_failure_taxonomy.bench.kept.lines import now
from pytest_failure_taxonomy.bench.models import BenchScore, OracleExample, TaskClass
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from pytest_failure_taxonomy.bench.sharding import rubric_digest
from pytest_failure_taxonomy.documents.content import read_content
from pytest_failure_taxonomy.documents.problems import WrongError
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.files import replace_file


def grade_examples(
    task_class: TaskClass, examples: Sequence[OracleExample]
) -> dict[str, CaseOutcome]:
    """Return what the rubrics make of examples, by the id of each, in their isolation.

    Raises:
        BenchError: The class has no rubric of its own, or its variables are not set.
    """
    # This starts processes: what only reads a measured agreement needs none.
    from pytest_failure_taxonomy.bench.kept.regrading import grade_outputs
    from pytest_failure_taxonomy.bench.scores import check_variables

    check_variables(task_class, task_class.name)
    outcomes: dict[str, CaseOutcome] = {}
    answered = {case.id_in_file: case for case in task_class.cases}
    # An example is a case that is answered already; several may answer one.
    cases = [
        answered[example.case_id].model_copy(update={"case_id": example.example_id})
        for example in examples
    ]
    grading = grade_outputs(
        task_class,
        cases,
        {example.example_id: Answer(output=example.output) for example in examples},
        on_outcome=lambda outcome: outcomes.update({outcome.case_id: outcome}),
        max_cost_usd=None,
        stop_after_same_failure=0,
    )
    asyncio.run(grading)
    return {example.example_id: outcomes[example.example_id] for example in examples}


def why_wrong(example: OracleExample, score: BenchScore) -> str:
    """Return how a rubric's score is not what an example expects; empty if it is."""
    if score.passed == (example.expect == "gold"):
        return ""
    return (
        "null: must not pass, and passed"
        if score.passed
        else "gold: must pass, and did not"
    )


# Agreement with people.

_NO_VERDICT: Final = frozenset(
    {
        models.RUBRIC_MALFORMED_OUTPUT,
        models.RUBRIC_TIMEOUT,
        models.RUBRIC_UNKNOWN_BREAKDOWN_KEY,
    }
)
"""Codes of a rubric that failed itself, which says nothing about the output."""


def why_no_verdict(score: BenchScore) -> str:
    """Return why a rubric gave no verdict; empty if it gave one."""
    failures = [mode for mode in score.failure_modes if mode.code in _NO_VERDICT]
    words = next((mode.detail or mode.code for mode in failures), "")
    return words.removeprefix("raised ")


_MAX_BYTES: Final = 16 * 1024 * 1024
_SUFFIX: Final = ".judge.json"


def measure(
    task_class: TaskClass, scores: Mapping[str, BenchScore]
) -> models.RubricAgreement:
    """Return how far the rubric agrees with the labels of the examples that it has graded.

    Args:
        task_class: The class.
        scores: Those of its labelled examples with a verdict, at least one, by id.

    Raises:
        ImportError: scipy is not installed.
    """
    labels = {
        example.example_id: example.label
        for example in task_class.oracle
        if example.label and example.example_id in scores
    }
    says = {name: "pass" if scores[name].passed else "fail" for name in labels}
    wrong = {name: label for name, label in labels.items() if says[name] != label}

    def rate(*of: str) -> models.MeasuredRate | None:
        agrees = [
            float(name not in wrong) for name, label in labels.items() if label in of
        ]
        if not agrees:
            return None
        low, high = interval_95(agrees)
        return models.MeasuredRate(
            value=fmean(agrees), low=low, high=high, n=len(agrees)
        )

    base_rate, passed = (
        fmean(each == "pass" for each in of.values()) for of in (labels, says)
    )
    by_chance = base_rate * passed + (1 - base_rate) * (1 - passed)
    observed = 1 - len(wrong) / len(labels)
    return models.RubricAgreement.model_validate(
        {
            "task_class": task_class.name,
            "rubric": rubric_digest(task_class),
            "measured_at": now(),
            "base_rate": base_rate,
            "agreement": rate("pass", "fail"),
            "kappa": (observed - by_chance) / (1 - by_chance)
            if by_chance < 1
            else None,
            "true_positive_rate": rate("pass"),
            "true_negative_rate": rate("fail"),
            "wrongly_passed": [
                name for name, label in wrong.items() if label == "fail"
            ],
            "wrongly_failed": [
                name for name, label in wrong.items() if label == "pass"
            ],
        }
    )


def keep(found: models.RubricAgreement, storage: Path) -> Path:
    """Write an agreement to the storage of the runs, and return its file.

    Raises:
        BenchError: It can't be written.
    """
    path = storage / f"{found.task_class}{_SUFFIX}"
    try:
        storage.mkdir(parents=True, exist_ok=True)
        replace_file(path, found.model_dump_json(indent=2).encode())
    except OSError as error:
        why = error.strerror or error
        raise BenchError(
            f"{path}: can't be written ({why}); name another --storage"
        ) from None
    return path


def with_agreement(
    report: models.BenchRunReport, storage: Path
) -> models.BenchRunReport:
    """Return a report with what is kept of its rubric's agreement with people, if anything is."""
    with suppress(WrongError, ValueError):
        content = read_content(storage / f"{report.task_class}{_SUFFIX}", _MAX_BYTES)
        found = models.RubricAgreement.model_validate_json(content)
        is_stale = report.digests is None or report.digests.rubric != found.rubric
        update = {"rubric_agreement": found.model_copy(update={"is_stale": is_stale})}
        return report.model_copy(update=update)
    return report
