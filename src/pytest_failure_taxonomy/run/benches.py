"""Add the reports of task classes to the report of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.report.limits import fit_benches

BENCH_PLUGIN: Final = "failure_taxonomy_bench_session"
"""The name of the plugin that runs cases; it is registered with the first task class."""


def add_benches(
    config: pytest.Config,
    report: dict[str, Any],
    faults: Faults,
    redact: Callable[[Any], Any],
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
    runs = session.runs_are_kept_in
    return (
        None
        if not runs.folder or runs.is_temporary
        else {"folder": runs.folder, "session": runs.name}
    )
