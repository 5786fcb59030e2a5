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
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.faces.html import rows
from pytest_failure_taxonomy.report.frames import classed_lines, code_of
from pytest_failure_taxonomy.report.summary import merged_runs, summarise
from pytest_failure_taxonomy.taxonomy.words import counted, noun_of_count, seconds_words
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


def render(report: dict[str, Any], *, kept: Mapping[str, Any] | None = None) -> str:
    """Return a report as one HTML page.

    Args:
        report: the report's JSON object.
        kept: what is shown of the cases of benches, by run id, where their runs were kept.
    """
    style, script = (
        (files(__name__) / name).read_text("utf-8")
        for name in ("style.css", "script.js")
    )
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
    report = rows.shown({**report, "extensions": {}})
    summary, timing = summarise(report), rows.timing_of(report)
    made = rows.Rows(report, summary)
    # It has nothing but what the headline says, and can stand below it.
    parts = ("title", "shown", "rows")
    bare = next((card for card in made.cards if not any(map(card.get, parts))), None)
    page: str = _template().render(
        summary=summary,
        bare=bare,
        cards=[card for card in made.cards if card is not bare],
        again=made.again,
        benches=[
            _bench_view(bench, rows.shown(dict(kept or {})))
            for bench in report["bench"]
        ],
        merged=list(merged_runs(report)),
        parts=list(_parts(report)),
        timing=timing,
        report=report,
        style=style,
        script=script,
        policy="; ".join(policy),
        rows=made.as_json(timing),
    )
    return page


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
        "counted": counted,
        "noun": noun_of_count,
        "figure": figure_words,
        "usd": _cost,
        "shell": shlex.join,
    }
    return environment.from_string(
        (files(__name__) / "page.html.jinja").read_text("utf-8")
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _parts(report: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield each part of the bar of outcomes, with its start and its width in per cent of it."""
    counts = {name: report["summary"][name] for name in (*_PARTS, "not_run")}
    if report["tests"]:  # with these each test counts once
        outcomes = (each["outcome"] for each in report["tests"])
        ended = Counter(_PART_OF_OUTCOME.get(outcome, outcome) for outcome in outcomes)
        counts |= {name: ended[name] for name in _PARTS if name != "in_flight"}
    total, start = sum(counts.values()), 0.0
    for name, count in counts.items():
        if count:
            width = 100 * count / total
            yield name, round(start, 3), round(width, 3)
            start += width


def _bench_view(bench: dict[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a task class.

    Args:
        bench: its report.
        kept: what is shown of the cases of runs that were kept, by run id.
    """
    scores = [score for _, score in bench["per_case"]]
    # As averages count it: 0 for a case that did not pass.
    counted = (float(score["score"]) if score["passed"] else 0.0 for score in scores)
    bins = Counter(min(_BINS - 1, int(score * _BINS)) for score in counted)
    breakdown: dict[str, list[float]] = defaultdict(list)
    modes: Counter[tuple[str, str]] = Counter()
    for score in scores:
        modes.update(
            (mode["code"], mode["severity"]) for mode in score["failure_modes"]
        )
        for key, number in score["breakdown"].items():
            if number is not None:
                breakdown[key].append(number)
    of_run = {"cases": [], "left_out": 0, "run_id": "", **kept.get(bench["run_id"], {})}
    return {
        "name": bench_name(bench),
        "report": bench,
        "bins": [bins[tenth] for tenth in range(_BINS)],
        "breakdown": sorted(breakdown.items()),
        "modes": sorted(modes.items(), key=lambda each: (-each[1], each[0])),
        "kept": of_run,
        "places": {each["case_id"]: at for at, each in enumerate(of_run["cases"], 1)},
    }


def figure_words(share: float | None) -> str:
    """Return a share with three digits, truncated as on the terminal: 0.5239 proves no 0.524."""
    return "not known" if share is None else f"{share:.12f}"[:5]


def _cost(cost_usd: float) -> str:
    return f"{cost_usd:.4f} USD" if 0 < cost_usd < 1 else f"{cost_usd:,.2f} USD"
