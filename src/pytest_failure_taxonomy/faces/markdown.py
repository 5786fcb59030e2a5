"""A summary in Markdown, as it stands on the page of a GitHub Actions job.

Nothing that a test or a report says can become Markdown or HTML: see `report/markup.py`. Node ids
and titles are spans of code, stacks and tracebacks fenced code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from pytest_failure_taxonomy.report.frames import Code, code_of
from pytest_failure_taxonomy.report.markup import as_code, as_table, as_words, folded
from pytest_failure_taxonomy.report.model import (
    FailureReport,
    InternalError,
    StalledActivity,
)
from pytest_failure_taxonomy.report.repository import Repository
from pytest_failure_taxonomy.report.summary import (
    BenchSummary,
    CauseSummary,
    RunSummary,
    merged_runs,
    place_words,
    running_words,
    stall_words,
    summarise,
    worker_words,
)
from pytest_failure_taxonomy.taxonomy.evidence import InFlightTest
from pytest_failure_taxonomy.taxonomy.values import to_dict, value
from pytest_failure_taxonomy.taxonomy.words import and_more, counted, noun_of_count
from pytest_failure_taxonomy.text import first_line, that_fit

_T = TypeVar("_T")

MAX_BYTES: Final = 1024 * 1024 - 1
"""GitHub drops the whole summary of a step that is larger than 1 MiB."""
MAX_NODEIDS: Final = 20
"""Node ids that are listed of one cause."""
JOINED: Final = " \u00b7 "
_ROOM_FOR_TITLES: Final = 200
"""Bytes that the title of a part takes, and the sentence that says what of it was left out."""
_SHARE_OF_CAUSES: Final = 0.75
"""How much of the room the causes may take, so that there is some for what follows them."""

_COUNTS: Final = (
    "passed",
    "failed",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "flaky",
    "rerun",
    "timed_out",
    "crashed",
    "in_flight",
    "not_run",
    "collection_errors",
)


def render(report: FailureReport, room: int = MAX_BYTES) -> str:
    """Return the summary of a run, with as many groups and tests as there is room for.

    Args:
        report: of the run.
        room: bytes that it may take; the verdict and what was cut are said in any case.
    """
    summary = summarise(report)
    parts = [_head(report, summary)]
    left = room - _size_of(parts[0])
    for section in _sections(report, summary):
        if not section.count:
            continue
        share = left * _SHARE_OF_CAUSES if section.noun == "cause" else left
        shown = that_fit(section.entries, int(share) - _ROOM_FOR_TITLES, _size_of)
        text = f"### {section.title}\n\n{''.join(shown)}"
        omitted = section.count - len(shown)
        if omitted:
            words = f"{counted(omitted, section.noun)} omitted"
            text += f"\n_{words}: the summary is full._\n\n"
        left -= _size_of(text)
        if left >= 0:
            parts.append(text)
    return "".join(parts)


def render_proofs(report: FailureReport, room: int = MAX_BYTES) -> str:
    """Return what experiments show about the causes of a run, to follow its summary."""
    causes = summarise(report).causes
    entries = [
        "\n\n".join([_title(cause), *_proof(cause), ""])
        for cause in causes
        if cause.proof or cause.base
    ]
    shown = that_fit(entries, room - _ROOM_FOR_TITLES, _size_of)
    return f"### Proofs\n\n{''.join(shown)}"


def _size_of(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _head(report: FailureReport, summary: RunSummary) -> str:
    headline = as_words(summary.headline)
    counts = _counts(report)
    if report.verdict is None:
        return f"## \u2705 pytest: {headline}\n\n{counts}"
    codes = f"<sub>{as_words(summary.codes)}</sub>"
    lines = ""
    for line in filter(None, (summary.see, summary.left, summary.advice)):
        lines += f"- {as_words(line)}\n"
    return f"## \u274c {headline}\n\n{codes}\n\n{lines}\n{counts}"


def _counts(report: FailureReport) -> str:
    summary = to_dict(report.summary)
    counts = {name: summary[name] for name in _COUNTS if summary[name]}
    if not counts:
        return ""
    heads = [noun_of_count(name, count) for name, count in counts.items()]
    row = [f"{count:,}" for count in counts.values()]
    return as_table(heads, [row], ["--:"] * len(heads)) + "\n"


@value
class _Section:
    """A part of the summary."""

    title: str
    noun: str
    """What one of its entries is called."""
    count: int
    """Of its entries."""
    entries: Iterable[str]
    """Made when they are asked for: of very many, only the first have room."""


def _sections(report: FailureReport, summary: RunSummary) -> Iterator[_Section]:
    runs = [f"- {as_words(run)}\n" for run in merged_runs(report)]
    if runs:
        runs[-1] += "\n"
    yield _section("Runs", "run", runs)
    repository = Repository(report, os.environ.get("GITHUB_WORKSPACE"))
    yield _Section(
        title="Causes",
        noun="cause",
        count=summary.causes_count,
        entries=(_cause(cause, repository) for cause in summary.causes),
    )
    listed = {id(error) for cause in summary.causes for error in cause.errors}
    errors = [error for error in report.internal_errors if id(error) not in listed]
    yield _section("Errors outside of tests", "error", errors, _error)
    yield _section("In flight", "test", report.in_flight, _in_flight)
    yield _section("Stalls", "stall", report.stalls, _stall)
    yield _section("Benches", "bench", _benches(summary.benches))
    yield _section("Notes", "note", summary.notes, _note)


def _section(
    title: str, noun: str, entries: Sequence[_T], write: Callable[[_T], str] = str
) -> _Section:
    texts = map(write, entries)
    return _Section(title=title, noun=noun, count=len(entries), entries=texts)


def _note(note: str) -> str:
    return f"- {as_words(first_line(note))}\n"


def _cause(cause: CauseSummary, repository: Repository) -> str:
    about = (
        f"owner: {cause.owner}" if cause.owner else "",
        cause.about,
        cause.history,
        cause.last_passed,
        cause.changed,
    )
    words = [as_words(text) for text in about if text]
    place = repository.place_of_cause(cause)
    if place is not None:
        words.append(as_code(place_words(place)))
    words.append(f"<sub>{as_words(cause.codes)}</sub>")
    paragraphs = [_title(cause)]
    if cause.fix:
        paragraphs.append(f"Fix: {as_code(cause.fix)}")
    paragraphs += _proof(cause)
    paragraphs.append(JOINED.join(words))
    tests = [f"- {as_code(nodeid)}\n" for nodeid in cause.nodeids[:MAX_NODEIDS]]
    more = and_more(len(cause.nodeids) - MAX_NODEIDS)
    if more:
        tests.append(f"-{more}\n")
    head = "\n\n".join(paragraphs)
    frames = _frames("Traceback", cause.code)
    return f"{head}\n\n{''.join(tests)}\n{frames}"


def _frames(title: str, code: Code) -> str:
    """Return the user's own frames, and behind them all, each shown on a click."""
    return folded(title, code.own) + folded("With library frames", code.whole)


