"""Lines for the terminal, computed apart from printing them.

The verdict in at most six lines with the report's path, and everything in a report, as `show --all`
prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, Final, TypeVar

from pytest_failure_taxonomy.report.model import (
    CollectionError,
    Failure,
    FailureReport,
    InternalError,
    NotRun,
    StalledActivity,
    Worker,
)
from pytest_failure_taxonomy.report.summary import (
    NOT_BY_TESTS,
    NOT_RETRIED,
    BenchSummary,
    CauseSummary,
    Failing,
    RunSummary,
    integrity_note,
    merged_runs,
    place_words,
    raised_words,
    retry_notes,
    stall_words,
    summarise,
    worker_words,
)
from pytest_failure_taxonomy.taxonomy.evidence import InFlightTest, Location, Stall
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    seconds_words,
    words_of_change,
)
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    ShownPaths,
    safe_text,
)

TITLE: Final = "why this run failed"
MAX_LINES: Final = 4
"""Lines below the headline; one of them says what is omitted."""
MAX_QUIET: Final = 3
"""Causes that are named with `-q`."""
MAX_CAUSES: Final = 20
"""Causes that are listed at the end of a run; the report has them all."""
MAX_NODEIDS: Final = 5
"""Node ids that are listed of one cause, and of the tests that were not run."""
_MAX_WIDTH: Final = 2_000
_DEEPER: Final = "      "
"""Before the lines of a stack or an output."""

_T = TypeVar("_T")


@value
class Line:
    """One line for the terminal, with what to emphasise."""

    text: str
    """Safe to print: control characters are escaped."""
    color: str | None = None
    """`red`, `green` or `yellow`, as pytest's own terminal writer names them."""
    bold: bool = False
    is_title: bool = False
    """Draw it as one of pytest's separators."""
    tail: str = ""
    """The dim end of the line: codes."""
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
    report: FailureReport,
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
        report: of the run.
        where: the report's path as the user should see it; empty where there is none.
        paths: shows the paths in it.
        quiet: the causes alone, none for a success without failures.
        problem: what went wrong with the report itself, in words.
        listed: the lines of the causes with their tests, where they are shown, too.
        is_folded: whether these are only shown on a click.
    """
    is_long = bool(listed) and not is_folded
    summary = summarise(report, paths, None if is_long else MAX_LINES + 1)
    ending = [*_integrity_lines(report)]
    if report.verdict is not None:  # else the headline has them
        notes = [note for note in report.notes if note.startswith(NOT_RETRIED)]
        ending += map(notice, [*retry_notes(report), *notes][:MAX_QUIET])
    if problem is not None:
        ending.append(problem_line(problem))
    if report.verdict is None:
        counts = report.summary
        # A status of 0 in spite of failures is said however quiet the run is.
        if quiet and not (counts.failed or counts.errors):
            return ending
        place = f"; report: {where}" if where and problem is None else ""
        words = safe_text(f"failure taxonomy: {summary.headline}{place}")
        return [Line(text=words, color="green"), *ending]
    lines = []
    if not quiet:
        lines.append(Line(text=TITLE, color="red", is_title=True))
    lines += _headline_and_causes(summary, is_quiet=quiet, is_long=is_long)
    lines += listed
    lines += ending
    if problem is None:
        lines.append(Line(text=f"report: {safe_text(where)}"))
    return lines


def _integrity_lines(report: FailureReport) -> Iterator[Line]:
    """Yield what made results other than the tests, if that does not fail the run."""
    if any(cause.kind.startswith("integrity.") for cause in report.causes):
        return
    for finding in report.integrity[:MAX_QUIET]:
        yield notice(integrity_note(finding))
    more = len(report.integrity) - MAX_QUIET
    if more > 0:
        yield notice(f"{NOT_BY_TESTS}{more:,} more, in the report")


def _headline_and_causes(
    summary: RunSummary, *, is_quiet: bool, is_long: bool
) -> Iterator[Line]:
    """Yield the headline and up to four lines below it."""
    headline = summary.headline
    is_short = not (is_quiet or is_long)
    rest = [*filter(None, (summary.left, summary.advice))]
    causes = list(summary.causes)
    if summary.causes_count <= 2:
        # The headline names how the whole run ended, and no number.
        causes = [cause for cause in causes if cause.text not in headline]
    is_full = len(causes) == MAX_LINES and rest == [summary.advice]
    if is_full and is_short:  # there is no line left for it
        headline = f"{headline}; {summary.advice}"
        rest = []
    shown = causes
    below: Iterable[Line] = ()
    if len(summary.causes) == 1:
        shown = list(summary.causes)
        if is_short:
            below = _only_cause_lines(summary, MAX_LINES - bool(rest))
    elif not is_long:
        has_room = not is_quiet and len(causes) + bool(rest) <= MAX_LINES
        shown = causes[: MAX_LINES if has_room else MAX_QUIET]
        below = map(_cause_line, shown)
    yield Line(
        text=safe_text(headline),
        color="red",
        bold=True,
        tail=safe_text(summary.codes),
        is_sentence=True,
    )
    yield from below
    more = summary.causes_count - len(summary.causes) + len(causes) - len(shown)
    if more > 0:
        rest.insert(0, f"and {counted(more, 'more cause')}")
    if rest and not is_quiet:
        text = safe_text("; ".join(rest))
        yield Line(text=text, color="yellow", is_sentence=True)


def _only_cause_lines(summary: RunSummary, most: int) -> Iterator[Line]:
    """Yield the lines below the headline of a run with one cause."""
    (cause,) = summary.causes
    below = filter(
        None, (cause.fix_line, summary.see, cause.changed, cause.base, *cause.proof)
    )
    for words in [*below][:most]:
        is_fix = words == cause.fix_line
        yield Line(text=safe_text(words), bold=is_fix, is_sentence=not is_fix)


def _cause_line(cause: CauseSummary) -> Line:
    """Return one of the lines of a run with several causes."""
    head = f"  {cause.count:,} x {cause.text}{cause.remarks}"
    words = filter(None, (head, cause.fix_line, cause.base, *cause.proof[:1]))
    return Line(text=safe_text("; ".join(words)), is_sentence=True)


def watcher_lines(report: FailureReport) -> list[Line]:
    """Return a warning if no second process would have seen pytest die."""
    watcher = report.environment.watcher
    if watcher is None or watcher.active:
        return []
    words = "if pytest is killed, its report stays incomplete"
    return [notice(f"no watcher ({watcher.why_not}); {words}")]


def problem_line(problem: str) -> Line:
    """Return the line about a problem with the report itself."""
    return Line(text=safe_text(f"report: {problem}"), color="yellow", bold=True)


def notice(words: str) -> Line:
    """Return a line about anything but why the run failed."""
    return Line(text=safe_text(f"failure taxonomy: {words}"), color="yellow")


def detail_lines(
    report: FailureReport, *, paths: ShownPaths = AS_REPORTED
) -> Iterator[Line]:
    """Yield the lines of each part of a report that has anything in it.

    Args:
        report: of the run.
        paths: shows the paths in it.
    """
    summary = summarise(report, paths)
    reasons = [
        f"{held.count:,} x {held.reason} [{held.kind}]" for held in report.reasons
    ]
    cut = [
        f"{name.replace('_', ' ')}: {count}"
        for name, count in to_dict(report.limits).items()
        if count
    ]
    entries = _Entries(paths)
    sections: dict[str, Iterable[Line]] = {
        "reasons": map(_line, reasons),
        "causes": causes_with_tests(summary, paths),
        "failures": _joined(entries.failure, report.failures),
        "collection errors": _joined(entries.uncollected, report.collection_errors),
        "internal errors": _joined(entries.error, report.internal_errors),
        "in flight": _joined(entries.in_flight, report.in_flight),
        "stalls": _joined(entries.stalled, report.stalls),
        "left behind": map(_line, map(words_of_change, report.changes)),
        "not run": _not_run_lines(report.not_run, paths),
        "workers": [_worker_line(worker, paths) for worker in report.workers],
        "bench": _joined(_bench_lines, summary.benches),
        "cut to keep the report small": map(_line, cut),
        "notes": map(_line, summary.notes),
    }
    yield from merged_lines(report)
    for title, lines in sections.items():
        yield from _section(title, lines)


def merged_lines(report: FailureReport) -> Iterator[Line]:
    """Yield one line for each run that a report was merged from, with its own verdict."""
    yield from _section("merged from", map(_line, merged_runs(report)))


def _section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        if number == 0:
            yield Line(text=title, is_title=True)
        yield line


def _joined(
    lines_of: Callable[[_T], Iterable[Line]], entries: Iterable[_T]
) -> Iterator[Line]:
    for entry in entries:
        yield from lines_of(entry)


def _line(text: str, **style: Any) -> Line:
    return Line(text=safe_text(text, _MAX_WIDTH), **style)


def _block(text: str | None, indent: str = "    ") -> Iterator[Line]:
    """Yield a text of several lines, indented."""
    for line in (text or "").splitlines():
        yield Line(text=(indent + safe_text(line.expandtabs(), _MAX_WIDTH)).rstrip())


def causes_with_tests(
    summary: RunSummary, paths: ShownPaths, most: int | None = None
) -> Iterator[Line]:
    """Yield the causes, each with what fixes it, its first tests and what the history says."""
    for cause in summary.causes[:most]:
        owner = f" [{cause.owner}]" if cause.owner else ""
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


class _Entries:
    """The lines of what a report lists."""

    def __init__(self, paths: ShownPaths) -> None:
        self._paths = paths

    def failure(self, failure: Failure) -> Iterator[Line]:
        attempts = failure.attempts
        about = f"{failure.phase}{worker_words(failure.worker)}"
        if attempts > 1:
            about += f", attempt {attempts}"
        nodeid = self._paths.nodeid(failure.nodeid)
        codes = f"{failure.reason} [{failure.kind}]"
        yield _line(f"{nodeid} ({about}) {codes}", bold=True)
        yield from self._raised(failure, "")

    def uncollected(self, error: CollectionError) -> Iterator[Line]:
        yield _line(self._paths.nodeid(error.nodeid), bold=True)
        yield from self._raised(error, error.message)

    def error(self, error: InternalError) -> Iterator[Line]:
        yield _line(error.kind, bold=True)
        yield from _block(error.message)
        yield from _block(error.traceback, _DEEPER)

    def in_flight(self, test: InFlightTest) -> Iterator[Line]:
        about = f"{test.phase}{worker_words(test.worker)}"
        lasted = seconds_words(test.elapsed_seconds)
        if lasted:
            about += f", {lasted}"
        yield _line(f"{self._paths.nodeid(test.nodeid)} ({about})", bold=True)
        yield from self._place(test.location)
        if test.stall:
            yield from _stall_lines(test.stall)
            for child in test.stall.children:
                yield _line(f"    child process: {child}")
        yield from _block(test.stack, _DEEPER)
        if test.output:
            yield Line(text="    its last output:")
            yield from _block(test.output, _DEEPER)

    def stalled(self, stall: StalledActivity) -> Iterator[Line]:
        worker = f" (on {stall.worker})" if stall.worker else ""
        yield _line(f"{stall.what}{worker}", bold=True)
        yield from _stall_lines(stall)

    def _raised(self, failure: Failing, message: str) -> Iterator[Line]:
        if failure.exception:
            yield _line(f"    {raised_words(failure.exception)}")
        else:
            yield from _block(message)
        yield from self._place(failure.location)
        yield from _block(failure.traceback, _DEEPER)

    def _place(self, place: Location | None) -> Iterator[Line]:
        if place is not None:
            shown = self._paths.path(place.path)
            yield _line(f"    at {place_words(place, shown)}")


def _stall_lines(stall: Stall | StalledActivity) -> Iterator[Line]:
    yield _line(f"    {stall_words(stall)}")
    yield from _block(stall.stack, _DEEPER)


def _not_run_lines(not_run: NotRun, paths: ShownPaths) -> Iterator[Line]:
    if not_run.count:
        yield Line(text=counted(not_run.count, "test"))
        for nodeid in not_run.nodeids[:MAX_NODEIDS]:
            yield _line(f"    {paths.nodeid(nodeid)}")
        yield from _more(not_run.count)


def _worker_line(worker: Worker, paths: ShownPaths) -> Line:
    words = f"{worker.id}: {counted(worker.tests, 'test')}"
    if worker.exit.signal:
        words += f", {worker.exit.signal}"
    elif worker.exit.code is not None:
        words += f", exit code {worker.exit.code}"
    if worker.crashed_on:
        words += f", died on {paths.nodeid(worker.crashed_on)}"
    return _line(words)


def _bench_lines(bench: BenchSummary) -> Iterator[Line]:
    words = [f"{bench.passed:,} of {counted(bench.scheduled, 'case')} passed"]
    if bench.mean_score is not None:
        error = f" ± {bench.standard_error:.3f}" if bench.standard_error else ""
        words.append(f"mean score {bench.mean_score:.3f}{error}")
    if bench.lower_bound_95 is not None:
        words.append(f"at least {bench.lower_bound_95:.3f} (95 %)")
    if bench.cost_usd:
        words.append(f"{bench.cost_usd:.2f} USD")
    if bench.gate:
        words.append(f"gate {bench.gate}")
    yield _line(f"{bench.name}: {', '.join(words)}", bold=True)
    for reason in bench.gate_reasons:
        yield _line(f"    {reason}")
