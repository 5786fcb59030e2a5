"""Links in a terminal (OSC 8): the report and the line that failed, where they can be clicked on.

A terminal that does not know them may print their text, and nothing can ask it. So only those get
them that say by an environment variable what they are, and are known to know them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.recorder.machine import CI_PROVIDERS
from pytest_failure_taxonomy.report.summary import summarise
from pytest_failure_taxonomy.report.text import ShownPaths

MAX_PLACES: Final = 20
"""Causes whose places become links."""

KNOWN: Final = (
    ("WT_SESSION", "."),  # Windows Terminal 1.4
    ("KITTY_WINDOW_ID", "."),
    ("WEZTERM_PANE", "."),
    ("DOMTERM", "."),
    ("TERM_PROGRAM", r"(iTerm\.app|WezTerm|vscode|ghostty|rio|Hyper|Tabby)$"),
    ("TERM", r"(xterm-kitty|alacritty|foot(-extra)?|wezterm|contour|xterm-ghostty)$"),
    (
        "VTE_VERSION",
        r"(500[1-9]|50[1-9]\d|5[1-9]\d\d|[6-9]\d{3}|\d{5,})$",
    ),  # not 0.50
    ("KONSOLE_VERSION", r"(20120[1-9]|2012[1-9]\d|20[2-9]\d{4}|2[1-9]\d{4})$"),
)
"""Environment variables by which terminals that know links make themselves known, and a pattern
that the start of the value matches."""

_NEVER: Final = ("NO_COLOR", "CI", "TMUX", "STY")
"""Variables with which there are no links: who wants plain text, logs of CI, and programs between
us and the terminal that may drop or garble them."""


def knows_hyperlinks(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal that these variables speak of is known to know links."""
    if any(environ.get(name) for name in _NEVER) or environ.get("TERM") == "dumb":
        return False
    if any(provider.detected_by in environ for provider in CI_PROVIDERS):
        return False
    return any(re.match(pattern, environ.get(name, "")) for name, pattern in KNOWN)


def link_targets(
    report: dict[str, Any], paths: ShownPaths, path: Path, shown: str
) -> dict[str, str]:
    """Return what is to be a link, and where each leads: the report and the places of failures.

    Args:
        report: the report's JSON object.
        paths: shows the paths in it.
        path: of the report.
        shown: how that is shown, with what may be said behind it.
    """
    targets = {}
    if shown:
        targets[str(path) if shown.startswith(str(path)) else shown] = path.as_uri()
    rootdir = report["run"]["invocation"]["rootdir"]
    for cause in summarise(report).causes[:MAX_PLACES]:
        place = next((each.get("location") for each in cause.failures), None)
        if place is not None and place["line"]:
            file = os.path.normpath(os.path.join(rootdir, place["path"]))
            if os.path.isfile(file):
                targets[f"{paths.path(place['path'])}:{place['line']}"] = Path(file).as_uri()
    return targets


def linked(text: str, targets: Mapping[str, str]) -> str:
    """Return a line with links in it; what is read of it stays the same."""
    for words, target in targets.items():
        found = re.search(rf"(?<![\w./\\-]){re.escape(words)}(?![\w/\\-])", text)
        if found is not None:
            link = f"\x1b]8;;{target}\x1b\\{words}\x1b]8;;\x1b\\"
            return text[: found.start()] + link + text[found.end() :]
    return text
