"""Print lines after pytest's last one, by its own writer, and write other files.

Links (OSC 8) lead to the report and the line that failed. A terminal without support
may print their text, and nothing can ask it. So only terminals get them that name
themselves in an environment variable and are known to support them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from _pytest._io import (
    TerminalWriter,
)  # public only through the reporter, which may be missing

from pytest_failure_taxonomy.faces.terminal import (
    MAX_CAUSES,
    Line,
    causes_with_tests,
)
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import place_words, summarise
from pytest_failure_taxonomy.survive.machine import ci_providers
from pytest_failure_taxonomy.text import ShownPaths

_SECTION: Final = "failure_taxonomy_groups"
MAX_PLACES: Final = 20
"""Causes whose places become links."""

KNOWN: Final = (
    ("WT_SESSION", "."),  # Windows Terminal 1.4
    ("KITTY_WINDOW_ID", "."),
    ("WEZTERM_PANE", "."),
    ("DOMTERM", "."),
    ("TERM_PROGRAM", r"(iTerm\.app|WezTerm|vscode|ghostty|rio|Hyper|Tabby)$"),
    ("TERM", r"(xterm-kitty|alacritty|foot(-extra)?|wezterm|contour|xterm-ghostty)$"),
    ("VTE_VERSION", r"(500[1-9]|50[1-9]\d|5[1-9]\d\d|[6-9]\d{3}|\d{5,})$"),  # not 0.50
    ("KONSOLE_VERSION", r"(20120[1-9]|2012[1-9]\d|20[2-9]\d{4}|2[1-9]\d{4})$"),
)
"""Environment variables by which terminals that support links name themselves, and a
pattern that the start of the value matches."""

_NEVER: Final = ("NO_COLOR", "CI", "TMUX", "STY")
"""Variables that rule out links: plain text is wanted, a CI writes a log, or a program
between us and the terminal may drop or garble them."""


def verbosity(config: pytest.Config) -> int:
    """Return the verbosity: 0 by default, -1 for `-q`, -2 for `-qq`."""
    if getattr(config, "args", None):
        return int(getattr(config.option, "verbose", 0))
    # pytest has failed before it parsed its options. Until pytest 9, what it knows of
    # them by then counts `-q` twice.
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-q", "--quiet", action="count", default=0)
    parser.add_argument("-v", "--verbose", action="count", default=0)
    args = [*config.getini("addopts"), *map(str, config.invocation_params.args)]
    options, _ = parser.parse_known_args(args)
    return int(options.verbose - options.quiet)


def print_lines(
    config: pytest.Config,
    lines: Sequence[Line],
    links: Callable[[], Mapping[str, str]] | None = None,
) -> None:
    """Print lines to where pytest prints, unless its terminal plugin is switched off.

    A pytest that failed to start has no reporter: lines go to stderr, as its errors do.

    Args:
        config: of the run.
        lines: what to print.
        links: returns which words are links to where, for a terminal that knows such.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None and config.pluginmanager.is_blocked("terminal"):
        return
    # pytest's own writer has its colours and width; there is no public way to it.
    writer = (
        TerminalWriter(sys.stderr) if reporter is None else reporter._tw  # noqa: SLF001
    )
    choice = getattr(config.known_args_namespace, "color", "auto")
    if reporter is None and choice != "auto":
        writer.hasmarkup = choice == "yes"
    # The user may have closed the pipe or terminal.
    with suppress(OSError, ValueError):
        if reporter is not None:
            reporter.ensure_newline()
            if (
                writer.width_of_current_line
            ):  # the reporter does not know of xdist's progress line
                writer.line()
        # `--color=yes` may print to a file.
        is_terminal = writer._file.isatty()  # noqa: SLF001 - pytest's own stream
        targets: Mapping[str, str] = {}
        if links is not None and is_terminal and writer.hasmarkup:
            targets = links() if knows_hyperlinks(os.environ) else {}
        if is_terminal:
            width = writer.fullwidth
            lines = [part for line in lines for part in line.wrapped(width)]
        for line in lines:
            markup: dict[str, bool] = {"bold": line.bold}
            if line.color is not None:
                markup[line.color] = True
            if line.is_title:
                writer.sep("=", line.text, **markup)
                continue
            writer.write(add_links(line.text, targets), **markup)
            writer.line(line.gap(writer.fullwidth) + line.tail, light=True)
        writer.flush()


def is_on_gitlab() -> bool:
    """Tell whether the log of a GitLab job is printed to, which folds sections."""
    return os.environ.get("GITLAB_CI") == "true"


def lines_of_causes(
    report: FailureReport, paths: ShownPaths, chosen: str | None, level: int
) -> list[Line]:
    """Return lines for the first causes of a failed run and their tests; none if quiet.

    Args:
        report: of the run.
        paths: shows the paths in it.
        chosen: what the user has chosen to see, if anything.
        level: the verbosity. GitLab's log folds them, so they stand there in any case.
    """
    is_told = (
        level > 0 or (level == 0 and is_on_gitlab())
        if chosen is None
        else chosen == "groups"
    )
    has_failures = report.failures or report.collection_errors
    if not is_told or report.verdict is None or not has_failures:
        return []
    lines = list(
        causes_with_tests(summarise(report, paths, MAX_CAUSES), paths, MAX_CAUSES)
    )
    if not is_on_gitlab():
        return lines
    at = int(time.time())  # a section that the log shows on a click
    title = "causes and their tests"
    options = "[collapsed=true]"
    begin = f"\x1b[0Ksection_start:{at}:{_SECTION}{options}\r\x1b[0K{title}"
    end = f"\x1b[0Ksection_end:{at}:{_SECTION}\r\x1b[0K"
    return [Line(text=begin), *lines, Line(text=end)]


def knows_hyperlinks(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal that these variables name supports links."""
    if any(environ.get(name) for name in _NEVER) or environ.get("TERM") == "dumb":
        return False
    if any(provider["detected_by"] in environ for provider in ci_providers().values()):
        return False
    return any(re.match(pattern, environ.get(name, "")) for name, pattern in KNOWN)


def link_targets(
    report: FailureReport, paths: ShownPaths, path: Path, shown: str
) -> dict[str, str]:
    """Map the texts that become links to targets: the report, and failures' places.

    Args:
        report: of the run.
        paths: shows the paths in it.
        path: of the report.
        shown: how that is shown, with what may be said behind it.
    """
    targets = {}
    if shown:
        targets[str(path) if shown.startswith(str(path)) else shown] = path.as_uri()
    rootdir = report.run.invocation.rootdir
    for cause in summarise(report, most=MAX_PLACES).causes:
        place = cause.failures[0].location if cause.failures else None
        if place is not None and place.line:
            file = os.path.normpath(os.path.join(rootdir, place.path))
            if os.path.isfile(file):
                words = place_words(place, paths.path(place.path))
                targets[words] = Path(file).as_uri()
    return targets


def add_links(text: str, targets: Mapping[str, str]) -> str:
    """Add links to a line, without changing the text that is read."""
    for words, target in targets.items():
        match = re.search(rf"(?<![\w./\\-]){re.escape(words)}(?![\w/\\-])", text)
        if match is not None:
            link = f"\x1b]8;;{target}\x1b\\{words}\x1b]8;;\x1b\\"
            return text[: match.start()] + link + text[match.end() :]
    return text
