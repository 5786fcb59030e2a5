"""Word what earlier runs say of a group of failures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pytest_failure_taxonomy.report.limits import own_extension
from pytest_failure_taxonomy.taxonomy.words import counted

_COMMIT: Final = 7


def words_of_group(report: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    """Return what the history says of a group of failures; nothing if it was not asked."""
    if not group["history"]:
        return ""
    return state_words({**_kept_of(report, group["fingerprint"]), **group["history"]})


def words_of_verdict(report: Mapping[str, Any]) -> str:
    """Return what the history says of a verdict that no group of failures has."""
    found = {"runs": 0, "first_seen": None, **_kept_of(report, "verdict")}
    return state_words(found) if isinstance(found.get("state"), str) else ""


def in_brackets(words: str) -> str:
    """Return the words as they stand at the end of a line."""
    return f" [{words}]" if words else ""


def _kept_of(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what our extension has of the history of one thing."""
    all_of_it = own_extension(report).get("history")
    found = all_of_it.get(name) if isinstance(all_of_it, dict) else None
    return found if isinstance(found, dict) else {}


def state_words(history: Mapping[str, Any]) -> str:
    """Return the words: `new`, `came back`, `known since 2026-11-03 (abc1234), 14 runs` or `flaky`.

    Args:
        history: `groups[].history` of a report, with what of `GroupState` is known besides.
    """
    state, runs = history["state"], history["runs"]
    if state == "new":
        return "new"
    if state == "flaky" and history.get("flaky_runs") and "flaky_failures" in history:
        return f"flaky: {history['flaky_failures']} of {history['flaky_runs']} runs"
    since = _day(history["first_seen"])
    commit = history.get("first_commit")
    place = f" ({commit[:_COMMIT]})" if isinstance(commit, str) and commit else ""
    words = {"came_back": "came back, first seen", "flaky": "flaky, since"}
    return f"{words.get(state, 'known since')} {since}{place}, {counted(runs, 'run')}"


def _day(at: str | datetime | None) -> str:
    if isinstance(at, datetime):
        return at.strftime("%Y-%m-%d")
    return str(at)[:10]
