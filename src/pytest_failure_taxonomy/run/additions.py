"""Add to a report what is not this package's own: of benches, and `extensions` of other plugins."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.report.limits import OWN_NAME, fit_benches, removed_from
from pytest_failure_taxonomy.report.text import change_free_texts, change_texts, encodable
from pytest_failure_taxonomy.system.interpreter import isolate_module

json = isolate_module(json)

_HOOK: Final = "the hook pytest_failure_taxonomy_report"
BENCH_PLUGIN: Final = "failure_taxonomy_bench_session"
"""The name of the plugin that runs cases; it is registered with the first task class."""


def add_benches(
    config: pytest.Config, report: dict[str, Any], faults: Faults, redact: Callable[[Any], Any]
) -> None:
    """Fill the report's field `bench`."""
    session = config.pluginmanager.get_plugin(BENCH_PLUGIN)
    if session is None:
        return
    try:
        reports = [each.model_dump(mode="json") for each in session.reports()]
        report["bench"] = fit_benches(redact(reports))
    except Exception as error:  # noqa: BLE001 - the rest of the report stands
        faults.add("the reports of benches", error)


def kept_cases(config: pytest.Config, report: dict[str, Any]) -> dict[str, Any]:
    """Return what the HTML page shows of the cases of benches, by run id."""
    session = config.pluginmanager.get_plugin(BENCH_PLUGIN)
    kept = None if session is None else kept_in(session)
    if not report["bench"] or kept is None:
        return {}
    from pytest_failure_taxonomy.bench.runs.shown import page_runs

    try:
        return page_runs(report["bench"], Path(kept["folder"]))
    except Exception:  # noqa: BLE001 - the page is there without them
        return {}


def kept_in(session: Any) -> dict[str, str] | None:
    """Return where a session of benches keeps its runs; `None` if it keeps none.

    Whoever completes the report of a pytest that died reads them there.
    """
    runs = session.storage
    if not runs.folder or runs.is_temporary:
        return None
    return {"folder": runs.folder, "session": runs.name}


def add_extensions(
    config: pytest.Config, report: dict[str, Any], faults: Faults, redact: Callable[[Any], Any]
) -> None:
    """Add what the implementations of the hook return to the report, without secrets.

    An invalid answer becomes a fault. If two answers have the same key, the first one counts.
    """
    hook = config.hook.pytest_failure_taxonomy_report
    if not hook.get_hookimpls():
        return
    extensions = report["extensions"]
    before = Counter(removed_from(json.dumps(extensions)))
    try:
        answers = hook(report=json.loads(json.dumps(report)))
    except BaseException as error:  # noqa: BLE001 - foreign
        faults.add(_HOOK, error)
        answers = []
    for answer in answers:
        try:
            if not isinstance(answer, dict):
                raise TypeError(
                    f"{type(answer).__name__} returned; a dict with one key of your own is right"
                )
            added = change_texts(json.loads(json.dumps(answer, allow_nan=False)), encodable)
            if OWN_NAME in added:
                raise ValueError(f"the name {OWN_NAME} is taken; use one of your own")
            extensions |= redact(added) | extensions
        except (TypeError, ValueError, RecursionError) as error:
            faults.add(_HOOK, error)
    removed = Counter(removed_from(json.dumps(extensions)))
    removed.subtract(before)
    if +removed:
        own = extensions.setdefault(OWN_NAME, {})
        own["redacted"] = dict(Counter(own.get("redacted", {})) + removed)
    if faults.messages:
        extensions.setdefault(OWN_NAME, {})["faults"] = list(faults.messages)


def search_again(report: dict[str, Any], redact: Callable[[str], str]) -> None:
    """Remove secrets that extensions and benches have made known, and count all again."""
    foreign = change_texts(report["extensions"], redact)
    report |= {**change_free_texts(report, redact), "extensions": foreign}
    own = report["extensions"].setdefault(OWN_NAME, {})
    own.pop("redacted", None)
    own["redacted"] = dict(Counter(removed_from(json.dumps(report))))
