"""The verdict in at most six lines and the report's path, computed apart from printing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.report.lines import Line
from pytest_failure_taxonomy.report.summary import CauseSummary, RunSummary, summarise
from pytest_failure_taxonomy.report.text import AS_REPORTED, ShownPaths, safe_text
from pytest_failure_taxonomy.taxonomy.words import counted

TITLE: Final = "why this run failed"
MAX_CAUSES: Final = 4
"""Lines below the headline; one of them says what there is no room for."""
MAX_QUIET: Final = 3
"""Causes that are named with `-q`."""


def verdict_lines(
    report: dict[str, Any],
    where: str,
    *,
    paths: ShownPaths = AS_REPORTED,
    quiet: bool = False,
    problem: str | None = None,
    listed: Sequence[Line] = (),
    is_folded: bool = False,
) -> list[Line]:
    """Return the lines that say why a run failed.

    Args:
        report: the report's JSON object.
        where: the report's path as the user should see it; empty where there is none.
        paths: shows the paths in it.
        quiet: the causes alone, none for a success without failures.
        problem: what went wrong with the report itself, in words.
        listed: the lines of the causes with their tests, where they are shown, too.
        is_folded: whether these are only shown on a click.
    """
    summary = summarise(report, paths)
    if report["verdict"] is None:
        # A status of 0 in spite of failures is said however quiet the run is.
        is_told = not quiet or report["summary"]["failed"] or report["summary"]["errors"]
        at = f"; report: {where}" if where and problem is None else ""
        words = safe_text(f"failure taxonomy: {summary.headline}{at}")
        lines = [Line(text=words, color="green")] if is_told else []
        return [*lines, *problem_lines(problem)]
    title = [] if quiet else [Line(text=TITLE, color="red", is_title=True)]
    body = _body(summary, is_quiet=quiet, is_long=bool(listed) and not is_folded)
    ending = problem_lines(problem) or [Line(text=f"report: {safe_text(where)}")]
    return [*title, *body, *listed, *ending]


def _body(summary: RunSummary, *, is_quiet: bool, is_long: bool) -> Iterator[Line]:
    """Yield the headline and up to four lines below it."""
    headline, rest = summary.headline, [each for each in (summary.left, summary.advice) if each]
    shown: Sequence[CauseSummary] = summary.causes
    causes = summary.causes
    if summary.causes_count <= 2:  # the headline names how the whole run ended, and no number
        causes = tuple(each for each in causes if each.text not in headline)
    if len(causes) == MAX_CAUSES and rest == [summary.advice] and not (is_quiet or is_long):
        headline, rest = f"{headline}; {rest[0]}", []  # there is no line left for it
    tail = safe_text(summary.codes)
    yield Line(text=safe_text(headline), color="red", bold=True, tail=tail)
    if len(summary.causes) == 1:
        if not (is_quiet or is_long):
            yield from _remedy_lines(summary)
    elif is_long:
        shown = causes
    else:
        most = MAX_QUIET if is_quiet or len(causes) + bool(rest) > MAX_CAUSES else MAX_CAUSES
        shown = causes[:most]
        yield from map(_cause_line, shown)
    more = summary.causes_count - len(summary.causes) + len(causes) - len(shown)
    words = [f"and {counted(more, 'more cause')}", *rest] if more > 0 else rest
    if words and not is_quiet:
        yield Line(text=safe_text("; ".join(words)), color="yellow")


def _remedy_lines(summary: RunSummary) -> Iterator[Line]:
    fix = summary.causes[0].fix
    if fix:
        yield Line(text=safe_text(f"fix: {fix}"), bold=True)
    if summary.see:
        yield Line(text=safe_text(summary.see))


def _cause_line(cause: CauseSummary) -> Line:
    fix = f"; fix: {cause.fix}" if cause.fix else ""
    return Line(text=safe_text(f"  {cause.count:,} x {cause.text}{cause.remarks}{fix}"))


def watcher_lines(report: dict[str, Any]) -> list[Line]:
    """Return the line that says that nobody would have seen pytest die, where that is so."""
    watcher = report["environment"]["watcher"]
    if watcher is None or watcher["active"]:
        return []
    words = (
        f"failure taxonomy: no watcher ({watcher['why_not']}); if pytest is killed, nobody "
        "completes its report"
    )
    return [Line(text=safe_text(words), color="yellow")]


def problem_lines(problem: str | None) -> list[Line]:
    """Return the line that says what went wrong with the report itself, if anything did."""
    if problem is None:
        return []
    return [Line(text=safe_text(f"report: {problem}"), color="yellow", bold=True)]


def stays_lines(stays: str | None) -> list[Line]:
    """Return the line that says what of the run's record could not be removed, if anything."""
    if stays is None:
        return []
    return [Line(text=safe_text(f"failure taxonomy: {stays}"), color="yellow")]
