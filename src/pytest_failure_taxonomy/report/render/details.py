"""All that a report holds, as lines for the terminal: what `show --all` prints, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_failure_taxonomy.report.limits import own_extension
from pytest_failure_taxonomy.report.render.history_words import words_of_group
from pytest_failure_taxonomy.report.render.places import stall_words
from pytest_failure_taxonomy.report.render.terminal import Line, own_texts
from pytest_failure_taxonomy.report.text import (
    AS_REPORTED,
    ShownPaths,
    bench_name,
    first_line,
    safe_text,
    telling_line,
)
from pytest_failure_taxonomy.taxonomy.words import counted

MAX_NODEIDS: Final = 5
"""Node ids that are listed of one group, and of the tests that were not run."""
_MAX_WIDTH: Final = 2_000


def detail_lines(report: dict[str, Any], *, paths: ShownPaths = AS_REPORTED) -> Iterator[Line]:
    """Yield the lines of each part of a report that has anything in it.

    Args:
        report: the report's JSON object.
        paths: shows the paths in it.
    """
    yield from merged_lines(report)
    for title, lines in (
        ("reasons", _reason_lines(report)),
        ("groups", group_lines(report, paths)),
        ("failures", _failure_lines(report, paths)),
        ("collection errors", _collection_lines(report, paths)),
        ("internal errors", _error_lines(report)),
        ("in flight", _in_flight_lines(report, paths)),
        ("stalls", _stall_lines(report)),
        ("not run", _not_run_lines(report, paths)),
        ("workers", _worker_lines(report, paths)),
        ("bench", _bench_lines(report)),
        ("cut to keep the report small", _limit_lines(report)),
        ("notes", _note_lines(report)),
    ):
        yield from _section(title, lines)


def merged_lines(report: dict[str, Any]) -> Iterator[Line]:
    """Yield one line for each run that a report was merged from, with its own verdict."""
    merged = own_extension(report).get("merged")
    runs = merged.get("runs") if isinstance(merged, dict) else None
    if isinstance(runs, list):
        named = (run for run in runs if isinstance(run, dict))
        yield from _section("merged from", (_line(_run_words(run)) for run in named))


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


def _run_words(run: dict[str, Any]) -> str:
    """Say which run it was, and how it ended, whatever the types of its fields are."""
    names = []
    about, verdict = run.get("run"), run.get("verdict")
    about = about if isinstance(about, dict) else {}
    stage, shard = about.get("stage"), about.get("shard")
    if isinstance(stage, str):
        names.append(stage)
    if isinstance(shard, dict):
        names.append(f"shard {shard.get('index')} of {shard.get('total')}")
    name = ", ".join(names) or str(about.get("id", "a run"))
    if isinstance(verdict, dict):
        said = f"{verdict.get('reason')} [{verdict.get('kind')}]"
        message = verdict.get("message")
        return f"{name}: {said}" + (f": {first_line(message)}" if isinstance(message, str) else "")
    return f"{name}: {verdict if isinstance(verdict, str) else 'no failure'}"


def _reason_lines(report: dict[str, Any]) -> Iterator[Line]:
    for held in report["reasons"]:
        yield _line(f"{held['count']:,} x {held['reason']} [{held['kind']}]")


def group_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    """Yield the groups of failures, each with its first tests and what the history says."""
    for group in report["groups"]:
        owner = f" ({group['owner']})" if group["owner"] else ""
        title = paths.words(first_line(group["title"]))
        history = _history_words(report, group)
        seen = f": {history}" if history else ""
        yield _line(f"{group['count']:,} x {title}{owner}{seen}", bold=True)
        for nodeid in group["nodeids"][:MAX_NODEIDS]:
            yield _line(f"    {paths.nodeid(nodeid)}")
        yield from _more(len(group["nodeids"]))


def _history_words(report: dict[str, Any], group: dict[str, Any]) -> str:
    passed = (group["history"] or {}).get("last_passed_commit")
    last = f", last passed at {passed[:12]}" if passed else ""
    return f"{words_of_group(report, group)}{last}"


def _more(count: int) -> Iterator[Line]:
    if count > MAX_NODEIDS:
        yield Line(text=f"    and {count - MAX_NODEIDS} more")


def _failure_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    for failure in report["failures"]:
        nodeid = paths.nodeid(failure["nodeid"])
        worker = f" on {failure['worker']}" if failure["worker"] else ""
        tries = f", attempt {failure['attempts']}" if failure["attempts"] > 1 else ""
        yield _line(
            f"{nodeid} ({failure['phase']}{worker}{tries}) {failure['reason']} [{failure['kind']}]",
            bold=True,
        )
        yield from _raised_lines(failure, paths)


def _raised_lines(failure: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    """Yield the exception in one line, the place, and the traceback."""
    raised, place = failure["exception"], failure["location"]
    if raised is not None:
        message = telling_line(raised["message"])
        yield _line(f"    {raised['type']}: {message}" if message else f"    {raised['type']}")
    if place is not None:
        line = "" if place["line"] is None else f":{place['line']}"
        yield _line(f"    at {paths.path(place['path'])}{line}")
    yield from _block(failure["traceback"], "      ")


def _collection_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    for failed in report["collection_errors"]:
        yield _line(paths.nodeid(failed["nodeid"]), bold=True)
        if failed["exception"] is None:
            yield from _block(failed["message"])
        yield from _raised_lines(failed, paths)


def _error_lines(report: dict[str, Any]) -> Iterator[Line]:
    for error in report["internal_errors"]:
        message = first_line(error["message"])
        yield _line(f"{error['kind']}: {message}", bold=True)
        yield from _block(error["traceback"], "      ")


def _in_flight_lines(report: dict[str, Any], paths: ShownPaths) -> Iterator[Line]:
    for test in report["in_flight"]:
        elapsed = test["elapsed_seconds"]
        since = "" if elapsed is None else f", {elapsed:.1f} s"
        worker = f" on {test['worker']}" if test["worker"] else ""
        yield _line(f"{paths.nodeid(test['nodeid'])} ({test['phase']}{worker}{since})", bold=True)
        stall = test["stall"]
        if stall is not None:
            yield from _stalled_lines(stall)
            for child in stall["children"]:
                yield _line(f"    child process: {child}")
        yield from _block(test["stack"], "      ")
        if test["output"]:
            yield Line(text="    its last output:")
            yield from _block(test["output"], "      ")


def _stalled_lines(stall: dict[str, Any]) -> Iterator[Line]:
    yield _line(f"    {stall_words(stall)}")
    yield from _block(stall["stack"], "      ")


def _stall_lines(report: dict[str, Any]) -> Iterator[Line]:
    for stall in report["stalls"]:
        worker = f" on {stall['worker']}" if stall["worker"] else ""
        yield _line(f"{stall['what']}{worker}", bold=True)
        yield from _stalled_lines(stall)


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
        ended = f", {signal}" if signal else "" if code is None else f", exit code {code}"
        crashed = worker["crashed_on"]
        on = f", died on {paths.nodeid(crashed)}" if crashed else ""
        yield _line(f"{worker['id']}: {counted(worker['tests'], 'test')}{ended}{on}")


def _bench_lines(report: dict[str, Any]) -> Iterator[Line]:
    for bench in report["bench"]:
        counts, mean = bench["counts"], bench["mean_score"]
        words = [f"{counts['passed']:,} of {counted(counts['scheduled'], 'case')} passed"]
        if mean is not None:
            words.append(f"mean score {mean:.3f}")
        if bench["lower_bound_95"]["value"] is not None:
            words.append(f"at least {bench['lower_bound_95']['value']:.3f} (95 %)")
        if bench["total_cost_usd"]:
            words.append(f"{bench['total_cost_usd']:.2f} USD")
        if bench["gate"] is not None:
            words.append(f"gate {bench['gate']['verdict']}")
        yield _line(f"{bench_name(bench)}: {', '.join(words)}", bold=True)
        for reason in (bench["gate"] or {"reasons": ()})["reasons"]:
            yield _line(f"    {reason}")


def _limit_lines(report: dict[str, Any]) -> Iterator[Line]:
    for name, count in report["limits"].items():
        if count:
            yield Line(text=f"{name.replace('_', ' ')}: {count}")


def _note_lines(report: dict[str, Any]) -> Iterator[Line]:
    for name in ("notes", "faults"):
        yield from map(_line, own_texts(report, name))
