"""The gate of a run that an earlier run is the baseline of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pytest_failure_taxonomy.bench.comparing import (
    ComparedRun,
    compare_runs,
    compared_run,
    refusals,
    repeated_classes,
)
from pytest_failure_taxonomy.bench.models import BenchRunReport, GateResult
from pytest_failure_taxonomy.bench.run_summary import difference_words
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.taxonomy.values import value

_NEW_BASELINE: Final = "make a baseline of the cases as they are now"
_THIS_RUN: Final = "this run"
_RANK: Final = {"PASS": 0, "INCOMPLETE": 1, "FAIL": 2}


@value
class ComparedToBaseline:
    """A report after its comparison with a baseline."""

    report: BenchRunReport
    """With a gate that has the baseline's verdict in it, and the comparison."""
    problem: str = ""
    """Why nothing could be compared, though the user chose no cases; the gate has it, too."""


def evaluate_against_baseline(
    report: BenchRunReport,
    baseline: Sequence[ComparedRun],
    digests: Mapping[str, str] | None = None,
) -> ComparedToBaseline:
    """Return a report whose gate asks for no loss against an earlier run, too.

    The gate fails where the whole interval of the difference is below 0. Where there is nothing to
    compare, a loss could not be seen: it is `INCOMPLETE`, unless it fails for another reason. No
    baseline makes a gate pass that would not pass without it.

    Args:
        report: The report of the newer run.
        baseline: The older runs of the same class and system, at least one.
        digests: Of the cases of the newer run, by id.
    """
    new = compared_run(report, _THIS_RUN, digests)
    if new.was_picked:
        words = "the user chose these cases; a comparison with the baseline needs all of the class"
        return ComparedToBaseline(report=_with_gate(report, "INCOMPLETE", words))
    if new.missing:
        cases = f"{new.missing} {'case has' if new.missing == 1 else 'cases have'} no score"
        return _not_compared(report, f"this run is not complete: {cases}")
    why_not = repeated_classes(baseline) or refusals(baseline[0], new, right=_NEW_BASELINE)
    if why_not:
        subject = f"{_THIS_RUN}: {shown(new.name)}: "
        reasons = [each.removeprefix(subject) for each in why_not]
        return _not_compared(report, "; ".join(reasons))
    found = compare_runs(baseline[0], new)
    report = report.model_copy(update={"baseline": found})
    if found.interval_95.low is None:
        return _not_compared(report, found.interval_95.method.removeprefix("none: "))
    if found.finding == "worse":
        words = f"worse than the baseline: the mean {difference_words(found)}"
        return ComparedToBaseline(report=_with_gate(report, "FAIL", words))
    return ComparedToBaseline(report=_with_gate(report, "PASS", ""))


def _not_compared(report: BenchRunReport, why: str) -> ComparedToBaseline:
    problem = f"can't be compared with the baseline: {why}"
    return ComparedToBaseline(report=_with_gate(report, "INCOMPLETE", problem), problem=problem)


def _with_gate(report: BenchRunReport, verdict: str, reason: str) -> BenchRunReport:
    """Return a report with the worse of its gate's verdict and another, and a further reason."""
    before = report.gate or GateResult(verdict="PASS", reasons=())
    reasons = (*before.reasons, reason) if reason else before.reasons
    if _RANK[verdict] > _RANK[before.verdict]:
        # What decides comes first.
        reasons = (reason, *before.reasons)
    gate = GateResult.model_validate(
        {"verdict": max(before.verdict, verdict, key=_RANK.__getitem__), "reasons": reasons}
    )
    return report.model_copy(update={"gate": gate})
