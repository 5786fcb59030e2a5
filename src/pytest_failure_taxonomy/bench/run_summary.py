"""The figures of a run in words: the lines of a task class on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.run_report import count_codes, cut_share

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchRunReport, Severity
    from pytest_failure_taxonomy.bench.run_figures import (
        BenchComparison,
        KeyScores,
        LowerBound,
        ReducedScore,
        TagScores,
    )

_MAX_FLIPS: Final = 5
_PLURAL: Final = {"now_fails": "no longer pass", "now_passes": "now pass"}


def summary_lines(
    report: BenchRunReport, *, test: str = "", slowest: int = 3, detail: bool = False
) -> list[str]:
    """Return the lines of one task class: the first names it, the others are indented.

    Args:
        report: The report of its run.
        test: The test that ran it; empty for the items of the class.
        slowest: How many of the slowest cases to list.
        detail: Whether to list failure modes of severity `warn` and `info`, too.
    """
    severities: tuple[Severity, ...] = ("block", "warn", "info") if detail else ("block",)
    facts: list[tuple[str, str]] = [(name, _codes(report, name)) for name in severities]
    facts += [(each.name, _reduced_words(each)) for each in report.reduced]
    if detail:
        facts += [(f"tag {each.tag}", _tag_words(each)) for each in report.by_tag]
        facts += [(f"key {each.key}", _key_words(each)) for each in report.by_breakdown_key]
    facts.append(("slowest", _slowest(report, slowest)))
    facts.append(("stopped", report.stopped or ""))
    facts.append(("cost", cost_words(report.total_cost_usd)))
    if report.baseline is not None:
        facts.append(("baseline", _baseline_words(report.baseline)))
    if report.gate is not None:
        facts.append(("gate", ": ".join([report.gate.verdict, *_joined(report.gate.reasons)])))
    part = report.shard and f", shard {report.shard.index} of {report.shard.total}"
    return [
        f"bench {report.task_class}{test and f' in {test}'}{part or ''}: {_outcome(report)}",
        *(f"  {name}: {words}" for name, words in facts if words),
    ]


def _outcome(report: BenchRunReport) -> str:
    """Return how many cases passed, the mean, and the lower bound."""
    counts = report.counts
    passed = f"{counts.passed} of {counts.scheduled} passed"
    if lost := counts.started - counts.graded:
        passed += f", {lost} lost"
    if counts.not_run:
        passed += f", {counts.not_run} not run"
    if report.lost_to_provider:
        passed += f", {_lost_to_provider(report)}"
    if report.mean_score is None:
        return passed
    return f"{passed}; mean {cut_share(report.mean_score)}; {_bound(report.lower_bound_95)}"


def _lost_to_provider(report: BenchRunReport) -> str:
    """Return how many cases never got through to the system's provider, with the kinds."""
    lost = sum(each.cases for each in report.lost_to_provider)
    kinds = ", ".join(each.kind for each in report.lost_to_provider)
    return f"{lost} of {report.counts.scheduled} lost to the provider ({kinds})"


def _bound(bound: LowerBound) -> str:
    """Return the lower bound with its method, or why there is none."""
    if bound.value is None:
        return f"no lower bound: {bound.method.removeprefix('none: ')}"
    return f"at least {cut_share(bound.value)} (95 %, {bound.method}, n={bound.n})"


def difference_words(found: BenchComparison) -> str:
    """Return the difference of two means and its interval in words."""
    difference = f"changed by {signed(found.difference)}"
    interval = found.interval_95
    if interval.low is None or interval.high is None:
        return f"{difference} (no interval: {interval.method.removeprefix('none: ')})"
    return (
        f"{difference} (95 % between {signed(interval.low)} and {signed(interval.high)},"
        f" n={interval.n})"
    )


def signed(number: float) -> str:
    """Return a difference with three digits and its sign; what is not 0 never looks like 0."""
    text = f"{number:+.3f}"
    if number and float(text) == 0:
        return "<+0.001" if number > 0 else ">-0.001"
    return text if number else "0.000"


def flip_words(found: BenchComparison, *, most: int = _MAX_FLIPS) -> list[str]:
    """Return which cases fail or pass otherwise than before, by name."""
    words = []
    for flip, verb in (("now_fails", "no longer passes"), ("now_passes", "now passes")):
        names = [each.case_id for each in found.changes if each.flip == flip]
        if names:
            more = len(names) - most
            listed = ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
            count = f"{len(names)} {verb}" if len(names) == 1 else f"{len(names)} {_PLURAL[flip]}"
            words.append(f"{count}: {listed}")
    return words


def _baseline_words(found: BenchComparison) -> str:
    """Return how a run differs from its baseline."""
    return "; ".join([f"mean {difference_words(found)}, {found.finding}", *flip_words(found)])


def _reduced_words(reduced: ReducedScore) -> str:
    if reduced.value is None:
        return f"not known: {reduced.lower_bound_95.method.removeprefix('none: ')}"
    return f"{cut_share(reduced.value)}; {_bound(reduced.lower_bound_95)}"


def _tag_words(scores: TagScores) -> str:
    passed = f"{scores.passed} of {scores.n} passed"
    return f"{passed}; mean {cut_share(scores.mean_score)}; {_bound(scores.lower_bound_95)}"


def _key_words(scores: KeyScores) -> str:
    return f"mean {scores.mean:.3f}, least {scores.least:.3f}, n={scores.n}"


def _codes(report: BenchRunReport, severity: Severity) -> str:
    """Return the failure modes of a severity, each with its number of cases."""
    return ", ".join(f"{code} ({count})" for code, count in count_codes(report, severity))


def _slowest(report: BenchRunReport, most: int) -> str:
    """Return the cases that took longest, the slowest first."""
    measured = [item for item in report.per_case if item[1].wall_clock_ms > 0]
    measured.sort(key=lambda item: (-item[1].wall_clock_ms, item[0]))
    return ", ".join(
        f"{case_id} {duration(score.wall_clock_ms)}" for case_id, score in measured[:most]
    )


def duration(wall_clock_ms: float) -> str:
    """Return a duration in the unit that needs the fewest digits."""
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


def cost_words(cost_usd: float) -> str:
    """Return a cost in dollars, or '' if there is none."""
    if cost_usd <= 0:
        return ""
    if cost_usd < 0.0001:
        return "<$0.0001"
    return f"${cost_usd:.4f}" if cost_usd < 0.1 else f"${cost_usd:,.2f}"


def _joined(reasons: tuple[str, ...]) -> list[str]:
    """Return a list of one text with all reasons, or an empty list."""
    return ["; ".join(reasons)] if reasons else []
