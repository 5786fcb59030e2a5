"""The verdict in at most six lines, computed apart from printing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.report.limits import own_extension
from pytest_failure_taxonomy.report.render.history_words import (
    in_brackets,
    words_of_group,
    words_of_verdict,
)
from pytest_failure_taxonomy.report.text import (
    AS_REPORTED,
    ShownPaths,
    first_line,
    safe_text,
    telling_line,
    with_place,
)
from pytest_failure_taxonomy.taxonomy.headlines import (
    OUTCOMES,
    TYPES_OF_PYTEST,
    is_worded_by_pytest,
    one_line,
)
from pytest_failure_taxonomy.taxonomy.kinds import describe_kind
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, Stage
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import counted, counts_in_words

MAX_LINES: Final = 6
MAX_CAUSES: Final = 2
"""Causes of several failures that are named."""
MAX_NAMED: Final = 10
"""Collection errors whose paths are looked for in the words of the verdict."""
TITLE: Final = "why this run failed"

_UNSAID: Final = {"MemoryError": "it ran out of memory"}
"""What exceptions mean that come without a message."""

_TOLD_BY_EVIDENCE: Final = ("worker.crashed", "test.timeout", "test.stalled")
"""Kinds of a failure without an exception for which the evidence says how the worker ended, and
xdist's own words do not."""

_COUNTED: Final = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed", "flaky")


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


def verdict_lines(
    report: dict[str, Any],
    where: str,
    *,
    paths: ShownPaths = AS_REPORTED,
    quiet: bool = False,
    problem: str | None = None,
    groups: Sequence[Line] = (),
) -> list[Line]:
    """Return the lines that say why a run failed.

    Args:
        report: the report's JSON object.
        where: the report's path as the user should see it; empty where there is none.
        paths: shows the paths in it.
        quiet: one line for the verdict, none for a success without failures.
        problem: what went wrong with the report itself, in words.
        groups: the lines of the groups of failures, where they are shown, too.
    """
    verdict = report["verdict"]
    if verdict is None:
        # A status of 0 in spite of failures is said however quiet the run is.
        is_told = not quiet or report["summary"]["failed"] or report["summary"]["errors"]
        lines = [_success_line(report, where if problem is None else "")] if is_told else []
        return [*lines, *problem_lines(problem)]
    headline = Line(text=_headline(report, paths), color="red", bold=True)
    ending = problem_lines(problem) or [Line(text=f"report: {safe_text(where)}")]
    if quiet:
        return [headline, *groups, *ending]
    title = Line(text=TITLE, color="red", is_title=True)
    middle = [
        _look_at_line(report, paths),
        _also_line(report, paths),
        _left_line(report, paths),
    ]
    shown = (line for line in middle if line is not None)
    return [title, headline, *shown, *groups, *ending]


def _headline(report: dict[str, Any], paths: ShownPaths) -> str:
    verdict = report["verdict"]
    message = paths.words(verdict["message"], _named(report))
    likely = "" if verdict["confidence"] == "certain" else ", likely"
    passed = report["summary"]["passed"]
    also = f" ({passed:,} passed)" if passed else ""
    seen = in_brackets(words_of_verdict(report))
    return safe_text(f"{verdict['reason']} [{verdict['kind']}{likely}]: {message}{also}{seen}")


def _success_line(report: dict[str, Any], where: str) -> Line:
    summary = report["summary"]
    counts = counts_in_words(summary, _COUNTED)
    failed = summary["failed"] or summary["errors"]
    notes = own_texts(report, "notes")
    if report["run"]["stage"] == Stage.BASELINE_RUN:
        said = _baseline_words(summary, counts, notes)
    else:
        # Where no plugin has looked and no counts were printed, none are known.
        is_known = counts or report["environment"]["pytest"] != "unknown"
        tests = f" ({counts or 'no test ran'})" if is_known else ""
        what = accepted_words(report)
        set_elsewhere = "pytest ended with exit code 0, which a plugin or a conftest.py has set"
        what = what or (set_elsewhere if failed else "no failure")
        said = "; ".join([f"{what}{tests}", *notes])
    report_words = f"; report: {where}" if where else ""
    return Line(text=safe_text(f"failure taxonomy: {said}{report_words}"), color="green")


