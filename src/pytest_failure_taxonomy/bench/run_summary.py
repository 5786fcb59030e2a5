"""The figures of a run in words: the lines of a task class on the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.run_report import count_codes, cut_share
from pytest_failure_taxonomy.taxonomy.words import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_failure_taxonomy.bench.models import (
        BenchComparison,
        BenchRunReport,
        LowerBound,
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
    counts, part = report.counts, ""
    outcome = ", ".join([f"{counts.passed} of {counts.scheduled} passed", *_missing(report)])
    if report.mean_score is not None:
        outcome += f"; mean {cut_share(report.mean_score)}; {_bound(report.lower_bound_95)}"
    if report.shard is not None:
        part = f", shard {report.shard.index} of {report.shard.total}"
    return [
        f"bench {name_with_system(report)}{test and f' in {test}'}{part}: {outcome}",
        *(f"  {line}" for line in _facts(report, slowest=slowest, detail=detail)),
    ]


def table_of_systems(reports: Sequence[BenchRunReport], *, test: str = "") -> list[str]:
    """Return a table of the systems that one task class was run with, a row for each.

    Args:
        reports: The reports of the class's runs, at least one.
        test: The test that ran it; empty for the items of the class.
    """
    heads = ("system", "passed", "mean", "at least", "cost", "time of a case", "gate")
    rows = [heads, *map(_cells, reports)]
    # What no system has, such as a cost, needs no column.
    used = [n for n, column in enumerate(zip(*rows, strict=True)) if any(column[1:])]
    widths = {n: max(len(row[n]) for row in rows) for n in used}
    title = f"bench {reports[0].task_class}{test and f' in {test}'}: {len(reports)} systems"
    lines = ("  ".join(row[n].ljust(widths[n]) for n in used) for row in rows)
    return [title, *(f"  {line.rstrip()}" for line in lines)]


def _cells(report: BenchRunReport) -> tuple[str, ...]:
    counts, bound = report.counts, report.lower_bound_95.value
    measured = [score.wall_clock_ms for _, score in report.per_case if score.wall_clock_ms > 0]
    return (
        report.system_label,
        f"{counts.passed} of {counts.scheduled}",
        "-" if report.mean_score is None else cut_share(report.mean_score),
        "-" if bound is None else cut_share(bound),
        cost_words(report.total_cost_usd),
        duration(math.fsum(measured) / len(measured)) if measured else "",
        "" if report.gate is None else report.gate.verdict,
    )


def lines_of_system(report: BenchRunReport, *, slowest: int = 3, detail: bool = False) -> list[str]:
    """Return what the table of systems does not say of one, the first line with its label.

    Args:
        report: The report of its run.
        slowest: How many of the slowest cases to list.
        detail: Whether to list failure modes of severity `warn` and `info`, too.
    """
    bound = report.lower_bound_95
    lines = [f"cases: {', '.join(missing)}"] if (missing := _missing(report)) else []
    if bound.value is None and report.mean_score is not None:
        lines.append(_bound(bound))
    lines += _facts(report, slowest=slowest, detail=detail, has_cost=False)
    return [f"  {report.system_label}:", *(f"    {line}" for line in lines)]


def name_with_system(report: BenchRunReport) -> str:
    """Return the name of a run's class, with the label of its system if there are several."""
    return report.task_class + (f"[{report.system_label}]" if report.system_label else "")


def _facts(
    report: BenchRunReport, *, slowest: int, detail: bool, has_cost: bool = True
) -> list[str]:
    """Return the other facts of a run, a line for each, which begins with its name."""
    facts: list[tuple[str, str]] = []
    for severity in ("block", "warn", "info") if detail else ("block",):
        codes = count_codes(report, severity)
        facts.append((severity, ", ".join(f"{code} ({count})" for code, count in codes)))
    for reduced in report.reduced:
        if reduced.value is None:
            words = f"not known: {reduced.lower_bound_95.method.removeprefix('none: ')}"
        else:
            words = f"{cut_share(reduced.value)}; {_bound(reduced.lower_bound_95)}"
        facts.append((reduced.name, words))
    for tag in report.by_tag if detail else ():
        words = f"{tag.passed} of {tag.n} passed; mean {cut_share(tag.mean_score)}"
        facts.append((f"tag {tag.tag}", f"{words}; {_bound(tag.lower_bound_95)}"))
    for key in report.by_breakdown_key if detail else ():
        words = f"mean {key.mean:.3f}, least {key.least:.3f}, n={key.n}"
        facts.append((f"key {key.key}", words))
    measured = [item for item in report.per_case if item[1].wall_clock_ms > 0]
    measured.sort(key=lambda item: (-item[1].wall_clock_ms, item[0]))
    times = (f"{case_id} {duration(score.wall_clock_ms)}" for case_id, score in measured[:slowest])
    facts.append(("slowest", ", ".join(times)))
    facts.append(("stopped", report.stopped or ""))
    facts.append(("cost", cost_words(report.total_cost_usd) if has_cost else ""))
    if report.baseline is not None:
        found = report.baseline
        said = [f"mean {difference_words(found)}, {found.finding}", *flip_words(found)]
        facts.append(("baseline", "; ".join(said)))
    if report.gate is not None:
        reasons = "; ".join(report.gate.reasons)
        facts.append(("gate", report.gate.verdict + (f": {reasons}" if reasons else "")))
    return [f"{name}: {words}" for name, words in facts if words]


def _missing(report: BenchRunReport) -> list[str]:
    """Return how many cases have no score, and how many never got through to the provider."""
    counts, words = report.counts, []
    if lost := counts.started - counts.graded:
        words.append(f"{lost} lost")
    if counts.not_run:
        words.append(f"{counts.not_run} not run")
    if report.lost_to_provider:
        cases = sum(each.cases for each in report.lost_to_provider)
        kinds = ", ".join(each.kind for each in report.lost_to_provider)
        words.append(f"{cases} of {counts.scheduled} lost to the provider ({kinds})")
    return words


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
            count = f"{len(names)} {verb}" if len(names) == 1 else f"{len(names)} {_PLURAL[flip]}"
            words.append(f"{count}: {listed(names, most)}")
    return words


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
