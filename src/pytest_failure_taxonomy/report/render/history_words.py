"""Word what earlier runs say of a group of failures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

_COMMIT: Final = 7


def state_words(history: Mapping[str, Any]) -> str:
    """Return the words: `new`, `came back`, `known since 2026-11-03 (abc1234), 14 runs` or `flaky`.

    Args:
        history: `groups[].history` of a report, with what of `GroupState` is known besides.
    """
    state, runs = history["state"], history["runs"]
    if state == "new":
        return "new"
    if state == "flaky" and history.get("flaky_runs"):
        return f"flaky: {history['flaky_failures']} of {history['flaky_runs']} runs"
    since = _day(history["first_seen"])
    commit = history.get("first_commit")
    place = f" ({commit[:_COMMIT]})" if isinstance(commit, str) and commit else ""
    count = f", {runs} run" if runs == 1 else f", {runs} runs"
    words = {"came_back": "came back, first seen", "flaky": "flaky, since"}
    return f"{words.get(state, 'known since')} {since}{place}{count}"


def _day(at: str | datetime | None) -> str:
    if isinstance(at, datetime):
        return at.strftime("%Y-%m-%d")
    return str(at)[:10]
