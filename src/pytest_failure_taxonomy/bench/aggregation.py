"""Make the report of a run from the scores of its cases: whatever was started counts."""

from __future__ import annotations

import math
import secrets
import statistics
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.bounds import lower_bound_95
from pytest_failure_taxonomy.bench.gate import evaluate_gate
from pytest_failure_taxonomy.bench.models import BenchRunReport, Counts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytest_failure_taxonomy.bench.models import BenchScore, RunPlan


def aggregate(
    plan: RunPlan,
    per_case: Iterable[tuple[str, BenchScore]],
    *,
    run_id: str | None = None,
    started: Collection[str] | None = None,
) -> BenchRunReport:
    """Make the report of a run, the same for the same scores in any order.

    A case that failed counts as 0, and so does one that was started and has no score: its process
    was lost. A case that was never started is in no average, and the report is not complete.

    Args:
        plan: what was to be run; its gate, if any, is evaluated.
        per_case: the id and the score of each graded case.
        run_id: of this run; a new one where not given.
        started: ids of the cases that were started; those with a score always were.

    Raises:
        ValueError: for the id of a case that the plan has not, and for two scores of one case.
    """
    scores = _scores_by_id(plan, per_case)
    begun = _begun(plan, scores, started)
    counted = {key: scores[key].counted_score if key in scores else 0.0 for key in begun}
    passed = sum(score.passed for score in scores.values())
    values = list(counted.values())
    report = BenchRunReport(
        run_id=secrets.token_hex(16) if run_id is None else run_id,
        task_class=plan.task_class.name,
        per_case=tuple(scores.items()),
        complete=len(scores) == len(plan.cases),
        counts=Counts(
            scheduled=len(plan.cases),
            started=len(begun),
            graded=len(scores),
            passed=passed,
            not_run=len(plan.cases) - len(begun),
        ),
        mean_score=_mean(values) if values else None,
        # Of Fractions inside, so neither order nor rounding moves a digit.
        score_stddev=statistics.stdev(values) if len(values) > 1 else None,
        lower_bound_95=lower_bound_95(_means_by_distinct_case(plan, counted)),
        passed_count=passed,
        total_cost_usd=math.fsum(score.cost_usd for score in scores.values()),
        block_severity_failure_modes=_block_codes(scores),
        gate=None,
    )
    if plan.gate is None:
        return report
    result = evaluate_gate(report, plan.gate, is_selection=plan.is_selection)
    return report.model_copy(update={"gate": result})


def _scores_by_id(
    plan: RunPlan, per_case: Iterable[tuple[str, BenchScore]]
) -> dict[str, BenchScore]:
    """Return the scores by case id, sorted, once each is known to be of a case of the plan."""
    scores: dict[str, BenchScore] = {}
    for case_id, score in per_case:
        if case_id in scores:
            raise ValueError(f"two scores for the case {case_id!r}; a case has one")
        scores[case_id] = score
    _refuse_unknown(plan, scores)
    return dict(sorted(scores.items()))


def _begun(
    plan: RunPlan, scores: Mapping[str, BenchScore], started: Collection[str] | None
) -> list[str]:
    """Return the ids of the cases that were started, sorted."""
    if started is None:
        return list(scores)
    _refuse_unknown(plan, started)
    return sorted({*started, *scores})


def _refuse_unknown(plan: RunPlan, case_ids: Iterable[str]) -> None:
    """Raise for ids that no case of the plan has."""
    unknown = sorted(set(case_ids) - {case.case_id for case in plan.cases})
    if unknown:
        raise ValueError(f"no case of the plan has the id {', '.join(map(repr, unknown))}")


def _means_by_distinct_case(plan: RunPlan, counted: Mapping[str, float]) -> list[float]:
    """Return one score a distinct case: the mean over its repetitions.

    Repetitions of one case are not independent of each other; a bound computed as if they were
    would claim more than the cases prove.
    """
    if all(case.repetition == 1 for case in plan.cases):
        return list(counted.values())
    groups: dict[str, list[float]] = {}
    for case in plan.cases:
        if case.case_id in counted:
            name = case.case_id.removesuffix(f"#{case.repetition}")
            groups.setdefault(name, []).append(counted[case.case_id])
    return [_mean(scores) for scores in groups.values()]


def _mean(scores: Collection[float]) -> float:
    """Return the mean, rounded once."""
    return math.fsum(scores) / len(scores)


def _block_codes(scores: Mapping[str, BenchScore]) -> tuple[str, ...]:
    """Return the codes of severity `block` that occurred, sorted, each once."""
    modes = (mode for score in scores.values() for mode in score.failure_modes)
    return tuple(sorted({mode.code for mode in modes if mode.severity == "block"}))
