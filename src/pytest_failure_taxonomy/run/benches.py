"""Add the reports of task classes to the report of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.guard import Faults
from pytest_failure_taxonomy.report.text import cap_between_words, change_texts, encodable

BENCH_PLUGIN: Final = "failure_taxonomy_bench_session"
"""The name of the plugin that runs cases; it is registered with the first task class."""

MAX_TEXT: Final = 2_000
"""Maximal length of a text, such as the detail of a failure mode."""


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
        report["bench"] = change_texts(redact(reports), _fit)
    except Exception as error:  # noqa: BLE001 - the rest of the report stands
        faults.add("the reports of benches", error)


def kept_cases(config: pytest.Config, report: dict[str, Any]) -> dict[str, Any]:
    """Return what the HTML page shows of the cases of benches, by run id."""
    if not report["bench"]:
        return {}
    from pytest_failure_taxonomy.bench.case_pages import page_runs

    try:
        return page_runs(report["bench"], _storage_of(config))
    except Exception:  # noqa: BLE001 - the page is there without them
        return {}


def _storage_of(config: pytest.Config) -> Path:
    given = config.getoption("bench_storage", None)
    if given:
        return config.invocation_params.dir / str(given)
    try:
        ini = config.getini("bench_storage")
    except ValueError:  # the bench's plugin is not there
        ini = ""
    inipath = config.inipath
    return (config.rootpath if inipath is None or not ini else inipath.parent) / (ini or ".bench")


def _fit(text: str) -> str:
    return cap_between_words(encodable(text), MAX_TEXT)
