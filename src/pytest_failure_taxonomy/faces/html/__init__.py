"""The HTML page of a report: one file that needs no network, for a browser.

The verdict and what belongs to it are in the page itself, and are there without scripts, too. What
can be long, failures and tests, is in it as JSON, of which a script shows what is looked at.

Reports may come from anybody. The template escapes all texts, the script makes nodes of them and
never markup, and the page's own policy lets nothing else run, whatever got into it.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.faces.html import rows
from pytest_failure_taxonomy.report.frames import classed_lines, code_of
from pytest_failure_taxonomy.report.model import FailureReport, JSONObject
from pytest_failure_taxonomy.report.summary import merged_runs, summarise
from pytest_failure_taxonomy.taxonomy.evidence import MemoryUse
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value
from pytest_failure_taxonomy.taxonomy.words import (
    counted,
    noun_of_count,
    seconds_words,
    words_of_change,
)
from pytest_failure_taxonomy.text import bench_name

if TYPE_CHECKING:
    from jinja2 import Template

_PARTS: Final = (
    "passed",
    "xfailed",
    "skipped",
    "xpassed",
    "failed",
    "errors",
    "in_flight",
)
"""Counts of which each test is in one, errors of teardowns apart; with `not_run` they are all of a
run's tests."""
_PART_OF_OUTCOME: Final = {"error": "errors", "flaky": "passed"}
_BINS: Final = 10


def render(report: FailureReport, *, kept: Mapping[str, object] | None = None) -> str:
    """Return a report as one HTML page.

    Args:
        report: of the run.
        kept: what is shown of the cases of benches, by run id, where their runs were kept.
    """
    style = _read("style.css")
    script = _read("script.js")
    # The page's own style and script, by their hashes, and nothing else.
    policy = (
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    visible = rows.shown(replace(report, extensions={}))
    summary = summarise(visible)
    timing = rows.timing_of(visible)
    made = rows.Rows(visible, summary)
    # It has nothing but what the headline says, and can stand below it.
    bare = next(filter(_is_bare, made.cards), None)
    runs = rows.shown(kept or {})
    page: str = _template().render(
        summary=summary,
        bare=bare,
        cards=[card for card in made.cards if card is not bare],
        again=made.again,
        benches=[_bench_view(bench, runs) for bench in visible.bench],
        merged=list(merged_runs(visible)),
        parts=list(_parts(visible)),
        timing=timing,
        report=visible,
        memory=list(_memory_parts(visible.environment.memory)),
        limits=to_dict(visible.limits),
        style=style,
        script=script,
        policy="; ".join(policy),
        rows=made.as_json(timing),
    )
    return page


def _is_bare(card: rows.Card) -> bool:
    return not (card.title or card.shown or card.rows)


def _read(name: str) -> str:
    return (files(__name__) / name).read_text("utf-8")


@cache
def _template() -> Template:
    """Return the page's template; to compile it takes as long as twenty pages."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    dumps = {"ensure_ascii": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = dumps
    environment.filters |= {
        "lines": classed_lines,
        "framed": code_of,
        "seconds": seconds_words,
        "change": words_of_change,
        "counted": counted,
        "noun": noun_of_count,
        "figure": figure_words,
        "usd": _cost,
        "shell": shlex.join,
    }
    return environment.from_string(_read("page.html.jinja"))


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _parts(report: FailureReport) -> Iterator[tuple[str, float, float]]:
    """Yield each part of the bar of outcomes, with its start and its width in per cent of it."""
    summary = to_dict(report.summary)
    counts = {name: summary[name] for name in (*_PARTS, "not_run")}
    if report.tests:  # with these each test counts once
        outcomes = [test.outcome for test in report.tests]
        ended = Counter([_PART_OF_OUTCOME.get(name, name) for name in outcomes])
        counts |= {name: ended[name] for name in _PARTS if name != "in_flight"}
    total = sum(counts.values())
    start = 0.0
    for name, count in counts.items():
        if count:
            width = 100 * count / total
            yield name, round(start, 3), round(width, 3)
            start += width


def _memory_parts(memory: MemoryUse | None) -> Iterator[tuple[str, int]]:
    """Yield what is known of the memory, in words and bytes."""
    if memory is None:
        return
    parts = {
        "most of pytest": memory.peak_rss_bytes,
        "most of all processes": memory.cgroup_peak_bytes,
        "limit": memory.limit_bytes,
    }
    for words, size in parts.items():
        if size is not None:
            yield words, size


@value
class _BenchView:
    """What is shown of a task class."""

    name: str
    report: JSONObject
    """Its section, in the bench's own form."""
    bins: tuple[int, ...]
    """How many cases have a score in each tenth."""
    breakdown: tuple[tuple[str, list[float]], ...]
    modes: tuple[tuple[tuple[str, str], int], ...]
    """How often each failure mode was found, with its severity."""
    kept: JSONObject
    """What is shown of its cases, where its run was kept."""
    places: Mapping[str, int]
    """The numbers of these cases."""


def _bench_view(bench: JSONObject, kept: JSONObject) -> _BenchView:
    """Return what is shown of a task class.

    Args:
        bench: its section.
        kept: what is shown of the cases of runs that were kept, by run id.
    """
    bins = [0] * _BINS
    breakdown: dict[str, list[float]] = defaultdict(list)
    modes: Counter[tuple[str, str]] = Counter()
    for _, score in bench["per_case"]:
        # As averages count it: 0 for a case that did not pass.
        share = float(score["score"]) if score["passed"] else 0.0
        bins[min(_BINS - 1, int(share * _BINS))] += 1
        for mode in score["failure_modes"]:
            modes[mode["code"], mode["severity"]] += 1
        for key, number in score["breakdown"].items():
            if number is not None:
                breakdown[key].append(number)
    run = {"cases": (), "left_out": 0, "run_id": "", **kept.get(bench["run_id"], {})}
    return _BenchView(
        name=bench_name(bench),
        report=bench,
        bins=tuple(bins),
        breakdown=tuple(sorted(breakdown.items())),
        modes=tuple(sorted(modes.items(), key=lambda mode: (-mode[1], mode[0]))),
        kept=run,
        places={case["case_id"]: at for at, case in enumerate(run["cases"], 1)},
    )


def figure_words(share: float | None) -> str:
    """Return a share with three digits, truncated as on the terminal: 0.5239 proves no 0.524."""
    return "not known" if share is None else f"{share:.12f}"[:5]


def _cost(cost_usd: float) -> str:
    return f"{cost_usd:.4f} USD" if 0 < cost_usd < 1 else f"{cost_usd:,.2f} USD"
