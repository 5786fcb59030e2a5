"""Add to a run's report what neighbours of the core and hooks of users have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults
from pytest_failure_taxonomy.hooks.neighbours import NeighbourSpecs
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.options import KNOWN_BY_HISTORY, NEIGHBOURS
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.build import OWN_NAME, fit_benches, removed_from
from pytest_failure_taxonomy.report.model import CODEC, FailureReport
from pytest_failure_taxonomy.system import import_named
from pytest_failure_taxonomy.taxonomy.amendments import Amendment, ReportSection
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import CLOSED_FIELDS, change_texts, encodable

_HOOK: Final = "the hook pytest_failure_taxonomy_report"


def register_neighbours(config: pytest.Config, settings: Settings) -> None:
    """Declare the hooks of neighbours, and load those that options ask for.

    At the start: later a test may have patched what they import.
    """
    config.pluginmanager.add_hookspecs(NeighbourSpecs)
    adds = settings.history is not None
    if adds or settings.known_name == KNOWN_BY_HISTORY:
        begin = import_named(NEIGHBOURS["history"]["plugin"])
        plugin = begin(settings.history or "", adds=adds)
        config.pluginmanager.register(plugin, "failure_taxonomy_history")


def ask_sections(config: pytest.Config, faults: Faults) -> list[ReportSection]:
    """Return the fields that neighbours fill."""
    sections: list[ReportSection] = []
    with faults.catch("a section of the report"):
        sections += config.hook.pytest_failure_taxonomy_section(config=config)
    return sections


def add_sections(
    report: FailureReport, sections: Sequence[ReportSection], secrets: Secrets
) -> FailureReport:
    """Return a report with the fields of neighbours, without secrets."""
    for section in sections:
        rows = fit_benches(secrets.redact_json(list(section.rows)))
        report = replace(report, **{section.name: rows})
    return report


def read_cases(
    report: FailureReport, sections: Sequence[ReportSection]
) -> dict[str, object]:
    """Return what the HTML page shows of the cases of sections, by run id."""
    cases: dict[str, object] = {}
    for section in sections:
        rows = getattr(report, section.name)
        if section.place is None or not rows:
            continue
        with suppress(Exception):  # the page is there without them
            read = import_named(NEIGHBOURS[section.name]["cases"])
            cases |= read(rows, Path(section.place.folder))
    return cases


def ask_amendments(
    config: pytest.Config, report: FailureReport, *, is_final: bool
) -> list[Amendment]:
    """Return what neighbours propose to add to a report."""
    hook = config.hook.pytest_failure_taxonomy_amend
    if not hook.get_hookimpls():
        return []
    amendments: list[Amendment] = hook(report=report, is_final=is_final)
    return amendments


def apply_amendments(
    report: FailureReport, amendments: Iterable[Amendment]
) -> FailureReport:
    """Return a report with amendments, and with what follows from them."""
    for amendment in amendments:
        report = amend(report, amendment)
    return report


def add_extensions(
    config: pytest.Config, report: FailureReport, faults: Faults, secrets: Secrets
) -> FailureReport:
    """Add to a report what implementations of our hook return, without secrets.

    An invalid answer becomes a fault. Of two answers with the same key the first
    counts.
    """
    hook = config.hook.pytest_failure_taxonomy_report
    if not hook.get_hookimpls():
        return report
    extensions = dict(report.extensions)
    try:
        # A copy, of which a hook may change each part.
        answers = hook(report=json.loads(json.dumps(CODEC.encode(report))))
    except BaseException as error:  # noqa: BLE001 - foreign
        faults.add(_HOOK, error)
        answers = []
    for answer in answers:
        try:
            extensions |= secrets.redact_json(_check_answer(answer)) | extensions
        except (TypeError, ValueError, RecursionError) as error:
            faults.add(_HOOK, error)
    redacted = Counter(report.redacted)
    redacted.update(removed_from(json.dumps(extensions)))
    redacted.subtract(removed_from(json.dumps(report.extensions)))
    return replace(
        report,
        extensions=extensions,
        redacted=dict(+redacted),
        faults=tuple(faults.messages) or report.faults,
    )


def _check_answer(answer: object) -> dict[str, object]:
    """Return what an implementation adds, as JSON can hold it.

    Raises:
        TypeError, ValueError, RecursionError: it can't.
    """
    if not isinstance(answer, dict):
        name = type(answer).__name__
        raise TypeError(f"{name} returned; a dict with one key of your own is right")
    plain = json.loads(json.dumps(answer, allow_nan=False))
    added: dict[str, object] = change_texts(plain, encodable)
    if OWN_NAME in added:
        raise ValueError(f"the name {OWN_NAME} is taken; use one of your own")
    return added


def search_again(report: FailureReport, redact: Callable[[str], str]) -> FailureReport:
    """Remove secrets learned from extensions and sections, and count again."""
    changed: FailureReport = change_texts(report, redact, CLOSED_FIELDS)
    searched = replace(
        changed,
        order=report.order,  # numbers hold none but by chance
        extensions=change_texts(report.extensions, redact),
        redacted={},
    )
    marks = removed_from(json.dumps(CODEC.encode(searched)))
    return replace(searched, redacted=dict(Counter(marks)))
