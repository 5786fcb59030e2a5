"""A summary in Markdown, as it stands on the page of a GitHub Actions job.

Nothing that a test or a report says can become Markdown or HTML: see `report/markup.py`. Node ids
and titles are spans of code, stacks and tracebacks fenced code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_failure_taxonomy.report.frames import Code, code_of
from pytest_failure_taxonomy.report.markup import as_code, as_table, as_words, folded
from pytest_failure_taxonomy.report.repository import Repository
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    RunSummary,
    merged_runs,
    running_words,
    stall_words,
    summarise,
    worker_words,
)
from pytest_failure_taxonomy.taxonomy.words import and_more, counted, noun_of_count
from pytest_failure_taxonomy.text import bench_name, first_line, that_fit

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
    *("passed", "failed", "errors", "skipped", "xfailed", "xpassed"),
    *(
        "flaky",
        "rerun",
        "timed_out",
        "crashed",
        "in_flight",
        "not_run",
        "collection_errors",
    ),
)


def render(report: dict[str, Any], room: int = MAX_BYTES) -> str:
    """Return the summary of a run, with as many groups and tests as there is room for.

    Args:
        report: the report's JSON object.
        room: bytes that it may take; the verdict and what was cut are said in any case.
    """
    summary = summarise(report)
    parts = [_head(report, summary)]
    left = room - _size_of(parts[0])
    for title, noun, count, entries in _sections(report, summary):
        if not count:
            continue
        share = left * _SHARE_OF_CAUSES if noun == "cause" else left
        shown = that_fit(entries, int(share) - _ROOM_FOR_TITLES, _size_of)
        text = f"### {title}\n\n{''.join(shown)}"
        if rest := count - len(shown):
            words = f"{counted(rest, noun)} left out: a summary has no more room."
            text += f"\n_{words}_\n\n"
        left -= _size_of(text)
        if left >= 0:
            parts.append(text)
    return "".join(parts)


def render_proofs(report: dict[str, Any], room: int = MAX_BYTES) -> str:
    """Return what experiments show of the causes of a run, to stand behind its summary."""
    proven = [cause for cause in summarise(report).causes if cause.proof]
    entries = ("\n\n".join([_title(cause), *_proof(cause), ""]) for cause in proven)
    shown = that_fit(entries, room - _ROOM_FOR_TITLES, _size_of)
    return f"### Proofs\n\n{''.join(shown)}"


def _size_of(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _head(report: dict[str, Any], summary: RunSummary) -> str:
    headline = as_words(summary.headline)
    counts = _counts(report)
    if report["verdict"] is None:
        return f"## \u2705 pytest: {headline}\n\n{counts}"
    codes = f"<sub>{as_words(summary.codes)}</sub>"
    more = filter(None, (summary.see, summary.left, summary.advice))
    lines = "".join(f"- {as_words(line)}\n" for line in more)
    return f"## \u274c {headline}\n\n{codes}\n\n{lines}\n{counts}"


def _counts(report: dict[str, Any]) -> str:
    summary = report["summary"]
    named = [name for name in _COUNTS if summary[name]]
    if not named:
        return ""
    heads = [noun_of_count(name, summary[name]) for name in named]
    rules = ["--:"] * len(heads)
    return as_table(heads, [[f"{summary[name]:,}" for name in named]], rules) + "\n"


def _sections(
    report: dict[str, Any], summary: RunSummary
) -> Iterator[tuple[str, str, int, Iterable[str]]]:
    """Yield the title of each part, what one of its entries is called, how many, and these.

    The entries are made when they are asked for: of very many, only the first have room.
    """
    repository = Repository(report, os.environ.get("GITHUB_WORKSPACE"))
    runs = [f"- {as_words(run)}\n" for run in merged_runs(report)]
    runs = [*runs[:-1], f"{runs[-1]}\n"] if runs else []
    causes, benches = summary.causes, _benches(report)
    told = {id(failure) for cause in causes for failure in cause.failures}
    errors = [each for each in report["internal_errors"] if id(each) not in told]
    running, stalls, notes = report["in_flight"], report["stalls"], summary.notes
    yield "Runs", "run", len(runs), runs
    yield (
        "Causes",
        "cause",
        summary.causes_count,
        (_cause(each, repository) for each in causes),
    )
    yield "Errors outside of tests", "error", len(errors), map(_error, errors)
    yield "In flight", "test", len(running), map(_in_flight, running)
    yield "Stalls", "stall", len(stalls), map(_stall, stalls)
    yield "Benches", "bench", len(benches), benches
    yield (
        "Notes",
        "note",
        len(notes),
        (f"- {as_words(first_line(note))}\n" for note in notes),
    )


def _cause(cause: CauseSummary, repository: Repository) -> str:
    about = [
        f"owner: {cause.owner}" if cause.owner else "",
        cause.about,
        cause.history,
        cause.last_passed,
        cause.changed,
    ]
    words = [as_words(text) for text in about if text]
    place = repository.place_of_cause(cause)
    if place is not None:
        line = "" if place.line is None else f":{place.line}"
        words.append(as_code(f"{place.path}{line}"))
    words.append(f"<sub>{as_words(cause.codes)}</sub>")
    paragraphs = [_title(cause)]
    if cause.fix:
        paragraphs.append(f"Fix: {as_code(cause.fix)}")
    paragraphs += _proof(cause)
    paragraphs.append(JOINED.join(words))
    tests = [f"- {as_code(nodeid)}\n" for nodeid in cause.nodeids[:MAX_NODEIDS]]
    if more := and_more(len(cause.nodeids) - MAX_NODEIDS):
        tests.append(f"-{more}\n")
    head = "\n\n".join(paragraphs)
    frames = _frames("Traceback", cause.code)
    return f"{head}\n\n{''.join(tests)}\n{frames}"


def _frames(title: str, code: Code) -> str:
    """Return the user's own frames, and behind them all, each shown on a click."""
    return folded(title, code.own) + folded("With the frames of libraries", code.whole)


