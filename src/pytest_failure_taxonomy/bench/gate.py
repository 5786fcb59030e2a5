"""Say whether what a run came to is enough."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.bounds import FEWEST_SCORES
from pytest_failure_taxonomy.bench.models import GateResult, GateSettings

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchRunReport

_REPETITION: Final = re.compile(r"#[0-9]+\Z")


def evaluate_gate(
    report: BenchRunReport, settings: GateSettings | None = None, *, is_selection: bool = False
) -> GateResult:
    """Judge a run.

    Adding a failure, or losing a case, never turns `FAIL` into `PASS`.

    Args:
        report: of the run; its own `gate` is not looked at.
        settings: what to ask for; where not given, that something passed and nothing is blocked.
        is_selection: the user chose some of the class's cases. That neither passes nor fails.

    Returns:
        `FAIL` where what was run is not good enough; else `INCOMPLETE` where cases are missing;
        else `PASS`. The reasons stand in the order of their weight.
    """
    missing = _missing(report)
    failing = _failing(report, settings or GateSettings())
    if is_selection:
        reasons = ("the user chose these cases; a gate needs all of the class", *missing)
        return GateResult(verdict="INCOMPLETE", reasons=(*reasons, *failing))
    if failing:
        return GateResult(verdict="FAIL", reasons=(*failing, *missing))
    if missing:
        return GateResult(verdict="INCOMPLETE", reasons=missing)
    return GateResult(verdict="PASS", reasons=())


def _failing(report: BenchRunReport, settings: GateSettings) -> tuple[str, ...]:
    """Return what makes the gate fail, in words."""
    reasons = (_blocked(report), _below_bound(report, settings), _too_few(report, settings))
    return tuple(reason for reason in reasons if reason)


def _blocked(report: BenchRunReport) -> str:
    """Say which failure modes of severity `block` occurred, and in how many cases."""
    if not report.block_severity_failure_modes:
        return ""
    codes = count_codes(report, "block")
    blocked = sum(
        any(mode.severity == "block" for mode in score.failure_modes)
        for _, score in report.per_case
    )
    of_all = f"{blocked} of {_cases(report.counts.scheduled)}"
    listed = ", ".join(f"{code} ({count})" for code, count in codes)
    return f"{of_all} ended with a failure mode of severity block: {listed}"


def _below_bound(report: BenchRunReport, settings: GateSettings) -> str:
    """Say that the lower bound is too low, or that there is none to compare."""
    asked, bound = settings.lower_bound_95, report.lower_bound_95
    if asked is None:
        return ""
    if bound.value is None:
        why = bound.method.removeprefix("none: ")
        return f"there is no lower bound to compare with {asked:g}: {why}"
    if bound.value >= asked:
        return ""
    return f"the lower bound {cut_share(bound.value)} is below {asked:g}"


def _too_few(report: BenchRunReport, settings: GateSettings) -> str:
    """Say that too few cases passed to prove anything.

    Those that failed don't count: else a class with one case too few would pass as soon as it
    got one more that fails.
    """
    for_a_bound = 1 if settings.lower_bound_95 is None else FEWEST_SCORES
    needed = max(settings.min_cases or 1, for_a_bound)
    passed = _distinct_passed(report)
    if passed >= needed:
        return ""
    if needed == 1:
        return "no case passed"
    return f"{_cases(passed)} passed; at least {needed} are needed"


def _distinct_passed(report: BenchRunReport) -> int:
    """Return how many cases passed, one that was repeated counted once."""
    passed = [case_id for case_id, score in report.per_case if score.passed]
    if report.lower_bound_95.n == report.counts.started:
        return len(passed)
    return len({_REPETITION.sub("", case_id) for case_id in passed})


def _missing(report: BenchRunReport) -> tuple[str, ...]:
    """Say which cases have no score."""
    counts = report.counts
    of_all = f"of {_cases(counts.scheduled)}"
    reasons = []
    if lost := counts.started - counts.graded:
        reasons.append(f"{lost} {of_all} started and left no score")
    if counts.not_run:
        capped = report.run_id.startswith("partial:")
        why = ": the cost cap was reached" if capped else ""
        verb = "was" if counts.not_run == 1 else "were"
        reasons.append(f"{counts.not_run} {of_all} {verb} not run{why}")
    if not reasons and not report.complete:
        reasons.append("the run is not complete")
    return tuple(reasons)


def count_codes(report: BenchRunReport, *severities: str) -> list[tuple[str, int]]:
    """Return the codes of these severities with the number of cases, the most frequent first."""
    found = Counter(
        code
        for _, score in report.per_case
        for code in {mode.code for mode in score.failure_modes if mode.severity in severities}
    )
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def cut_share(share: float) -> str:
    """Write a share with three digits, cut and not rounded: 0.9496 has not reached 0.950."""
    # Of twelve digits, so that the 0.29999999999999998 that is meant by 0.3 stays 0.300.
    return f"{share:.12f}"[:5]


def _cases(count: int) -> str:
    """Write a number of cases."""
    return f"{count} case" if count == 1 else f"{count} cases"
