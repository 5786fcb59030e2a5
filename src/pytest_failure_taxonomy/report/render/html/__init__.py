"""The HTML page of a report: one file that needs no network, for a browser.

The verdict and what belongs to it are in the page itself, and are there without scripts, too. What
can be long, failures and tests, is in it as JSON, of which a script shows what is looked at.

Reports may come from anybody. The template escapes all texts, the script makes nodes of them and
never markup, and the page's own policy lets nothing else run, whatever got into it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from pytest_failure_taxonomy.report.render.html.bench_views import bench_views
from pytest_failure_taxonomy.report.render.html.overview import overview_of
from pytest_failure_taxonomy.report.render.html.rows import Rows
from pytest_failure_taxonomy.report.render.html.shown import (
    classed_lines,
    code_of,
    shown,
    shown_value,
)
from pytest_failure_taxonomy.report.render.html.timing import timing_of
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.taxonomy.words import counted, seconds_words

_TEMPLATE: Final = "page.html.jinja"
_STYLE: Final = "style.css"
_SCRIPT: Final = "script.js"
_IN_SCRIPT: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could end the element that the JSON is in, or be read as another."""


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
