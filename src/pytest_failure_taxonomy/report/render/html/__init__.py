"""The HTML page of a report: one file that needs no network, for a browser.

The verdict and what belongs to it are in the page itself, and are there without scripts, too. What
can be long, failures and tests, is in it as JSON, of which a script shows what is looked at.

Reports may come from anybody. The template escapes all texts, the script makes nodes of them and
never markup, and the page's own policy lets nothing else run, whatever got into it.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.render.html.bench_views import bench_views
from pytest_failure_taxonomy.report.render.html.rows import (
    Rows,
    classed_lines,
    code_of,
    shown,
    shown_value,
)
from pytest_failure_taxonomy.report.render.html.timing import timing_of
from pytest_failure_taxonomy.report.summary import RunSummary, merged_runs, summarise
from pytest_failure_taxonomy.taxonomy.reasons import Stage
from pytest_failure_taxonomy.taxonomy.words import counted, noun_of_count, seconds_words

_TEMPLATE: Final = "page.html.jinja"
_STYLE: Final = "style.css"
_SCRIPT: Final = "script.js"
_IN_SCRIPT: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end the element that the JSON is in, or be read as another."""
_TEARDOWN: Final = "test.teardown_error"

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

_COMPLETENESS: Final = {
    "full": "pytest ended and wrote this report",
    "reconstructed": "pytest died; this report was made from what it left",
    "running": "pytest was still running, or nothing was left to finish this report",
}


def render(report: dict[str, Any], *, kept: Mapping[str, Any] | None = None) -> str:
    """Return a report as one HTML page.

    Args:
        report: the report's JSON object.
        kept: what is shown of the cases of benches, by run id, where their runs were kept.
    """
    environment = _environment()
    report = shown(report)
    summary, timing = summarise(report), timing_of(report)
    rows = Rows(report, summary)
    bare = next((card for card in rows.cards if card.is_bare), None)
    style, script = _packaged(_STYLE), _packaged(_SCRIPT)
    page: str = environment.from_string(_packaged(_TEMPLATE)).render(
        **overview_of(report, summary),
        bare=bare,
        cards=[card for card in rows.cards if card is not bare],
        again=rows.again,
        benches=bench_views(report, shown_value(dict(kept or {}))),
        timing=timing,
        report=report,
        style=style,
        script=script,
        policy=_policy(style, script),
        rows=_as_script(rows.as_json(timing)),
    )
    return page


def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["lines"] = classed_lines
    environment.filters["framed"] = code_of
    environment.filters["seconds"] = seconds_words
    environment.filters["counted"] = counted
    return environment


def _packaged(name: str) -> str:
    return (files(__name__) / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Return the page's policy: its own style and script, by their hashes, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _as_script(rows: dict[str, Any]) -> str:
    """Return JSON that can stand in a `<script>`, whatever its texts are."""
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


class Part(NamedTuple):
    """One part of the bar of outcomes, in per cent of its width."""

    name: str
    start: float
    width: float


def overview_of(report: dict[str, Any], summary: RunSummary) -> dict[str, Any]:
    """Return what the template needs to know besides the report itself and its causes."""
    verdict = report["verdict"]
    root = str(report["run"]["invocation"]["rootdir"]).replace("\\", "/").rstrip("/")
    merged = merged_runs(report)
    names_stage = bool(merged) or report["run"]["stage"] != Stage.FINAL_TEST
    return {
        "tone": "bad" if verdict else "open" if report["completeness"] == "running" else "good",
        "project": root.rpartition("/")[2] or "pytest",
        "names_stage": names_stage,
        "headline": summary.headline,
        "codes": summary.codes.strip("[]"),
        "see": summary.see,
        "left": summary.left,
        "advice": summary.advice,
        "counts": list(_counts(report)),
        "parts": _parts(report),
        "facts": list(_facts(report, names_stage=names_stage)),
        "notes": list(summary.notes),
        "merged": merged,
        "cut": [(name.replace("_", " "), n) for name, n in report["limits"].items() if n],
    }


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
        counts |= {name: ended[name] for name in _PARTS if name != "in_flight"}
    total = sum(counts.values())
    parts, start = [], 0.0
    for name, count in counts.items():
        if count:
            width = 100 * count / total
            parts.append(Part(name, round(start, 3), round(width, 3)))
            start += width
    return parts


def _facts(report: dict[str, Any], *, names_stage: bool) -> Iterator[tuple[str, str]]:
    """Yield what the run was, and what it ran on."""
    run, environment = report["run"], report["environment"]
    yield "started", str(run["started_at"])
    yield "took", seconds_words(run["duration_seconds"]) or "not known"
    yield "report", _COMPLETENESS.get(report["completeness"], report["completeness"])
    yield "exit", _exit_words(report["exit"])
    if names_stage:
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