def accepted_words(report: dict[str, Any]) -> str:
    """Say that failures are known, where that has made a run end with exit code 0."""
    known = own_extension(report).get("known")
    if not isinstance(known, dict) or known.get("accepted") is not True:
        return ""
    count = known.get("failures")
    failures = "1 failure, which is" if count == 1 else f"{count} failures, which are all"
    return f"{failures} known ({known.get('by')}), so the exit status is 0"


def _history_words(report: dict[str, Any]) -> str:
    """Return what the history says of the failure that is shown."""
    shown = next(_failures_shown(report), None)
    fingerprint = None if shown is None else shown.get("fingerprint")
    for group in report["groups"]:
        is_it = fingerprint == group["fingerprint"]
        if fingerprint is None:  # a collection error
            is_it = report["verdict"]["nodeid"] in group["nodeids"]
        if is_it:
            return in_brackets(words_of_group(report, group))
    return ""


def _baseline_words(summary: dict[str, int], counts: str, notes: list[str]) -> str:
    """Say why a baseline is valid: its tests failed, as those of an unsolved task must."""
    if notes:
        return f"valid {'; '.join(notes)}"
    failed = summary["failed"]
    if not failed:
        return f"valid baseline ({counts})"
    passed = f" ({summary['passed']:,} passed)" if summary["passed"] else ""
    tests = "1 test failed, as it" if failed == 1 else f"{failed:,} tests failed, as they"
    return f"valid baseline: {tests} should{passed}"


def _named(report: dict[str, Any]) -> Iterator[str]:
    """Yield the node ids and paths that the words of the verdict may name."""
    if report["verdict"]["nodeid"]:
        yield report["verdict"]["nodeid"]
    yield from (test["nodeid"] for test in report["in_flight"])
    for failed in report["collection_errors"][:MAX_NAMED]:
        yield failed["nodeid"]
        if failed["location"]:
            yield failed["location"]["path"]


def _look_at_line(report: dict[str, Any], paths: ShownPaths) -> Line | None:
    verdict = report["verdict"]
    detail = _detail(report, paths)
    target = verdict["nodeid"]
    if target is None:
        is_new = detail and detail not in paths.words(verdict["message"], _named(report))
        return Line(text=safe_text(f"because: {detail}")) if is_new else None
    message = paths.words(verdict["message"], _named(report))
    if target in verdict["message"] and detail and detail in message:
        return None
    held_as = (verdict["reason"], verdict["kind"])
    counts = (
        held["count"] for held in report["reasons"] if (held["reason"], held["kind"]) == held_as
    )
    count = next(counts, 1)  # somebody else's report need not list its verdict
    label = "first" if count > 1 else "see"
    words = (
        f"{label}: {paths.nodeid(target)}"
        + (f": {detail}" if detail else "")
        + _package_words(report)
        + _owner_words(report)
        + _history_words(report)
    )
    return Line(text=safe_text(words), bold=True)


def _detail(report: dict[str, Any], paths: ShownPaths) -> str:
    """Return what the first piece of evidence says, and the place that it points to."""
    verdict = report["verdict"]
    nodeid = verdict["nodeid"]
    for failure in _failures_shown(report):
        if failure["exception"] is None and verdict["kind"] in _TOLD_BY_EVIDENCE:
            break
        place = failure["location"]
        said = _summary_of(failure)
        is_placed = place and place["line"]
        return with_place(said, paths.path(place["path"]), place["line"]) if is_placed else said
    if not verdict["evidence"]:
        return ""
    said = first_line(verdict["evidence"][0]["detail"]).removeprefix(f"{nodeid}: ")
    return paths.words(said, _named(report))