def _title(cause: CauseSummary) -> str:
    return f"#### {cause.count:,} x {as_code(cause.text)}"


def _proof(cause: CauseSummary) -> list[str]:
    command = [as_code(cause.proof_command)] if cause.proof_command else []
    lines = filter(None, (cause.base, *cause.proof))
    return [*map(as_words, lines), *command]


def _error(error: InternalError) -> str:
    message = as_code(first_line(error.message))
    frames = _frames("Traceback", code_of(error.traceback))
    return f"#### {as_words(error.kind)}: {message}\n\n{frames}"


def _in_flight(test: InFlightTest) -> str:
    worker = f" (worker {test.worker})" if test.worker else ""
    words = as_words(running_words(test) + worker)
    parts = [f"#### {as_code(test.nodeid)}\n\n{words}\n\n"]
    if test.stall:
        children = test.stall.children
        parts += [f"- child process: {as_code(child)}\n" for child in children]
        parts += ["\n"] * bool(children)
        parts.append(_frames("Where it was", code_of(test.stall.stack)))
    parts.append(_frames("Where it crashed", code_of(test.stack, test.location)))
    parts.append(folded("Its last output", test.output))
    return "".join(parts)


def _stall(stall: StalledActivity) -> str:
    head = as_words(stall.what + worker_words(stall.worker))
    stack = _frames("Where it was", code_of(stall.stack))
    return f"#### {head}\n\n{as_words(stall_words(stall))}\n\n{stack}"


def _benches(benches: Sequence[BenchSummary]) -> list[str]:
    """Return one table of all benches, and a list of what their gates say."""
    if not benches:
        return []
    heads = ["task class", "passed", "mean score", "95 % lower bound", "USD", "gate"]
    rows = []
    reasons = []
    for bench in benches:
        row = (
            bench.name,
            f"{bench.passed} of {bench.scheduled}",
            _figure(bench.mean_score),
            _figure(bench.lower_bound_95),
            f"{bench.cost_usd:.2f}",
            bench.gate or "none",
        )
        rows.append(row)
        name = as_words(bench.name)
        reasons += [f"- {name}: {as_words(words)}\n" for words in bench.gate_reasons]
    table = as_table(heads, rows, ["---"] * len(heads))
    return [f"{table}\n", *reasons]


def _figure(number: float | None) -> str:
    return "none" if number is None else f"{number:.3f}"