def _title(cause: CauseSummary) -> str:
    return f"#### {cause.count:,} x {as_code(cause.text)}"


def _proof(cause: CauseSummary) -> list[str]:
    command = [as_code(cause.proof_command)] if cause.proof_command else []
    return [*map(as_words, cause.proof), *command]


def _error(error: dict[str, Any]) -> str:
    words = (
        f"#### {as_words(error['kind'])}: {as_code(first_line(error['message']))}\n\n"
    )
    return words + _frames("Traceback", code_of(error["traceback"]))


def _in_flight(test: dict[str, Any]) -> str:
    worker = f" (worker {test['worker']})" if test["worker"] else ""
    stall = test["stall"] or {"stack": None, "children": ()}
    words = as_words(running_words(test) + worker)
    parts = [f"#### {as_code(test['nodeid'])}\n\n{words}\n\n"]
    parts += (f"- child process: {as_code(child)}\n" for child in stall["children"])
    if stall["children"]:
        parts.append("\n")
    parts += (
        _frames("Where it was", code_of(stall["stack"])),
        _frames("Where it crashed", code_of(test["stack"], test["location"])),
        folded("Its last output", test["output"]),
    )
    return "".join(parts)


def _stall(stall: dict[str, Any]) -> str:
    head = f"#### {as_words(stall['what'] + worker_words(stall))}\n\n"
    stack = _frames("Where it was", code_of(stall["stack"]))
    return f"{head}{as_words(stall_words(stall))}\n\n{stack}"


def _benches(report: dict[str, Any]) -> list[str]:
    """Return one table of all benches, and a list of what their gates say."""
    benches = report["bench"]
    if not benches:
        return []
    heads = ["task class", "passed", "mean score", "95 % lower bound", "USD", "gate"]
    reasons = [
        f"- {as_words(bench_name(bench))}: {as_words(reason)}\n"
        for bench in benches
        for reason in (bench["gate"] or {"reasons": ()})["reasons"]
    ]
    return [
        as_table(heads, map(_bench, benches), ["---"] * len(heads)) + "\n",
        *reasons,
    ]


def _bench(bench: dict[str, Any]) -> list[str]:
    counts, gate = bench["counts"], bench["gate"]
    return [
        bench_name(bench),
        f"{counts['passed']} of {counts['scheduled']}",
        _figure(bench["mean_score"]),
        _figure(bench["lower_bound_95"]["value"]),
        f"{bench['total_cost_usd']:.2f}",
        "none" if gate is None else gate["verdict"],
    ]


def _figure(number: float | None) -> str:
    return "none" if number is None else f"{number:.3f}"
