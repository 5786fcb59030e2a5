"""Lines for the terminal, computed apart from printing them.

The verdict in at most six lines and the report's path; and all that a report holds, as
`show --all` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, Final

from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    RunSummary,
    merged_runs,
    place_words,
    raised_words,
    stall_words,
    summarise,
    worker_words,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import and_more, counted, seconds_words
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    ShownPaths,
    bench_name,
    safe_text,
)

TITLE: Final = "why this run failed"
MAX_LINES: Final = 4
"""Lines below the headline; one of them says what there is no room for."""
MAX_QUIET: Final = 3
"""Causes that are named with `-q`."""


MAX_CAUSES: Final = 20
"""Causes that are listed at the end of a run; the report has them all."""
MAX_NODEIDS: Final = 5
"""Node ids that are listed of one cause, and of the tests that were not run."""
_MAX_WIDTH: Final = 2_000
_ENTRIES: Final = (
    "failures",
    "collection_errors",
    "internal_errors",
    "in_flight",
    "stalls",
)


@value
class Line:
    """One line for the terminal, with what to emphasise."""

    text: str
    """Safe to print: control characters are escaped."""
    color: str | None = None
    """`red`, `green` or `yellow`, as pytest's own terminal writer names them."""
    bold: bool = False
    is_title: bool = False
    """To be drawn as one of pytest's separators."""
    tail: str = ""
    """What stands at the end of the line, dim: codes."""
    is_sentence: bool = False
    """A terminal may break it between words; a command that follows `fix:` stays whole."""

    def gap(self, width: int) -> str:
        """Return the blanks that put the tail at the end of a line of so many columns."""
        if not self.tail:
            return ""
        return " " * max(2, width - len(self.text) - len(self.tail))

    def wrapped(self, width: int) -> Iterator[Line]:
        """Yield the line as several where it is wider than a terminal of so many columns."""
        is_whole = len(self.text + self.gap(width) + self.tail) <= width
        if is_whole or not self.is_sentence:
            yield self
            return
        words, fix, command = self.text.partition("fix: ")
        indent = " " * (2 + len(words) - len(words.lstrip()))
        texts = wrap(
            words,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if fix:
            texts.append(f"{indent}{fix}{command}")
        if self.tail:
            texts.append("")
        for text in texts[:-1]:
            yield replace(self, text=text, tail="")
        yield replace(self, text=texts[-1])


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
    is_long = bool(listed) and not is_folded
    summary = summarise(report, paths, None if is_long else MAX_LINES + 1)
    if report["verdict"] is None:
        # A status of 0 in spite of failures is said however quiet the run is.
        is_told = (
            not quiet or report["summary"]["failed"] or report["summary"]["errors"]
        )
        at = f"; report: {where}" if where and problem is None else ""
        words = safe_text(f"failure taxonomy: {summary.headline}{at}")
        lines = [Line(text=words, color="green")] if is_told else []
        return lines if problem is None else [*lines, problem_line(problem)]
    title = [] if quiet else [Line(text=TITLE, color="red", is_title=True)]
    body = _headline_and_causes(summary, is_quiet=quiet, is_long=is_long)
    ending = Line(text=f"report: {safe_text(where)}")
    return [
        *title,
        *body,
        *listed,
        ending if problem is None else problem_line(problem),
    ]


def _headline_and_causes(
    summary: RunSummary, *, is_quiet: bool, is_long: bool
) -> Iterator[Line]:
    """Yield the headline and up to four lines below it."""
    headline, rest = (
        summary.headline,
        [each for each in (summary.left, summary.advice) if each],
    )
    shown: Sequence[CauseSummary] = summary.causes
    causes = summary.causes
    if (
        summary.causes_count <= 2
    ):  # the headline names how the whole run ended, and no number
        causes = tuple([each for each in causes if each.text not in headline])
    if (
        len(causes) == MAX_LINES
        and rest == [summary.advice]
        and not (is_quiet or is_long)
    ):
        headline, rest = f"{headline}; {rest[0]}", []  # there is no line left for it
    tail = safe_text(summary.codes)
    yield Line(
        text=safe_text(headline), color="red", bold=True, tail=tail, is_sentence=True
    )
    if len(summary.causes) == 1:
        if not (is_quiet or is_long):
            [cause] = summary.causes
            below = filter(None, (cause.mend, summary.see, cause.changed, *cause.proof))
            for words in [*below][: MAX_LINES - bool(rest)]:
                is_fix = words == cause.mend
                yield Line(text=safe_text(words), bold=is_fix, is_sentence=not is_fix)
    elif is_long:
        shown = causes
    else:
        most = (
            MAX_QUIET if is_quiet or len(causes) + bool(rest) > MAX_LINES else MAX_LINES
        )
        shown = causes[:most]
        for cause in shown:
            head = f"  {cause.count:,} x {cause.text}{cause.remarks}"
            told = filter(None, (head, cause.mend, *cause.proof[:1]))
            yield Line(text=safe_text("; ".join(told)), is_sentence=True)
    more = summary.causes_count - len(summary.causes) + len(causes) - len(shown)
    ending = [f"and {counted(more, 'more cause')}", *rest] if more > 0 else rest
    if ending and not is_quiet:
        text = safe_text("; ".join(ending))
        yield Line(text=text, color="yellow", is_sentence=True)


def watcher_lines(report: dict[str, Any]) -> list[Line]:
    """Return the line that says that nobody would have seen pytest die, where that is so."""
    watcher = report["environment"]["watcher"]
    if watcher is None or watcher["active"]:
        return []
    words = "if pytest is killed, nobody completes its report"
    return [notice(f"no watcher ({watcher['why_not']}); {words}")]


def problem_line(problem: str) -> Line:
    """Return the line that says what went wrong with the report itself."""
    return Line(text=safe_text(f"report: {problem}"), color="yellow", bold=True)


def notice(words: str) -> Line:
    """Return a line about something else than why the run failed."""
    return Line(text=safe_text(f"failure taxonomy: {words}"), color="yellow")


def detail_lines(
    report: dict[str, Any], *, paths: ShownPaths = AS_REPORTED
) -> Iterator[Line]:
    """Yield the lines of each part of a report that has anything in it.

    Args:
        report: the report's JSON object.
        paths: shows the paths in it.
    """
    summary, found = summarise(report, paths), report["reasons"]
    reasons = (
        f"{each['count']:,} x {each['reason']} [{each['kind']}]" for each in found
    )
    cut = (
        f"{name.replace('_', ' ')}: {n}" for name, n in report["limits"].items() if n
    )
    yield from merged_lines(report)
    for title, lines in (
        ("reasons", map(_line, reasons)),
        ("causes", causes_with_tests(summary, paths)),
        *(
            (field.replace("_", " "), _entry_lines(report[field], paths))
            for field in _ENTRIES
        ),
        ("not run", _not_run_lines(report, paths)),
        ("workers", _worker_lines(report, paths)),
        ("bench", _bench_lines(report)),
        ("cut to keep the report small", map(_line, cut)),
        ("notes", map(_line, summary.notes)),
    ):
        yield from _section(title, lines)


def merged_lines(report: dict[str, Any]) -> Iterator[Line]:
    """Yield one line for each run that a report was merged from, with its own verdict."""
    yield from _section("merged from", map(_line, merged_runs(report)))


def _section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        if number == 0:
            yield Line(text=title, is_title=True)
        yield line


def _line(text: str, **style: Any) -> Line:
    return Line(text=safe_text(text, _MAX_WIDTH), **style)


def _block(text: str | None, indent: str = "    ") -> Iterator[Line]:
    """Yield a text of several lines, indented."""
    for line in (text or "").splitlines():
        yield Line(text=(indent + safe_text(line.expandtabs(), _MAX_WIDTH)).rstrip())


def causes_with_tests(
    summary: RunSummary, paths: ShownPaths, most: int | None = None
) -> Iterator[Line]:
    """Yield the causes, each with what mends it, its first tests and what the history says."""
    for cause in summary.causes[:most]:
        owner = f" ({cause.owner})" if cause.owner else ""
        last = f", {cause.last_passed}" if cause.last_passed else ""
        words = f"{cause.count:,} x {cause.text}{owner}{cause.remarks}{last}"
        codes = safe_text(cause.codes)
        yield _line(words, bold=True, tail=codes, is_sentence=True)
        for words in cause.below:
            yield _line(f"    {words}")
        for nodeid in cause.nodeids[:MAX_NODEIDS]:
            yield _line(f"    {paths.nodeid(nodeid)}")
        yield from _more(len(cause.nodeids))
    if most is not None and summary.causes_count > most:
        words = counted(summary.causes_count - most, "more cause")
        yield Line(text=f"{words}; failure-taxonomy show --all lists them")


def _more(count: int) -> Iterator[Line]:
    if more := and_more(count - MAX_NODEIDS):
        yield Line(text=f"   {more}")


def _entry_lines(
    entries: Iterable[dict[str, Any]], paths: ShownPaths
) -> Iterator[Line]:
    """Yield what a report lists of failures, errors, tests in flight or stalls."""
    for entry in entries:
        known = {
            **dict.fromkeys(("phase", "worker", "attempts", "elapsed_seconds")),
            **entry,
        }
        attempts = known["attempts"] or 1
        about = (
            f"{known['phase'] or ''}{worker_words(known)}".strip(),
            f"attempt {attempts}" if attempts > 1 else "",
            seconds_words(known["elapsed_seconds"]),
        )
        named = paths.nodeid(entry["nodeid"]) if "nodeid" in entry else None
        said = ", ".join(filter(None, about))
        head = (named or entry.get("what") or entry["kind"]) + (
            f" ({said})" if said else ""
        )
        codes = f" {entry['reason']} [{entry['kind']}]" if "reason" in entry else ""
        yield _line(f"{head}{codes}", bold=True)
        if raised := entry.get("exception"):
            yield _line(f"    {raised_words(raised)}")
        else:
            yield from _block(entry.get("message"))
        if place := entry.get("location"):
            yield _line(f"    at {place_words(place, paths.path(place['path']))}")
        stall = entry if "state" in entry else entry.get("stall")
        if stall:
            yield _line(f"    {stall_words(stall)}")
            yield from _block(stall["stack"], "      ")
            for child in stall.get("children", ()):
                yield _line(f"    child process: {child}")
        if stall is not entry:
            yield from _block(entry.get("traceback") or entry.get("stack"), "      ")
        if entry.get("output"):
            yield Line(text="    its last output:")
            yield from _block(entry["output"], "      ")


def _not_run_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    count = report["not_run"]["count"]
    if count:
        yield Line(text=counted(count, "test"))
        for nodeid in report["not_run"]["nodeids"][:MAX_NODEIDS]:
            yield _line(f"    {paths.nodeid(nodeid)}")
        yield from _more(count)


def _worker_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    for worker in report["workers"]:
        code, signal = worker["exit"]["code"], worker["exit"]["signal"]
        ended = (
            f", {signal}" if signal else "" if code is None else f", exit code {code}"
        )
        crashed = worker["crashed_on"]
        on = f", died on {paths.nodeid(crashed)}" if crashed else ""
        yield _line(f"{worker['id']}: {counted(worker['tests'], 'test')}{ended}{on}")


def _bench_lines(report: dict[str, Any]) -> Iterator[Line]:
    for bench in report["bench"]:
        counts, mean = bench["counts"], bench["mean_score"]
        error = (
            f" ± {bench['standard_error']:.3f}" if bench.get("standard_error") else ""
        )
        least, cost, gate = (
            bench["lower_bound_95"]["value"],
            bench["total_cost_usd"],
            bench["gate"],
        )
        words = (
            f"{counts['passed']:,} of {counted(counts['scheduled'], 'case')} passed",
            "" if mean is None else f"mean score {mean:.3f}{error}",
            "" if least is None else f"at least {least:.3f} (95 %)",
            f"{cost:.2f} USD" if cost else "",
            f"gate {gate['verdict']}" if gate else "",
        )
        yield _line(f"{bench_name(bench)}: {', '.join(filter(None, words))}", bold=True)
        for reason in gate["reasons"] if gate else ():
            yield _line(f"    {reason}")
