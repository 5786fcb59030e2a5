"""What a page says first: the verdict, what speaks for it, and what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.limits import own_extension
from pytest_failure_taxonomy.report.render.html.shown import file_of, seconds_words
from pytest_failure_taxonomy.report.summary import merged_runs, summarise
from pytest_failure_taxonomy.taxonomy.words import noun_of_count

_COLLECTION: Final = "collection.error"
_TEARDOWN: Final = "test.teardown_error"
_NOT_TESTS: Final = ("conftest.error", "usage.error", "plugin.error", "internal.error")

_COUNTS: Final = (
    *("passed", "failed", "errors", "crashed", "timed_out", "in_flight", "not_run", "flaky"),
    *("rerun", "skipped", "xfailed", "xpassed", "deselected", "collection_errors", "warnings"),
)
_PARTS: Final = ("passed", "xfailed", "skipped", "xpassed", "failed", "errors", "in_flight")
"""Counts of which each test is in one, errors of teardowns apart; with `not_run` they are all of a
run's tests."""
_PART_OF_OUTCOME: Final = {"error": "errors", "flaky": "passed"}
_ALSO: Final = {
    "crashed": "failed",
    "timed_out": "failed or errors",
    "flaky": "passed",
    "collection_errors": "errors",
}
"""Counts whose tests are in another one, too."""

_ACTIONS: Final = {
    "retry": "Run it again.",
    "rollback": "Go back to the last commit that worked, and make the change in smaller steps.",
    "skip": "Leave it, and go on with what does not need it.",
    "continue": "Commit what is done, and go on in a new session.",
    "escalate": "Someone has to look at it.",
}
_RETRY: Final = {
    True: "Running it again could end differently.",
    False: "Running it again would end the same way.",
    None: "Nothing says whether running it again would help.",
}
_COMPLETENESS: Final = {
    "full": "pytest ended and wrote this report",
    "reconstructed": "pytest died; this report was made from what it left",
    "running": "pytest was still running, or nothing was left to finish this report",
}


class Step(NamedTuple):
    """One thing to do next."""

    words: str
    command: str = ""


class Part(NamedTuple):
    """One part of the bar of outcomes, in per cent of its width."""

    name: str
    start: float
    width: float


def overview_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the template needs to know besides the report itself."""
    verdict = report["verdict"]
    summary = summarise(report)
    lines = [summary.see, summary.left]
    root = str(report["run"]["invocation"]["rootdir"]).replace("\\", "/").rstrip("/")
    return {
        "tone": "bad" if verdict else "open" if report["completeness"] == "running" else "good",
        "project": root.rpartition("/")[2] or "pytest",
        "headline": summary.headline,
        "seen": "",
        "lines": [each for each in lines if each],
        "steps": list(_steps(report)),
        "counts": list(_counts(report)),
        "parts": _parts(report),
        "facts": list(_facts(report)),
        "notes": list(summary.notes),
        "merged": merged_runs(report),
        "cut": [(name.replace("_", " "), n) for name, n in report["limits"].items() if n],
    }


def _steps(report: dict[str, Any]) -> Iterator[Step]:
    """Yield what to do next, what helps most first."""
    verdict = report["verdict"]
    if verdict is None:
        return
    yield from _looks(report)
    action = verdict["recovery_action"]
    words = _RETRY[verdict["retryable"]]
    if action is not None:
        words = f"{_ACTIONS[action]} {words}"
    yield Step(words)
    yield from _commands(report)


def _looks(report: dict[str, Any]) -> Iterator[Step]:
    """Yield where to look."""
    said = {each["rule"]: each for each in _attributions(report)}
    rules = {failure["rule"] for failure in report["failures"] if failure["rule"]}
    for rule in sorted(rules & set(said)):
        words = [said[rule][name] for name in ("owner", "link") if _is_text(said[rule].get(name))]
        if words:
            yield Step(f"The rule {rule} names {', '.join(words)}.")
    if report["in_flight"]:
        count = len(report["in_flight"])
        tests = "the test that was" if count == 1 else f"the {count} tests that were"
        yield Step(f"Look at {tests} running when it ended, below.")
    if report["verdict"]["kind"] in _NOT_TESTS and report["internal_errors"]:
        yield Step("Look at the error outside of any test, below.")


def _attributions(report: dict[str, Any]) -> list[dict[str, Any]]:
    said = own_extension(report).get("attributions")
    listed = said if isinstance(said, list) else []
    return [each for each in listed if isinstance(each, dict) and _is_text(each.get("rule"))]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _commands(report: dict[str, Any]) -> Iterator[Step]:
    verdict = report["verdict"]
    nodeid, kind = verdict["nodeid"], verdict["kind"]
    running = report["in_flight"]
    if nodeid is None and running:
        nodeid = running[0]["nodeid"]
    if nodeid and "\n" not in nodeid:
        target = file_of(nodeid) if kind == _COLLECTION else nodeid
        what = "See this error alone:" if kind == _COLLECTION else "Run this test alone:"
        yield Step(what, command_of(target))
    if report["summary"]["failed"] + report["summary"]["errors"] > 1 and report["failures"]:
        yield Step("Run again what failed:", "pytest --lf")


def command_of(nodeid: str) -> str:
    """Return the command that runs one test, whatever its name is."""
    # pytest would take these for an option, and for a file of arguments.
    target = f"./{nodeid}" if nodeid.startswith(("-", "@")) else nodeid
    return f"pytest {shlex.quote(target)}"


def _counts(report: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield each count with its words and its name; the words say what is counted twice."""
    torn = sum(each["count"] for each in report["reasons"] if each["kind"] == _TEARDOWN)
    for name in _COUNTS:
        count = report["summary"][name]
        words = noun_of_count(name, count)
        if name in _ALSO:
            words += f" (of those {_ALSO[name]})"
        elif name == "errors" and torn:
            words += f" ({torn:,} in teardowns, beside their tests' own outcome)"
        yield words, name, count


