"""What a run shows at its end: lines after the last of pytest, by its own writer; and files."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from _pytest._io import TerminalWriter  # public only through the reporter, which may be missing

from pytest_failure_taxonomy.report.render.terminal import Line
from pytest_failure_taxonomy.report.text import ShownPaths
from pytest_failure_taxonomy.taxonomy.evidence import Faces

_SECTION: Final = "failure_taxonomy_groups"


def verbosity(config: pytest.Config) -> int:
    """Return the verbosity: 0 by default, -1 for `-q`, -2 for `-qq`."""
    if getattr(config, "args", None):
        return int(getattr(config.option, "verbose", 0))
    # pytest has failed before it parsed its options. Until pytest 9, what it knows of them by then
    # counts `-q` twice.
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-q", "--quiet", action="count", default=0)
    parser.add_argument("-v", "--verbose", action="count", default=0)
    args = [*config.getini("addopts"), *map(str, config.invocation_params.args)]
    given, _ = parser.parse_known_args(args)
    return int(given.verbose - given.quiet)


def print_lines(
    config: pytest.Config,
    lines: Sequence[Line],
    links: Callable[[], Mapping[str, str]] | None = None,
) -> None:
    """Print lines to where pytest prints, unless its terminal plugin is switched off.

    A pytest that failed to start has no reporter; then lines go to stderr, as its errors do.

    Args:
        config: of the run.
        lines: what to print.
        links: returns which words are links to where, for a terminal that knows such.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None and config.pluginmanager.is_blocked("terminal"):
        return
    writer = TerminalWriter(sys.stderr) if reporter is None else reporter._tw  # noqa: SLF001 - pytest's own colours and width
    choice = getattr(config.known_args_namespace, "color", "auto")
    if reporter is None and choice != "auto":
        writer.hasmarkup = choice == "yes"
    # The user may have closed the pipe or terminal.
    with suppress(OSError, ValueError):
        if reporter is not None:
            reporter.ensure_newline()
            if writer.width_of_current_line:  # the reporter does not know of xdist's progress line
                writer.line()
        targets = _targets(writer, links)
        for line in lines:
            _print_line(writer, line, targets)
        writer.flush()


def _targets(
    writer: TerminalWriter, links: Callable[[], Mapping[str, str]] | None
) -> Mapping[str, str]:
    if links is None or not writer.hasmarkup or not writer._file.isatty():  # noqa: SLF001 - `--color=yes` may print to a file
        return {}
    from pytest_failure_taxonomy.run.hyperlinks import knows_hyperlinks

    return links() if knows_hyperlinks(os.environ) else {}


def _print_line(writer: TerminalWriter, line: Line, targets: Mapping[str, str]) -> None:
    markup: dict[str, bool] = {"bold": line.bold}
    if line.color is not None:
        markup[line.color] = True
    if line.is_title:
        writer.sep("=", line.text, **markup)
        return
    text = line.text
    if targets:
        from pytest_failure_taxonomy.run.hyperlinks import linked

        text = linked(text, targets)
    writer.write(text, **markup)
    writer.line(line.gap(writer.fullwidth) + line.tail, light=True)


def show_faces(
    report: dict[str, Any], faces: Faces, kept: Mapping[str, Any]
) -> tuple[list[Line], list[Line]]:
    """Write a report's other formats; return what annotates the run, and what went wrong.

    Args:
        report: the report's JSON object.
        faces: what to write.
        kept: what the HTML page shows of the cases of benches, by run id.
    """
    if faces == Faces():
        return [], []
    from pytest_failure_taxonomy.report.render import github_lines, write_faces

    problems = write_faces(report, faces, kept)
    lines, more = github_lines(report, faces)
    faults = [f"failure taxonomy: {each}" for each in (*problems, *more)]
    return [Line(text=each) for each in lines], [Line(text=each, color="yellow") for each in faults]


def tells_causes(summary: str | None, level: int) -> bool:
    """Tell whether the causes are told with their tests.

    Args:
        summary: what the user has chosen, if anything.
        level: the verbosity. GitLab's log folds them, so they stand there in any case.
    """
    if summary is not None:
        return summary == "groups"
    return level > 0 or (level == 0 and is_on_gitlab())


def is_on_gitlab() -> bool:
    """Tell whether the log of a GitLab job is printed to, which folds sections."""
    return os.environ.get("GITLAB_CI") == "true"


def _folded(lines: list[Line]) -> list[Line]:
    """Return lines as a section that the log of a GitLab job shows on a click."""
    at = int(time.time())
    begin = f"\x1b[0Ksection_start:{at}:{_SECTION}[collapsed=true]\r\x1b[0Kcauses and their tests"
    end = f"\x1b[0Ksection_end:{at}:{_SECTION}\r\x1b[0K"
    return [Line(text=begin), *lines, Line(text=end)]


def lines_of_causes(report: dict[str, Any], paths: ShownPaths) -> list[Line]:
    """Return the lines of a failed run's causes with their tests, the first ones."""
    if report["verdict"] is None or not report["failures"] + report["collection_errors"]:
        return []
    from pytest_failure_taxonomy.report.render.terminal import MAX_CAUSES, cause_lines
    from pytest_failure_taxonomy.report.summary import summarise

    lines = list(cause_lines(summarise(report, paths), paths, MAX_CAUSES))
    return _folded(lines) if is_on_gitlab() else lines
