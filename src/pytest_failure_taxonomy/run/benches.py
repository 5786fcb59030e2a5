"""Add the reports of task classes to the report of a run."""

from __future__ import annotations

from collections.abc import Callable
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


def _fit(text: str) -> str:
    return cap_between_words(encodable(text), MAX_TEXT)