def _parts(report: dict[str, Any]) -> list[Part]:
    counts = {name: report["summary"][name] for name in (*_PARTS, "not_run")}
    if report["tests"]:  # with these each test counts once
        outcomes = (each["outcome"] for each in report["tests"])
        ended = Counter(_PART_OF_OUTCOME.get(outcome, outcome) for outcome in outcomes)
        counts |= {name: ended[name] for name in _PARTS}
    total = sum(counts.values())
    parts, start = [], 0.0
    for name, count in counts.items():
        if count:
            width = 100 * count / total
            parts.append(Part(name, round(start, 3), round(width, 3)))
            start += width
    return parts


def _facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the run was, and what it ran on."""
    run, environment = report["run"], report["environment"]
    yield "started", str(run["started_at"])
    yield "took", seconds_words(run["duration_seconds"]) or "not known"
    yield "report", _COMPLETENESS.get(report["completeness"], report["completeness"])
    yield "exit", _exit_words(report["exit"])
    yield "stage", str(run["stage"])
    if run["shard"]:
        yield "shard", f"{run['shard']['index']} of {run['shard']['total']}"
    yield "command", f"pytest {shlex.join(run['invocation']['args'])}".rstrip()
    yield "root directory", str(run["invocation"]["rootdir"])
    yield "Python", f"{environment['python']} on {environment['platform']}"
    yield "pytest", str(environment["pytest"])
    if environment["plugins"]:
        yield "plugins", ", ".join(environment["plugins"])
    yield from _places(environment)
    yield "run", str(run["id"])
    yield "written by", f"{report['generator']['name']} {report['generator']['version']}"


def _exit_words(ended: dict[str, Any]) -> str:
    if ended["code"] is None:
        return "not known" + (f", {ended['signal']}" if ended["signal"] else "")
    names = [each for each in (ended["name"], ended["signal"]) if each]
    return f"{ended['code']}" + (f" ({', '.join(names)})" if names else "")


def _places(environment: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the commit, the CI job and the memory."""
    git, ci, memory = environment["git"], environment["ci"], environment["memory"]
    if git and git["commit"]:
        branch = f" on {git['branch']}" if git["branch"] else ""
        yield "commit", f"{git['commit'][:12]}{branch}{', changed since' if git['dirty'] else ''}"
    if ci:
        named = [ci[name] for name in ("run_id", "job", "ref") if ci[name]]
        yield "CI", f"{ci['provider']}{': ' if named else ''}{', '.join(named)}"
    if memory:
        known = [
            f"{words} {memory[name] / 1024**2:,.0f} MiB"
            for name, words in (
                ("peak_rss_bytes", "most of pytest"),
                ("cgroup_peak_bytes", "most of all processes"),
                ("limit_bytes", "limit"),
            )
            if memory[name] is not None
        ]
        if known:
            yield "memory", ", ".join(known)
