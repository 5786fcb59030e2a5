"""Decide whether known failures fail a run, and word the lines about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pytest_failure_taxonomy.faces.terminal import Line, notice
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.options import KNOWN_BY_HISTORY
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.taxonomy.amendments import (
    MAX_NAMED,
    Amendment,
    accept_known,
    is_accepted,
)
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import KnownFailures
from pytest_failure_taxonomy.taxonomy.user_rules import compare_with_known
from pytest_failure_taxonomy.text import safe_text


def compare_run(
    settings: Settings,
    run: RunEvidence,
    ask_history: Callable[[], tuple[FailureReport, Sequence[Amendment]]],
) -> tuple[RunEvidence, KnownFailures | None]:
    """Return a run, with exit code 0 if tests failed and all of it is known, and why.

    Args:
        settings: what knows failures, if that is asked.
        run: its session has ended.
        ask_history: returns its report so far, and what a history says of it.
    """
    if settings.known is None:
        return run, None
    name = settings.known_name
    notes: Sequence[str] = ()
    if name == KNOWN_BY_HISTORY:
        unlisted = _list_unknown(*ask_history())
    else:
        today = datetime.now().astimezone().date().isoformat()
        unlisted, notes = compare_with_known(
            settings.known, run, judge(run), today, name
        )
    return accept_known(run, unlisted, safe_text(name), notes)


def _list_unknown(report: FailureReport, amendments: Sequence[Amendment]) -> list[str]:
    """Return the node ids of the groups of failures that no history knows."""
    unknown: list[str] = []
    for group in report.groups:
        histories = [
            amendment.histories.get(group.fingerprint) for amendment in amendments
        ]
        if not any(map(is_accepted, histories)):
            unknown += group.nodeids or ("?",)
    return unknown


def describe_known(comparison: KnownFailures, report: FailureReport) -> list[Line]:
    """Return the lines about failures that are known, and about their entries."""
    lines = [notice(note) for note in comparison.notes]
    # A verdict on what crashed takes the usual place.
    if report.verdict is not None:
        accepted = accepted_words(report)
        lines += [notice(accepted)] if accepted else []
    count = comparison.unknown_count
    if count and comparison.failures:
        names = ", ".join(comparison.unknown)
        more = ", ..." if count > MAX_NAMED else ""
        words = f"not known by {comparison.by}: {count} of them: {names}{more}"
        lines.append(notice(words))
    elif comparison.failures and comparison.others:
        words = (
            f"known by {comparison.by} but not accepted, because {comparison.others}"
        )
        lines.append(notice(f"all failures are {words}"))
    return lines
