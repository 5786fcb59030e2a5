"""Write what a run came to in a few lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_failure_taxonomy.bench.gate import count_codes, cut_share

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.codes import Severity
    from pytest_failure_taxonomy.bench.models import BenchRunReport


def summary_lines(
    report: BenchRunReport, *, test: str = "", slowest: int = 3, detail: bool = False
) -> list[str]:
    """Return the lines of one task class: the first names it, the others are indented.

    Args:
        report: of its run.
        test: the test that ran it, to be named; empty for items of the class's own.
        slowest: how many of the slowest cases to name.
        detail: list the failure modes of severity `warn` and `info` too.
    """
    severities: tuple[Severity, ...] = ("block", "warn", "info") if detail else ("block",)
    facts: list[tuple[str, str]] = [(name, _codes(report, name)) for name in severities]
    facts.append(("slowest", _slowest(report, slowest)))
    facts.append(("cost", _cost(report.total_cost_usd)))
    if report.gate is not None:
        facts.append(("gate", ": ".join([report.gate.verdict, *_joined(report.gate.reasons)])))
    return [
        f"bench {report.task_class}{test and f' in {test}'}: {_outcome(report)}",
        *(f"  {name}: {words}" for name, words in facts if words),
    ]


def _outcome(report: BenchRunReport) -> str:
    """Say how many cases passed, and what the scores prove."""
    counts = report.counts
    passed = f"{counts.passed} of {counts.scheduled} passed"
    if lost := counts.started - counts.graded:
        passed += f", {lost} lost"
    if counts.not_run:
        passed += f", {counts.not_run} not run"
    if report.mean_score is None:
        return passed
    return f"{passed}; mean {cut_share(report.mean_score)}; {_bound(report)}"


def _bound(report: BenchRunReport) -> str:
    """Write the lower bound with its method, or why there is none."""
    bound = report.lower_bound_95
    if bound.value is None:
        return f"no lower bound: {bound.method.removeprefix('none: ')}"
    return f"at least {cut_share(bound.value)} (95 %, {bound.method}, n={bound.n})"


def _codes(report: BenchRunReport, severity: Severity) -> str:
    """List the failure modes of a severity, each with the number of its cases."""
    return ", ".join(f"{code} ({count})" for code, count in count_codes(report, severity))


def _slowest(report: BenchRunReport, most: int) -> str:
    """List the cases that took longest, the slowest first."""
    measured = [item for item in report.per_case if item[1].wall_clock_ms > 0]
    measured.sort(key=lambda item: (-item[1].wall_clock_ms, item[0]))
    return ", ".join(
        f"{case_id} {duration(score.wall_clock_ms)}" for case_id, score in measured[:most]
    )


def duration(wall_clock_ms: float) -> str:
    """Write how long something took, in the unit that needs the fewest digits."""
    if wall_clock_ms < 0.95:
        return f"{wall_clock_ms:.1g} ms" if wall_clock_ms >= 0.1 else "<0.1 ms"
    if wall_clock_ms < 999.5:
        return f"{wall_clock_ms:.0f} ms"
    if wall_clock_ms < 59_950:
        return f"{wall_clock_ms / 1_000:.1f} s"
    seconds = round(wall_clock_ms / 1_000)
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _cost(cost_usd: float) -> str:
    """Write a cost in dollars; nothing where there is none."""
    if cost_usd <= 0:
        return ""
    if cost_usd < 0.0001:
        return "<$0.0001"
    return f"${cost_usd:.4f}" if cost_usd < 0.1 else f"${cost_usd:,.2f}"


def _joined(reasons: tuple[str, ...]) -> list[str]:
    """Return the reasons in one text, where there are any."""
    return ["; ".join(reasons)] if reasons else []