def _failures_shown(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the failures that the verdict names, the one that is shown first."""
    verdict = report["verdict"]
    nodeid, kind = verdict["nodeid"], verdict["kind"]
    for failure in (*report["failures"], *report["collection_errors"]):
        if failure["nodeid"] == nodeid and failure.get("kind", kind) == kind:
            yield failure


def _package_words(report: dict[str, Any]) -> str:
    """Return what was installed and has raised the failure that is shown, if it was that."""
    failure = next(_failures_shown(report), None)
    origin = None if failure is None else failure["origin"]
    if origin is None or origin["package"] is None:
        return ""
    exception = failure and failure["exception"]
    is_pytests = origin["owner"] == "pytest"
    if is_pytests and exception and exception["type"] in (*OUTCOMES, *TYPES_OF_PYTEST):
        return ""  # it says what is wrong with the test
    return f" in {origin['package']} ({origin['owner']})"


def _summary_of(failure: dict[str, Any]) -> str:
    exception = failure["exception"]
    if exception is None:
        return first_line(failure.get("message") or failure["traceback"] or "")
    if exception["message"] and is_worded_by_pytest(exception["type"], is_test="kind" in failure):
        return one_line(exception["message"])
    message = telling_line(exception["message"]) or _UNSAID.get(exception["type"], "")
    return f"{exception['type']}: {message}" if message else str(exception["type"])


def _owner_words(report: dict[str, Any]) -> str:
    """Return who owns the failure that is shown and where to read on, if a rule says so."""
    nodeid = report["verdict"]["nodeid"]
    rules = [each["rule"] for each in report["failures"] if each["nodeid"] == nodeid]
    attributions = own_extension(report).get("attributions")
    for said in attributions if isinstance(attributions, list) else ():
        if not isinstance(said, dict):
            continue
        words = [said[name] for name in ("owner", "link") if isinstance(said.get(name), str)]
        if words and said.get("rule") in rules:
            return f" [{', '.join(words)}]"
    return ""


def _also_line(report: dict[str, Any], paths: ShownPaths) -> Line | None:
    words = [*_other_reasons(report), *_causes(report, paths)]
    return Line(text=safe_text(f"also: {'; '.join(words)}"), color="yellow") if words else None


def _causes(report: dict[str, Any], paths: ShownPaths) -> list[str]:
    """Say how many causes several failures have, and which are the most frequent."""
    groups = report["groups"]
    count = sum(group["count"] for group in groups)
    if count == len(groups):
        return []
    largest = [
        f"{group['count']:,} x {paths.words(first_line(group['title']))}"
        + in_brackets(words_of_group(report, group))
        for group in groups[:MAX_CAUSES]
        if group["count"] > 1
    ]
    rest = len(groups) - len(largest)
    if rest:
        largest.append(f"{rest:,} more")
    causes = counted(len(groups), "cause")
    return [f"{counted(count, 'failure')}, {causes}: {', '.join(largest)}"]


def _other_reasons(report: dict[str, Any]) -> list[str]:
    verdict = report["verdict"]
    words = []
    for held in report["reasons"]:
        if (held["reason"], held["kind"]) == (verdict["reason"], verdict["kind"]):
            continue
        phrase = describe_kind(held["kind"], FailureReason(held["reason"])).phrase(held["count"])
        same = held["reason"] == verdict["reason"]
        words.append(phrase if same else f"{phrase} ({held['reason']})")
    return words


def _left_line(report: dict[str, Any], paths: ShownPaths) -> Line | None:
    """Say what was cut short: tests in flight and tests that never started."""
    words = []
    running = report["in_flight"]
    if running:
        first = running[0]
        more = f" and {len(running) - 1:,} more" if len(running) > 1 else ""
        elapsed = first["elapsed_seconds"]
        since = first["phase"] if elapsed is None else f"{first['phase']}, {elapsed:.1f} s"
        words.append(f"in flight: {paths.nodeid(first['nodeid'])} ({since}){more}")
    not_run = report["not_run"]["count"]
    if not_run:
        summary = report["summary"]
        noun = "collected test" if report["collection_errors"] else "test"
        noun = "selected test" if summary["deselected"] else noun
        words.append(f"not run: {not_run:,} of {counted(summary['collected'], noun)}")
    return Line(text=safe_text("; ".join(words)), color="yellow") if words else None


def own_texts(report: dict[str, Any], name: str) -> list[str]:
    """Return the texts of a list in our own extension, such as `notes`."""
    texts = own_extension(report).get(name)
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


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
